//! What `ringscope run` does with the library's log, and what it leaves to the user.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::common::TempDir;
use crate::end;
use crate::run::{in_memory, run};

#[test]
fn where_others_could_replace_the_log_the_library_is_asked_for_none() {
    let dir = in_memory("run-no-log");
    std::fs::set_permissions(&dir.0, std::fs::Permissions::from_mode(0o777)).unwrap();
    let script = "echo \"$NCCL_DEBUG $NCCL_DEBUG_SUBSYS $NCCL_DEBUG_FILE\" ${LD_PRELOAD:+preloaded}";
    let (code, stdout, stderr) = end(run(&dir, script).env("NCCL_DEBUG", "WARN"));
    assert_eq!((code, stdout.as_str()), (Some(0), "WARN   preloaded\n"), "the rest is as ever: {stderr}");
    assert!(stderr.contains("chmod +t") && stderr.lines().count() == 1, "{stderr}");
}

/// A `ringscope` that has been removed meanwhile, so that it cannot start what copies the log.
const REMOVED: &str = r#"cd "$2" && ln "$1" ringscope && ln -s "$(dirname "$1")"/libringscope*.so .
    exec 4<ringscope; rm ringscope
    exec /proc/self/fd/4 run --dir "$3" -- sh -c 'echo $NCCL_DEBUG $NCCL_DEBUG_FILE'"#;

#[test]
fn who_cannot_be_copied_the_log_keeps_it() {
    let dir = in_memory("run-removed");
    let said = |level: &str| {
        let gone = TempDir::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")), "run-removed");
        let mut command = crate::without_settings("sh");
        command.args(["-c", REMOVED, "sh", crate::RINGSCOPE]).args([&gone.0, &dir.0]);
        end(command.env("NCCL_DEBUG", level))
    };
    let (code, stdout, stderr) = said("WARN");
    assert_eq!((code, stdout.as_str()), (Some(0), "WARN\n"), "{stderr}");
    assert!(stderr.contains("NCCL_DEBUG stays") && stderr.lines().count() == 1, "{stderr}");
    let (code, stdout, stderr) = said("");
    assert!(code == Some(0) && stdout.starts_with("INFO /"), "{stdout}{stderr}");
}

/// What a library would write into its private log and onto standard output: `$NCCL_DEBUG_FILE` with `%h` and `%p`.
const LIBRARY: &str = r#"log=$(echo "$NCCL_DEBUG_FILE" | sed "s/%h/node7/; s/%p/$$/"); exec 3>"$log"
    say() { printf "node7:$$:$$ [0] NCCL $1\n" >&3; }
    say "INFO NCCL version 2.28.9+cuda12.9"
    say "INFO Pattern 4, crossNic 0, nChannels 2, bw 1.0/1.0, type LOC/PIX, sameChannels 1"
    say "INFO NCCL_DEBUG set by environment to INFO."
    printf "\n" >&3; say "WARN Cuda failure"
    echo own"#;

#[test]
fn what_the_user_asked_the_log_for_comes_where_they_asked_for_it() {
    let dir = in_memory("run-relay");
    let said = |level: &str, subsystems: &str| {
        let mut command = run(&dir, LIBRARY);
        command.env("NCCL_DEBUG", level).env("NCCL_DEBUG_SUBSYS", subsystems);
        // Reads to the end of standard output, and so to the end of the relay.
        let (code, stdout, stderr) = end(&mut command);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{level}");
        let mut lines: Vec<&str> = (stdout.lines().filter(|line| !line.is_empty()))
            .map(|line| line.split_once("] NCCL ").map_or(line, |(_, said)| said))
            .map(|line| line.split([' ', ',']).nth(1).unwrap_or(line))
            .collect();
        lines.sort_unstable();
        lines.join(" ")
    };
    assert_eq!(said("VERSION", ""), "own version");
    assert_eq!(said("WARN", ""), "Cuda own version");
    assert_eq!(said("INFO", ""), "Cuda NCCL NCCL_DEBUG own");
    assert_eq!(said("INFO", "GRAPH"), "Cuda NCCL Pattern own");
    assert_eq!(said("", ""), "own", "who asks for nothing gets nothing");
}

#[test]
fn lines_for_a_file_of_all_processes_are_put_there_whole() {
    let (dir, own) = (in_memory("run-relay-file"), TempDir::new("run-relay-own"));
    let file = own.join("all.log");
    std::fs::write(&file, "of an earlier run\n").unwrap();
    let mut command = run(&dir, LIBRARY);
    command.env("NCCL_DEBUG", "WARN").env("NCCL_DEBUG_FILE", own.join("%h.log"));
    assert_eq!(end(&mut command).1, "own\n");
    assert!(std::fs::read_to_string(own.join("node7.log")).unwrap().ends_with("NCCL WARN Cuda failure\n"));
    assert_eq!(end(command.env("NCCL_DEBUG_FILE", &file)).1, "own\n");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("NCCL version 2.28.9+cuda12.9\n") && text.ends_with("WARN Cuda failure\n"),
        "{text}"
    );
}

#[test]
fn a_file_per_process_gets_what_its_user_asked_for_and_no_more() {
    let (dir, own) = (in_memory("run-relay-each"), TempDir::new("run-relay-each-own"));
    let said = |level: &str, subsystems: &str| {
        let mut command = run(&dir, &format!("{LIBRARY}; echo $$"));
        command.env("NCCL_DEBUG", level).env("NCCL_DEBUG_SUBSYS", subsystems);
        let (_, stdout, stderr) = end(command.env("NCCL_DEBUG_FILE", own.join("%h.%p")));
        assert_eq!(stderr, "", "{level}");
        let pid = stdout.lines().next_back().unwrap();
        let text = std::fs::read_to_string(own.join(format!("node7.{pid}"))).unwrap();
        text.replace(&format!("node7:{pid}:{pid} [0] NCCL "), "")
    };
    assert_eq!(said("WARN", ""), "NCCL version 2.28.9+cuda12.9\n\nWARN Cuda failure\n");
    assert_eq!(said("INFO", "NET"), "INFO NCCL version 2.28.9+cuda12.9\n\nWARN Cuda failure\n");
}

/// A library that writes 4 MiB into its private log, and waits until what lies there is less than 1.
const TALKATIVE: &str = r#"log=$(echo "$NCCL_DEBUG_FILE" | sed "s/%h/node7/; s/%p/$$/"); exec 3>"$log"
    seq -f "node7:$$:$$ [0] NCCL INFO NCCL version %010.0f" 1 90000 >&3
    for look in $(seq 2000); do
        if [ $(du -k "$log" | cut -f1) -lt 1024 ]; then break; fi
        sleep 0.05
    done
    echo "last" >&3; tail -n 1 "$log"; du -k "$log" | cut -f1"#;

#[test]
fn a_log_that_nobody_reads_does_not_grow_for_ever() {
    let dir = in_memory("run-freed");
    let (code, stdout, stderr) = end(&mut run(&dir, TALKATIVE));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let (last, kib) = stdout.trim().split_once('\n').unwrap();
    assert!(last == "last" && kib.parse::<u64>().unwrap() < 1024, "{stdout}");
}

/// Says whether a relay runs for the log of this command.
const IS_RELAYED: &str = r#"logs=$(dirname "$NCCL_DEBUG_FILE")
    for process in /proc/[0-9]*; do
        if tr '\0' ' ' <"$process/cmdline" | grep -q "log[-]relay.*$logs"; then echo relayed; exit; fi
    done 2>/dev/null
    echo alone"#;

#[test]
fn a_log_is_left_to_an_agent_that_reads_it_and_not_to_one_that_has_ended() {
    let dir = in_memory("run-agents");
    let mark =
        std::fs::File::create(dir.join(format!(".agent-{}", rustix::process::geteuid().as_raw()))).unwrap();
    let said = || end(&mut run(&dir, IS_RELAYED)).1;
    assert_eq!(said(), "relayed\n", "it was there a moment ago, and may not come back");
    rustix::fs::flock(&mark, rustix::fs::FlockOperation::LockShared).unwrap();
    assert_eq!(said(), "alone\n", "it frees what it has read");
}

#[test]
fn what_is_copied_for_the_user_is_whole_though_it_is_freed() {
    let (dir, own) = (in_memory("run-freed-copied"), TempDir::new("run-freed-own"));
    let file = own.join("all.log");
    let mut command = run(&dir, TALKATIVE);
    let (code, stdout, _) = end(command.env("NCCL_DEBUG", "INFO").env("NCCL_DEBUG_FILE", &file));
    assert!(code == Some(0) && stdout.starts_with("last\n"), "{stdout}");
    // The relay has ended: it had standard output too.
    let copied = std::fs::read_to_string(&file).unwrap();
    let numbers: Vec<u32> =
        copied.lines().filter_map(|line| line.split_once("version ")?.1.parse().ok()).collect();
    assert_eq!(numbers, (1..=90_000).collect::<Vec<u32>>());
}
