//! `ringscope level`, through the daemon and by hand.

use std::process::Command;

use ringscope_wire::batch::Level;

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::Daemon;
use crate::common::{TempDir, free_port};
use crate::{check, end, ringscope};

fn level(url: &str, arguments: &[&str]) -> Command {
    let mut command = ringscope(&["level", "--daemon", url]);
    command.args(arguments);
    command
}

#[test]
fn wrong_usage_is_64() {
    check(&["level"], 64, &["--job", "--dir"]);
    check(&["level", "--job", "x", "--dir", "y", "steps"], 64, &["--dir"]);
    check(&["level", "--dir", "/tmp"], 64, &["LEVEL"]);
    check(&["level", "--job", "x", "--pid", "7", "steps"], 64, &["--job", "--pid"]);
    check(&["level", "--job", "x", "much"], 64, &["much", "counters, channels, steps, events, default, off"]);
}

#[test]
fn what_cannot_be_told_is_1() {
    let url = format!("http://127.0.0.1:{}", free_port());
    check(&["level", "--daemon", &url, "--job", "x", "steps"], 1, &[&url, "Connection refused"]);
    check(&["level", "--dir", "/dev/null/x", "steps"], 1, &["/dev/null/x"]);
    let dir = TempDir::new("level");
    let folder = dir.display().to_string();
    check(&["level", "--dir", &folder, "--pid", "7", "steps"], 1, &[&folder, "process id 7"]);
    std::fs::write(dir.join("1-1.seg"), "x").unwrap();
    let file = std::fs::File::open(dir.join("1-1.seg")).unwrap();
    file.lock().unwrap();
    check(&["level", "--dir", &folder, "steps"], 1, &["1-1.seg", "cut"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_told_and_shown() {
    let daemon = Daemon::ready("none").await;
    let mut batch = SMALL.batch(0, 1, 3, START_NS);
    batch.processes[1].set_level(Level::Unspecified);
    daemon.take(&batch).await;
    let (code, stdout, stderr) = end(&mut level(&daemon.url, &["--job", "train", "steps"]));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.contains("steps") && stdout.contains("2 processes"), "{stdout}");
    let (code, stdout, _) = end(&mut level(&daemon.url, &["--job", "train"]));
    assert!(code == Some(0) && stdout.contains("asked for: steps"), "{stdout}");
    assert!(stdout.contains("node-a 1001 rank 1: not said"), "{stdout}");
    let (code, _, stderr) = end(&mut level(&daemon.url, &["--job", "no/such job", "off"]));
    assert!(code == Some(1) && stderr.contains("no/such job"), "{stderr}");
    daemon.stop().await;
}
