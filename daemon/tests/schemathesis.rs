//! schemathesis against a running daemon with data: whatever it sends, no server error, no status, type or body that the
//! document does not name. So with an admin's token where tokens are needed, and without one it gets no further than 401.

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
use common::daemon::{Daemon, closed, sqlite, tokens};
use common::scratch;
use prost::Message as _;
use ringscope_api::Role;

/// Where `cargo xtask python` puts it.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/python/bin/schemathesis");
/// Far more than the runs take.
const PATIENCE: Duration = Duration::from_secs(2400);
/// Not `negative_data_rejection`: an empty parameter counts as absent, as forms send it, and an id that cannot be is
/// simply not found. Not `positive_data_acceptance`: a well-formed id that nobody has is not found either, and a step may be
/// too short for its time. The others are about logins.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,unsupported_method,\
                      allow_header_conformance";

/// In a run of who is not known: which routes they reach (`expected` of `serve/access.rs` says the same of each role).
const STRANGERS: &str = r#"
import schemathesis

PUBLIC = ["/api/v1/session/ways", "/api/v1/session/oidc", "/api/v1/session/oidc/callback"]


@schemathesis.check
def strangers_are_refused(ctx, response, case):
    method, path = case.method.upper(), case.operation.path
    if path in PUBLIC or (path == "/api/v1/session" and method in ("POST", "DELETE")):
        return
    # What is no request of the route's is refused before anybody is asked who they are.
    if response.status_code in (405, 414, 431):
        return
    assert response.status_code == 401, f"{method} {path} answers who is not known with {response.status_code}"
    assert response.headers["www-authenticate"] == ["Bearer"], response.headers
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_nothing() {
    let daemon = Daemon::ready("sqlite::memory:").await;
    for host in 0..2 {
        daemon.take(&SMALL.batch(host, 1, 3, START_NS)).await;
    }
    let list = daemon.json("/api/v1/communicators").await;
    let comm = list["items"][0]["id"].as_str().unwrap();
    let dir = scratch("schemathesis");
    // Once with ids as they come, once with those that there are.
    let any = config(&dir, "any", "");
    let known = config(&dir, "known", &ids(comm));
    let both = async { (run(&daemon, &dir, &any, None).await, run(&daemon, &dir, &known, None).await) };
    let (any, known) = tokio::time::timeout(PATIENCE, both).await.expect("schemathesis ends in time");
    assert!(any.0, "{}", any.1);
    assert!(known.0, "{}", known.1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_nothing_where_tokens_are_needed() {
    let dir = scratch("schemathesis-closed");
    let url = sqlite(&dir);
    let [agent, admin] = tokens(&url, [Role::Ingest, Role::Admin]).await;
    let daemon = Daemon::start(closed(&url)).await;
    daemon.until_ready().await;
    for host in 0..2 {
        let sent = daemon.client.post(format!("{}/api/v1/ingest", daemon.url)).bearer_auth(&agent);
        let sent = sent.header("content-type", "application/x-protobuf");
        let sent = sent.body(SMALL.batch(host, 1, 3, START_NS).encode_to_vec()).send().await.unwrap();
        assert_eq!(sent.status(), 200);
    }
    let list = daemon.client.get(format!("{}/api/v1/communicators", daemon.url)).bearer_auth(&admin);
    let list: serde_json::Value = list.send().await.unwrap().json().await.unwrap();
    let known = config(&dir, "admin", &ids(list["items"][0]["id"].as_str().unwrap()));
    std::fs::write(dir.join("strangers.py"), STRANGERS).unwrap();
    let strangers = config(&dir, "strangers", "hooks = \"strangers.py\"\n");
    let forged = format!("rsc_{}_{}", "0".repeat(16), "0".repeat(64));
    let all = async {
        [
            run(&daemon, &dir, &known, Some(&admin)).await,
            run(&daemon, &dir, &strangers, None).await,
            run(&daemon, &dir, &strangers, Some(&forged)).await,
        ]
    };
    let all = tokio::time::timeout(PATIENCE, all).await.expect("schemathesis ends in time");
    for (is_well, words) in all {
        assert!(is_well, "{words}");
    }
    daemon.stop().await;
}

/// Ids that there are.
fn ids(comm: &str) -> String {
    format!(
        "[parameters]\n\"path.id\" = \"{comm}\"\n\"path.job\" = \"train\"\n\"path.host\" = \"node-b\"\n\
         \"query.comm\" = \"{comm}\"\n"
    )
}

fn config(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

/// Whether it found nothing, and its words.
async fn run(daemon: &Daemon, dir: &Path, config: &Path, token: Option<&str>) -> (bool, String) {
    let program = Path::new(PROGRAM);
    assert!(program.exists(), "schemathesis is not installed: cargo xtask python");
    let is_strangers = config.ends_with("strangers.toml");
    let checks = if is_strangers { format!("{CHECKS},strangers_are_refused") } else { CHECKS.to_owned() };
    // Whoever gets no further than the door meets no more by chance.
    let phases = if is_strangers { "examples,coverage" } else { "examples,coverage,fuzzing" };
    let mut command = tokio::process::Command::new(program);
    command.arg("--config-file").arg(config).arg("run").arg(format!("{}/api/v1/openapi.json", daemon.url));
    command.args(["--checks", &checks, "--phases", phases, "--max-examples", "10"]);
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
        "60",
        "--suppress-health-check",
        "all",
        "--warnings",
        "off",
        // Two crash hypothesis on Python 3.11: its parser is not made for threads.
        "--workers",
        "1",
    ]);
    if let Some(token) = token {
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
    }
    let output = command.current_dir(dir).kill_on_drop(true).output().await.unwrap();
    let words =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{words}");
    (output.status.success(), words)
}
