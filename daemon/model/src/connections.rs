//! The RDMA connections of a process, as its agent told of them last. Not stored: agents say all once more to a daemon that
//! starts.

// The address alone: nothing is done over a network here.
use core::net::Ipv6Addr;
use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{self, ConnectionCounts, ConnectionState, GidKind, QueuePairState};

use super::Name;
use super::agents::Stamp;
use super::hardware::{Marks, RATE};
use super::limits::{MAX_CONNECTION_QUEUE_PAIRS, MAX_CONNECTIONS};
use super::word::Word;

/// One connection: data go one way.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Connection")]
pub struct Connection {
    stamp: Stamp,
    pub place: u32,
    generation: u32,
    pub state: ConnectionState,
    /// When it was first told of as it stands, by our clock.
    pub since: Timestamp,
    pub error: Name,
    pub is_send: bool,
    pub local: End,
    pub remote: End,
    pub path_mtu_bytes: u32,
    pub traffic_class: u32,
    pub service_level: u32,
    /// 0: not known.
    pub comm_hash: u64,
    pub queue_pairs: Vec<batch::QueuePair>,
    /// Since when one of its queue pairs stands in an error state, by our clock.
    pub broken_since: Option<Timestamp>,
    /// When the kernel of its host told so first, and last, by the host's clock.
    broken_told: [Timestamp; 2],
    pub file: Name,
    /// When the newest counts came.
    counts_stamp: Stamp,
    pub counts: ConnectionCounts,
    bytes: Marks,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's ConnectionEnd")]
pub struct End {
    pub device: Name,
    pub port: u32,
    pub gid: [u8; 16],
    pub gid_index: u32,
    pub gid_kind: GidKind,
    pub mtu_bytes: u32,
    pub host: Name,
    pub pid: u32,
    pub global_rank: Option<u32>,
}

impl Connection {
    fn new(told: &batch::Connection, word: &mut Word<'_>) -> Self {
        let empty = batch::ConnectionEnd::default();
        Self {
            stamp: word.stamp,
            place: told.place,
            generation: told.generation,
            state: told.state(),
            since: word.now,
            error: word.names.intern(&told.error),
            is_send: told.is_send,
            local: End::new(told.local.as_ref().unwrap_or(&empty), word),
            remote: End::new(told.remote.as_ref().unwrap_or(&empty), word),
            path_mtu_bytes: told.path_mtu_bytes,
            traffic_class: told.traffic_class,
            service_level: told.service_level,
            comm_hash: told.comm_hash,
            queue_pairs: told.queue_pairs.iter().take(MAX_CONNECTION_QUEUE_PAIRS).copied().collect(),
            broken_since: told.queue_pairs.iter().any(is_broken).then_some(word.now),
            broken_told: [Timestamp(told.broken_at_ns); 2],
            file: word.names.intern(&told.file),
            counts_stamp: Stamp::STORE,
            counts: ConnectionCounts::default(),
            bytes: Marks::default(),
        }
    }

    /// A newer word on the same connection.
    fn merge(&mut self, newer: Self) {
        let since = if newer.state == self.state { self.since } else { newer.since };
        let broken_since = newer.broken_since.map(|since| self.broken_since.unwrap_or(since));
        let [first, last] = newer.broken_told;
        let broken_told = [if self.broken_since.is_some() { self.broken_told[0] } else { first }, last];
        let (bytes, counts) = (std::mem::take(&mut self.bytes), self.counts);
        let counts_stamp = self.counts_stamp;
        *self = Self { since, broken_since, broken_told, bytes, counts, counts_stamp, ..newer };
    }

    /// A newer word, with the error states of which it does not say that they are over: a driver that hangs tells nothing, just when
    /// its queue pairs fail.
    fn with_what_is_not_known(&self, mut newer: Self) -> Self {
        for pair in newer.queue_pairs.iter_mut().filter(|pair| pair.state() == QueuePairState::Unspecified) {
            let known = self.queue_pairs.iter().find(|known| known.number == pair.number && is_broken(known));
            pair.state = known.map_or(pair.state, |known| known.state);
        }
        if newer.broken_since.is_none() && newer.queue_pairs.iter().any(is_broken) {
            (newer.broken_since, newer.broken_told) = (self.broken_since, self.broken_told);
        }
        newer
    }

    fn count(&mut self, told: ConnectionCounts, word: &Word<'_>) {
        if self.counts_stamp == Stamp::STORE || word.stamp.replaces(self.counts_stamp) {
            self.counts_stamp = word.stamp;
            self.counts = told;
            self.bytes.push(word.at, told.bytes, RATE);
        }
    }

    /// Which connection of its place it is.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Bytes per second over the last seconds. Absent: not known yet.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        self.bytes.per_s()
    }

    /// How long one of its queue pairs has stood in an error state: from the kernel's first answer that said so to its newest,
    /// however often each is told. Absent: none does.
    #[must_use]
    pub fn broken_for(&self) -> Option<Duration> {
        let [first, last] = self.broken_told;
        self.broken_since.map(|_| last.since(first))
    }

    /// Whether it is neither closed nor failed.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        matches!(self.state, ConnectionState::Connecting | ConnectionState::Open)
    }
}

impl End {
    fn new(told: &batch::ConnectionEnd, word: &mut Word<'_>) -> Self {
        Self {
            device: word.names.intern(&told.device),
            port: told.port,
            gid: gid(&told.gid),
            gid_index: told.gid_index,
            gid_kind: told.gid_kind(),
            mtu_bytes: told.mtu_bytes,
            host: word.names.intern(&told.host),
            pid: told.pid,
            global_rank: told.global_rank,
        }
    }

    /// Its GID as an IPv6 address. Absent: it has none.
    #[must_use]
    pub fn gid_text(&self) -> Option<String> {
        gid_text(self.gid)
    }

    /// The device with its port, as people and libraries name it: `mlx5_3`, `mlx5_3:2`.
    #[must_use]
    pub fn label(&self) -> Name {
        if self.port <= 1 { self.device.clone() } else { format!("{}:{}", self.device, self.port).into() }
    }
}

/// The connections of a process.
#[derive(Debug, Default)]
pub(super) struct Connections {
    by_place: BTreeMap<u32, Box<Connection>>,
    /// Those that nobody told of, because there was no room for them.
    pub(super) left_out: u64,
}

impl Connections {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.by_place.values().map(|one| &**one)
    }

    /// Forgets them. Returns whether there were any.
    fn clear(&mut self) -> bool {
        !std::mem::take(&mut self.by_place).is_empty()
    }

    /// Where there is none, the one makes way that ended first, closed ones before those that failed.
    fn has_room_for(&mut self, place: u32) -> bool {
        if self.by_place.len() < MAX_CONNECTIONS || self.by_place.contains_key(&place) {
            return true;
        }
        let ended = self.by_place.iter().filter(|(_, one)| !one.is_in_use());
        let rank = |one: &Connection| (one.state != ConnectionState::Closed, one.since);
        let oldest = ended.min_by_key(|(_, one)| rank(one)).map(|(place, _)| *place);
        oldest.is_some_and(|oldest| self.by_place.remove(&oldest).is_some())
    }

    /// Takes what is told of those of a process, which may have ended. Returns whether one came, went or stands otherwise.
    pub(super) fn merge(&mut self, told: &batch::Process, has_ended: bool, word: &mut Word<'_>) -> bool {
        if word.stamp == Stamp::STORE {
            return false;
        }
        // Those of a process that has ended went with it.
        if has_ended {
            return self.clear();
        }
        let mut changed = false;
        for one in &told.connections {
            if !self.has_room_for(one.place) {
                word.losses.add("connection_limit");
                continue;
            }
            let new = Connection::new(one, word);
            match self.by_place.get_mut(&one.place) {
                Some(known) if known.generation == new.generation => {
                    if word.stamp.replaces(known.stamp) {
                        let new = known.with_what_is_not_known(new);
                        changed |= (known.state, known.broken_since.is_some())
                            != (new.state, new.broken_since.is_some());
                        known.merge(new);
                    }
                }
                Some(known) if known.generation > new.generation => {}
                _ => {
                    changed = true;
                    self.by_place.insert(one.place, Box::new(new));
                }
            }
        }
        for counts in &told.connection_counts {
            let known = self.by_place.get_mut(&counts.place);
            if let Some(known) = known.filter(|known| known.generation == counts.generation) {
                known.count(*counts, word);
            }
        }
        self.left_out = self.left_out.max(told.connections_left_out);
        changed
    }
}

/// Whether nothing goes over a queue pair any more.
fn is_broken(pair: &batch::QueuePair) -> bool {
    matches!(pair.state(), QueuePairState::Err | QueuePairState::Sqe)
}

/// 16 bytes of a batch; anything else is none.
pub(super) fn gid(told: &[u8]) -> [u8; 16] {
    told.try_into().unwrap_or_default()
}

/// As an IPv6 address is written. Absent: it is none.
pub(super) fn gid_text(gid: [u8; 16]) -> Option<String> {
    (gid != [0; 16]).then(|| Ipv6Addr::from(gid).to_string())
}

#[cfg(test)]
mod tests {
    use ringscope_samples::cluster::{Cluster, at, connection};

    use crate::limits::MAX_CONNECTIONS;
    use crate::{Connection, Model};

    use super::*;

    fn told(model: &Model) -> Vec<&Connection> {
        model.hosts().flat_map(|(_, processes)| processes).flat_map(crate::Process::connections).collect()
    }

    fn tell(
        model: &mut Model,
        seq_number: u64,
        connections: Vec<batch::Connection>,
        counts: Vec<ConnectionCounts>,
    ) {
        let mut batch = Cluster::new(&[("host-0", 1, 1)], 4).batch(seq_number, seq_number);
        batch.processes[0].connections = connections;
        batch.processes[0].connection_counts = counts;
        model.apply(&batch, at(seq_number));
    }

    fn counted(generation: u32, bytes: u64) -> ConnectionCounts {
        ConnectionCounts { place: 0, generation, bytes, ..ConnectionCounts::default() }
    }

    #[test]
    fn what_goes_over_a_connection_has_a_rate_until_another_takes_its_place() {
        let mut model = Model::new();
        let open = connection("rxe0", "host-1", "rxe1");
        tell(&mut model, 1, vec![open.clone()], vec![counted(1, 100)]);
        tell(&mut model, 2, Vec::new(), vec![counted(1, 600)]);
        tell(&mut model, 1, Vec::new(), vec![counted(1, 100)]);
        let one = told(&model)[0];
        assert_eq!((one.counts.bytes, one.bytes_per_s(), &*one.remote.host), (600, Some(500.0), "host-1"));
        assert!(one.is_in_use());
        let failed = batch::Connection { state: ConnectionState::Failed.into(), ..open.clone() };
        tell(&mut model, 3, vec![failed], Vec::new());
        let one = told(&model)[0];
        assert_eq!((one.since, one.counts.bytes, one.is_in_use()), (at(3), 600, false));
        let next = batch::Connection { generation: 2, ..open.clone() };
        tell(&mut model, 4, vec![next], vec![counted(1, 900)]);
        let one = told(&model)[0];
        assert_eq!((one.counts.bytes, one.bytes_per_s()), (0, None), "counts of the one before are not its");
        tell(&mut model, 5, vec![open], Vec::new());
        assert_eq!(told(&model)[0].generation, 2, "an older one does not come back");
    }

    #[test]
    fn the_connections_of_a_process_go_with_it() {
        let mut model = Model::new();
        let open = connection("rxe0", "host-1", "rxe1");
        tell(&mut model, 1, vec![open.clone()], Vec::new());
        let gone = ringscope_samples::cluster::ended(
            Cluster::new(&[("host-0", 1, 1)], 4).process(0),
            batch::ProcessState::Exited,
            2,
        );
        model.apply(&ringscope_samples::cluster::batch(2, 2, vec![gone]), at(2));
        assert!(told(&model).is_empty());
        tell(&mut model, 3, vec![open], Vec::new());
        assert!(told(&model).is_empty(), "nobody tells of them again");
    }

    #[test]
    fn a_queue_pair_is_broken_since_it_was_first_seen_so() {
        let mut model = Model::new();
        let mut tell_of = |seq_number, state: QueuePairState, broken_at_ns| {
            let pair = batch::QueuePair { number: 17, remote_number: 18, state: state.into() };
            let one = connection("rxe0", "host-1", "rxe1");
            let one = batch::Connection { queue_pairs: vec![pair], broken_at_ns, ..one };
            tell(&mut model, seq_number, vec![one], Vec::new());
            let one = told(&model)[0];
            (one.broken_since, one.broken_for())
        };
        let (rts, err) = (QueuePairState::Rts, QueuePairState::Err);
        assert_eq!(tell_of(1, rts, 0), (None, None));
        assert_eq!(tell_of(2, err, 100), (Some(at(2)), Some(Duration::ZERO)));
        assert_eq!(tell_of(90, err, 100), (Some(at(2)), Some(Duration::ZERO)), "nobody has asked since");
        assert_eq!(tell_of(91, err, 107), (Some(at(2)), Some(Duration::from_nanos(7))));
        let unknown = QueuePairState::Unspecified;
        assert_eq!(tell_of(92, unknown, 0), (Some(at(2)), Some(Duration::from_nanos(7))), "its driver hangs");
        assert_eq!(tell_of(93, err, 109), (Some(at(2)), Some(Duration::from_nanos(9))));
        assert_eq!(tell_of(94, rts, 0), (None, None));
        assert_eq!(tell_of(95, unknown, 0), (None, None));
        assert_eq!(tell_of(96, err, 200), (Some(at(96)), Some(Duration::ZERO)), "anew");
    }

    #[test]
    fn what_is_beyond_the_bounds_is_counted_or_cut() {
        let mut model = Model::new();
        let n = u32::try_from(MAX_CONNECTIONS).unwrap();
        let mut odd = connection("rxe0", "host-1", "rxe1");
        odd.queue_pairs = vec![batch::QueuePair::default(); 100];
        odd.local.as_mut().unwrap().gid = vec![1; 5];
        let at_place = |place| batch::Connection { place, ..odd.clone() };
        tell(&mut model, 1, (0..=n).map(at_place).collect(), Vec::new());
        assert_eq!(model.dropped().get("connection_limit"), Some(&1));
        let closed = batch::Connection { state: ConnectionState::Closed.into(), ..at_place(3) };
        tell(&mut model, 2, vec![closed, at_place(n + 7)], Vec::new());
        let places: Vec<_> = told(&model).iter().map(|one| one.place).collect();
        assert!(places.len() == n as usize && places.contains(&(n + 7)) && !places.contains(&3));
        let failed = batch::Connection { state: ConnectionState::Failed.into(), ..at_place(4) };
        tell(&mut model, 3, vec![failed, at_place(n + 8)], Vec::new());
        assert!(told(&model).iter().all(|one| one.place != 4), "nor one that failed");
        assert_eq!(model.dropped().get("connection_limit"), Some(&1), "a closed one makes way");
        let one = told(&model)[0];
        assert_eq!((one.queue_pairs.len(), one.local.gid_text()), (MAX_CONNECTION_QUEUE_PAIRS, None));
    }
}
