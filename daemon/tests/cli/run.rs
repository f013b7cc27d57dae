//! `ringscope run`: a launcher that is not there once the command runs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::TempDir;
use crate::{check, end, ringscope};

/// A folder in which segments may lie.
pub(crate) fn in_memory(name: &str) -> TempDir {
    TempDir::new_in(Path::new("/dev/shm"), name)
}

/// `ringscope run` of a shell script.
pub(crate) fn run(dir: &TempDir, script: &str) -> Command {
    let mut command = ringscope(&["run", "--dir"]);
    command.arg(&dir.0).args(["--", "sh", "-c", script]);
    command
}

#[test]
fn it_becomes_the_command() {
    let dir = in_memory("run-exec");
    let child = run(&dir, "echo $$; exit 7").stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{pid}\n"));
    assert_eq!(output.status.code(), Some(7));
    let killed = run(&dir, "kill -TERM $$").status().unwrap();
    assert_eq!(killed.signal(), Some(15));
}

#[test]
fn the_folder_that_it_makes_is_for_all_users() {
    let dir = in_memory("run-dir");
    let mode = |dir: &Path| std::fs::metadata(dir).unwrap().permissions().mode() & 0o7777;
    let before = mode(&dir.0);
    assert!(run(&dir, "true").status().unwrap().success());
    assert_eq!(mode(&dir.0), before, "one that is there keeps its mode");
    let made = dir.join("made/by/run");
    let mut command = ringscope(&["run", "--dir"]);
    assert!(command.arg(&made).args(["--", "true"]).status().unwrap().success());
    assert_eq!(mode(&made), 0o1777);
}

#[test]
fn a_folder_on_a_disk_is_told_before_the_job_runs_unseen() {
    let disk = TempDir::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")), "run-disk");
    let (code, stdout, stderr) = end(&mut run(&disk, "echo log $NCCL_DEBUG $NCCL_DEBUG_FILE"));
    assert_eq!((code, stdout.as_str()), (Some(0), "log\n"), "that could hold up the job too");
    for part in ["the job will not be watched", "lies on a disk", "tmpfs"] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
}

/// A shell script with mounts of its own: `$1` is `ringscope`, `$2` the folder.
fn in_own_mounts(script: &str, dir: &TempDir) -> Command {
    let is_root_here = Command::new("unshare").args(["-rm", "true"]).status();
    let is_root_here = is_root_here.unwrap().success();
    let mut command = crate::without_settings("unshare");
    command.args([if is_root_here { "-rm" } else { "-m" }, "sh", "-c", script, "sh", crate::RINGSCOPE]);
    command.arg(&dir.0);
    command
}

/// A folder without room. Says what is left in it.
const FULL: &str = r#"mount -t tmpfs -o size=64k none "$2"
    dd if=/dev/zero of="$2/filled" bs=4k 2>/dev/null
    "$1" run --dir "$2" -- sh -c 'echo ran with log $NCCL_DEBUG $NCCL_DEBUG_FILE'; echo $?; ls -A "$2""#;

#[test]
fn a_full_folder_is_told_and_nothing_is_left_there() {
    let dir = in_memory("run-full");
    let (_, stdout, stderr) = end(&mut in_own_mounts(FULL, &dir));
    assert_eq!(stdout, "ran with log\n0\nfilled\n", "{stderr}");
    for part in ["the job will not be watched", "is full", "make room there", "--shm-size"] {
        assert!(stderr.contains(part) && stderr.lines().count() == 1, "{part} in {stderr}");
    }
}

#[test]
fn the_command_gets_the_collector_and_a_private_log() {
    let dir = in_memory("run-env");
    let script = "echo $LD_PRELOAD; echo $NCCL_PROFILER_PLUGIN $RINGSCOPE_COLLECTOR; echo $NCCL_DEBUG $NCCL_DEBUG_SUBSYS; \
                  echo $NCCL_DEBUG_FILE; echo $RINGSCOPE_DIR $RINGSCOPE_JOB";
    let mut command = run(&dir, script);
    command.env("LD_PRELOAD", "libm.so.6").env("RINGSCOPE_JOB", "llama");
    let (code, stdout, stderr) = end(&mut command);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "nothing is said when nothing is odd");
    let lines: Vec<&str> = stdout.lines().collect();
    let (collector, named) = lines[1].split_once(' ').unwrap();
    assert!(collector.ends_with("/libringscope.so") && named == collector, "{stdout}");
    let preload = collector.replace("libringscope.so", "libringscope_preload.so");
    assert_eq!(lines[0], format!("{preload}:libm.so.6"), "ours first");
    assert_eq!(lines[2], "INFO INIT,GRAPH,ENV");
    let log = Path::new(lines[3]);
    let folder = log.parent().unwrap();
    assert!(folder.starts_with(&dir.0) && lines[3].ends_with("-%h-%p.log"), "{stdout}");
    assert_eq!(
        folder.metadata().unwrap().permissions().mode() & 0o7777,
        0o700,
        "nobody else puts a pipe there"
    );
    assert_eq!(lines[4], format!("{} llama", dir.display()));
}

#[test]
fn a_plugin_of_the_users_is_handed_to_the_collector() {
    let dir = in_memory("run-chain");
    let script = "echo $NCCL_PROFILER_PLUGIN; echo $RINGSCOPE_CHAIN_PLUGIN";
    let check = |plugin: &str, expected: &str| {
        let (code, stdout, stderr) = end(run(&dir, script).env("NCCL_PROFILER_PLUGIN", plugin));
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(lines[0].ends_with("/libringscope.so"), "{stdout}");
        assert_eq!(lines[1], expected, "{plugin}");
    };
    check("other.so", "other.so");
    check("none", "");
    check("", "");
    std::fs::write(dir.join("libnccl-profiler.so"), "").unwrap();
    let found = dir.join("libnccl-profiler.so").display().to_string();
    let (_, stdout, _) = end(run(&dir, script).env("LD_LIBRARY_PATH", &dir.0));
    assert!(stdout.ends_with(&format!("{found}\n")), "what NCCL would have loaded by itself: {stdout}");
}

#[test]
fn the_agent_is_told_of_a_run_that_the_collector_may_never_enter() {
    let dir = in_memory("run-note");
    assert_eq!(end(run(&dir, "true").env("RINGSCOPE_JOB", "llama")).0, Some(0));
    let notes: Vec<_> = (std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    let note: serde_json::Value = serde_json::from_slice(&std::fs::read(&notes[0]).unwrap()).unwrap();
    assert_eq!((&note["job"], &note["command"]), (&"llama".into(), &serde_json::json!(["sh", "-c", "true"])));
    assert!(note["started_at"].as_str().unwrap().ends_with('Z') && notes.len() == 1, "{note}");
}

#[test]
fn the_note_names_the_job_that_the_collector_would_take() {
    let check = |variables: &[(&str, &str)], expected: serde_json::Value| {
        let dir = in_memory("run-note-job");
        assert_eq!(end(run(&dir, "true").envs(variables.iter().copied())).0, Some(0));
        let note = (std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "json"))
            .unwrap();
        let note: serde_json::Value = serde_json::from_slice(&std::fs::read(note).unwrap()).unwrap();
        assert_eq!(note["job"], expected, "{variables:?}");
    };
    let all = [("JOB_NAME", "pod"), ("TORCHELASTIC_RUN_ID", "elastic"), ("SLURM_JOB_ID", "7")];
    check(&[], serde_json::Value::Null);
    check(&all[..1], "pod".into());
    check(&all[..2], "elastic".into());
    check(&all, "slurm-7".into());
    check(&[("TORCHELASTIC_RUN_ID", "none"), all[0]], "pod".into());
    check(&[("RINGSCOPE_JOB", "own"), all[2]], "own".into());
}

#[test]
fn the_plugin_alone_preloads_nothing() {
    let dir = in_memory("run-plugin");
    let mut command = ringscope(&["run", "--plugin-only", "--level", "channels", "--dir"]);
    command.arg(&dir.0).args([
        "--",
        "sh",
        "-c",
        "echo \"$LD_PRELOAD\" $RINGSCOPE_LEVEL $NCCL_PROFILER_PLUGIN",
    ]);
    let (code, stdout, _) = end(&mut command);
    assert_eq!(code, Some(0));
    assert!(stdout.starts_with(" channels /") && stdout.ends_with("/libringscope.so\n"), "{stdout}");
}

#[test]
fn a_stand_in_for_what_is_no_library_is_refused() {
    let dir = in_memory("run-shim");
    let path = dir.display().to_string();
    check(&["run", "--dir", &path, "--shim=/dev/null/nccl", "--", "true"], 64, &["--shim", "/dev/null/nccl"]);
    check(&["run", "--dir", &path, "--shim=/bin/sh", "--", "true"], 64, &["/bin/sh", "no NCCL library"]);
    check(&["run", "--dir", &path, "--shim", "--plugin-only", "--", "true"], 64, &["--plugin-only"]);
}

#[test]
fn a_run_inside_a_run_is_silent() {
    let dir = in_memory("run-run");
    let inner = format!("{} run --dir {} -- true", crate::RINGSCOPE, dir.display());
    let (code, stdout, stderr) = end(&mut run(&dir, &inner));
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "", ""));
}

#[test]
fn what_cannot_be_run_is_told_as_shells_do() {
    let dir = in_memory("run-not");
    let (path, file) = (dir.display().to_string(), dir.join("not-executable"));
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    let missing = file.with_file_name("missing").display().to_string();
    check(&["run", "--dir", &path, "--", &missing], 127, &[&missing, "PATH"]);
    let file = file.display().to_string();
    check(&["run", "--dir", &path, "--", &file], 126, &[&file, "executable"]);
}

/// Checks that the command runs, with nothing preloaded, after one line that says all of `parts`.
fn check_unwatched(command: &mut Command, parts: &[&str]) {
    let script = "echo ran${LD_PRELOAD:+ preloaded}$NCCL_DEBUG";
    let (code, stdout, stderr) = end(command.args(["--", "sh", "-c", script]));
    assert_eq!((code, stdout.as_str()), (Some(0), "ran\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in parts.iter().chain(&["not watched"]) {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
}

#[test]
fn a_program_with_the_address_sanitizer_starts() {
    let dir = in_memory("run-asan");
    std::fs::write(
        dir.join("job.c"),
        "#include <stdio.h>\nint main(void) { return puts(\"job ok\") < 0; }\n",
    )
    .unwrap();
    let mut cc = Command::new("cc");
    cc.current_dir(&dir.0).args(["-fsanitize=address", "job.c", "-o", "job"]);
    let is_built = cc.status().is_ok_and(|status| status.success());
    assert!(is_built, "cc -fsanitize=address does not work; apt-get install gcc libc6-dev");
    let mut command = ringscope(&["run", "--dir"]);
    command.arg(&dir.0).arg("--").arg(dir.join("job"));
    assert_eq!(end(&mut command), (Some(0), "job ok\n".to_owned(), String::new()));
    let (_, _, help) = end(command.env("ASAN_OPTIONS", "help=1"));
    assert!(help.contains("verify_asan_link_order"), "what the user says counts too: {help}");
}

#[test]
fn a_folder_that_cannot_be_used_keeps_no_command_from_starting() {
    let dir = in_memory("run-no-dir");
    let link = dir.join("link");
    std::os::unix::fs::symlink(dir.join("nowhere"), &link).unwrap();
    std::fs::write(dir.join("file"), "").unwrap();
    for folder in [&link, &dir.join("file"), Path::new("/dev/null/x")] {
        let named = folder.display().to_string();
        check_unwatched(ringscope(&["run", "--dir"]).arg(folder), &[&named, "--dir"]);
        check_unwatched(ringscope(&["run"]).env("RINGSCOPE_DIR", folder), &[&named]);
    }
}

#[test]
fn python_is_asked_for_names_of_groups_unless_that_is_not_wanted() {
    let dir = in_memory("run-python");
    let path_of = |options: &[&str], settings: &[(&str, &str)]| {
        let mut command = ringscope(&["run", "--dir"]);
        command.arg(&dir.0).args(options).args(["--", "sh", "-c", "echo $PYTHONPATH"]);
        let (code, stdout, stderr) = end(command.env_remove("PYTHONPATH").envs(settings.iter().copied()));
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        stdout.trim().to_owned()
    };
    let ours = path_of(&[], &[]);
    assert!(Path::new(&ours).join("sitecustomize.py").is_file(), "{ours}");
    let theirs = [("PYTHONPATH", "/a::b")];
    assert_eq!(path_of(&[], &theirs), format!("{ours}:/a::b"));
    assert_eq!(path_of(&["--no-group-names"], &theirs), "/a::b");
    assert_eq!(path_of(&["--plugin-only"], &theirs), "/a::b", "it speaks through what is preloaded");
    assert_eq!(path_of(&[], &[theirs[0], ("RINGSCOPE_GROUP_NAMES", "0")]), "/a::b");
    let once = [("PYTHONPATH", ours.as_str())];
    assert_eq!(path_of(&[], &once), ours, "an outer run has put it there");
}

#[test]
fn whatever_stands_in_the_environment_the_command_starts() {
    let dir = in_memory("run-bytes");
    let bytes = OsStr::from_bytes(b"a\xff");
    for variable in VARIABLES {
        for value in [bytes, OsStr::new("")] {
            // A cache folder that is no path from the root is made where the command starts.
            let (code, stdout, stderr) = end(run(&dir, "echo ran").env(variable, value).current_dir(&dir));
            assert_eq!((code, stdout.as_str()), (Some(0), "ran\n"), "{variable}={value:?}: {stderr}");
        }
        let (_, _, stderr) = end(run(&dir, "true").env(variable, ""));
        assert_eq!(stderr, "", "{variable}: an empty one is one that is not set");
    }
    let (code, stdout, stderr) = end(run(&dir, "echo $RINGSCOPE_DIR").env("RINGSCOPE_DIR", ""));
    assert_eq!((code, stdout, stderr), (Some(0), format!("{}\n", dir.display()), String::new()));
    let (code, stdout, stderr) =
        end(run(&dir, "echo ${LD_PRELOAD:+preloaded}").env("RINGSCOPE_LEVEL", "loud"));
    assert_eq!((code, stdout.as_str()), (Some(0), "preloaded\n"));
    assert!(stderr.contains("RINGSCOPE_LEVEL=loud") && stderr.lines().count() == 1, "{stderr}");
    check(&["run", "--level", "loud", "--", "true"], 64, &["--level"]);
}

/// What `run` reads, of its own and of others.
const VARIABLES: [&str; 15] = [
    "RINGSCOPE_JOB",
    "RINGSCOPE_DIR",
    "RINGSCOPE_LEVEL",
    "RINGSCOPE_CACHE_DIR",
    "XDG_CACHE_HOME",
    "HOME",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "RINGSCOPE_GROUP_NAMES",
    "ASAN_OPTIONS",
    "RSUM_OBSERVER",
    "SLURM_JOB_ID",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_PROFILER_PLUGIN",
];
