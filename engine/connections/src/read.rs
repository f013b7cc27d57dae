//! What a reader makes of the file's bytes, of which it believes nothing.

use crate::layout::{
    ERROR_BYTES, HEAD_BYTES, MAGIC, MAX_PLACES, MAX_QUEUE_PAIRS, N_COUNTS, NAME_BYTES, PLACE_BYTES, VERSION,
    at, head,
};

/// All connections of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// The process.
    pub pid: u32,
    /// Its rank in its job, by the launcher's environment.
    pub global_rank: Option<u32>,
    /// Connections that found no place.
    pub n_lost: u64,
    /// Those that there are or were, in the order of their places.
    pub all: Vec<Connection>,
}

/// One connection: data go one way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Its place in the file, and which one of this place it is: together they name it.
    pub place: u32,
    /// See [`Connection::place`].
    pub generation: u32,
    /// How it stands.
    pub state: State,
    /// Whether data leave this process.
    pub is_send: bool,
    /// The local device: `mlx5_0`.
    pub device: String,
    /// Its port, from 1.
    pub port: u32,
    /// Index of the local GID.
    pub gid_index: u32,
    /// The local GID.
    pub gid: [u8; 16],
    /// The remote GID.
    pub remote_gid: [u8; 16],
    /// Kind of the local GID: 0 not known, 1 InfiniBand, 2 RoCE v1, 3 RoCE v2.
    pub gid_kind: u32,
    /// Kind of the remote GID.
    pub remote_gid_kind: u32,
    /// Bytes of payload in a packet: what this end's port can.
    pub mtu_bytes: u32,
    /// What the other end's port can.
    pub remote_mtu_bytes: u32,
    /// What the connection uses.
    pub path_mtu_bytes: u32,
    /// Traffic class.
    pub traffic_class: u32,
    /// Service level.
    pub service_level: u32,
    /// The communicator that it was made for, where the library told.
    pub comm_hash: Option<u64>,
    /// The other process's rank in its job.
    pub remote_rank: Option<u32>,
    /// The other process.
    pub remote_pid: u32,
    /// Its device.
    pub remote_device: String,
    /// That device's port, from 1; 0: not known.
    pub remote_port: u32,
    /// Its host.
    pub remote_host: String,
    /// The queue pairs.
    pub queue_pairs: Vec<QueuePair>,
    /// How it failed, in the verbs' own words: "transport retry counter exceeded (status 12)".
    pub error: String,
    /// What went over it.
    pub counts: Counts,
    /// When it was made: `CLOCK_MONOTONIC`, in ns.
    pub made_ns: u64,
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It is being made.
    #[default]
    Connecting,
    /// Data may flow.
    Open,
    /// It was closed.
    Closed,
    /// It failed, as its error says.
    Failed,
}

/// The two ends of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePair {
    /// Its number here.
    pub number: u32,
    /// Its number there.
    pub remote_number: u32,
}

/// What went over a connection since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of whole requests.
    pub bytes: u64,
    /// Requests that were asked for.
    pub requests: u64,
    /// Requests that are done.
    pub completed_requests: u64,
    /// Work requests that were posted.
    pub work_requests: u64,
    /// How often a request had to be asked for again, because the other end had not made room.
    pub waits: u64,
    /// How long requests waited for that, in ns.
    pub wait_ns: u64,
    /// Registrations of memory, and how many of them were found in the cache.
    pub registrations: u64,
    /// See [`Counts::registrations`].
    pub cached_registrations: u64,
    /// When a request was last done: `CLOCK_MONOTONIC`, in ns; 0: never.
    pub last_done_ns: u64,
}

/// Why bytes are not a file of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its head.
    Short,
    /// It begins otherwise.
    NotOurs,
    /// Of another version, which this is.
    OtherVersion(u32),
}

impl State {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Connecting => 1,
            Self::Open => 2,
            Self::Closed => 3,
            Self::Failed => 4,
        }
    }

    const fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Connecting),
            2 => Some(Self::Open),
            3 => Some(Self::Closed),
            4 => Some(Self::Failed),
            _ => None,
        }
    }
}

impl Counts {
    pub(crate) const fn to_array(self) -> [u64; N_COUNTS] {
        [
            self.bytes,
            self.requests,
            self.completed_requests,
            self.work_requests,
            self.waits,
            self.wait_ns,
            self.registrations,
            self.cached_registrations,
            self.last_done_ns,
        ]
    }

    const fn of(array: [u64; N_COUNTS]) -> Self {
        let [bytes, requests, completed_requests, work_requests, waits, wait_ns, registrations, cached, last] =
            array;
        Self {
            bytes,
            requests,
            completed_requests,
            work_requests,
            waits,
            wait_ns,
            registrations,
            cached_registrations: cached,
            last_done_ns: last,
        }
    }
}

/// The connections in a file's bytes. A place that is being written, or that says what cannot be, is left out: it is whole at
/// the next reading.
pub fn parse(bytes: &[u8]) -> Result<Connections, Malformed> {
    let file = Fields(bytes);
    if bytes.len() < HEAD_BYTES {
        return Err(Malformed::Short);
    }
    if file.long(head::MAGIC) != Some(MAGIC) {
        return Err(Malformed::NotOurs);
    }
    let version = file.word(head::VERSION).unwrap_or_default();
    if version != VERSION {
        return Err(Malformed::OtherVersion(version));
    }
    let place_bytes = file.word(head::PLACE_BYTES).map_or(0, |bytes| bytes as usize);
    if place_bytes < PLACE_BYTES {
        return Err(Malformed::NotOurs);
    }
    let n_used = file.word(head::N_USED).map_or(0, |used| (used as usize).min(MAX_PLACES));
    let places = bytes.get(HEAD_BYTES..).unwrap_or_default().chunks_exact(place_bytes).take(n_used);
    Ok(Connections {
        pid: file.word(head::PID).unwrap_or_default(),
        global_rank: file.rank(head::GLOBAL_RANK),
        n_lost: file.long(head::N_LOST).unwrap_or_default(),
        all: (0_u32..).zip(places).filter_map(|(index, place)| connection(index, Fields(place))).collect(),
    })
}

fn connection(index: u32, place: Fields<'_>) -> Option<Connection> {
    let generation = place.word(at::GENERATION).filter(|generation| *generation != 0)?;
    let is_whole = place.word(at::GENERATION_AGAIN) == Some(generation);
    let n_queue_pairs = (place.word(at::N_QUEUE_PAIRS)? as usize).min(MAX_QUEUE_PAIRS);
    let queue_pair = |which: usize| {
        let number = place.word(at::QUEUE_PAIRS + 8 * which)?;
        Some(QueuePair { number, remote_number: place.word(at::QUEUE_PAIRS + 8 * which + 4)? })
    };
    let mut counts = [0; N_COUNTS];
    for (which, count) in counts.iter_mut().enumerate() {
        *count = place.long(at::COUNTS + 8 * which)?;
    }
    let found = Connection {
        place: index,
        generation,
        state: State::of(place.word(at::STATE)?)?,
        is_send: place.word(at::IS_SEND)? != 0,
        device: place.text(at::DEVICE, NAME_BYTES),
        port: place.word(at::PORT)?,
        gid_index: place.word(at::GID_INDEX)?,
        gid: place.gid(at::GID)?,
        remote_gid: place.gid(at::REMOTE_GID)?,
        gid_kind: place.word(at::GID_KIND)?,
        remote_gid_kind: place.word(at::REMOTE_GID_KIND)?,
        mtu_bytes: place.word(at::MTU)?,
        remote_mtu_bytes: place.word(at::REMOTE_MTU)?,
        path_mtu_bytes: place.word(at::PATH_MTU)?,
        traffic_class: place.word(at::TRAFFIC_CLASS)?,
        service_level: place.word(at::SERVICE_LEVEL)?,
        comm_hash: place.long(at::COMM_HASH).filter(|hash| *hash != 0),
        remote_rank: place.rank(at::REMOTE_RANK),
        remote_pid: place.word(at::REMOTE_PID)?,
        remote_port: place.word(at::REMOTE_PORT)?,
        remote_device: place.text(at::REMOTE_DEVICE, NAME_BYTES),
        remote_host: place.text(at::REMOTE_HOST, NAME_BYTES),
        queue_pairs: (0..n_queue_pairs).filter_map(queue_pair).collect(),
        error: place.text(at::ERROR, ERROR_BYTES),
        counts: Counts::of(counts),
        made_ns: place.long(at::MADE_NS)?,
    };
    is_whole.then_some(found)
}

/// Numbers and texts at their places.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn word(self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn long(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn gid(self, at: usize) -> Option<[u8; 16]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    fn rank(self, at: usize) -> Option<u32> {
        u32::try_from(self.word(at)?.cast_signed()).ok()
    }

    /// Up to the first NUL; what is no UTF-8 is replaced.
    fn text(self, at: usize, len: usize) -> String {
        let bytes = self.0.get(at..at + len).unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
    }
}
