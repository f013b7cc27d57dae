//! `ringscope drain`, where it must do nothing. What it does stands in `tests/slurm` and beside its code.

use crate::common::TempDir;
use crate::{check, end, ringscope};

#[test]
fn without_a_daemon_nothing_is_drained_and_nothing_is_remembered() {
    let dir = TempDir::new("drain-away");
    let (script, state) = (dir.join("drain.sh"), dir.join("state.json"));
    std::fs::write(&script, format!("#!/bin/sh\ntouch {}/drained\n", dir.display())).unwrap();
    let (script, state) = (script.display().to_string(), state.display().to_string());
    let run = ["drain", "--daemon", "http://127.0.0.1:9", "--run", &script, "--state", &state];
    check(&run, 1, &["nothing is drained", "127.0.0.1:9"]);
    check(&run[..3], 1, &["nothing is drained"]);
    assert!(!dir.join("drained").exists() && !dir.join("state.json").exists());
}

#[test]
fn a_memory_that_cannot_be_used_drains_nobody() {
    let dir = TempDir::new("drain-memory");
    let state = dir.join("state.json");
    std::fs::write(&state, "{").unwrap();
    let state = state.display().to_string();
    check(
        &["drain", "--run", "/bin/true", "--state", &state],
        1,
        &["nothing is drained", &state, "remove it"],
    );
    let nowhere = "/dev/null/state.json";
    check(&["drain", "--run", "/bin/true", "--state", nowhere], 1, &[nowhere, "--state"]);
}

#[test]
fn what_accuses_no_host_drains_none() {
    check(&["drain", "--finding", "too_small"], 64, &["too_small", "channel_shortfall"]);
    check(&["drain", "--for", "long"], 64, &["--for"]);
    check(&["drain", "--severity", "info"], 64, &["critical"]);
    let (code, help, _) = end(&mut ringscope(&["drain", "--help"]));
    assert!(code == Some(0) && help.contains("RINGSCOPE_DRAIN_HOST") && help.contains("Examples"), "{help}");
}
