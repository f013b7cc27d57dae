//! `ringscope drain`, where it must do nothing. What it does stands in `tests/slurm` and beside its code.

use std::os::unix::fs::PermissionsExt as _;

use crate::common::TempDir;
use crate::{check, end, ringscope};

#[test]
fn without_a_daemon_nothing_is_drained_and_nothing_is_remembered() {
    let dir = TempDir::new("drain-away");
    let (script, state) = (dir.join("drain.sh"), dir.join("state.json"));
    std::fs::write(&script, format!("#!/bin/sh\ntouch {}/drained\n", dir.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (script, state) = (script.display().to_string(), state.display().to_string());
    let run = ["drain", "--daemon", "http://127.0.0.1:9", "--run", &script, "--state", &state];
    check(&run, 1, &["nothing is drained", "127.0.0.1:9"]);
    check(&run[..3], 1, &["nothing is drained"]);
    assert!(!dir.join("drained").exists() && !dir.join("state.json").exists());
}

#[test]
fn a_script_that_cannot_be_run_is_wrong_usage_before_the_daemon_is_asked() {
    let dir = TempDir::new("drain-script");
    let script = dir.join("drain.sh");
    let named = script.display().to_string();
    let run = ["drain", "--daemon", "http://127.0.0.1:9", "--run", &named];
    check(&run, 64, &["nothing is drained", "--run", &named, "No such file", "name the script"]);
    check(&[&run[..], &["--dry-run"]].concat(), 64, &[&named]);
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o644)).unwrap();
    check(&run, 64, &[&format!("chmod +x {named}")]);
    check(&["drain", "--run", "/"], 64, &["/ is no file"]);
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
