//! Processes without a segment: what their private logs and the side files of their runs say.

use std::process::{Command, Stdio};
use std::time::Duration;

use ringscope_wire::batch::{CommunicatorState, Process, ProcessState};

use crate::daemon::{Answer, FakeDaemon, key};
use crate::segment::{SegmentWriter, fixed};
use crate::{Host, append};

/// Lines of one communicator with its rings.
pub fn lines(host: &str, pid: u32) -> String {
    let comm = "comm 0xa0 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x77";
    let messages = [
        "NCCL version 2.21.5+cuda12.4".to_owned(),
        format!("ncclCommInitRank {comm} - Init START"),
        "Pattern 4, crossNic 0, nChannels 1, bw 1.0/1.0, type LOC/PIX, sameChannels 1".to_owned(),
        "Pattern 1, crossNic 0, nChannels 1, bw 1.0/1.0, type LOC/PIX, sameChannels 1".to_owned(),
        "Ring 00 : 0 -> 1 -> 0".to_owned(),
        "2 coll channels, 0 collnet channels, 0 nvls channels, 1 p2p channels".to_owned(),
        format!("ncclCommInitRank {comm} - Init COMPLETE"),
    ];
    messages.iter().map(|message| format!("{host}:{pid}:{pid} [0] NCCL INFO {message}\n")).collect()
}

fn host(daemon: &FakeDaemon) -> Host {
    let mut host = Host::new(&daemon.url);
    host.config.log_grace = Duration::ZERO;
    host
}

fn only(daemon: &FakeDaemon) -> &Process {
    assert_eq!(daemon.processes.len(), 1, "{:?}", daemon.processes.keys());
    daemon.processes.values().next().expect("one")
}

#[tokio::test]
async fn a_process_without_a_segment_is_told_from_its_log() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = host(&daemon);
    let log = host.dir().join("nccl-run7-pod-a-42.log");
    let side =
        r#"{"job":"llama","command":["/usr/bin/python3","train.py"],"started_at":"2026-01-31T12:00:00Z"}"#;
    std::fs::write(host.dir().join("run-run7.json"), side).expect("write");
    append(&log, &lines("pod-a", 42));
    let agent = host.agent();
    daemon.until(|processes| !processes.is_empty()).await;
    let process = only(&daemon);
    let identity = process.identity.as_ref().expect("identity");
    assert_eq!((identity.job.as_str(), identity.host.as_str(), identity.pid), ("llama", "pod-a", 42));
    assert_eq!((identity.executable.as_str(), identity.library_version), ("python3", 22_105));
    assert_eq!(identity.start_time_ns, 1_769_860_800_000_000_000);
    assert!(!process.has_segment && process.log_lacks.is_empty(), "{:?}", process.log_lacks);
    let communicator = &process.communicators[0];
    assert_eq!((communicator.comm_hash, communicator.rank, communicator.n_ranks), (0x77, 1, 2));
    assert_eq!((communicator.final_channels, communicator.rings.len()), (Some(2), 1));
    assert_eq!(communicator.state(), CommunicatorState::Active);
    let sources = communicator.sources.expect("sources");
    assert!(sources.log && !sources.calls && !sources.plugin);

    // On another host its id says nothing: the log does.
    append(
        &log,
        "pod-a:42:42 [0] NCCL INFO comm 0xa0 rank 1 nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE\n",
    );
    daemon.until(|processes| processes.values().all(|process| process.ended_at_ns.is_some())).await;
    let process = only(&daemon);
    assert_eq!(process.state(), ProcessState::Exited);
    assert_eq!(process.communicators[0].state(), CommunicatorState::Destroyed);
    agent.stop().await;
    assert!(log.exists(), "kept for a while");
}

#[tokio::test]
async fn on_its_own_host_a_process_ends_with_its_id() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let mut host = host(&daemon);
    host.config.keep_dead = Duration::ZERO;
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
    // As `ringscope run` has it: in the folder of its user.
    std::fs::create_dir(host.dir().join("logs-7")).expect("mkdir");
    let log = host.dir().join(format!("logs-7/nccl-run7-machine1-{}.log", child.id()));
    // Another process of its run has a segment, and so a job.
    let mut other = fixed(7, "");
    other.run_id[..4].copy_from_slice(b"run7");
    other.job[..5].copy_from_slice(b"train");
    let _other = SegmentWriter::create_from(host.dir(), &other);
    append(&log, &lines("machine1", child.id()));
    let agent = host.agent();
    let without = |process: &&Process| !process.has_segment;
    daemon.until(|processes| processes.values().filter(without).count() == 1).await;
    let found = daemon.processes.values().find(without).expect("one").clone();
    assert_eq!(found.identity.as_ref().map(|identity| identity.job.as_str()), Some("train"));
    assert_eq!((found.state(), found.ended_at_ns), (ProcessState::Running, None));

    child.kill().expect("kill");
    child.wait().expect("wait");
    daemon.until(|processes| processes[&found.key].ended_at_ns.is_some()).await;
    // The next batch is read after the end was acknowledged.
    for pid in [8, 9] {
        let _witness = SegmentWriter::create(host.dir(), pid, "");
        daemon.until(|processes| processes.contains_key(&key(pid))).await;
    }
    agent.stop().await;
    assert!(!log.exists(), "the daemon has it");
}

#[tokio::test]
async fn a_process_with_a_segment_is_not_counted_twice() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = host(&daemon);
    std::fs::create_dir(host.dir().join("logs-7")).expect("mkdir");
    append(&host.dir().join("logs-7/nccl-run7-node1-42.log"), &lines("node1", 42));
    let mut own = fixed(42, &format!("{}/logs-7/nccl-run7-%h-%p.log", host.dir().display()));
    own.run_id[..4].copy_from_slice(b"run7");
    let segment = SegmentWriter::create_from(host.dir(), &own);
    segment.communicator(0, 1, 0xa0, 0x77);
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;
    let _witness = SegmentWriter::create(host.dir(), 8, "");
    daemon.until(|processes| processes.contains_key(&key(8))).await;
    agent.stop().await;
    assert_eq!(daemon.processes.len(), 2, "{:?}", daemon.processes.keys());
}

#[tokio::test]
async fn a_log_that_names_no_communicator_is_no_process() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = host(&daemon);
    append(&host.dir().join("nccl-run7-node1-42.log"), "node1:42:42 [0] NCCL INFO NCCL version 2.21.5\n");
    append(&host.dir().join("nccl-run7-node1-43.log"), "\u{0}\u{1}no log at all");
    append(&host.dir().join("run-run7.json"), "{");
    let agent = host.agent();
    for pid in [8, 9] {
        let _witness = SegmentWriter::create(host.dir(), pid, "");
        daemon.until(|processes| processes.contains_key(&key(pid))).await;
    }
    agent.stop().await;
    assert_eq!(daemon.processes.len(), 2, "{:?}", daemon.processes.keys());
}

#[tokio::test]
async fn what_a_log_lacks_is_said() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = host(&daemon);
    let segment = SegmentWriter::create(host.dir(), 42, &format!("{}/nccl.%p", host.dir().display()));
    segment.communicator(0, 1, 0xa0, 0x77);
    let agent = host.agent();
    let says = |part: &'static str| {
        move |all: &std::collections::BTreeMap<String, Process>| {
            all.get(&key(42)).is_some_and(|one| one.log_lacks.iter().any(|lack| lack.contains(part)))
        }
    };
    daemon.until(says("no log at ")).await;
    append(&host.dir().join("nccl.42"), "node1:42:42 [0] NCCL INFO NET/Socket : Using [0]eth0\n");
    daemon.until(says("no INIT lines")).await;
    agent.stop().await;
}
