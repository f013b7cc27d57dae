//! `ringscope run`: a launcher that is not there once the command runs.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use crate::common::TempDir;
use crate::{check, end, ringscope};

/// `ringscope run` of a shell script.
fn run(dir: &TempDir, script: &str) -> Command {
    let mut command = ringscope(&["run", "--dir"]);
    command.arg(&dir.0).args(["--", "sh", "-c", script]);
    command
}

#[test]
fn it_becomes_the_command() {
    let dir = TempDir::new("run-exec");
    let child = run(&dir, "echo $$; exit 7").stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{pid}\n"));
    assert_eq!(output.status.code(), Some(7));
    let killed = run(&dir, "kill -TERM $$").status().unwrap();
    assert_eq!(killed.signal(), Some(15));
}

#[test]
fn the_command_gets_the_collector_and_a_private_log() {
    let dir = TempDir::new("run-env");
    let script = "echo $LD_PRELOAD; echo $NCCL_PROFILER_PLUGIN; echo $NCCL_DEBUG $NCCL_DEBUG_SUBSYS; \
                  echo $NCCL_DEBUG_FILE; echo $RINGSCOPE_DIR $RINGSCOPE_JOB";
    let mut command = run(&dir, script);
    command.env("LD_PRELOAD", "libm.so.6").env("RINGSCOPE_JOB", "llama");
    let (code, stdout, stderr) = end(&mut command);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "nothing is said when nothing is odd");
    let lines: Vec<&str> = stdout.lines().collect();
    let collector = lines[1];
    assert!(collector.ends_with("/libringscope.so"), "{stdout}");
    assert_eq!(lines[0], format!("{collector}:libm.so.6"), "the collector first");
    assert_eq!(lines[2], "INFO INIT,GRAPH,ENV");
    assert!(lines[3].starts_with(&format!("{}/nccl-", dir.display())), "{stdout}");
    assert!(lines[3].ends_with("-%h-%p.log"), "{stdout}");
    assert_eq!(lines[4], format!("{} llama", dir.display()));
}

#[test]
fn what_the_user_has_set_is_left_alone_and_named() {
    let dir = TempDir::new("run-set");
    let script = "echo $NCCL_PROFILER_PLUGIN $NCCL_DEBUG $NCCL_DEBUG_FILE";
    let mut command = run(&dir, script);
    command
        .env("NCCL_PROFILER_PLUGIN", "other.so")
        .env("NCCL_DEBUG", "WARN")
        .env("NCCL_DEBUG_FILE", "/tmp/mine");
    let (code, stdout, stderr) = end(&mut command);
    assert_eq!((code, stdout.as_str()), (Some(0), "other.so WARN /tmp/mine\n"));
    for part in
        ["NCCL_PROFILER_PLUGIN", "other.so", "completion", "NCCL_DEBUG_FILE", "/tmp/mine", "INIT,GRAPH,ENV"]
    {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
}

#[test]
fn warnings_that_no_longer_come_to_the_terminal_are_announced() {
    let dir = TempDir::new("run-warn");
    let (_, stdout, stderr) = end(run(&dir, "echo $NCCL_DEBUG").env("NCCL_DEBUG", "WARN"));
    assert_eq!(stdout, "INFO\n");
    assert!(stderr.contains("NCCL_DEBUG=WARN") && stderr.contains(&dir.display().to_string()), "{stderr}");
}

#[test]
fn a_run_inside_a_run_is_silent() {
    let dir = TempDir::new("run-run");
    let inner = format!("{} run --dir {} -- true", crate::RINGSCOPE, dir.display());
    let (code, stdout, stderr) = end(&mut run(&dir, &inner));
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "", ""));
}

#[test]
fn what_cannot_be_run_is_told_as_shells_do() {
    let dir = TempDir::new("run-not");
    let (path, file) = (dir.display().to_string(), dir.join("not-executable"));
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    let missing = file.with_file_name("missing").display().to_string();
    check(&["run", "--dir", &path, "--", &missing], 127, &[&missing, "PATH"]);
    let file = file.display().to_string();
    check(&["run", "--dir", &path, "--", &file], 126, &[&file, "executable"]);
    check(&["run", "--dir", "/dev/null/x", "--", "true"], 1, &["/dev/null/x", "--dir"]);
}
