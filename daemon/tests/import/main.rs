//! `ringscope import`, as who has only yesterday's files meets it.

#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by them")]

#[path = "../common/mod.rs"]
mod common;

mod daemon;
mod dumps;
mod flight;
mod gloo;
mod logs;
mod made;
mod ras;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What a command came to.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringscope"));
    command.arg("import").args(args).env_remove("RUST_LOG");
    command
}

fn end(command: &mut Command) -> Ended {
    ended(command.output().unwrap())
}

fn ended(Output { status, stdout, stderr }: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

fn import(args: &[&str]) -> Ended {
    end(&mut command(args))
}

/// Imports what comes over stdin.
fn import_stdin(args: &[&str], bytes: &[u8]) -> Ended {
    let mut child =
        command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    ended(child.wait_with_output().unwrap())
}

/// The document, after checking the exit status.
fn json(args: &[&str], code: i32) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let ended = import(&args);
    assert_eq!(ended.code, Some(code), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Checks exit status and words on stdout.
fn check(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
    // Lines are broken at words.
    let flat = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(flat.contains(part), "{part:?} in {}", ended.stdout);
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name)
}

/// Writes a file and gives its path as an argument.
fn file(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}
