//! `ringscope status`, for people and for scripts.

use std::process::Command;

use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::daemon::Daemon;
use crate::common::{free_port, summation};
use crate::{check, end, ringscope};

fn status(url: &str) -> Command {
    ringscope(&["status", "--daemon", url])
}

#[test]
fn without_a_daemon_it_is_1() {
    let url = format!("http://127.0.0.1:{}", free_port());
    check(&["status", "--daemon", &url], 1, &[&url, "Connection refused", "`ringscope serve`", "--daemon"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_0_when_all_is_well_and_2_when_a_warning_fires() {
    let daemon = Daemon::ready("none").await;
    let (code, stdout, _) = end(&mut status(&daemon.url));
    assert!(
        code == Some(0) && stdout.contains("No job yet.") && stdout.contains("`ringscope run -- CMD`"),
        "{stdout}"
    );

    let healthy = Job { name: "well", init: &[4, 4], last: 8, ..SMALL };
    for host in 0..2 {
        daemon.take(&healthy.batch(host, 1, 3, START_NS)).await;
    }
    let (code, stdout, stderr) = end(&mut status(&daemon.url));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.contains("All 2 hosts healthy") && stdout.contains("well"), "{stdout}");

    for host in 0..2 {
        daemon.take(&Job { hosts: &["node-c", "node-d"], ..SMALL }.batch(host, 1, 3, START_NS)).await;
    }
    let (code, stdout, _) = end(&mut status(&daemon.url));
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("node-d") && stdout.contains("channel_shortfall"), "{stdout}");
    let (code, stdout, _) = end(status(&daemon.url).arg("--json"));
    let findings: Vec<serde_json::Value> = serde_json::from_str(&stdout).unwrap();
    assert!(code == Some(2) && !findings.is_empty());
    assert!(!stdout.contains('\u{1b}'), "no colour for a pipe");

    // Of one job, or of one host, only what is theirs.
    let of = |filter: &[&str]| end(status(&daemon.url).args(filter));
    let (code, stdout, _) = of(&["--job", "well"]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("All 2 hosts healthy") && !stdout.contains("node-d"), "{stdout}");
    let (code, stdout, _) = of(&["--host", "node-d"]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("1 of 1 host degraded: node-d") && !stdout.contains("well"), "{stdout}");
    daemon.take(&summation::batch(1, 3, START_NS, false)).await;
    let (code, stdout, _) = of(&["--job", summation::JOB]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("Summation groups in use") && stdout.contains("sum_share_imbalance"), "{stdout}");
    let (code, _, stderr) = of(&["--job", "nobody"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("no job is called \"nobody\"") && stderr.contains("well"), "{stderr}");
    daemon.stop().await;
}
