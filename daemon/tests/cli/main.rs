//! The command as its users meet it: exit statuses, words, what it leaves behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod alert;
mod collector;
mod daemons;
mod demo;
mod doctor;
mod drain;
mod env;
mod full_disk;
mod level;
mod log;
mod run;
mod secrets;
mod status;
mod sweep;
mod token;
mod top;

use std::process::{Command, Output};

use common::stage::RINGSCOPE;

/// `ringscope` with arguments, and without what the test's own environment may say.
fn ringscope(args: &[&str]) -> Command {
    let mut command = without_settings(RINGSCOPE);
    command.args(args);
    command
}

/// A program without what the test's own environment may say.
fn without_settings(program: &str) -> Command {
    let mut command = Command::new(program);
    for variable in [
        "LD_PRELOAD",
        "NCCL_DEBUG",
        "NCCL_DEBUG_FILE",
        "NCCL_DEBUG_SUBSYS",
        "NCCL_PROFILER_PLUGIN",
        "LD_LIBRARY_PATH",
        "RINGSCOPE_CHAIN_PLUGIN",
        "RINGSCOPE_DRAIN_STATE",
        "RINGSCOPE_HOST",
        "RINGSCOPE_LENT_LOG",
        "RINGSCOPE_SET_BY",
        "RINGSCOPE_SET_HOST",
        "SLURMD_NODENAME",
        "RINGSCOPE_DAEMON",
        "RINGSCOPE_TOKEN",
        "RINGSCOPE_TOKEN_FILE",
        "RINGSCOPE_DIR",
        "RINGSCOPE_JOB",
        "SLURM_JOB_ID",
        "TORCHELASTIC_RUN_ID",
        "JOB_NAME",
        "RINGSCOPE_LEVEL",
        "RINGSCOPE_LISTEN",
        "RINGSCOPE_ALERTMANAGER",
        "RINGSCOPE_WEBHOOK",
        "RINGSCOPE_CONFIG",
        "NO_COLOR",
        "RUST_LOG",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Runs it to its end: exit status, stdout, stderr.
fn end(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Checks that it ends with this status, says all of `parts` on stderr and nothing on stdout.
fn check(args: &[&str], status: i32, parts: &[&str]) {
    let (code, stdout, stderr) = end(&mut ringscope(args));
    assert_eq!((code, stdout.as_str()), (Some(status), ""), "{args:?}: {stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} of {args:?} in {stderr}");
    }
}

#[test]
fn wrong_usage_is_64() {
    check(&[], 64, &["Usage"]);
    check(&["dance"], 64, &["dance"]);
    check(&["serve", "--dance"], 64, &["--dance"]);
    check(&["agent"], 64, &["--daemon"]);
    check(&["run"], 64, &["CMD"]);
    check(&["import"], 64, &["FILE"]);
    check(&["status", "--daemon", "nonsense"], 64, &["nonsense", "http://127.0.0.1:9440"]);
    check(&["demo", "--json"], 64, &["--seconds"]);
    check(&["demo", "--seconds", "3"], 64, &["3"]);
}

#[test]
fn all_mistakes_are_named_at_once() {
    check(
        &["serve", "--listen", "here", "--retention", "0d", "--body-limit", "1KiB"],
        64,
        &["3 mistake(s)", "--listen \"here\"", "--retention \"0d\"", "--body-limit \"1KiB\""],
    );
    check(
        &["agent", "--daemon", "ftp://daemon", "--interval", "0s", "--backlog", "much", "--keep-dead", "1"],
        64,
        &["4 mistake(s)", "\"ftp://daemon\"", "--interval \"0s\"", "--backlog \"much\"", "--keep-dead \"1\""],
    );
    check(&["demo", "--database-url", "mysql://db"], 64, &["--database-url"]);
}

#[test]
fn every_help_has_an_example() {
    let commands = ["serve", "agent", "run", "import", "doctor", "status", "top", "level", "demo"];
    for command in commands.into_iter().chain(["alert", "incident", "incidents"]) {
        let (code, stdout, stderr) = end(&mut ringscope(&[command, "--help"]));
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{command}");
        let (_, examples) = stdout.split_once("Example").unwrap_or_else(|| panic!("{command}: {stdout}"));
        assert!(examples.contains(&format!("ringscope {command}")), "{command}: {examples}");
    }
    let (_, alert, _) = end(&mut ringscope(&["alert", "test", "--help"]));
    assert!(alert.contains("Example") && alert.contains("ringscope alert test --alertmanager"), "{alert}");
    let (code, stdout, _) = end(&mut ringscope(&["--help"]));
    assert!(
        code == Some(0)
            && stdout.contains("Example")
            && !stdout.contains("demo-worker")
            && !stdout.contains("relay"),
        "{stdout}"
    );
    assert_eq!(end(&mut ringscope(&["--version"])).0, Some(0));
}
