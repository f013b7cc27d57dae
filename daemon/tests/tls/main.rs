//! TLS as users meet it: a real daemon, real clients, certificates made for the test.

#![allow(missing_docs, reason = "a test")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by them"
)]

#[path = "../common/mod.rs"]
mod common;

mod access;
mod clients;
mod handshakes;
mod notify;
mod reload;
mod trust;

use std::process::{Command, Output};

use common::certs::Authority;
use common::daemon::{Daemon, config};
pub(crate) use common::stage::RINGSCOPE;
use ringscope_daemon::config::ServeConfig;
use ringscope_tls::ServerFiles;

/// Names of a daemon on loopback.
const HERE: [&str; 2] = ["127.0.0.1", "localhost"];

/// A daemon with these files, asked by who trusts `ca`.
async fn serving(ca: &Authority, files: ServerFiles) -> Daemon {
    let config = ServeConfig { tls: Some(files), ..config("none") };
    let daemon = Daemon::start_with(config, ca.client().build().unwrap()).await;
    assert!(daemon.url.starts_with("https://127.0.0.1:"), "{}", daemon.url);
    daemon
}

/// Runs `ringscope` with arguments, and without what the test's environment may say.
fn ringscope(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(RINGSCOPE);
    for name in [
        "RINGSCOPE_CA",
        "RINGSCOPE_TLS_CERT",
        "RINGSCOPE_TLS_KEY",
        "RINGSCOPE_DAEMON",
        "RINGSCOPE_TOKEN",
        "RINGSCOPE_TOKEN_FILE",
    ] {
        command.env_remove(name);
    }
    end(command.args(args))
}

fn end(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// `ringscope status` of that daemon, which must fail and say all of `parts`.
fn refused(url: &str, options: &[&str], parts: &[&str]) {
    let (code, stdout, stderr) = ringscope(&[&["status", "--daemon", url], options].concat());
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
}
