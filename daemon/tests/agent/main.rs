//! The agent against segments and logs on disk and a daemon that answers as it is told.

#![expect(
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: its helpers fail it as its cases do"
)]
#![expect(clippy::print_stdout, reason = "children of a test tell it what they did by what they print")]

mod attacks;
mod calls;
mod connections;
mod daemon;
mod hardware;
mod hostile;
mod levels;
mod log_only;
mod look;
mod reasons;
mod releases;
mod rights;
mod sandbox;
mod segment;
mod server_gone;
mod steady;
mod summation;
#[path = "../common/sysfs.rs"]
mod sysfs;
mod two_users;
mod users;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use daemon::{Answer, FakeDaemon, key};
use ringscope_agent::{AgentConfig, AgentError, run};
use ringscope_wire::Primitive;
use ringscope_wire::batch::{Communicator, CommunicatorState, OperationState, ProcessState};
use ringscope_wire::segment::layout::{
    COMMUNICATOR_DESTROYED, COMMUNICATOR_FAILED, COMMUNICATOR_FORMING, Live, OPERATION_COMPLETED,
    OPERATION_ISSUED, OPERATION_QUEUED,
};
use segment::{ANCHOR_WALL_NS, SegmentWriter, fixed};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const SLOT_0: u64 = 1 << 16;

/// A host: its folder of segments and its agent's state.
struct Host {
    root: TempDir,
    /// In memory: collectors leave segments nowhere else.
    _memory: TempDir,
    config: AgentConfig,
}

impl Host {
    fn new(url: &str) -> Self {
        let root = tempfile::tempdir().expect("folder");
        let memory = tempfile::tempdir_in("/dev/shm").expect("folder");
        let mut config = AgentConfig::new(url, root.path().join("state"));
        config.dir = memory.path().join("segments");
        config.interval = Duration::from_millis(5);
        config.host = "machine1".to_owned();
        // Segments of these tests count themselves to node1.
        config.other_hosts = true;
        config.hardware_interval = Duration::ZERO;
        config.kernel_log = None;
        config.look = Some(env!("CARGO_BIN_EXE_ringscope").into());
        std::fs::create_dir(&config.dir).expect("folder");
        Self { root, _memory: memory, config }
    }

    fn dir(&self) -> &Path {
        &self.config.dir
    }

    fn backlogs(&self) -> usize {
        std::fs::read_dir(&self.config.state_dir).map_or(0, Iterator::count)
    }

    fn agent(&self) -> Agent {
        let (config, token, mut tasks) = (self.config.clone(), CancellationToken::new(), JoinSet::new());
        tasks.spawn(run(config, token.clone()));
        Agent { token, tasks }
    }
}

struct Agent {
    token: CancellationToken,
    tasks: JoinSet<Result<(), AgentError>>,
}

impl Agent {
    async fn stop(mut self) {
        self.token.cancel();
        self.tasks.join_next().await.expect("one task").expect("no panic").expect("no error");
    }

    /// As SIGKILL would: nothing more is read, written or sent.
    async fn kill(mut self) {
        self.tasks.shutdown().await;
    }
}

fn issued(daemon: &FakeDaemon, pid: u32) -> u64 {
    daemon.processes.get(&key(pid)).map_or(0, |process| process.counters.iter().map(|c| c.issued_calls).sum())
}

#[tokio::test]
async fn identity_counters_links_and_operations_arrive() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let mut segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 0xfeed);
    segment.calls(0, Primitive::AllReduce, 2, 3);
    segment.link(0, 1, 0, 1, 900);
    segment.link(1, 9, 0, 1, 5);
    segment.drop_event(1, 6);
    segment.record(0, OPERATION_COMPLETED);
    let hanging = segment.record(1, OPERATION_ISSUED);
    segment.record(2, OPERATION_QUEUED);
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;

    let process = daemon.process(42);
    let identity = process.identity.as_ref().expect("identity");
    assert_eq!((identity.host.as_str(), identity.job.as_str()), ("node1", "pid-42@node1"));
    assert_eq!((identity.global_rank, identity.world_size), (Some(3), None));
    let communicator = daemon.communicator(42, SLOT_0);
    assert_eq!((communicator.comm_hash, communicator.n_ranks, communicator.gpu.as_str()), (0xfeed, 2, "4"));
    assert_eq!(communicator.state(), CommunicatorState::Active);
    assert_eq!(communicator.created_at_ns, ANCHOR_WALL_NS + 1000);
    let counters = process.counters[0];
    assert_eq!((counters.issued_calls, counters.completed_calls, counters.busy_ns), (3, 3, 30), "clamped");
    assert_eq!(
        (process.links.len(), process.links[0].sent_bytes),
        (1, 900),
        "the other link has no communicator"
    );
    assert_eq!((process.dropped[0].reason.as_str(), process.dropped[0].events), ("link_table_full", 6));
    let states: Vec<_> = process.in_flight.iter().map(|o| (o.seq_number, o.state())).collect();
    assert_eq!(states, [(1, OperationState::Issued), (2, OperationState::Queued)]);
    assert_eq!(process.last_completed[0].completed_at_ns, Some(ANCHOR_WALL_NS + 50));

    segment.record_at(hanging, 1, OPERATION_COMPLETED);
    daemon.until(|processes| processes[&key(42)].in_flight.len() == 1).await;
    assert_eq!(daemon.process(42).last_completed[0].seq_number, 1);
    segment.calls(0, Primitive::AllReduce, 9, 9);
    daemon.until(|processes| processes[&key(42)].counters[0].completed_calls == 9).await;
    let (_, last) = daemon.batches.last().expect("a batch");
    assert!(
        last.processes[0].identity.is_none() && last.processes[0].communicators.is_empty(),
        "only the change"
    );
    assert!(daemon.batches.iter().all(|(_, batch)| !batch.ending));
    agent.stop().await;
    assert_eq!(host.backlogs(), 0);
    let goodbye = daemon.until_batch(Answer::Take, |batch| batch.ending).await;
    let highest = daemon.batches.iter().map(|(_, batch)| batch.seq_number).max();
    assert_eq!(Some(goodbye.seq_number), highest, "its last word");
}

#[tokio::test]
async fn an_agent_that_cannot_say_goodbye_ends_in_time_and_leaves_it() {
    let mut daemon = FakeDaemon::start(Answer::Away).await;
    let host = Host::new(&daemon.url);
    let agent = host.agent();
    daemon.until_batch(Answer::Away, |_| true).await;
    // Two seconds for the daemon, and what a busy machine needs.
    tokio::time::timeout(Duration::from_secs(10), agent.stop()).await.expect("it does not hang");
    assert_eq!(host.backlogs(), 1);
    daemon.answer(Answer::Take);
    let next = host.agent();
    let goodbye = daemon.until_batch(Answer::Take, |batch| batch.ending).await;
    let hello = daemon.until_batch(Answer::Take, |batch| batch.agent_id != goodbye.agent_id).await;
    assert!(!hello.ending, "the next one comes after it");
    next.stop().await;
}

#[tokio::test]
async fn a_daemon_that_knows_nothing_gets_everything() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;
    daemon.answer(Answer::ResendAll);
    segment.calls(0, Primitive::AllReduce, 1, 0);
    daemon.until_batch(Answer::ResendAll, |batch| !batch.processes.is_empty()).await;
    daemon.answer(Answer::Take);
    let batch = daemon.until_batch(Answer::Take, |batch| !batch.processes.is_empty()).await;
    assert!(batch.processes[0].identity.is_some() && batch.processes[0].communicators.len() == 1);
    agent.stop().await;
}

#[tokio::test]
async fn of_several_daemons_the_one_that_answers_is_used() {
    let (mut one, mut two) = (FakeDaemon::start(Answer::Take).await, FakeDaemon::start(Answer::Away).await);
    let mut host = Host::new(&two.url);
    host.config.daemon_urls.push(one.url.clone());
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 5);
    segment.calls(0, Primitive::AllReduce, 1, 1);
    let agent = host.agent();
    two.until_batch(Answer::Away, |batch| !batch.processes.is_empty()).await;
    one.until(|processes| processes.contains_key(&key(42))).await;
    // It stays with it, and goes to the other one when this one hands nothing on any more.
    two.answer(Answer::Take);
    segment.calls(0, Primitive::AllReduce, 5, 5);
    one.until(|processes| processes[&key(42)].counters.iter().any(|counters| counters.issued_calls == 5))
        .await;
    one.answer(Answer::Away);
    segment.calls(0, Primitive::AllReduce, 9, 9);
    two.until(|processes| {
        processes
            .get(&key(42))
            .is_some_and(|known| known.counters.iter().any(|counters| counters.issued_calls == 9))
    })
    .await;
    agent.stop().await;
}

#[tokio::test]
async fn nothing_is_lost_while_the_daemon_is_away() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;
    daemon.answer(Answer::Away);
    for calls in 1..=3 {
        segment.calls(0, Primitive::AllReduce, calls, calls);
        daemon.until_batch(Answer::Away, |_| true).await;
    }
    segment.calls(0, Primitive::AllReduce, 4, 4);
    daemon.answer(Answer::Take);
    daemon.until(|processes| processes[&key(42)].counters.iter().any(|c| c.completed_calls == 4)).await;
    agent.stop().await;
    let taken: Vec<u64> =
        daemon.batches.iter().filter(|b| b.0 == Answer::Take).map(|b| b.1.seq_number).collect();
    let expected: Vec<u64> = (1..=taken.len() as u64).collect();
    assert_eq!(taken, expected, "each once, in order");
    assert_eq!(host.backlogs(), 0);
}

#[tokio::test]
async fn what_an_agent_leaves_the_next_one_sends_first() {
    let mut daemon = FakeDaemon::start(Answer::Away).await;
    let host = Host::new(&daemon.url);
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    segment.calls(0, Primitive::AllReduce, 5, 5);
    let agent = host.agent();
    let left = daemon.until_batch(Answer::Away, |batch| !batch.processes.is_empty()).await;
    agent.stop().await;
    assert_eq!(host.backlogs(), 1);

    segment.calls(0, Primitive::AllReduce, 6, 6);
    daemon.answer(Answer::Take);
    let agent = host.agent();
    daemon.until(|processes| processes.get(&key(42)).is_some_and(|p| p.counters[0].issued_calls == 6)).await;
    agent.stop().await;
    let taken: Vec<_> = daemon.batches.iter().filter(|b| b.0 == Answer::Take).map(|b| &b.1).collect();
    let mut first = taken[0].clone();
    assert!(first.posted_at_ns > left.posted_at_ns, "each attempt says when it was made");
    first.posted_at_ns = left.posted_at_ns;
    assert_eq!(first, left, "unchanged");
    let agents: Vec<&str> = taken.iter().map(|batch| batch.agent_id.as_str()).collect();
    let first_new = agents.iter().position(|id| *id != left.agent_id).expect("a new agent");
    assert!(agents[first_new..].iter().all(|id| *id == agents[first_new]));
    assert_eq!(taken[first_new].seq_number, 1);
    assert_eq!(host.backlogs(), 0);
}

#[tokio::test]
async fn a_refused_batch_is_counted_and_the_next_is_sent() {
    let mut daemon = FakeDaemon::start(Answer::Refuse).await;
    let host = Host::new(&daemon.url);
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    let agent = host.agent();
    daemon.until_batch(Answer::Refuse, |_| true).await;
    daemon.answer(Answer::Take);
    segment.calls(0, Primitive::AllReduce, 1, 1);
    let batch = daemon
        .until_batch(Answer::Take, |batch| batch.dropped.iter().any(|d| d.reason == "batch_refused"))
        .await;
    assert!(batch.seq_number > 1);
    agent.stop().await;
}

#[tokio::test]
async fn a_batch_that_a_proxy_refuses_is_kept() {
    let mut daemon = FakeDaemon::start(Answer::Proxy).await;
    let host = Host::new(&daemon.url);
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    let agent = host.agent();
    let refused = daemon.until_batch(Answer::Proxy, |batch| !batch.processes.is_empty()).await;
    daemon.answer(Answer::Take);
    let taken = daemon.until_batch(Answer::Take, |_| true).await;
    assert_eq!((taken.seq_number, &taken.processes), (refused.seq_number, &refused.processes));
    assert!(taken.dropped.is_empty(), "{:?}", taken.dropped);
    agent.stop().await;
}

#[tokio::test]
async fn a_full_backlog_drops_the_oldest_counts_them_and_then_says_everything() {
    let mut daemon = FakeDaemon::start(Answer::Away).await;
    let mut host = Host::new(&daemon.url);
    host.config.backlog_bytes = 400;
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    let agent = host.agent();
    let mut calls = 0;
    // Each batch that is away means that the agent has read meanwhile.
    for _ in 0..6 {
        calls += 1;
        segment.calls(0, Primitive::AllReduce, calls, calls);
        daemon.next().await;
    }
    daemon.answer(Answer::Take);
    let full =
        daemon.until_batch(Answer::Take, |b| b.dropped.iter().any(|d| d.reason == "backlog_full")).await;
    assert!(full.seq_number > 1);
    daemon
        .until(|processes| {
            processes
                .get(&key(42))
                .is_some_and(|p| p.identity.is_some() && p.counters.iter().any(|c| c.issued_calls == 6))
        })
        .await;
    agent.stop().await;
}

#[tokio::test]
async fn an_agent_that_was_killed_is_replaced_without_a_trace() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    segment.calls(0, Primitive::AllReduce, 7, 6);
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;
    agent.kill().await;
    let before = daemon.process(42).clone();
    daemon.processes.clear();
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;
    assert_eq!(daemon.process(42), &before);
    agent.stop().await;
    let agents: BTreeSet<_> = daemon.batches.iter().map(|(_, batch)| batch.agent_id.as_str()).collect();
    assert_eq!(agents.len(), 2);
}

/// The variable by which a test tells its own child, which is this same program, to hold the lock of a file.
const HOLD: &str = "RINGSCOPE_TEST_HOLD";

/// Does nothing when run as a test; as the child of the next one it holds a lock until it is killed.
#[test]
#[expect(clippy::disallowed_methods, reason = "the child is told by the environment")]
fn child_that_holds_a_lock() {
    let Some(path) = std::env::var_os(HOLD) else { return };
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("open");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("lock");
    println!("locked");
    std::io::stdin().read_line(&mut String::new()).expect("stdin");
}

fn spawn_holder(path: &Path) -> Child {
    use std::io::BufRead as _;

    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_that_holds_a_lock", "--nocapture"])
        .env(HOLD, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawn");
    let stdout = std::io::BufReader::new(child.stdout.take().expect("stdout"));
    let is_locked = stdout.lines().map_while(Result::ok).any(|line| line.contains("locked"));
    assert!(is_locked, "the child never had the lock");
    child
}

#[tokio::test]
async fn a_killed_process_is_told_from_one_that_exited() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let (killed, exited) =
        (SegmentWriter::create(host.dir(), 1, ""), SegmentWriter::create(host.dir(), 2, ""));
    killed.communicator(0, 1, 0xa0, 1);
    let path = killed.path.clone();
    drop(killed);
    let mut child = spawn_holder(&path);
    let agent = host.agent();
    daemon.until(|processes| processes.len() == 2).await;
    assert!(daemon.processes.values().all(|p| p.state() == ProcessState::Running && p.ended_at_ns.is_none()));

    child.kill().expect("kill");
    child.wait().expect("wait");
    exited.live(std::mem::offset_of!(Live, exited), 1);
    exited.live(std::mem::offset_of!(Live, exit_status), 1 + 3);
    drop(exited);
    daemon.until(|processes| processes.values().all(|process| process.ended_at_ns.is_some())).await;
    assert_eq!(daemon.process(1).state(), ProcessState::Killed);
    assert_eq!(daemon.process(2).state(), ProcessState::Exited);
    let status = |pid| daemon.process(pid).exit_status;
    assert_eq!((status(1), status(2)), (None, Some(3)));
    assert_eq!(daemon.communicator(1, SLOT_0).state(), CommunicatorState::Active, "as the segment says");
    agent.stop().await;
    assert!(path.exists(), "kept for a while");
}

/// What processes have left in the folder: the agent's own mark is none of it.
fn left(dir: &Path) -> Vec<std::path::PathBuf> {
    let paths = std::fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").path());
    paths
        .filter(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".agent-")))
        .collect()
}

#[tokio::test]
async fn files_of_the_dead_go_once_the_daemon_knows() {
    let mut daemon = FakeDaemon::start(Answer::Away).await;
    let mut host = Host::new(&daemon.url);
    host.config.keep_dead = Duration::ZERO;
    let (inside, outside) = (host.dir().join("nccl.1"), host.root.path().join("nccl.2"));
    std::fs::write(&inside, "x\n").expect("write");
    std::fs::write(&outside, "x\n").expect("write");
    let inside_name = format!("{}/nccl.%p", host.dir().display());
    let outside_name = format!("{}/../nccl.%p", host.dir().display());
    drop(SegmentWriter::create(host.dir(), 1, &inside_name));
    drop(SegmentWriter::create(host.dir(), 2, &outside_name));
    let agent = host.agent();
    daemon.until_batch(Answer::Away, |batch| batch.processes.len() == 2).await;
    assert_eq!(left(host.dir()).len(), 3, "the daemon does not have them yet");
    daemon.answer(Answer::Take);
    daemon.until(|processes| processes.len() == 2).await;
    // Another process shows that the agent has read again.
    let witness = SegmentWriter::create(host.dir(), 3, "");
    daemon.until(|processes| processes.contains_key(&key(3))).await;
    witness.communicator(0, 1, 0xa0, 1);
    daemon.until(|processes| !processes[&key(3)].communicators.is_empty()).await;
    agent.stop().await;
    assert_eq!(left(host.dir()), std::slice::from_ref(&witness.path));
    assert!(outside.exists(), "not the agent's to delete");
}

#[tokio::test]
async fn beyond_their_part_of_the_folder_the_dead_go_the_first_ones_first() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let mut host = Host::new(&daemon.url);
    let first = SegmentWriter::create(host.dir(), 1, "");
    let taken = std::os::unix::fs::MetadataExt::blocks(&first.path.metadata().expect("metadata")) * 512;
    host.config.ended_bytes = taken + taken / 2;
    let agent = host.agent();
    let first_path = first.path.clone();
    drop(first);
    daemon
        .until(|processes| {
            processes.get(&key(1)).is_some_and(|process| process.state() == ProcessState::Killed)
        })
        .await;
    let second = SegmentWriter::create(host.dir(), 2, "");
    let second_path = second.path.clone();
    drop(second);
    daemon
        .until(|processes| {
            processes.get(&key(2)).is_some_and(|process| process.state() == ProcessState::Killed)
        })
        .await;
    // Another process shows that the agent has read again.
    let witness = SegmentWriter::create(host.dir(), 3, "");
    daemon.until(|processes| processes.contains_key(&key(3))).await;
    witness.communicator(0, 1, 0xa0, 1);
    daemon.until(|processes| !processes[&key(3)].communicators.is_empty()).await;
    agent.stop().await;
    assert_eq!((first_path.exists(), second_path.exists(), witness.path.exists()), (false, true, true));
}

#[tokio::test]
async fn bad_segments_are_counted_and_good_ones_go_on() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    std::fs::write(host.dir().join("empty.seg"), "").expect("write");
    std::fs::write(host.dir().join("text.seg"), vec![b'x'; 1 << 21]).expect("write");
    std::fs::write(host.dir().join("not-one.txt"), "x").expect("write");
    std::fs::create_dir(host.dir().join("folder.seg")).expect("folder");
    std::os::unix::fs::symlink("/etc/passwd", host.dir().join("link.seg")).expect("link");
    let mut newer = fixed(7, "");
    newer.version = 99;
    let _newer = SegmentWriter::create_from(host.dir(), &newer);
    let cut = SegmentWriter::create(host.dir(), 8, "");
    std::fs::OpenOptions::new().write(true).open(&cut.path).expect("open").set_len(5000).expect("cut");
    let many = SegmentWriter::create(host.dir(), 9, "");
    many.live(std::mem::offset_of!(Live, n_communicators), u32::MAX);
    let good = SegmentWriter::create(host.dir(), 10, "");
    let later = SegmentWriter::create(host.dir(), 11, "");
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(11))).await;
    std::fs::OpenOptions::new().write(true).open(&later.path).expect("open").set_len(100).expect("cut");
    good.communicator(0, 1, 0xa0, 1);
    good.calls(0, Primitive::Send, 1, 0);
    let unreadable = |batch: &ringscope_wire::batch::Batch| {
        batch
            .dropped
            .iter()
            .find(|dropped| dropped.reason == "segment_unreadable")
            .map(|dropped| dropped.events)
    };
    daemon.until_batch(Answer::Take, |batch| unreadable(batch) >= Some(7)).await;
    daemon.until(|processes| processes[&key(10)].counters.len() == 1).await;
    good.calls(0, Primitive::Send, 2, 0);
    let batch =
        daemon.until_batch(Answer::Take, |b| b.processes.iter().any(|p| !p.counters.is_empty())).await;
    assert_eq!(unreadable(&batch), Some(8), "once per file");
    assert_eq!(issued(&daemon, 10), 2);
    agent.stop().await;
}

fn init_lines(channels: u32, hash: u64) -> String {
    let comm = format!(
        "ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId {hash:#x}"
    );
    let messages = [
        "NCCL_MIN_NCHANNELS set by environment to 1.".to_owned(),
        "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>".to_owned(),
        format!("{comm} - Init START"),
        format!("Pattern 4, crossNic 0, nChannels {channels}, bw 1.0/1.0, type LOC/PIX, sameChannels 1"),
        format!("Pattern 3, crossNic 0, nChannels {channels}, bw 1.0/1.0, type LOC/PIX, sameChannels 1"),
        "Ring 00 : 1 -> 0 -> 1".to_owned(),
        "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA".to_owned(),
        format!("{} coll channels, 0 collnet channels, 0 nvls channels, 1 p2p channels", channels * 2),
        format!("{comm} - Init COMPLETE"),
    ];
    messages.iter().map(|message| format!("node1:42:9 [0] NCCL INFO {message}\n")).collect()
}

fn append(path: &Path, text: &str) {
    use std::io::Write as _;

    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).expect("open");
    file.write_all(text.as_bytes()).expect("write");
}

#[tokio::test]
async fn the_log_is_joined_by_pointer_also_when_it_is_used_again() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let log = host.dir().join("nccl.node1.42");
    let segment = SegmentWriter::create(host.dir(), 42, &format!("{}/nccl.%h.%p", host.dir().display()));
    let (first, rest) =
        init_lines(2, 0).split_at_checked(300).map(|(a, b)| (a.to_owned(), b.to_owned())).expect("long");
    append(&log, &first);
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;
    // The facts come before the communicator, and in two pieces.
    append(&log, &rest);
    segment.communicator(0, 1, 0xa0, 5);
    daemon
        .until(|processes| processes[&key(42)].communicators.iter().any(|c| c.final_channels.is_some()))
        .await;
    let communicator = daemon.communicator(42, SLOT_0);
    assert_eq!((communicator.init_channels, communicator.final_channels), (Some(2), Some(4)));
    assert_eq!(communicator.gpu, "0000:1b:00.0");
    assert_eq!(communicator.channel_settings["NCCL_MIN_NCHANNELS"], 1);
    assert_eq!(communicator.sources.map(|sources| (sources.calls, sources.log)), Some((false, true)));
    assert!(daemon.process(42).log_lacks.is_empty());
    let ring = &communicator.rings[0];
    assert_eq!(
        (ring.prev, ring.next, ring.transport.as_str(), ring.nic.as_str()),
        (1, 1, "NET/IB", "mlx5_0")
    );

    // It ends; once the daemon has that, the collector may use its slot again.
    segment.calls(0, Primitive::AllReduce, 8, 8);
    segment.communicator_state(0, COMMUNICATOR_DESTROYED);
    daemon
        .until(|processes| processes[&key(42)].communicators[0].state() == CommunicatorState::Destroyed)
        .await;
    let witness = SegmentWriter::create(host.dir(), 43, "");
    daemon.until(|processes| processes.contains_key(&key(43))).await;
    witness.communicator(0, 1, 0xa0, 1);
    daemon.until(|processes| !processes[&key(43)].communicators.is_empty()).await;
    assert_eq!(segment.read_generation(0), 1);

    // One whose init does not block fails, so the log never ends it.
    segment.communicator(0, 2, 0xa0, 7);
    for (state, told) in
        [(COMMUNICATOR_FORMING, CommunicatorState::Forming), (COMMUNICATOR_FAILED, CommunicatorState::Failed)]
    {
        segment.communicator_state(0, state);
        let is_told = |c: &Communicator| c.comm_hash == 7 && c.state() == told;
        daemon.until(|processes| processes[&key(42)].communicators.iter().any(is_told)).await;
    }

    // The communicator comes before its facts, in the same slot and with the same pointer. The program does not ask whether
    // its init is over, but the log says so.
    segment.communicator(0, 3, 0xa0, 6);
    segment.communicator_state(0, COMMUNICATOR_FORMING);
    let is_forming = |c: &Communicator| c.comm_hash == 6 && c.state() == CommunicatorState::Forming;
    daemon.until(|processes| processes[&key(42)].communicators.iter().any(is_forming)).await;
    append(&log, &init_lines(3, 0));
    let second = 3 << 16;
    daemon
        .until(|p| {
            p[&key(42)].communicators.iter().any(|c| c.local_id == second && c.final_channels.is_some())
        })
        .await;
    assert_eq!(daemon.communicator(42, second).state(), CommunicatorState::Active);
    assert_eq!(daemon.communicator(42, second).final_channels, Some(6));
    assert_eq!(daemon.communicator(42, SLOT_0).final_channels, Some(4));
    assert_eq!(daemon.communicator(42, SLOT_0).comm_hash, 5);
    agent.stop().await;
}

#[tokio::test]
async fn facts_of_another_communicator_are_not_joined() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let log = host.dir().join("nccl.42");
    let segment = SegmentWriter::create(host.dir(), 42, &format!("{}/nccl.%p", host.dir().display()));
    segment.communicator(0, 1, 0xa0, 5);
    append(&log, &init_lines(1, 77));
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;
    append(&log, &init_lines(2, 5));
    daemon.until(|processes| processes[&key(42)].communicators[0].final_channels.is_some()).await;
    assert_eq!(daemon.communicator(42, SLOT_0).final_channels, Some(4), "the one with its hash");
    agent.stop().await;
}

async fn error(change: impl FnOnce(&mut AgentConfig)) -> String {
    let mut host = Host::new("http://127.0.0.1:1");
    change(&mut host.config);
    run(host.config.clone(), CancellationToken::new()).await.expect_err("it cannot work").to_string()
}

#[tokio::test]
async fn what_cannot_work_is_said_with_what_to_do() {
    let url = error(|config| config.daemon_urls = vec!["daemon:9440".into()]).await;
    assert!(url.contains("daemon:9440") && url.contains("http://"), "{url}");
    let scheme = error(|config| config.daemon_urls = vec!["ftp://daemon".into()]).await;
    assert!(scheme.contains("\"ftp\"") && scheme.contains("https://"), "{scheme}");
    let tls = |config: &mut AgentConfig| {
        config.daemon_urls = vec!["https://daemon".into()];
        config.trust.ca = Some("/none/ca.pem".into());
    };
    let tls = error(tls).await;
    assert!(tls.contains("/none/ca.pem: No such file"), "{tls}");
    let dir = error(|config| config.dir = "/dev/null/x".into()).await;
    assert!(dir.contains("/dev/null/x") && dir.contains("RINGSCOPE_DIR"), "{dir}");
    let state = error(|config| config.state_dir = "/dev/null/x".into()).await;
    assert!(state.contains("/dev/null/x") && state.contains("--state-dir"), "{state}");
    let interval = error(|config| config.interval = Duration::ZERO).await;
    assert!(interval.contains("250 ms"), "{interval}");
}
