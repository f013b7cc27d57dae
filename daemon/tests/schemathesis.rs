//! schemathesis against a running daemon with data: whatever it sends, no server error, no status, type or body that the
//! document does not name.

#![allow(missing_docs, reason = "a test")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by them"
)]

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::batches::{SMALL, START_NS};
use common::daemon::Daemon;
use common::scratch;

/// Where `cargo xtask python` puts it.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/python/bin/schemathesis");
/// Far more than the runs take.
const PATIENCE: Duration = Duration::from_secs(900);
/// Not `negative_data_rejection`: an empty parameter counts as absent, as forms send it, and an id that cannot be is
/// simply not found. Not `positive_data_acceptance`: a well-formed id that nobody has is not found either, and a step may be
/// too short for its time. The others are about logins.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,unsupported_method,\
                      allow_header_conformance";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_nothing() {
    let program = Path::new(PROGRAM);
    assert!(program.exists(), "schemathesis is not installed: cargo xtask python");
    let daemon = Daemon::ready("sqlite::memory:").await;
    for host in 0..2 {
        daemon.take(&SMALL.batch(host, 1, 3, START_NS)).await;
    }
    let list = daemon.json("/api/v1/communicators").await;
    let comm = list["items"][0]["id"].as_str().unwrap();
    let dir = scratch("schemathesis");
    // Once with ids as they come, once with those that there are.
    let any = config(&dir, "any", "");
    let known = format!(
        "[parameters]\n\"path.id\" = \"{comm}\"\n\"path.job\" = \"train\"\n\"path.host\" = \"node-b\"\n\
         \"query.comm\" = \"{comm}\"\n"
    );
    let known = config(&dir, "known", &known);
    let both = async { (run(&daemon, &dir, &any).await, run(&daemon, &dir, &known).await) };
    let (any, known) = tokio::time::timeout(PATIENCE, both).await.expect("schemathesis ends in time");
    assert!(any.0, "{}", any.1);
    assert!(known.0, "{}", known.1);
    daemon.stop().await;
}

fn config(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

/// Whether it found nothing, and its words.
async fn run(daemon: &Daemon, dir: &Path, config: &Path) -> (bool, String) {
    let mut command = tokio::process::Command::new(PROGRAM);
    command.arg("--config-file").arg(config).arg("run").arg(format!("{}/api/v1/openapi.json", daemon.url));
    command.args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "10"]);
    // A stream of events never ends; batches are no text that it could make, and `serve` sends wrong ones.
    command.args([
        "--exclude-path",
        "/api/v1/events",
        "--exclude-path",
        "/api/v1/ingest",
        "--seed",
        "1",
        "--generation-database",
        "none",
    ]);
    command.args([
        "--request-timeout",
        "20",
        "--suppress-health-check",
        "all",
        "--warnings",
        "off",
        // Two crash hypothesis on Python 3.11: its parser is not made for threads.
        "--workers",
        "1",
    ]);
    let output = command.current_dir(dir).kill_on_drop(true).output().await.unwrap();
    let words =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{words}");
    (output.status.success(), words)
}
