//! The RDMA connections of a process, from the file that it leaves of them beside its segment (`ringscope-connections`). Read as
//! a segment is: never mapped, only what is in use, and nothing in it believed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringscope_wire::batch::{self, ConnectionCounts, ConnectionEnd, ConnectionState, GidKind};
use ringscope_wire::segment::clock::Clock;
use rsnet_connections::layout::{HEAD_BYTES, MAX_PLACES, head};
use rsnet_connections::{Connection, Counts, Malformed, State, parse};

use super::beneath::{Access, FileId, Found};
use super::foreign::clean;
use super::hardware::{QueuePairStates, is_failed};
use super::procfs;

/// Places of a process that are told, as the batch allows: two connections of each of 16 channels with each of 32 peers.
const MAX_TOLD: usize = 1024;
/// Bytes of one place in a later version; what is longer is no place. All places of a file are 4 MiB then.
const MAX_PLACE_BYTES: usize = 1024;
/// Time between two readings of one file: nobody looks at a connection four times a second.
const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a text of a file.
const MAX_TEXT_BYTES: usize = 192;

/// Whose file it is, by its name: `<pid>-<start time in ticks>.net`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) pid: u32,
    ticks: u64,
}

impl Owner {
    pub(super) fn of(path: &Path) -> Option<Self> {
        let (pid, ticks) = path.file_name()?.to_str()?.strip_suffix(".net")?.split_once('-')?;
        Some(Self { pid: pid.parse().ok()?, ticks: ticks.parse().ok()? })
    }

    /// When its process started.
    pub(super) fn start_ns(self) -> Option<u64> {
        procfs::ns_of_ticks(self.ticks)
    }

    /// Whether it is the process with this number that started then.
    pub(super) fn is(self, pid: u32, start_time_ns: u64) -> bool {
        self.pid == pid && self.distance_ns(start_time_ns).is_some_and(|distance| distance <= SLACK_NS)
    }

    fn distance_ns(self, start_time_ns: u64) -> Option<u64> {
        Some(self.start_ns()?.abs_diff(start_time_ns))
    }
}

/// Start times are right to a second against another boot time.
const SLACK_NS: u64 = 2_000_000_000;

/// The files of connections that lie in the folder, by process.
#[derive(Debug, Default)]
pub(super) struct Files {
    all: BTreeMap<Owner, PathBuf>,
    left_out: u64,
}

impl Files {
    pub(super) fn add(&mut self, owner: Owner, path: PathBuf) {
        if self.all.len() < MAX_FILES && self.of(owner.pid).count() < MAX_OF_PID {
            self.all.insert(owner, path);
        } else {
            self.left_out += 1;
        }
    }

    /// The files that may be those of the process with this number that started then, the most likely first.
    pub(super) fn of_process(&self, pid: u32, start_time_ns: u64) -> Vec<&Path> {
        let mut found: Vec<_> = self.of(pid).filter(|(owner, _)| owner.is(pid, start_time_ns)).collect();
        found.sort_by_key(|(owner, _)| owner.distance_ns(start_time_ns));
        found.into_iter().map(|(_, path)| path.as_path()).collect()
    }

    fn of(&self, pid: u32) -> impl Iterator<Item = (&Owner, &PathBuf)> {
        self.all.range(Owner { pid, ticks: 0 }..=Owner { pid, ticks: u64::MAX })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (Owner, &Path)> {
        self.all.iter().map(|(owner, path)| (*owner, path.as_path()))
    }

    /// Files that are not looked at, because there are too many.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Files that are looked at: as many as processes are followed.
const MAX_FILES: usize = 16_384;
/// The same of one process number, which has one. Anybody may leave files with anybody's number.
const MAX_OF_PID: usize = 16;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is user {owner}'s and its process user {user}'s")]
    OtherUser { owner: u32, user: u32 },
    #[error("it holds no connections: {0:?}")]
    Malformed(Malformed),
}

impl Unreadable {
    /// What sort of error it is, however its words go: the owner of a file may change what these say at each reading.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Io(_) => "io",
            Self::OtherUser { .. } => "other_user",
            Self::Malformed(Malformed::Short) => "short",
            Self::Malformed(Malformed::NotOurs) => "not_ours",
            Self::Malformed(Malformed::OtherVersion(_)) => "other_version",
        }
    }

    fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// What has been read of one process's connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// Its file, once one was read.
    file: Option<(PathBuf, FileId)>,
    read_at: Option<Instant>,
    all: Vec<Connection>,
    /// Those that found no place in the file, each once, as it counts them.
    without_place: u64,
    /// Of those in the file the most that were too many to be told at one reading.
    too_many: u64,
    /// How many of both were counted as lost.
    counted_left_out: u64,
    /// Something was read, or closed, that was not told.
    is_new: bool,
    /// Which states of queue pairs were told with them.
    states: u64,
    /// Counts as they were read, and told, by place and generation: as long as nothing is done, its time stays as it
    /// was told, however the clock is known by then.
    counts: BTreeMap<(u32, u32), (Counts, ConnectionCounts)>,
}

/// A reading: when, and what else is known then.
pub(super) struct Reading<'a> {
    /// The folder of segments. Absent: it cannot be opened.
    pub(super) folder: Option<&'a OwnedFd>,
    /// Where that is.
    pub(super) dir: &'a Path,
    /// The files of connections there, as far as they are known.
    pub(super) files: &'a Files,
    /// The process, as it knows itself, and the user whose it is.
    pub(super) pid: u32,
    pub(super) start_time_ns: u64,
    pub(super) user: u32,
    pub(super) monotonic: Instant,
    /// The process has ended: this is the last reading.
    pub(super) is_last: bool,
}

impl Reading<'_> {
    /// Where the file of the process is that counts from the same start of the machine as the agent.
    fn own_path(&self) -> Option<PathBuf> {
        let ticks = procfs::ticks_of_ns(self.start_time_ns)?;
        Some(self.dir.join(format!("{}-{ticks}.net", self.pid)))
    }
}

impl Connections {
    /// Reads the file, if it is time to. A process whose file is gone has closed what it had, and so has one that is gone
    /// itself and whose file cannot be read; that the file was not found in a list says nothing.
    ///
    /// # Errors
    /// It is not what it should be, or not that user's.
    pub(super) fn update(&mut self, reading: &Reading<'_>) -> Result<(), Unreadable> {
        let is_due = self
            .read_at
            .is_none_or(|at| reading.monotonic.saturating_duration_since(at) >= INTERVAL || reading.is_last);
        if !is_due {
            return Ok(());
        }
        let Some(folder) = reading.folder else {
            if reading.is_last {
                self.close();
            }
            return Ok(());
        };
        self.read_at = Some(reading.monotonic);
        let known = self.file.as_ref().map(|(path, _)| path.clone());
        let read = match known {
            Some(path) => self.read(folder, &path, reading.user),
            None => return self.find(folder, reading),
        };
        let is_gone = read.as_ref().is_err_and(Unreadable::is_missing);
        if is_gone || read.is_err() && reading.is_last {
            self.close();
        }
        if is_gone { Ok(()) } else { read }
    }

    /// Reads the file of this process, of those that may be it.
    fn find(&mut self, folder: &OwnedFd, reading: &Reading<'_>) -> Result<(), Unreadable> {
        let own = reading.own_path();
        let mut first_error = None;
        if let Some(path) = &own {
            match self.read(folder, path, reading.user) {
                Err(error) if error.is_missing() => {}
                Err(error) => first_error = Some(error),
                Ok(()) => return Ok(()),
            }
        }
        let others = reading.files.of_process(reading.pid, reading.start_time_ns).into_iter();
        for path in others.filter(|path| own.as_deref() != Some(*path)) {
            match self.read(folder, path, reading.user) {
                // What others leave beside it is nothing to this process.
                Err(Unreadable::OtherUser { .. }) => {}
                Err(error) if error.is_missing() => {}
                Err(error) => first_error = first_error.or(Some(error)),
                Ok(()) => return Ok(()),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    fn read(&mut self, folder: &OwnedFd, path: &Path, user: u32) -> Result<(), Unreadable> {
        let (bytes, id) = read(folder, path, user)?;
        let found = parse(&bytes).map_err(Unreadable::Malformed)?;
        let too_many = self.take(found.all);
        self.too_many = self.too_many.max(too_many as u64);
        self.without_place = self.without_place.max(found.n_lost);
        self.file = Some((path.to_owned(), id));
        Ok(())
    }

    /// What was being written stays as it was read last. Returns how many that are not closed are more than are told.
    fn take(&mut self, read: Vec<Connection>) -> usize {
        let before: BTreeMap<u32, State> = self.all.iter().map(|one| (one.place, one.state)).collect();
        let mut known: BTreeMap<u32, Connection> =
            std::mem::take(&mut self.all).into_iter().map(|one| (one.place, one)).collect();
        known.extend(read.into_iter().map(|one| (one.place, one)));
        let mut all: Vec<Connection> = known.into_values().collect();
        let n_not_closed = all.iter().filter(|one| one.state != State::Closed).count();
        if all.len() > MAX_TOLD {
            let rank = |one: &Connection| Rank::of(one.state, before.get(&one.place).copied());
            all.sort_by_key(|one| (rank(one), Reverse(one.made_ns)));
            all.truncate(MAX_TOLD);
            all.sort_by_key(|one| one.place);
        }
        self.all = all;
        self.is_new = true;
        n_not_closed.saturating_sub(MAX_TOLD)
    }

    /// All that were not told so far; it never falls.
    const fn left_out(&self) -> u64 {
        self.without_place.saturating_add(self.too_many)
    }

    /// How many more have been left out than ever before.
    pub(super) fn newly_left_out(&mut self) -> u64 {
        let left_out = self.left_out();
        let before = std::mem::replace(&mut self.counted_left_out, left_out);
        left_out.saturating_sub(before)
    }

    fn close(&mut self) {
        let is_open = |one: &&mut Connection| !matches!(one.state, State::Failed | State::Closed);
        for one in self.all.iter_mut().filter(is_open) {
            one.state = State::Closed;
            self.is_new = true;
        }
    }

    /// The file that goes with its process.
    pub(super) fn file(&self) -> Option<(&Path, FileId)> {
        self.file.as_ref().map(|(path, id)| (path.as_path(), *id))
    }

    /// All that is known, as the batch says it; as it was told `before` where nothing is new.
    pub(super) fn tell(&mut self, before: Told, states: &QueuePairStates, clock: Clock) -> Told {
        if !std::mem::take(&mut self.is_new) && self.states == states.revision {
            return before;
        }
        self.states = states.revision;
        let file = self.file().map_or_else(String::new, |(path, _)| path.display().to_string());
        let known = std::mem::take(&mut self.counts);
        for one in &self.all {
            let same = known.get(&(one.place, one.generation)).filter(|(read, _)| *read == one.counts);
            let told = same.map_or_else(|| counts(one, clock), |(_, told)| *told);
            self.counts.insert((one.place, one.generation), (one.counts, told));
        }
        Told {
            connections: self.all.iter().map(|one| connection(one, states, &file)).collect(),
            counts: self.counts.values().map(|(_, told)| *told).collect(),
            left_out: self.left_out(),
        }
    }
}

/// Which are told where there are too many: the first ones, and of each rank the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It was told as being in use, so whoever was told must also hear how it ends.
    Told,
    InUse,
    Failed,
    Closed,
}

impl Rank {
    fn of(now: State, before: Option<State>) -> Self {
        let is_in_use = |state| matches!(state, State::Connecting | State::Open);
        match now {
            _ if before.is_some_and(is_in_use) => Self::Told,
            State::Connecting | State::Open => Self::InUse,
            State::Failed => Self::Failed,
            State::Closed => Self::Closed,
        }
    }
}

/// See [`Connections::tell`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    pub(super) connections: Vec<batch::Connection>,
    pub(super) counts: Vec<ConnectionCounts>,
    pub(super) left_out: u64,
}

fn read(folder: &OwnedFd, path: &Path, user: u32) -> Result<(Vec<u8>, FileId), Unreadable> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let found = Found::beneath(folder, name)?;
    let id = FileId::of(found.metadata());
    if id.owner != user {
        return Err(Unreadable::OtherUser { owner: id.owner, user });
    }
    let file = found.open(Access::Read)?;
    let mut bytes = vec![0; HEAD_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    let room = n_used(&bytes) * place_bytes(&bytes);
    bytes.resize(HEAD_BYTES + room, 0);
    let mut filled = HEAD_BYTES;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    bytes.truncate(filled);
    Ok((bytes, id))
}

fn word(bytes: &[u8], at: usize) -> usize {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_le_bytes(*word) as usize)
}

fn n_used(bytes: &[u8]) -> usize {
    word(bytes, head::N_USED).min(MAX_PLACES)
}

fn place_bytes(bytes: &[u8]) -> usize {
    word(bytes, head::PLACE_BYTES).min(MAX_PLACE_BYTES)
}

fn connection(one: &Connection, states: &QueuePairStates, file: &str) -> batch::Connection {
    let queue_pair = |pair: &rsnet_connections::QueuePair| batch::QueuePair {
        number: pair.number,
        remote_number: pair.remote_number,
        state: states.of(&one.device, pair.number).into(),
    };
    let queue_pairs: Vec<_> = one.queue_pairs.iter().map(queue_pair).collect();
    let is_broken = queue_pairs.iter().any(|pair| is_failed(pair.state()));
    batch::Connection {
        place: one.place,
        generation: one.generation,
        state: state(one.state).into(),
        error: clean(&one.error, MAX_TEXT_BYTES),
        is_send: one.is_send,
        local: Some(ConnectionEnd {
            device: clean(&one.device, MAX_TEXT_BYTES),
            port: one.port,
            gid: one.gid.to_vec(),
            gid_index: one.gid_index,
            gid_kind: gid_kind(one.gid_kind).into(),
            mtu_bytes: one.mtu_bytes,
            ..ConnectionEnd::default()
        }),
        remote: Some(ConnectionEnd {
            device: clean(&one.remote_device, MAX_TEXT_BYTES),
            port: one.remote_port,
            gid: one.remote_gid.to_vec(),
            gid_kind: gid_kind(one.remote_gid_kind).into(),
            mtu_bytes: one.remote_mtu_bytes,
            host: clean(&one.remote_host, MAX_TEXT_BYTES),
            pid: one.remote_pid,
            global_rank: one.remote_rank,
            ..ConnectionEnd::default()
        }),
        path_mtu_bytes: one.path_mtu_bytes,
        traffic_class: one.traffic_class,
        service_level: one.service_level,
        comm_hash: one.comm_hash.unwrap_or_default(),
        queue_pairs,
        file: file.to_owned(),
        broken_at_ns: if is_broken { states.asked_at.0 } else { 0 },
    }
}

fn counts(one: &Connection, clock: Clock) -> ConnectionCounts {
    let counted = &one.counts;
    let last_done_ns = Some(counted.last_done_ns).filter(|ns| *ns != 0);
    ConnectionCounts {
        place: one.place,
        generation: one.generation,
        bytes: counted.bytes,
        requests: counted.requests,
        completed_requests: counted.completed_requests,
        work_requests: counted.work_requests,
        waits: counted.waits,
        wait_ns: counted.wait_ns,
        registrations: counted.registrations,
        cached_registrations: counted.cached_registrations,
        last_done_at_ns: last_done_ns.map(|ns| clock.wall_of_monotonic_ns(ns)),
    }
}

const fn state(state: State) -> ConnectionState {
    match state {
        State::Connecting => ConnectionState::Connecting,
        State::Open => ConnectionState::Open,
        State::Closed => ConnectionState::Closed,
        State::Failed => ConnectionState::Failed,
    }
}

/// The file's numbers are the batch's.
fn gid_kind(number: u32) -> GidKind {
    i32::try_from(number).ok().and_then(|number| GidKind::try_from(number).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
