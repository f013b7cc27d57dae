//! The RDMA connections of a process, from the file that it leaves of them beside its segment (`ringscope-connections`). Read as
//! a segment is: never mapped, only what is in use, and nothing in it believed.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringscope_wire::batch::{self, ConnectionCounts, ConnectionEnd, ConnectionState, GidKind};
use ringscope_wire::segment::clock::Clock;
use rsnet_connections::layout::{HEAD_BYTES, MAX_PLACES, head};
use rsnet_connections::{Connection, Counts, State, parse};

use super::beneath::{Access, FileId, Found};
use super::foreign::clean;
use super::hardware::QueuePairStates;
use super::procfs;

/// Places of a process that are told, as the batch allows: two connections of each of 16 channels with each of 32 peers.
const MAX_TOLD: usize = 1024;
/// Bytes of one place in a later version; what is longer is no place.
const MAX_PLACE_BYTES: usize = 4096;
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
        let is_same_start = |own: u64| own.abs_diff(start_time_ns) <= SLACK_NS;
        self.pid == pid && self.start_ns().is_some_and(is_same_start)
    }
}

/// Start times are right to a second against another boot time.
const SLACK_NS: u64 = 2_000_000_000;

/// The files of connections that lie in the folder, by process.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<Owner, PathBuf>);

impl Files {
    pub(super) fn add(&mut self, owner: Owner, path: PathBuf) {
        if self.0.len() < MAX_FILES {
            self.0.insert(owner, path);
        }
    }

    /// The file of the process with this number that started then.
    pub(super) fn find(&self, pid: u32, start_time_ns: u64) -> Option<&Path> {
        let of_pid = self.0.range(Owner { pid, ticks: 0 }..=Owner { pid, ticks: u64::MAX });
        of_pid.into_iter().find(|(owner, _)| owner.is(pid, start_time_ns)).map(|(_, path)| path.as_path())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (Owner, &Path)> {
        self.0.iter().map(|(owner, path)| (*owner, path.as_path()))
    }
}

/// Files that are looked at: as many as processes are followed.
const MAX_FILES: usize = 16_384;

/// What has been read of one process's connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// Its file, once one was read.
    file: Option<(PathBuf, FileId)>,
    read_at: Option<Instant>,
    all: Vec<Connection>,
    left_out: u64,
    /// Something was read, or closed, that was not told.
    is_new: bool,
    /// Which states of queue pairs were told with them.
    states: u64,
    /// Counts as they were read, and told, by place: as long as nothing is done, its time stays as it was told, however the clock
    /// is known by then.
    counts: BTreeMap<u32, (Counts, ConnectionCounts)>,
}

/// A reading: when, and what else is known then.
pub(super) struct Reading<'a> {
    /// The folder of segments. Absent: it cannot be opened.
    pub(super) folder: Option<&'a OwnedFd>,
    /// The process's file there. Absent: there is none.
    pub(super) path: Option<&'a Path>,
    /// The user whose process it is.
    pub(super) user: u32,
    pub(super) monotonic: Instant,
    /// The process has ended: this is the last reading.
    pub(super) is_last: bool,
}

impl Connections {
    /// Reads the file, if it is time to. A process whose file is gone has closed what it had.
    ///
    /// # Errors
    /// It is not what it should be, or not that user's.
    pub(super) fn update(&mut self, reading: &Reading<'_>) -> io::Result<()> {
        let Some((folder, path)) = reading.folder.zip(reading.path) else {
            if reading.folder.is_some() {
                self.close();
            }
            return Ok(());
        };
        let is_due = self
            .read_at
            .is_none_or(|at| reading.monotonic.saturating_duration_since(at) >= INTERVAL || reading.is_last);
        if !is_due {
            return Ok(());
        }
        self.read_at = Some(reading.monotonic);
        let (bytes, id) = match read(folder, path, reading.user) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.close();
                return Ok(());
            }
            read => read?,
        };
        let found =
            parse(&bytes).map_err(|why| io::Error::other(format!("it holds no connections: {why:?}")))?;
        let beyond = n_used(&bytes).saturating_sub(MAX_TOLD);
        self.left_out = found.n_lost.saturating_add(beyond as u64);
        self.take(found.all);
        self.file = Some((path.to_owned(), id));
        Ok(())
    }

    /// What was being written stays as it was read last.
    fn take(&mut self, read: Vec<Connection>) {
        let mut known: BTreeMap<u32, Connection> =
            std::mem::take(&mut self.all).into_iter().map(|one| (one.place, one)).collect();
        known.extend(read.into_iter().map(|one| (one.place, one)));
        self.all = known.into_values().collect();
        self.is_new = true;
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
            let same = known
                .get(&one.place)
                .filter(|(read, told)| (*read, told.generation) == (one.counts, one.generation));
            let told = same.map_or_else(|| counts(one, clock), |(_, told)| *told);
            self.counts.insert(one.place, (one.counts, told));
        }
        Told {
            connections: self.all.iter().map(|one| connection(one, states, &file)).collect(),
            counts: self.counts.values().map(|(_, told)| *told).collect(),
            left_out: self.left_out,
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

fn read(folder: &OwnedFd, path: &Path, user: u32) -> io::Result<(Vec<u8>, FileId)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let found = Found::beneath(folder, name)?;
    let id = FileId::of(found.metadata());
    if id.owner != user {
        return Err(io::Error::other(format!("it is user {}'s and its process user {user}'s", id.owner)));
    }
    let file = found.open(Access::Read)?;
    let mut bytes = vec![0; HEAD_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    let room = n_used(&bytes).min(MAX_TOLD) * place_bytes(&bytes);
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
        queue_pairs: one.queue_pairs.iter().map(queue_pair).collect(),
        file: file.to_owned(),
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
