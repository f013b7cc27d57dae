use rsnet_connections::{About, Counts, QueuePair, Table};

use super::*;
use crate::beneath::own_folder;

const TICKS: u64 = 8771;

fn about(pairs: &[QueuePair]) -> About<'_> {
    About {
        is_send: true,
        device: "rxe0",
        port: 1,
        gid_index: 1,
        gids: [[1; 16], [2; 16]],
        gid_kinds: [3, 2],
        mtus_bytes: [4096, 1024, 1024],
        traffic_class: 106,
        service_level: 1,
        comm_hash: 0xabc,
        remote_rank: 2,
        remote_pid: 44,
        remote_device: "rxe1\u{1b}",
        remote_port: 2,
        remote_host: "g2",
        queue_pairs: pairs,
    }
}

/// A folder with the file of process 7.
struct Stage {
    dir: tempfile::TempDir,
    folder: OwnedFd,
    now: Instant,
    path: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = own_folder(dir.path()).unwrap();
        let path = dir.path().join(format!("7-{TICKS}.net"));
        Self { dir, folder, now: ringscope_api::clock::monotonic(), path }
    }

    fn update(&mut self, connections: &mut Connections, user: u32) -> io::Result<()> {
        self.now += INTERVAL;
        let path = self.path.exists().then_some(self.path.as_path());
        let (folder, monotonic) = (Some(&self.folder), self.now);
        connections.update(&Reading { folder, path, user, monotonic, is_last: false })
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn tell(connections: &mut Connections) -> Told {
    tell_by(connections, Told::default(), 1_000)
}

/// By a clock that is at that time when the machine starts.
fn tell_by(connections: &mut Connections, before: Told, wall_ns: u64) -> Told {
    let mut states = QueuePairStates::default();
    states.insert("rxe0", 17, batch::QueuePairState::Rts);
    let anchor =
        ringscope_wire::segment::clock::ClockAnchor { is_counter: false, ticks: 0, monotonic_ns: 0, wall_ns };
    connections.tell(before, &states, anchor.clock(0, 0))
}

#[test]
fn connections_are_told_from_their_beginning_to_their_end() {
    let mut stage = Stage::new();
    let mut connections = Connections::default();
    stage.update(&mut connections, user()).unwrap();
    assert!(tell(&mut connections).connections.is_empty(), "no file");
    let table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let pairs = [QueuePair { number: 17, remote_number: 18 }, QueuePair { number: 19, remote_number: 20 }];
    let place = table.take(&about(&pairs)).unwrap();
    place.store(&Counts { bytes: 5, waits: 2, last_done_ns: 7, ..Counts::default() });
    stage.update(&mut connections, user()).unwrap();
    let told = tell(&mut connections);
    let (one, counts) = (&told.connections[0], &told.counts[0]);
    assert_eq!((one.place, one.generation, one.state()), (0, 1, ConnectionState::Open));
    let states: Vec<_> = one.queue_pairs.iter().map(batch::QueuePair::state).collect();
    assert_eq!(states, [batch::QueuePairState::Rts, batch::QueuePairState::Unspecified]);
    let remote = one.remote.as_ref().unwrap();
    assert_eq!(
        (remote.device.as_str(), remote.port, remote.global_rank, remote.gid_kind()),
        ("rxe1 ", 2, Some(2), GidKind::RoceV1)
    );
    assert_eq!(one.file, stage.path.display().to_string());
    assert_eq!((counts.bytes, counts.waits, counts.last_done_at_ns), (5, 2, Some(1_007)));
    place.fail("transport retry counter exceeded");
    let other = table.take(&about(&pairs)).unwrap();
    stage.update(&mut connections, user()).unwrap();
    drop((place, other, table));
    stage.update(&mut connections, user()).unwrap();
    let told = tell(&mut connections).connections;
    let ends: Vec<_> = told.iter().map(|one| (one.state(), one.error.as_str())).collect();
    let failed = (ConnectionState::Failed, "transport retry counter exceeded");
    assert_eq!(ends, [failed, (ConnectionState::Closed, "")], "the file is gone");
}

#[test]
fn what_is_another_users_or_no_file_of_connections_is_refused() {
    let mut stage = Stage::new();
    let _table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let mut connections = Connections::default();
    let error = stage.update(&mut connections, user() + 1).unwrap_err();
    assert!(error.to_string().contains("and its process user"), "{error}");
    for bytes in [b"x".repeat(7), b"x".repeat(4096)] {
        std::fs::write(&stage.path, bytes).unwrap();
        assert!(stage.update(&mut connections, user()).is_err());
    }
    // A file that says that it is endless costs no more than one that is full.
    let mut huge = vec![0xff; HEAD_BYTES];
    huge[..8].copy_from_slice(&rsnet_connections::layout::MAGIC.to_le_bytes());
    huge[8..12].copy_from_slice(&1_u32.to_le_bytes());
    std::fs::write(&stage.path, huge).unwrap();
    stage.update(&mut connections, user()).unwrap();
    assert!(tell(&mut connections).connections.is_empty());
    std::fs::remove_file(&stage.path).unwrap();
    std::os::unix::fs::symlink("/proc/self/environ", &stage.path).unwrap();
    assert!(stage.update(&mut connections, user()).is_err(), "a link");
}

#[test]
fn a_file_is_joined_by_number_and_start() {
    let owner = Owner::of(Path::new("/x/7-8771.net")).unwrap();
    let start_ns = owner.start_ns().unwrap();
    let mut files = Files::default();
    files.add(owner, "/x/7-8771.net".into());
    files.add(Owner::of(Path::new("/x/7-99999999.net")).unwrap(), "/x/7-99999999.net".into());
    assert_eq!(files.find(7, start_ns + 1_000_000_000), Some(Path::new("/x/7-8771.net")));
    assert_eq!(files.find(7, start_ns + 60_000_000_000), None, "another had its number");
    assert_eq!(files.find(8, start_ns), None);
    for odd in ["7-8771.seg", "7.net", "x-1.net", ".7-1.net"] {
        assert_eq!(Owner::of(Path::new(odd)), None, "{odd}");
    }
}

#[test]
fn a_file_is_read_once_a_second() {
    let stage = Stage::new();
    let table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let mut connections = Connections::default();
    let mut n_after = |after, is_last| {
        let reading = Reading {
            folder: Some(&stage.folder),
            path: Some(&stage.path),
            user: user(),
            monotonic: stage.now + after,
            is_last,
        };
        connections.update(&reading).unwrap();
        connections.all.len()
    };
    assert_eq!(n_after(Duration::ZERO, false), 0);
    let _place = table.take(&about(&[])).unwrap();
    assert_eq!(n_after(INTERVAL / 2, false), 0, "not due");
    assert_eq!(n_after(INTERVAL / 2, true), 1, "the last one");
}

#[test]
fn what_stands_still_is_told_as_it_was_however_the_clock_is_known_by_then() {
    let mut stage = Stage::new();
    let table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let (idle, busy) = (table.take(&about(&[])).unwrap(), table.take(&about(&[])).unwrap());
    idle.store(&Counts { bytes: 5, last_done_ns: 7, ..Counts::default() });
    let mut connections = Connections::default();
    stage.update(&mut connections, user()).unwrap();
    let first = tell_by(&mut connections, Told::default(), 1_000);
    assert_eq!(tell_by(&mut connections, first.clone(), 2_000), first, "nothing was read");
    busy.store(&Counts { bytes: 6, last_done_ns: 8, ..Counts::default() });
    stage.update(&mut connections, user()).unwrap();
    let next = tell_by(&mut connections, first.clone(), 2_000);
    assert_eq!((next.counts[0], next.counts[1].last_done_at_ns), (first.counts[0], Some(2_008)));
    assert_eq!(next.connections, first.connections);
}
