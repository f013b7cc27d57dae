//! The RDMA connections of a process, from the file that it leaves beside its segment to what the agent says of them.

use std::path::PathBuf;
use std::time::Duration;

use ringscope_wire::batch::{Batch, Connection, ConnectionCounts, ConnectionState, GidKind};
use rsnet_connections::{About, Counts, QueuePair, Table};

use super::Host;
use super::daemon::{Answer, FakeDaemon};
use super::segment::{ANCHOR_TICKS, ANCHOR_WALL_NS, SegmentWriter, fixed};

const PID: u32 = 42;
const TICKS: u64 = 8771;
/// Of the kernel's clock of start times.
const TICK_NS: u64 = 10_000_000;

/// When a process started whose start time is [`TICKS`], as its collector computes it.
fn start_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc");
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime ")).expect("when the machine started");
    boot.parse::<u64>().expect("seconds") * 1_000_000_000 + TICKS * TICK_NS
}

fn about(pairs: &[QueuePair]) -> About<'_> {
    About {
        is_send: true,
        device: "rxe0",
        port: 1,
        gid_index: 1,
        gids: [[1; 16], [2; 16]],
        gid_kinds: [3, 3],
        mtus_bytes: [4096, 4096, 4096],
        traffic_class: 106,
        service_level: 0,
        comm_hash: 0xfeed,
        remote_rank: 1,
        remote_pid: 43,
        remote_device: "rxe0",
        remote_port: 2,
        remote_host: "node2",
        queue_pairs: pairs,
    }
}

fn connection(batch: &Batch) -> Option<&Connection> {
    batch.processes.iter().find_map(|process| process.connections.first())
}

fn counts(batch: &Batch) -> Option<&ConnectionCounts> {
    batch.processes.iter().find_map(|process| process.connection_counts.first())
}

#[tokio::test]
async fn connections_are_told_with_their_process_and_go_with_its_files() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let mut host = Host::new(&daemon.url);
    host.config.keep_dead = Duration::ZERO;
    let start_time_ns = start_ns();
    let mut identity = fixed(PID, "");
    identity.start_time_ns = start_time_ns;
    let segment = SegmentWriter::create_from(host.dir(), &identity);
    let table = Table::create(host.dir(), PID, TICKS, 3).expect("a file");
    // Of a process that had its number before.
    let other = Table::create(host.dir(), PID, 1, 3).expect("a file");
    let pairs = [QueuePair { number: 17, remote_number: 18 }];
    let (place, _other) = (table.take(&about(&pairs)).expect("room"), other.take(&about(&[])).expect("room"));
    place.store(&Counts { bytes: 900, waits: 2, last_done_ns: ANCHOR_TICKS + 5, ..Counts::default() });
    let agent = host.agent();
    let first = daemon.until_batch(Answer::Take, |batch| connection(batch).is_some()).await;
    let (one, counted) = (connection(&first).expect("one"), counts(&first).expect("its counts"));
    assert_eq!(first.processes[0].connections.len(), 1);
    assert_eq!(
        (one.state(), one.is_send, one.queue_pairs[0].remote_number),
        (ConnectionState::Open, true, 18)
    );
    let (local, remote) = (one.local.as_ref().expect("an end"), one.remote.as_ref().expect("an end"));
    assert_eq!((local.device.as_str(), local.gid_kind(), local.mtu_bytes), ("rxe0", GidKind::RoceV2, 4096));
    assert_eq!(
        (remote.host.as_str(), remote.port, remote.pid, remote.global_rank),
        ("node2", 2, 43, Some(1))
    );
    assert_eq!((counted.bytes, counted.waits, counted.last_done_at_ns), (900, 2, Some(ANCHOR_WALL_NS + 5)));

    place.store(&Counts { bytes: 1_800, waits: 2, last_done_ns: ANCHOR_TICKS + 9, ..Counts::default() });
    let moved = daemon.until_batch(Answer::Take, |batch| counts(batch).is_some()).await;
    assert_eq!(
        (counts(&moved).map(|one| one.bytes), connection(&moved)),
        (Some(1_800), None),
        "only the counts"
    );
    place.fail("transport retry counter exceeded");
    let failed = daemon.until_batch(Answer::Take, |batch| connection(batch).is_some()).await;
    let one = connection(&failed).expect("one");
    assert_eq!(
        (one.state(), one.error.as_str()),
        (ConnectionState::Failed, "transport retry counter exceeded")
    );

    // Killed: it removes nothing itself.
    let left: PathBuf = host.dir().join(format!("{PID}-{TICKS}.net"));
    std::mem::forget((place, table));
    drop(segment);
    let mut witnesses = Vec::new();
    while left.exists() {
        // Another process shows that the agent has read again.
        let pid = 100 + u32::try_from(witnesses.len()).expect("few");
        witnesses.push(SegmentWriter::create(host.dir(), pid, ""));
        let is_it = |batch: &Batch| batch.processes.iter().any(|one| one.key.contains(&format!("/{pid}/")));
        daemon.until_batch(Answer::Take, is_it).await;
        assert!(witnesses.len() < 1_000, "its file stays");
    }
    assert!(host.dir().join(format!("{PID}-1.net")).exists(), "the other one is not its");
    agent.stop().await;
}
