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
    files: Files,
    pid: u32,
    start_time_ns: u64,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = own_folder(dir.path()).unwrap();
        let path = dir.path().join(format!("7-{TICKS}.net"));
        let start_time_ns = procfs::ns_of_ticks(TICKS).unwrap();
        let (now, files) = (ringscope_api::clock::monotonic(), Files::default());
        Self { dir, folder, now, path, files, pid: 7, start_time_ns }
    }

    /// At its time.
    fn reading(&self, user: u32) -> Reading<'_> {
        Reading {
            folder: Some(&self.folder),
            dir: self.dir.path(),
            files: &self.files,
            pid: self.pid,
            start_time_ns: self.start_time_ns,
            user,
            monotonic: self.now,
            is_last: false,
        }
    }

    fn update(&mut self, connections: &mut Connections, user: u32) -> Result<(), Unreadable> {
        self.now += INTERVAL;
        connections.update(&self.reading(user))
    }

    fn list(&mut self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        self.files.add(Owner::of(&path).unwrap(), path.clone());
        path
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn tell(connections: &mut Connections) -> Told {
    tell_by(connections, Told::default(), 1_000)
}

fn clock(wall_ns: u64) -> Clock {
    let anchor =
        ringscope_wire::segment::clock::ClockAnchor { is_counter: false, ticks: 0, monotonic_ns: 0, wall_ns };
    anchor.clock(0, 0)
}

/// What the kernel, asked at that time, told of queue pair 17.
fn states(state: batch::QueuePairState, asked_at_ns: u64) -> QueuePairStates {
    let mut states = QueuePairStates::at(ringscope_api::clock::Timestamp(asked_at_ns));
    states.insert("rxe0", 17, state);
    states
}

/// By a clock that is at that time when the machine starts.
fn tell_by(connections: &mut Connections, before: Told, wall_ns: u64) -> Told {
    let states = states(batch::QueuePairState::Rts, 0);
    connections.tell(before, &states, clock(wall_ns))
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
fn a_connection_with_a_queue_pair_in_error_says_when_the_kernel_told_so() {
    let mut stage = Stage::new();
    let mut connections = Connections::default();
    let table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let _place = table.take(&about(&[QueuePair { number: 17, remote_number: 18 }])).unwrap();
    stage.update(&mut connections, user()).unwrap();
    let (mut known, mut told) = (QueuePairStates::default(), Told::default());
    let mut broken_at = |state, asked_at_ns| {
        known.replace(states(state, asked_at_ns));
        told = connections.tell(std::mem::take(&mut told), &known, clock(0));
        told.connections[0].broken_at_ns
    };
    let (rts, err) = (batch::QueuePairState::Rts, batch::QueuePairState::Err);
    assert_eq!([broken_at(rts, 5), broken_at(err, 6), broken_at(err, 7), broken_at(rts, 8)], [0, 6, 7, 0]);
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
fn a_file_is_joined_by_number_and_start_the_nearest_first() {
    let owner = Owner::of(Path::new("/x/7-8771.net")).unwrap();
    let start_ns = owner.start_ns().unwrap();
    assert_eq!(procfs::ticks_of_ns(start_ns), Some(8771));
    let mut files = Files::default();
    for ticks in [8_700, 8_770, 8_771, 99_999_999] {
        files.add(Owner { pid: 7, ticks }, format!("/x/7-{ticks}.net").into());
    }
    let found = |pid, start_ns| -> Vec<String> {
        files.of_process(pid, start_ns).into_iter().map(|path| path.display().to_string()).collect()
    };
    assert_eq!(found(7, start_ns), ["/x/7-8771.net", "/x/7-8770.net", "/x/7-8700.net"]);
    assert_eq!(found(7, start_ns - 1_000_000_000), ["/x/7-8700.net", "/x/7-8770.net", "/x/7-8771.net"]);
    assert!(found(7, start_ns + 60_000_000_000).is_empty(), "another had its number");
    assert!(found(8, start_ns).is_empty());
    for odd in ["7-8771.seg", "7.net", "x-1.net", ".7-1.net"] {
        assert_eq!(Owner::of(Path::new(odd)), None, "{odd}");
    }
}

#[test]
fn files_beyond_the_bounds_are_counted() {
    let mut files = Files::default();
    for ticks in 0..100 {
        files.add(Owner { pid: 7, ticks }, "/x".into());
    }
    files.add(Owner { pid: 8, ticks: 1 }, "/x".into());
    assert_eq!((files.all().count(), files.left_out()), (MAX_OF_PID + 1, 100 - MAX_OF_PID as u64));
}

#[test]
fn what_others_leave_beside_a_file_does_not_hide_it() {
    let mut stage = Stage::new();
    // By another start of the machine, so that it is found in the list alone.
    stage.start_time_ns += 30_000_001;
    let nearer = stage.list(&format!("7-{}.net", TICKS + 3));
    std::os::unix::fs::symlink("/proc/self/environ", nearer).unwrap();
    stage.list(&format!("7-{TICKS}.net"));
    let mut connections = Connections::default();
    assert_eq!(stage.update(&mut connections, user()).unwrap_err().kind(), "io", "nothing else is there");
    let table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let _place = table.take(&about(&[])).unwrap();
    stage.update(&mut connections, user() + 1).unwrap_err();
    stage.update(&mut connections, user()).unwrap();
    assert_eq!(connections.all.len(), 1);
}

#[test]
fn a_file_of_another_user_that_is_not_its_own_by_name_is_nothing_to_a_process() {
    let mut stage = Stage::new();
    stage.list(&format!("7-{}.net", TICKS + 1));
    let _other = Table::create(stage.dir.path(), 7, TICKS + 1, 3).unwrap();
    let mut connections = Connections::default();
    stage.update(&mut connections, user() + 1).unwrap();
    assert_eq!(connections.file(), None);
}

#[test]
fn only_a_file_that_is_gone_or_a_process_that_is_closes_connections() {
    let mut stage = Stage::new();
    stage.start_time_ns += 1;
    stage.list(&format!("7-{TICKS}.net"));
    let table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let _place = table.take(&about(&[])).unwrap();
    let mut connections = Connections::default();
    stage.update(&mut connections, user()).unwrap();
    let state = |connections: &Connections| connections.all[0].state;
    stage.files = Files::default();
    stage.update(&mut connections, user()).unwrap();
    assert_eq!(state(&connections), State::Open, "it is not in the list");
    let kept = std::fs::read(&stage.path).unwrap();
    std::fs::write(&stage.path, "x").unwrap();
    assert!(stage.update(&mut connections, user()).is_err());
    assert_eq!(state(&connections), State::Open, "it cannot be read");
    assert!(connections.update(&Reading { is_last: true, ..stage.reading(user()) }).is_err());
    assert_eq!(state(&connections), State::Closed, "its process is gone");
    std::fs::write(&stage.path, kept).unwrap();
    stage.update(&mut connections, user()).unwrap();
    assert_eq!(state(&connections), State::Open);
    std::fs::remove_file(&stage.path).unwrap();
    stage.update(&mut connections, user()).unwrap();
    assert_eq!(state(&connections), State::Closed);
}

#[test]
fn a_process_that_has_had_many_connections_shows_those_that_it_has() {
    let mut stage = Stage::new();
    let table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let take = |n| (0..n).map(|_| table.take(&about(&[])).unwrap()).collect::<Vec<_>>();
    let mut connections = Connections::default();
    let mut states = |connections: &mut Connections| {
        stage.update(connections, user()).unwrap();
        let count = |state| connections.all.iter().filter(|one| one.state == state).count();
        ([State::Open, State::Failed, State::Closed].map(count), connections.newly_left_out())
    };
    let old = take(MAX_TOLD);
    assert_eq!(states(&mut connections), ([MAX_TOLD, 0, 0], 0));
    old[0].fail("Work Request Flushed Error");
    drop(old);
    let mut new = take(MAX_TOLD - 1);
    assert_eq!(states(&mut connections), ([0, 1, MAX_TOLD - 1], 0), "how they ended is told first");
    assert_eq!(states(&mut connections), ([MAX_TOLD - 1, 1, 0], 0), "closed ones make way");
    new.extend(take(5));
    assert_eq!(states(&mut connections), ([MAX_TOLD, 0, 0], 5), "and those that failed after them");
    assert_eq!(states(&mut connections), ([MAX_TOLD, 0, 0], 0), "counted once");
    let told = tell(&mut connections);
    assert_eq!(told.left_out, 5);
    let told: Vec<_> = told.connections.iter().map(|one| one.place).collect();
    drop(new.drain(10..));
    assert_eq!(states(&mut connections), ([10, 0, MAX_TOLD - 10], 0));
    let still: Vec<_> = tell(&mut connections).connections.iter().map(|one| one.place).collect();
    assert_eq!(told, still, "each that was told is told to have closed");
}

#[test]
fn those_without_a_place_are_counted_beside_those_that_were_too_many() {
    let mut stage = Stage::new();
    let table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let mut places: Vec<_> = (0..MAX_TOLD + 5).map(|_| table.take(&about(&[])).unwrap()).collect();
    let mut connections = Connections::default();
    stage.update(&mut connections, user()).unwrap();
    assert_eq!(connections.newly_left_out(), 5);
    // As the file counts them, when there are few again.
    places.truncate(1);
    let file = std::fs::OpenOptions::new().write(true).open(&stage.path).unwrap();
    file.write_all_at(&3_u64.to_le_bytes(), head::N_LOST as u64).unwrap();
    stage.update(&mut connections, user()).unwrap();
    assert_eq!((connections.newly_left_out(), tell(&mut connections).left_out), (3, 8));
    stage.update(&mut connections, user()).unwrap();
    assert_eq!(connections.newly_left_out(), 0, "each once");
}

#[test]
fn an_error_is_of_the_same_kind_whatever_the_file_says() {
    let mut stage = Stage::new();
    let mut connections = Connections::default();
    let mut kinds = std::collections::BTreeSet::new();
    for version in [2_u32, 3, 4] {
        let mut head = vec![0; HEAD_BYTES];
        head[..8].copy_from_slice(&rsnet_connections::layout::MAGIC.to_le_bytes());
        head[8..12].copy_from_slice(&version.to_le_bytes());
        std::fs::write(&stage.path, head).unwrap();
        kinds.insert(stage.update(&mut connections, user()).unwrap_err().kind());
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["other_version"]);
}

#[test]
fn a_file_is_read_once_a_second() {
    let stage = Stage::new();
    let table = Table::create(stage.dir.path(), 7, TICKS, 3).unwrap();
    let mut connections = Connections::default();
    let mut n_after = |after, is_last| {
        let reading = Reading { monotonic: stage.now + after, is_last, ..stage.reading(user()) };
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
