//! Jobs on this machine alone: no root, no ssh.

use std::time::Duration;

use rustix::process::Signal;

use crate::common::{TempDir, scratch};
use crate::{Running, end, launch, mark, nothing_is_left, rounds, with_mark};

/// The grace is five seconds, and a machine may be busy.
const GONE_WITHIN: Duration = Duration::from_secs(15);

#[test]
fn one_process_needs_no_environment() {
    let script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK $GROUP_RANK; [ -n \"$MASTER_PORT$RSUM_ROOT$RSUM_SECRET\" ]";
    let ended = end(launch(&["--prefix", "none", "--", "/bin/sh", "-c", script]).env_clear());
    ended.check(0, &[]);
    assert_eq!(ended.out, "0/1 0/1 0 0\n", "{ended:#?}");
}

#[test]
fn ranks_meet_and_add() {
    let dir = scratch("launch-add");
    let ended = end(launch(&["-n", "3", "--prefix", "rank", "--"]).arg(rounds()).arg(&dir.0).arg("20"));
    ended.check(0, &[]);
    for rank in 0..3 {
        assert!(ended.out.contains(&format!("[rank {rank}] the sum is 3\n")), "{ended:#?}");
    }
}

#[test]
fn workers_and_servers_sum() {
    let dir = scratch("launch-servers");
    let ended = end(launch(&["-n", "2", "--servers", "2", "--grace", "20s", "--"])
        .arg(summing())
        .current_dir(&dir.0));
    ended.check(0, &[]);
    for rank in 0..2 {
        assert!(
            ended.out.contains(&format!("[rank {rank} ")) && ended.out.contains("summed 3 with 2 servers"),
            "{ended:#?}"
        );
    }
}

#[test]
fn a_worker_that_leaves_is_first_and_not_the_server_that_ended_because_of_it() {
    let mut command = launch(&["-n", "3", "--servers", "1", "--no-collector", "-x", "LEAVING_RANK=1", "--"]);
    let ended = end(command.arg(summing()));
    ended.check(3, &["first rank 1 on ", "ended with status 3", "after it also: ", "summation server 0 on "]);
}

#[test]
fn a_rank_that_is_stopped_is_named_beside_its_victims() {
    let dir = scratch("launch-stopped");
    let mut command = launch(&["-n", "3", "--no-collector", "--"]);
    command.arg(rounds()).arg(&dir.0).arg("0").env("RSCCL_TIMEOUT_S", "8");
    let stop = (-Signal::STOP.as_raw()).to_string();
    let ended = end(command.env("FAIL_RANK", "1").env("FAIL_STATUS", stop));
    ended.check(1, &["ringscope: last words name rank 1 (", "which had not failed: it may be stopped"]);
}

/// A worker of the summation service, in C.
fn summing() -> std::path::PathBuf {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = std::path::Path::new(crate::RINGSCOPE).parent().unwrap();
    let program = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("launch-worker");
    let fresh = program.with_extension(std::process::id().to_string());
    let mut cc = std::process::Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(source.join("../engine/include"));
    cc.arg(source.join("tests/launch/worker.c")).arg("-o").arg(&fresh).arg("-L").arg(libraries);
    cc.args(["-lrsccl", &format!("-Wl,-rpath,{}", libraries.display())]);
    assert!(cc.status().expect("a C compiler: apt-get install gcc").success());
    std::fs::rename(&fresh, &program).unwrap();
    program
}

#[test]
fn servers_that_nobody_uses_are_ended_with_the_job() {
    let ended = end(launch(&["-n", "1", "--servers", "1", "--"]).arg("true"));
    ended.check(0, &[]);
}

#[test]
fn the_exit_status_is_that_of_the_first_failure() {
    for (script, status, part) in [
        ("exit 9", 9, "with status 9"),
        ("kill -SEGV $$", 139, "by SIGSEGV (it crashed)"),
        ("exit 127", 127, "with status 127"),
    ] {
        let mark = mark();
        let script = format!("[ $RANK = 1 ] || exec sleep {mark}; echo last words; {script}");
        let ended = end(&mut launch(&["-n", "3", "--", "sh", "-c", &script]));
        ended.check(status, &["first rank 1 on ", "(pid ", part, "  | last words"]);
        nothing_is_left(&mark, GONE_WITHIN);
    }
}

#[test]
fn grandchildren_that_have_left_their_session_end_too() {
    let mark = mark();
    let script = format!(
        "setsid setsid sh -c 'trap \"\" TERM INT HUP; sleep {mark}; sleep {mark}' & sleep 0.2; exit $((RANK * 3))"
    );
    let ended = end(&mut launch(&["-n", "2", "--grace", "1s", "--", "sh", "-c", &script]));
    ended.check(3, &["first rank 1"]);
    nothing_is_left(&mark, Duration::from_secs(1));
    let ended = end(&mut launch(&["--grace", "1s", "--", "sh", "-c", &script]));
    ended.check(0, &["had left others running"]);
    nothing_is_left(&mark, Duration::from_secs(1));
}

#[test]
fn a_deaf_rank_is_killed_after_the_grace() {
    let mark = mark();
    let dir = TempDir::new("launch-deaf");
    let script = format!(
        "[ $RANK = 0 ] && {{ until [ -e deaf ]; do sleep 0.02; done; exit 4; }}; trap '' TERM; touch deaf; sleep {mark}; sleep {mark}"
    );
    let since = ringscope_api::clock::monotonic();
    let ended = end(launch(&["-n", "2", "--grace", "1s", "--", "sh", "-c", &script]).current_dir(&dir.0));
    ended.check(4, &["first rank 0"]);
    assert!(since.elapsed() < GONE_WITHIN);
    nothing_is_left(&mark, Duration::from_secs(1));
}

#[test]
fn a_failure_at_once_ends_those_that_are_only_about_to_start() {
    for _ in 0..5 {
        let mark = mark();
        let script = format!("[ $RANK = 0 ] && exit 4; exec sleep {mark}");
        let since = ringscope_api::clock::monotonic();
        let ended = end(&mut launch(&["-n", "8", "--grace", "60s", "--", "sh", "-c", &script]));
        ended.check(4, &["first rank 0"]);
        assert!(since.elapsed() < Duration::from_secs(45), "a signal was lost");
        nothing_is_left(&mark, Duration::from_secs(1));
    }
}

fn sleeping(mark: &str, options: &[&str]) -> Running {
    let script = format!("echo I sleep; sleep {mark}");
    let mut running =
        Running::start(&mut launch(&[options, &["-n", "2", "--", "sh", "-c", &script]].concat()));
    while with_mark(&format!("sleep {mark}")).len() < 4 {
        running.wait_for("I sleep");
        std::thread::sleep(Duration::from_millis(10));
    }
    running
}

#[test]
fn each_signal_ends_the_job_and_is_the_status() {
    for (signal, status, name) in
        [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM"), (Signal::HUP, 129, "SIGHUP")]
    {
        let mark = mark();
        let running = sleeping(&mark, &[]);
        running.signal(signal);
        running.end().check(status, &[&format!("{name}: passed on"), &format!("was ended by {name}")]);
        nothing_is_left(&mark, Duration::from_secs(1));
    }
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let mark = mark();
    let mut command = std::process::Command::new("env");
    command.args([
        "--ignore-signal=HUP",
        "--default-signal=INT,TERM",
        crate::RINGSCOPE,
        "launch",
        "--",
        "sh",
        "-c",
    ]);
    command.arg(format!("echo I sleep; sleep {mark}"));
    let mut running = Running::start(&mut command);
    running.wait_for("I sleep");
    running.signal(Signal::HUP);
    running.signal(Signal::TERM);
    running.end().check(143, &["was ended by SIGTERM"]);
    nothing_is_left(&mark, Duration::from_secs(1));
}

#[test]
fn a_launch_that_is_killed_takes_its_ranks_along() {
    let mark = mark();
    let running = sleeping(&mark, &[]);
    running.signal(Signal::KILL);
    assert_eq!(running.end().status, -9);
    nothing_is_left(&mark, GONE_WITHIN);
}

#[test]
fn a_terminals_stop_stops_nothing() {
    let mark = mark();
    let running = sleeping(&mark, &["--silence", "3s"]);
    running.signal(Signal::TSTP);
    let state = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(!state(running.child.id()).contains(") T "), "it is stopped");
    running.signal(Signal::TERM);
    running.end().check(143, &[]);
}

#[test]
fn a_name_that_cannot_be_claimed_stops_no_job() {
    if !rustix::process::geteuid().is_root() {
        println!("not root: no folder can be taken away from this test, so this is not tried");
        return;
    }
    let mut command = crate::fresh("unshare");
    let script = "mount -t tmpfs -o ro none /dev/shm && exec \"$@\"";
    command.args([
        "-m",
        "sh",
        "-c",
        script,
        "sh",
        crate::RINGSCOPE,
        "launch",
        "--no-collector",
        "--job",
        "x",
        "--",
    ]);
    let ended = end(command.args(["echo", "started"]));
    ended.check(0, &["the job's name \"x\" cannot be claimed", "started all the same"]);
    assert!(ended.out.contains("started"), "{ended:#?}");
}

#[test]
fn a_stopped_rank_ends_with_the_others() {
    let mark = mark();
    let script = format!("[ $RANK = 0 ] && exit 5; kill -STOP $$; sleep {mark}");
    end(&mut launch(&["-n", "2", "--", "sh", "-c", &script])).check(5, &["first rank 0"]);
    nothing_is_left(&mark, Duration::from_secs(1));
}

#[test]
fn two_jobs_of_one_name_do_not_run_at_once() {
    let mark = mark();
    let name = format!("twice-{mark}");
    let running = sleeping(&mark, &["--job", &name]);
    let ended = end(&mut launch(&["--job", &name, "--", "echo", "started"]));
    ended.check(1, &[&format!("a job of the name \"{name}\" runs already"), "pid ", " since ", "--job"]);
    assert_eq!(ended.out, "");
    running.signal(Signal::TERM);
    running.end().check(143, &[]);
    end(&mut launch(&["--job", &name, "--", "echo", "started"])).check(0, &[]);
}

#[test]
fn what_is_restarted_may_end_well() {
    let dir = TempDir::new("launch-restarts");
    let script = "echo try $RINGSCOPE_RESTART; [ $RANK = 0 ] || [ $RINGSCOPE_RESTART = 2 ]";
    let ended = end(launch(&["-n", "2", "--restarts", "2", "--", "sh", "-c", script]).current_dir(&dir.0));
    ended.check(0, &["started again (1 of 2)", "started again (2 of 2)"]);
    assert_eq!(ended.err.matches("first rank 1").count(), 2, "each end is named: {ended:#?}");
    let script = "[ $RINGSCOPE_RESTART = 1 ] || echo of the first start; exit 6";
    let ended = end(&mut launch(&["--restarts", "1", "--", "sh", "-c", script]));
    ended.check(6, &["started again (1 of 1)", "it has written nothing"]);
    assert_eq!(ended.err.matches("| of the first start").count(), 1, "{ended:#?}");
    assert_eq!(ended.err.matches("first rank 0").count(), 2, "{ended:#?}");
}

#[test]
fn secrets_are_on_no_command_line() {
    let script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -F -- \"$RSUM_SECRET\" && echo FOUND; done; [ ${#RSUM_SECRET} = 64 ]";
    let ended = end(&mut launch(&["--", "sh", "-c", script]));
    // The search for it is one, and does not find itself by name.
    let found: Vec<&str> = ended.out.lines().filter(|line| !line.contains("grep -F")).collect();
    assert!(found.iter().all(|line| line.ends_with("FOUND")) && found.len() <= 1, "{ended:#?}");
}
