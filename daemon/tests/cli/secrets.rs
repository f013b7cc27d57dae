//! Nothing that the command prints does anything to a terminal, or tells a password.

use std::process::Stdio;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{end, ringscope};
use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::daemon::{Daemon, config};

const ENGINE_LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/import/engine-healthy.log");
/// Clears the screen, sets the title, asks the terminal to type something, turns the line around.
const HOSTILE: &str = "tr\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}6n\u{202e}ain\r";

fn is_harmless(text: &str) -> bool {
    let is_odd = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    !text.contains(is_odd)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_name_of_a_job_does_nothing_to_a_terminal() {
    let daemon = Daemon::start(config("none")).await;
    daemon.until_ready().await;
    daemon.take(&Job { name: HOSTILE, ..SMALL }.batch(0, 1, 3, START_NS)).await;
    for args in [&["status"][..], &["status", "--json"], &["incidents"], &["status", "--job", HOSTILE]] {
        let args = [args, &["--daemon", &daemon.url]].concat();
        let (_, stdout, stderr) = tokio::task::block_in_place(|| end(&mut ringscope(&args)));
        assert!(is_harmless(&stdout) && is_harmless(&stderr), "{args:?}: {stdout:?} {stderr:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_hostile_itself_does_nothing_to_a_terminal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let detail =
        serde_json::json!({ "type": "x", "title": "x", "status": 400, "detail": HOSTILE }).to_string();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{detail}",
        detail.len()
    );
    let serving = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    };
    let asking = tokio::task::spawn_blocking(move || end(&mut ringscope(&["status", "--daemon", &url])));
    let (code, stdout, stderr) =
        tokio::select! { ended = asking => ended.unwrap(), () = serving => unreachable!() };
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("[2J") && is_harmless(&stderr) && is_harmless(&stdout), "{stderr:?}");
}

#[test]
fn no_password_of_an_address_is_printed() {
    for args in [
        &["status", "--daemon", "http://ann:s3cret@127.0.0.1:1"][..],
        &["status", "--daemon", "ftp://ann:s3cret@127.0.0.1:1"],
        &["level", "train", "--daemon", "http://ann:s3cret@127.0.0.1:1"],
        &["agent", "--daemon", "ftp://ann:s3cret@127.0.0.1:1"],
        &["serve", "--public-url", "ftp://ann:s3cret@h"],
        &["serve", "--database-url", "mysql://ann:s3cret@h"],
        &["serve", "--webhook", "ftp://ann:s3cret@h"],
        &["import", ENGINE_LOG, "--daemon", "http://ann:s3cret@127.0.0.1:1"],
    ] {
        let (code, stdout, stderr) = end(ringscope(args).stdin(Stdio::null()));
        assert_ne!(code, Some(0), "{args:?}");
        assert!(
            !stderr.is_empty() && !stderr.contains("s3cret") && !stdout.contains("s3cret"),
            "{args:?}: {stderr}"
        );
    }
}
