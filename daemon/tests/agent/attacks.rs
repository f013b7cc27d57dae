//! What a user can do who means ill to others of the machine: he does it as himself, and the agent is root's.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringscope_api::clock::monotonic;
use ringscope_wire::batch::{Batch, Process, ProcessState};

use crate::daemon::{Answer, FakeDaemon};
use crate::segment::SegmentWriter;
use crate::users::{
    FILES, HOSTILE, MACHINE, Other, VICTIM, big_log, can_be_others, content, file_name, secret,
};
use crate::{Host, init_lines};

/// A host whose folder is everybody's, as it is on a real one.
pub fn shared_host(url: &str) -> Host {
    let mut host = Host::new(url);
    host.config.other_hosts = false;
    host.config.keep_dead = Duration::ZERO;
    let memory = host.dir().parent().expect("parent").to_owned();
    std::fs::set_permissions(memory, Permissions::from_mode(0o755)).expect("mode");
    std::fs::set_permissions(host.dir(), Permissions::from_mode(0o1777)).expect("mode");
    host
}

pub fn of_user(daemon: &FakeDaemon, user: u32) -> impl Iterator<Item = &Process> {
    let is_its =
        move |process: &&Process| process.identity.as_ref().is_some_and(|one| one.user == Some(user));
    daemon.processes.values().filter(is_its)
}

/// A witness that comes shows that the agent has read again.
async fn read_again(daemon: &mut FakeDaemon, host: &Host, pid: u32) {
    let witness = SegmentWriter::create(host.dir(), pid, "");
    daemon.until(|processes| processes.contains_key(&format!("{MACHINE}/{pid}/77"))).await;
    witness.communicator(0, 1, 0xa0, 1);
    daemon.until(|processes| !processes[&format!("{MACHINE}/{pid}/77")].communicators.is_empty()).await;
}

#[tokio::test]
async fn a_log_that_a_user_may_not_read_is_not_read_for_him() {
    if !can_be_others() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let outside = tempfile::tempdir().expect("folder");
    let (log, none) = (outside.path().join("root.log"), outside.path().join("none.log"));
    secret(&log, &init_lines(2, 5).replace(":42:", ":70001:"));
    let agent = host.agent();
    let mut lacks = Vec::new();
    for (pid, path) in [(70_001, &log), (70_002, &none)] {
        let argument = format!("{pid} {}", path.display());
        let mut hostile = Other::start(HOSTILE, "names", host.dir(), &argument);
        hostile.says("named");
        let key = format!("{MACHINE}/{pid}/77");
        let is_told = |one: &Process| !one.log_lacks.is_empty() && !one.communicators.is_empty();
        daemon.until(|processes| processes.get(&key).is_some_and(is_told)).await;
        let process = &daemon.processes[&key];
        assert_eq!(process.communicators[0].final_channels, None);
        assert!(process.communicators[0].evidence.is_empty());
        lacks.push(process.log_lacks[0].replace(&path.display().to_string(), "PATH"));
    }
    assert_eq!(lacks[0], lacks[1], "he does not even learn that there is a file");
    agent.stop().await;
}

#[tokio::test]
async fn what_is_another_users_is_not_removed_for_naming_it() {
    if !can_be_others() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let mut victim = Other::start(VICTIM, "victim", host.dir(), "");
    let segment = victim.says("segment");
    let (segment, logs) = (Path::new(&segment), host.dir().join(format!("logs-{VICTIM}")));
    let log = std::fs::read_dir(logs).expect("list").next().expect("a log").expect("entry").path();
    let agent = host.agent();
    daemon.until(|processes| processes.values().any(|one| !one.communicators.is_empty())).await;
    for (pid, target) in [(91_001, segment), (91_002, log.as_path())] {
        let argument = format!("{} {}", pid + 100, target.display());
        let mut hostile = Other::start(HOSTILE, "names", host.dir(), &argument);
        hostile.says("named");
        read_again(&mut daemon, &host, pid).await;
        hostile.tell("end");
        hostile.says("ended");
        let key = format!("{MACHINE}/{}/77", pid + 100);
        daemon.until(|processes| processes.get(&key).is_some_and(|one| one.ended_at_ns.is_some())).await;
        read_again(&mut daemon, &host, pid + 10).await;
        hostile.tell("remove");
        hostile.says("removed");
        read_again(&mut daemon, &host, pid + 20).await;
        assert!(segment.exists() && log.exists(), "{} was removed", target.display());
    }
    let told = of_user(&daemon, VICTIM).next().expect("told");
    assert_eq!((told.state(), told.ended_at_ns), (ProcessState::Running, None));
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_swap_of_folders_leads_a_removal_to_another_users_files() {
    if !can_be_others() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let precious = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(precious.path(), Permissions::from_mode(0o755)).expect("mode");
    for n in 0..FILES {
        std::fs::write(precious.path().join(file_name(n)), "root's\n").expect("write");
    }
    let agent = host.agent();
    let mut hostile = Other::start(HOSTILE, "swaps", host.dir(), &precious.path().display().to_string());
    hostile.says("left");
    // It swaps while the agent reads and removes.
    let ended = |processes: &std::collections::BTreeMap<String, Process>| {
        processes.values().filter(|one| one.ended_at_ns.is_some()).count() >= FILES as usize
    };
    daemon.until(ended).await;
    hostile.says("swapped");
    read_again(&mut daemon, &host, 92_001).await;
    agent.stop().await;
    let left = std::fs::read_dir(precious.path()).expect("list").count();
    assert_eq!(left, FILES as usize, "files of root's are gone from a folder of root's");
}

#[tokio::test]
async fn a_pipe_that_is_named_as_a_log_is_never_opened() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let names = ["pipe.log", "pipe.seg", "nccl-a-b-1.log", "run-a.json", ".refused-full-1-1"];
    for name in names {
        let path = host.dir().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("pipe");
    }
    let _named = SegmentWriter::create(host.dir(), 1, &format!("{}/pipe.log", host.dir().display()));
    let _device = SegmentWriter::create(host.dir(), 2, "/dev/ptmx");
    // A pipe can be opened to be written, without waiting, only while somebody has it open to read.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let paths = names.map(|name| host.dir().join(name));
    let watcher = std::thread::spawn(move || {
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let mut opened = Vec::new();
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let is_open = |path: &&std::path::PathBuf| {
                rustix::fs::open(path.as_path(), flags, rustix::fs::Mode::empty()).is_ok()
            };
            opened.extend(paths.iter().filter(is_open).cloned());
        }
        opened
    });
    let agent = host.agent();
    for pid in 10..30 {
        let witness = SegmentWriter::create(host.dir(), pid, "");
        daemon.until(|processes| processes.contains_key(&crate::daemon::key(pid))).await;
        drop(witness);
    }
    drop(stop);
    assert_eq!(watcher.join().expect("no panic"), Vec::<std::path::PathBuf>::new());
    agent.stop().await;
}

fn dropped(batch: &Batch, reason: &str) -> u64 {
    batch.dropped.iter().find(|dropped| dropped.reason == reason).map_or(0, |dropped| dropped.events)
}

#[tokio::test]
async fn what_a_user_claims_to_be_is_said_of_him_alone() {
    if !can_be_others() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = shared_host(&daemon.url);
    let mut victim = Other::start(VICTIM, "victim", host.dir(), "");
    victim.says("segment");
    let mut hostile = Other::start(HOSTILE, "claims", host.dir(), &victim.pid().to_string());
    hostile.says("claimed");
    // He comes first, and the victim's job is told all the same.
    let agent = host.agent();
    let elsewhere = format!("{MACHINE}/70002/77");
    let batch = daemon.until_batch(Answer::Take, |batch| dropped(batch, "claim_refused") == 1).await;
    let expected =
        format!("is user {HOSTILE}'s and names process {}, which is user {VICTIM}'s", victim.pid());
    assert!(batch.not_watched.contains(&expected), "{}", batch.not_watched);
    daemon.until(|processes| processes.contains_key(&elsewhere) && processes.len() == 2).await;
    let batch = daemon.until_batch(Answer::Take, |batch| dropped(batch, "host_refused") == 1).await;
    assert_eq!(batch.agent_host, MACHINE);
    let told: Vec<_> = daemon.processes.values().filter_map(|one| one.identity.as_ref()).collect();
    assert!(told.iter().all(|identity| identity.host == MACHINE), "{told:?}");
    let users: Vec<_> = told.iter().map(|identity| (identity.pid, identity.user)).collect();
    assert!(
        users.contains(&(victim.pid(), Some(VICTIM))) && users.contains(&(70_002, Some(HOSTILE))),
        "{users:?}"
    );
    agent.stop().await;
}

/// Of a process, in MiB: what it has in memory.
fn resident_mib(pid: u32) -> u64 {
    let status = content(Path::new(&format!("/proc/{pid}/status")));
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("number") / 1024
}

#[tokio::test]
async fn twelve_long_logs_take_little_memory() {
    const LOGS: u32 = 12;
    const LOG_BYTES: usize = 21 << 20;
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let mut agent = Command::new(env!("CARGO_BIN_EXE_ringscope"))
        .args([
            "agent",
            "--daemon",
            &daemon.url,
            "--hardware-interval",
            "0s",
            "--no-kernel-log",
            "--interval",
            "20ms",
        ])
        .arg("--dir")
        .arg(host.dir())
        .arg("--state-dir")
        .arg(&host.config.state_dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("agent");
    daemon.until_batch(Answer::Take, |_| true).await;
    let before = resident_mib(agent.id());
    let text = big_log(900_000, LOG_BYTES);
    let last = 0x1000 + text.matches("Init COMPLETE").count() as u64 - 1;
    for n in 0..LOGS {
        let name = format!("nccl-mem{n}-otherhost-{}.log", 900_000 + n);
        let own = text.replace(":900000:", &format!(":{}:", 900_000 + n));
        std::fs::write(host.dir().join(name), own).expect("write");
    }
    // All of them are read to their ends: the last communicator of each is told.
    let (started, mut done) = (monotonic(), BTreeSet::new());
    while done.len() < LOGS as usize {
        assert!(monotonic().duration_since(started) < Duration::from_secs(600), "{} are read", done.len());
        let (_, batch) = daemon.next().await;
        let is_last = |process: &&Process| process.communicators.iter().any(|one| one.comm_hash == last);
        done.extend(batch.processes.iter().filter(is_last).map(|process| process.key.clone()));
        daemon.batches.clear();
        daemon.processes.clear();
    }
    let after = resident_mib(agent.id());
    agent.kill().expect("kill");
    agent.wait().expect("wait");
    println!("{before} MiB before, {after} MiB at most with {LOGS} logs of {} MiB", LOG_BYTES >> 20);
    assert!(after - before < 64, "{before} MiB before, {after} after");
}
