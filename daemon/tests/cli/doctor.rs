//! `ringscope doctor`: what it says and how it ends.

use crate::common::TempDir;
use crate::{check, end, ringscope};

#[test]
fn what_cannot_be_judged_is_an_error() {
    check(&["doctor"], 64, &["--pid", "CMD"]);
    check(&["doctor", "--pid", "1", "--shim"], 64, &["--shim"]);
    check(&["doctor", "--", "no-such-command"], 1, &["no-such-command", "PATH"]);
    check(&["doctor", "--pid", "1073741808"], 1, &["1073741808", "cannot look into"]);
}

#[test]
fn a_program_without_nccl_is_said_to_be_one() {
    let (code, stdout, stderr) = end(&mut ringscope(&["doctor", "--", "sh", "-c", "true"]));
    assert_eq!((code, stderr.as_str()), (Some(2), ""), "{stdout}");
    for part in [
        "sh -c true: unknown: no call of NCCL so far",
        "none found",
        "not known",
        "if it calls NCCL",
        "--pid PID",
    ] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
}

#[test]
fn a_process_without_the_collector_is_told_how_to_get_it() {
    let pid = std::process::id().to_string();
    let (code, stdout, _) = end(&mut ringscope(&["doctor", "--json", "--pid", &pid]));
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, Some(2));
    assert_eq!((&report["verdict"], &report["sources"][0]["sees"]), (&"partly".into(), &"no".into()));
    assert!(report["advice"][0].as_str().unwrap().contains("ringscope run"), "{report:#}");
}

#[test]
fn who_else_wants_the_plugin_slot_and_the_log_is_named() {
    let home = TempDir::new("doctor-home");
    std::fs::write(home.join(".nccl.conf"), "# ours\nNCCL_DEBUG=WARN\n").unwrap();
    let mut command = ringscope(&["doctor", "--", "sh"]);
    command.env("HOME", &home.0).env("NCCL_PROFILER_PLUGIN", "other.so").env("NCCL_DEBUG", "WARN");
    let (_, stdout, _) = end(&mut command);
    let text = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["plugin other.so is called too", ".nccl.conf sets NCCL_DEBUG", "standard output"] {
        assert!(text.contains(part), "{part} in {stdout}");
    }
}
