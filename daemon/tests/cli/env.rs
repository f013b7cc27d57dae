//! `ringscope env`: the variables that `run` would set, for who starts commands himself.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringscope_api::clock;

use crate::common::TempDir;
use crate::common::stage::{RINGSCOPE, Stage};
use crate::run::{in_memory, run};
use crate::{check, end, ringscope};

/// `ringscope env` of this folder.
fn env(dir: &TempDir, arguments: &[&str]) -> Command {
    let mut command = ringscope(&["env", "--dir"]);
    command.arg(&dir.0).args(arguments);
    command
}

/// What a shell has after it has taken what is printed, of the variables that `run` sets.
fn taken(dir: &TempDir, variables: &[(&str, &str)]) -> Vec<String> {
    let script = format!("eval \"$({RINGSCOPE} env --dir {})\"; {SHOWN}", dir.display());
    let mut shell = crate::without_settings("sh");
    let (code, stdout, stderr) = end(shell.args(["-c", &script]).envs(variables.iter().copied()));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{script}");
    lines(&stdout)
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.starts_with("RINGSCOPE_RUN_ID=")).map(str::to_owned).collect()
}

const SHOWN: &str =
    "env | grep -E '^(LD_PRELOAD|NCCL_PROFILER|PYTHONPATH|RSUM|RINGSCOPE)' | grep -v RINGSCOPE_SET_BY | sort";

#[test]
fn a_shell_gets_what_run_would_give() {
    let dir = in_memory("env-same");
    for variables in [
        &[][..],
        &[("LD_PRELOAD", "libm.so.6"), ("PYTHONPATH", "/it's/here:/b c")],
        &[("NCCL_PROFILER_PLUGIN", "other.so"), ("RINGSCOPE_JOB", "llama")],
        &[("RSUM_OBSERVER", "theirs.so"), ("RINGSCOPE_GROUP_NAMES", "0")],
    ] {
        let (code, stdout, stderr) = end(run(&dir, SHOWN).envs(variables.iter().copied()));
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(stdout.contains("LD_PRELOAD="), "{stdout}");
        assert_eq!(taken(&dir, variables), lines(&stdout), "{variables:?}");
    }
}

#[test]
fn taken_twice_it_is_there_once() {
    let dir = in_memory("env-twice");
    let once = taken(&dir, &[]);
    let variables: Vec<(&str, &str)> = once.iter().map(|line| line.split_once('=').unwrap()).collect();
    assert_eq!(taken(&dir, &variables), once);
    // What another machine or release has put there does not stay beside it: two of them would call each other.
    let other = TempDir::new("env-other");
    let library = |name: &str| other.join(name).display().to_string();
    for name in ["LD_PRELOAD", "RINGSCOPE_COLLECTOR"] {
        let ours = Path::new(variables.iter().find(|(known, _)| *known == name).unwrap().1);
        std::fs::copy(ours, other.join(ours.file_name().unwrap())).unwrap();
    }
    let elsewhere: Vec<(&str, String)> = (variables.iter())
        .map(|(name, value)| match *name {
            "LD_PRELOAD" => (*name, library("libringscope_preload.so")),
            "NCCL_PROFILER_PLUGIN" | "RSUM_OBSERVER" => (*name, library("libringscope.so")),
            _ => (*name, (*value).to_owned()),
        })
        .collect();
    let elsewhere: Vec<(&str, &str)> = elsewhere.iter().map(|(name, value)| (*name, &**value)).collect();
    assert_eq!(taken(&dir, &elsewhere), once);
}

#[test]
fn where_something_is_wrong_nothing_is_printed() {
    let dir = in_memory("env-wrong");
    std::fs::write(dir.join("file"), "").unwrap();
    let file = dir.join("file").display().to_string();
    check(&["env", "--dir", &file], 1, &["nothing is set", &file]);
    let quiet = ["env", "--dir", &file, "--quiet-on-error", "--format", "slurm"];
    assert_eq!(end(&mut ringscope(&quiet)), (Some(0), String::new(), String::new()));
    let (code, stdout, stderr) = end(ringscope(&quiet).arg("--say-why"));
    assert!(stdout.starts_with("print ringscope: nothing is set") && stdout.lines().count() == 1, "{stdout}");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    check(&["env", "--format", "csh"], 64, &["--format"]);
    let long = "x".repeat(5000);
    let (code, stdout, stderr) = end(env(&dir, &["--format", "slurm"]).env("LD_PRELOAD", &long));
    assert!(
        code == Some(1) && stdout.is_empty() && stderr.contains("LD_PRELOAD") && stderr.contains("shorter"),
        "{stderr}"
    );
}

#[test]
fn a_folder_on_a_disk_is_no_place_and_nothing_is_set() {
    let disk = TempDir::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")), "env-disk");
    let (code, stdout, stderr) = end(&mut env(&disk, &[]));
    assert!(code == Some(1) && stdout.is_empty() && stderr.contains("tmpfs"), "{stderr}");
}

/// Sets that a log is lent in, by `env --format json`.
fn lent(stage: &Stage, variables: &[(&str, &str)]) -> serde_json::Value {
    let mut command = env(&stage.segment_dir, &["--format", "json"]);
    let (code, stdout, stderr) = end(command.envs(variables.iter().copied()));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&stdout).unwrap()
}

#[tokio::test]
async fn a_log_is_lent_where_an_agent_reads_it_and_nobody_asked_for_one() {
    let stage = Stage::new("env-log");
    std::fs::set_permissions(&stage.segment_dir.0, std::fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(lent(&stage, &[])["set"]["NCCL_DEBUG"], serde_json::Value::Null, "nobody would read it");
    let serve = stage.serve(true);
    let of = crate::common::eventually("an agent reads the folder", async || {
        let found = lent(&stage, &[]);
        found["set"]["NCCL_DEBUG_FILE"].as_str().map(|_| found.clone())
    });
    let found = of.await;
    let file = found["set"]["NCCL_DEBUG_FILE"].as_str().unwrap();
    assert_eq!(found["set"]["RINGSCOPE_LENT_LOG"].as_str(), Some(file));
    let mode = Path::new(file).parent().unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700, "nobody else puts a pipe there");
    // A script that asks later has its own, and what is lent goes.
    let inherited = [
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_DEBUG_SUBSYS", found["set"]["NCCL_DEBUG_SUBSYS"].as_str().unwrap()),
        ("NCCL_DEBUG_FILE", file),
        ("RINGSCOPE_LENT_LOG", file),
    ];
    let later = lent(&stage, &inherited);
    assert_eq!(later["set"]["NCCL_DEBUG"], serde_json::Value::Null);
    let gone = serde_json::json!(["NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "RINGSCOPE_LENT_LOG"]);
    assert_eq!(later["unset"], gone);
    let conf = stage.dir.join("nccl.conf");
    std::fs::write(&conf, "NCCL_DEBUG=WARN\n").unwrap();
    let by_file = lent(&stage, &[("NCCL_CONF_FILE", conf.to_str().unwrap())]);
    assert_eq!(by_file["set"]["NCCL_DEBUG"], serde_json::Value::Null, "the site has asked for one");
    drop(serve);
    let after = lent(&stage, &[]);
    assert_eq!(after["set"]["NCCL_DEBUG"], serde_json::Value::Null, "an agent that has ended frees nothing");
}

#[test]
fn it_takes_no_time_that_anybody_notices() {
    let dir = in_memory("env-time");
    assert_eq!(end(&mut env(&dir, &[])).0, Some(0));
    let clock = clock::monotonic();
    let fastest = (0..10)
        .map(|_| {
            let before = clock.elapsed();
            assert_eq!(end(&mut env(&dir, &[])).0, Some(0));
            clock.elapsed().saturating_sub(before)
        })
        .min();
    assert!(fastest < Some(Duration::from_millis(50)), "{fastest:?}");
}
