//! Logs on a file server that is gone: who asks it for anything waits for ever. Nobody else waits with him.

use std::os::unix::fs::chown;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringscope_api::clock::monotonic;
use ringscope_wire::Primitive;
use ringscope_wire::batch::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::attacks::shared_host;
use crate::daemon::{Answer, FakeDaemon};
use crate::segment::SegmentWriter;
use crate::users::{HOSTILE, MACHINE, can_be_others};
use crate::{Host, init_lines};

/// Mounts a file system whose server, the agent's own descriptor 3, answers nothing, and starts the agent. Mount and server
/// go with the agent.
const SCRIPT: &str = "set -e; gone=$1; shift; exec 3<>/dev/fuse; \
    mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0,allow_other gone \"$gone\"; exec \"$@\"";
/// Logs of one user that lie there: more than are waited for.
const LOGS: u32 = 12;
/// How many of one user's are waited for at once.
const WAITED_FOR: usize = 8;

/// Whether file systems can be mounted here. If not, it says so.
fn can_mount() -> bool {
    let can = can_be_others()
        && std::path::Path::new("/dev/fuse").exists()
        && Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success());
    if !can {
        println!("no root, no /dev/fuse or no unshare: no file server can be lost, so this is not tried");
    }
    can
}

/// An agent that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn agent(host: &Host, gone: &std::path::Path) -> Killed {
    let child = Command::new("unshare")
        .args(["--mount", "sh", "-c", SCRIPT, "sh"])
        .arg(gone)
        .args([env!("CARGO_BIN_EXE_ringscope"), "agent", "--daemon", &host.config.daemon_urls.join(",")])
        .args(["--host", MACHINE, "--hardware-interval", "0s", "--no-kernel-log", "--interval", "20ms"])
        .arg("--dir")
        .arg(host.dir())
        .arg("--state-dir")
        .arg(&host.config.state_dir)
        .stdout(Stdio::null())
        .spawn()
        .expect("unshare");
    Killed(child)
}

fn lacks(process: &Process, words: &str) -> bool {
    process.log_lacks.iter().any(|lack| lack.contains(words))
}

#[tokio::test]
async fn a_log_on_a_file_server_that_is_gone_holds_up_nobody_else() {
    if !can_mount() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let gone = host.root.path().join("gone");
    std::fs::create_dir(&gone).expect("folder");
    // One user's logs lie there; his segments do not.
    let hung: Vec<SegmentWriter> = (0..LOGS)
        .map(|n| {
            let log = gone.join(format!("nccl-{n}.log"));
            let segment = SegmentWriter::create(host.dir(), 70_000 + n, &log.display().to_string());
            segment.communicator(0, 1, 0xa0, 5);
            chown(&segment.path, Some(HOSTILE), Some(HOSTILE)).expect("chown");
            segment
        })
        .collect();
    let log = host.root.path().join("nccl.42");
    std::fs::write(&log, init_lines(2, 5)).expect("write");
    let other = SegmentWriter::create(host.dir(), 42, &log.display().to_string());
    other.communicator(0, 1, 0xa0, 5);
    let mut agent = agent(&host, &gone);

    let key = |pid: u32| format!("{MACHINE}/{pid}/77");
    let is_told = |one: &Process| one.communicators.iter().any(|one| one.final_channels == Some(4));
    daemon.until(|all| all.get(&key(42)).is_some_and(is_told)).await;
    let silent = |all: &std::collections::BTreeMap<String, Process>| {
        all.values().filter(|one| lacks(one, "its file system does not answer")).count()
    };
    let refused = format!("the file systems of {WAITED_FOR} other logs of user {HOSTILE} do not answer");
    let refused = |all: &std::collections::BTreeMap<String, Process>| {
        all.values().filter(|one| lacks(one, &refused)).count()
    };
    daemon.until(|all| silent(all) == WAITED_FOR && refused(all) == LOGS as usize - WAITED_FOR).await;

    // All of them are watched meanwhile, those with the lost logs too.
    let mut slowest = Duration::ZERO;
    for n in 1..=30 {
        let started = monotonic();
        other.calls(0, Primitive::AllReduce, n, n);
        hung.iter().for_each(|one| one.calls(0, Primitive::AllReduce, n, n));
        let counts = |one: &Process| one.counters.iter().any(|one| one.completed_calls == n);
        daemon.until(|all| all.values().filter(|one| counts(one)).count() == LOGS as usize + 1).await;
        slowest = slowest.max(monotonic().duration_since(started));
    }
    println!("{LOGS} logs on a lost file server: the slowest of 30 readings was told within {slowest:?}");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");

    // What was added to the other's log is read, and the agent ends when it is told to.
    crate::append(&log, &init_lines(3, 6).replace("0xa0", "0xb0"));
    other.communicator(1, 1, 0xb0, 6);
    daemon.until(|all| all[&key(42)].communicators.iter().any(|one| one.final_channels == Some(6))).await;
    kill_process(Pid::from_child(&agent.0), Signal::TERM).expect("signal");
    let started = monotonic();
    while agent.0.try_wait().expect("wait").is_none() {
        assert!(monotonic().duration_since(started) < Duration::from_secs(120), "it does not end");
        // Its last word, or nothing more.
        let _ = tokio::time::timeout(Duration::from_millis(100), daemon.next()).await;
    }
}
