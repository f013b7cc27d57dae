//! What a launch was started with, and changes for itself: the job gets it back.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use ringscope_api::clock;
use rustix::process::Signal;

use crate::common::scratch;
use crate::{RINGSCOPE, Running, end, fresh, mark, nothing_is_left};

/// A launch under a shell that has done this before.
fn after(script: &str, options: &[&str]) -> std::process::Command {
    let mut command = fresh("sh");
    command.args(["-c", &format!("{script}; exec \"$@\""), "sh", RINGSCOPE, "launch", "--no-collector"]);
    command.args(["--prefix", "none"]).args(options);
    command
}

#[test]
fn as_many_files_are_opened_as_may_be_and_ranks_keep_their_own_limit() {
    let ended = end(&mut after("ulimit -Sn 64", &["-n", "60", "--", "sh", "-c", "ulimit -Sn"]));
    ended.check(0, &[]);
    assert_eq!(ended.out, "64\n".repeat(60), "{ended:#?}");
}

#[test]
fn slurms_program_that_is_asked_for_the_nodes_has_their_limit_too() {
    let dir = scratch("launch-scontrol");
    let (program, said) = (dir.join("scontrol"), dir.join("said"));
    let script = format!("#!/bin/sh\nulimit -Sn > {}\necho n1\n", said.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let shell = "ulimit -Sn 64; export PATH=$1:$PATH; exec $2 launch --dry-run -- true";
    let mut command = fresh("sh");
    command.args(["-c", shell, "sh"]).arg(&dir.0).arg(RINGSCOPE);
    command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", "n1").env("SLURM_TASKS_PER_NODE", "1");
    end(&mut command).check(0, &[]);
    assert_eq!(std::fs::read_to_string(said).unwrap(), "64\n");
}

#[test]
fn too_few_files_are_said_before_anything_starts() {
    let ended = end(&mut after("ulimit -n 96", &["-n", "60", "--", "echo", "started"]));
    ended.check(1, &["60 processes on one host", "may open 96", "ulimit -Hn", "nothing was started"]);
    assert_eq!(ended.out, "");
    let dir = scratch("launch-files");
    let options = ["-n", "60", "--output", dir.0.to_str().unwrap(), "--", "echo", "started"];
    let ended = end(&mut after("ulimit -n 96", &options));
    ended.check(1, &["--output for each of 60 processes", "may open 96", "nothing was started"]);
    assert_eq!(ended.out, "");
}

#[test]
fn blocked_signals_hold_up_nothing_and_stay_blocked_for_ranks() {
    let blocked = |command: &[&str]| {
        let mut launch = fresh("env");
        launch.args(["--block-signal=CHLD,TERM", RINGSCOPE, "launch", "--no-collector", "--prefix", "none"]);
        launch.args(["--grace", "1s", "--"]).args(command);
        launch
    };
    let since = clock::monotonic();
    let ended = end(&mut blocked(&["grep", "SigBlk", "/proc/self/status"]));
    ended.check(0, &[]);
    assert!(since.elapsed() < Duration::from_secs(10), "an end was noticed after {:?}", since.elapsed());
    let mask =
        ended.out.trim().strip_prefix("SigBlk:").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let wanted = 1 << (libc::SIGCHLD - 1) | 1 << (libc::SIGTERM - 1);
    assert_eq!(mask.map(|mask| mask & wanted), Some(wanted), "{ended:#?}");

    let mark = mark();
    let mut running = Running::start(&mut blocked(&["sh", "-c", &format!("echo I sleep; sleep {mark}")]));
    running.wait_for("I sleep");
    running.signal(Signal::TERM);
    running.end().check(143, &["was ended by SIGTERM"]);
    nothing_is_left(&mark, Duration::from_secs(1));
}
