//! `serve` and `agent`: what they refuse at the start, what they live with, and how they end.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::daemon::problem;
use crate::common::stage::{Process, Stage};
use crate::common::{TempDir, eventually, free_port};
use crate::{check, ringscope};

/// Orchestrators kill after ten seconds or more.
const GRACE: Duration = Duration::from_secs(60);

fn start(command: &mut Command, dir: &Path) -> Process {
    Process::start(command, &dir.join("log"))
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap_or_default()
}

#[test]
fn a_taken_port_is_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = TempDir::new("taken");
    let data_dir = dir.display().to_string();
    check(&["serve", "--listen", &address, "--data-dir", &data_dir], 1, &[&address, "already", "--listen"]);
}

#[tokio::test]
async fn serve_lives_without_its_data_folder_and_says_so() {
    let (dir, port) = (TempDir::new("no-data"), free_port());
    let url = format!("http://127.0.0.1:{port}");
    let mut command = ringscope(&["serve", "--data-dir", "/dev/null/x", "--listen"]);
    let mut serve =
        start(command.arg(format!("127.0.0.1:{port}")).arg("--agent-dir").arg(dir.join("segments")), &dir);
    eventually("not ready, and why", async || {
        let response = reqwest::get(format!("{url}/readyz")).await.ok()?;
        response.text().await.ok()?.contains("store-away").then_some(())
    })
    .await;
    problem(reqwest::get(format!("{url}/readyz")).await.unwrap(), 503, "log says why").await;
    for part in ["/dev/null/x", "--database-url"] {
        eventually("the log says why", async || log(&dir).contains(part).then_some(())).await;
    }
    assert_eq!(reqwest::get(format!("{url}/healthz")).await.unwrap().status(), 200);
    eventually("the agent says that it does not run", async || {
        let words = log(&dir);
        (words.contains("agent of this host does not run") && words.contains("--data-dir")).then_some(())
    })
    .await;
    let status = serve.terminate(GRACE);
    assert!(status.success(), "{status}: {}", log(&dir));
}

#[tokio::test]
async fn sigterm_ends_serve_and_agent_in_time() {
    let stage = Stage::new("sigterm");
    let mut serve = stage.serve(true);
    eventually("ready", async || {
        let ready = reqwest::get(format!("{}/readyz", stage.url())).await.ok()?;
        ready.status().is_success().then_some(())
    })
    .await;
    let mut agent = stage.agent();
    eventually("the agent has started", async || {
        let words = std::fs::read_to_string(stage.dir.join("agent.log")).ok()?;
        words.contains("agent started").then_some(())
    })
    .await;
    assert!(serve.terminate(GRACE).success(), "{}", stage.words());
    assert!(stage.words().contains("serve: stopped"), "{}", stage.words());
    // Its daemon is away now.
    assert!(agent.terminate(GRACE).success(), "{}", stage.words());
}

#[test]
fn an_agent_that_cannot_work_says_what_to_do() {
    let dir = TempDir::new("agent");
    let (good, daemon) = (dir.display().to_string(), "http://127.0.0.1:1");
    check(
        &["agent", "--daemon", daemon, "--dir", "/dev/null/x", "--state-dir", &good],
        1,
        &["/dev/null/x", "--dir", "1777"],
    );
    check(
        &["agent", "--daemon", daemon, "--dir", &good, "--state-dir", "/dev/null/x"],
        1,
        &["/dev/null/x", "--state-dir"],
    );
    check(&["agent", "--daemon", "daemon:9440"], 64, &["\"daemon:9440\"", "http://"]);
}
