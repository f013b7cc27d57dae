//! One port of a network device: how it is, and what of how it was tells how it fares.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch;

use super::marks::{Marks, Reach};
use super::path;
use super::payload::Share;
use crate::connections::{self, gid_text};
use crate::limits::{
    FAILED_QUEUE_PAIRS_KEPT, MAX_FAILED_QUEUE_PAIRS, MAX_GIDS, MAX_NIC_ERRORS, MAX_NIC_PHASES, PAUSE_WINDOW,
    RATE_WINDOW, TROUBLE_WINDOW,
};
use crate::names::Names;
use crate::word::Word;
use crate::{Name, Process};

/// Which port of which NIC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Whether it is a network interface; else an RDMA device.
    pub is_interface: bool,
    /// Name of the device.
    pub nic: Name,
    /// Counting from 1; 0 for a network interface.
    pub number: u32,
}

/// One port of a network device.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Nic")]
pub struct Nic {
    /// Whether the host showed it before, and does not now. It is down then, in the state "missing".
    pub is_missing: bool,
    pub up: bool,
    pub state: Name,
    pub physical_state: Name,
    pub rate_bits_per_s: Option<u64>,
    pub link_layer: Name,
    pub interface: Name,
    pub pci: Name,
    pub pci_path: Box<[Name]>,
    pub numa_node: Option<u32>,
    pub model: Name,
    pub state_file: Name,
    /// The highest rate that it ever had while it was up.
    pub best_rate_bits_per_s: Option<u64>,
    /// How its link was, oldest first; the last is how it is. Never empty.
    pub phases: VecDeque<Phase>,
    sent: Option<Marks>,
    received: Option<Marks>,
    link_downs: Option<Marks>,
    pub mtu_bytes: Option<u32>,
    /// Entries of its table of GIDs that are not empty, by index.
    pub gids: Box<[Gid]>,
    /// Queue pairs that stand in an error state, by number; while nobody knows them, those that did.
    pub failed_queue_pairs: BTreeMap<u32, FailedQueuePair>,
    /// Of all counters only those that were ever seen other than 0.
    errors: BTreeMap<Name, Marks>,
    retransmits: BTreeMap<Name, Marks>,
    failures: BTreeMap<Name, Marks>,
    congestion: BTreeMap<Name, Marks>,
    /// Bytes that it sent and received, over as long as pause frames are looked at.
    flow: [Option<Marks>; 2],
    /// Bytes that it sent, over as long as trouble is looked at.
    sent_long: Marks,
    payload: Option<(Marks, bool)>,
}

/// How a link was for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// When it was first read so.
    pub since: Timestamp,
    /// Whether the host did not show it.
    pub is_missing: bool,
    /// Whether data could flow.
    pub up: bool,
    /// Its rate.
    pub rate_bits_per_s: Option<u64>,
}

/// A counter of errors that is not 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// As the kernel names it.
    pub name: Name,
    /// Since the port counts.
    pub value: u64,
    /// How many more than [`TROUBLE_WINDOW`] ago.
    pub risen: u64,
    /// When it was last read as it was then, by the host's clock: it rose after that. Absent: it has not risen.
    pub risen_after: Option<Timestamp>,
    /// When it was first read as it is, by the host's clock; as late as a step of the marks later. Absent: it has not risen.
    pub risen_until: Option<Timestamp>,
}

/// A counter of pause frames or of congestion control that is not 0.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowCount {
    /// As the kernel names it.
    pub name: Name,
    /// Since the port counts.
    pub value: u64,
    /// How fast it rose over [`PAUSE_WINDOW`]. Absent: read once only.
    pub per_s: Option<f64>,
    /// Whether it was read for the whole of that.
    pub is_whole: bool,
}

/// An entry of a port's table of GIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its place in the table.
    pub index: u32,
    /// 16 bytes, as on the wire.
    pub gid: [u8; 16],
    /// Its kind.
    pub kind: batch::GidKind,
    /// Network interface that it belongs to. Empty: none, or not known.
    pub interface: Name,
}

impl Gid {
    /// As an IPv6 address.
    #[must_use]
    pub fn text(&self) -> String {
        gid_text(self.gid).unwrap_or_default()
    }
}

/// A queue pair that stands in an error state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedQueuePair {
    /// Its number at the other end. Absent: not connected, or not told.
    pub remote_number: Option<u32>,
    /// Process that made it, as its machine numbers it.
    pub pid: u32,
    /// When the kernel told so first, and last, by the host's clock.
    pub since: Timestamp,
    /// See `since`.
    pub until: Timestamp,
}

impl FailedQueuePair {
    /// How long it has stood so: between answers of the kernel, however often each is told.
    #[must_use]
    pub fn stands_for(&self) -> Duration {
        self.until.since(self.since)
    }
}

impl Port {
    /// How people and libraries name it: `mlx5_3`, `mlx5_3:2`.
    #[must_use]
    pub fn label(&self) -> Name {
        if self.number <= 1 { self.nic.clone() } else { format!("{}:{}", self.nic, self.number).into() }
    }
}

impl Nic {
    pub(super) fn new(told: &batch::Nic, at: Timestamp, word: &mut Word<'_>) -> Self {
        let empty = word.names.intern("");
        let mut nic = Self {
            is_missing: false,
            up: false,
            state: empty.clone(),
            physical_state: empty.clone(),
            rate_bits_per_s: None,
            link_layer: empty.clone(),
            interface: empty.clone(),
            pci: empty.clone(),
            pci_path: Box::default(),
            numa_node: None,
            model: empty.clone(),
            state_file: empty,
            best_rate_bits_per_s: None,
            phases: VecDeque::new(),
            sent: None,
            received: None,
            link_downs: None,
            mtu_bytes: None,
            gids: Box::default(),
            failed_queue_pairs: BTreeMap::new(),
            errors: BTreeMap::new(),
            retransmits: BTreeMap::new(),
            failures: BTreeMap::new(),
            congestion: BTreeMap::new(),
            flow: [None, None],
            sent_long: Marks::default(),
            payload: None,
        };
        nic.merge(told, at, false, word);
        nic
    }

    /// Returns whether its link, or what it is, is not as it was. `same_agent`: the one that told of it before, so that
    /// a counter that was not there was 0.
    pub(super) fn merge(
        &mut self,
        told: &batch::Nic,
        at: Timestamp,
        same_agent: bool,
        word: &mut Word<'_>,
    ) -> bool {
        let names = &mut *word.names;
        let was_missing = std::mem::replace(&mut self.is_missing, false);
        self.up = told.up;
        let state = names.intern(&told.state);
        let mut changed = state != self.state;
        self.state = state;
        self.physical_state = names.intern(&told.physical_state);
        self.rate_bits_per_s = told.rate_bits_per_s;
        self.link_layer = names.intern(&told.link_layer);
        self.interface = names.intern(&told.interface);
        self.pci = names.intern(&told.pci);
        self.pci_path = path(&told.pci_path, names);
        self.numa_node = told.numa_node;
        self.model = names.intern(&told.model);
        self.state_file = names.intern(&told.state_file);
        if told.up {
            self.best_rate_bits_per_s = self.best_rate_bits_per_s.max(told.rate_bits_per_s);
        }
        changed |= self.note_phase(at);
        count(&mut self.sent, told.sent_bytes, at, RATE);
        count(&mut self.received, told.received_bytes, at, RATE);
        count(&mut self.link_downs, told.link_downs, at, TROUBLE);
        self.mtu_bytes = told.mtu_bytes;
        let [sent, received] = &mut self.flow;
        count(sent, told.sent_bytes, at, PAUSE);
        count(received, told.received_bytes, at, PAUSE);
        self.sent_long.push(at, told.sent_bytes.unwrap_or(0), TROUBLE);
        let counted = Counted { at, same_agent: same_agent && !was_missing };
        counted.merge(&mut self.errors, &told.errors, TROUBLE, word);
        counted.merge(&mut self.retransmits, &told.retransmits, TROUBLE, word);
        counted.merge(&mut self.failures, &told.failures, TROUBLE, word);
        counted.merge(&mut self.congestion, &told.congestion, PAUSE, word);
        changed | self.merge_rdma(told, at, word)
    }

    /// Returns whether queue pairs failed, or are there no more that had.
    fn merge_rdma(&mut self, told: &batch::Nic, at: Timestamp, word: &mut Word<'_>) -> bool {
        let gid = |told: &batch::Gid| Gid {
            index: told.index,
            gid: connections::gid(&told.gid),
            kind: told.kind(),
            interface: word.names.intern(&told.interface),
        };
        self.gids = told.gids.iter().take(MAX_GIDS).map(gid).collect();
        let before = std::mem::take(&mut self.failed_queue_pairs);
        let failed = |told: &batch::FailedQueuePair| {
            let until = Timestamp(told.asked_at_ns);
            let known = before.get(&told.number).filter(|known| known.pid == told.pid);
            let since = known.map_or(until, |known| known.since);
            (told.number, FailedQueuePair { remote_number: told.remote_number, pid: told.pid, since, until })
        };
        self.failed_queue_pairs =
            told.failed_queue_pairs.iter().take(MAX_FAILED_QUEUE_PAIRS).map(failed).collect();
        if !told.queue_pairs_known {
            let is_kept = |pair: &FailedQueuePair| at.since(pair.until) < FAILED_QUEUE_PAIRS_KEPT;
            for (number, pair) in before.iter().filter(|(_, pair)| is_kept(pair)) {
                if self.failed_queue_pairs.len() < MAX_FAILED_QUEUE_PAIRS {
                    self.failed_queue_pairs.entry(*number).or_insert(*pair);
                }
            }
        }
        let which = |pairs: &BTreeMap<u32, FailedQueuePair>| -> Vec<_> {
            pairs.iter().map(|(number, pair)| (*number, pair.pid, pair.since)).collect()
        };
        which(&self.failed_queue_pairs) != which(&before)
    }

    /// The host shows it no more. Returns whether that is new.
    pub(super) fn miss(&mut self, at: Timestamp, names: &mut Names) -> bool {
        self.is_missing = true;
        self.up = false;
        self.state = names.intern(MISSING);
        self.physical_state = names.intern("");
        self.rate_bits_per_s = None;
        (self.sent, self.received, self.link_downs, self.payload) = (None, None, None, None);
        self.errors.clear();
        self.flow = [None, None];
        (self.mtu_bytes, self.gids, self.sent_long) = (None, Box::default(), Marks::default());
        self.failed_queue_pairs.clear();
        for counters in [&mut self.retransmits, &mut self.failures, &mut self.congestion] {
            counters.clear();
        }
        self.note_phase(at)
    }

    /// Whether it was ever up, as far as is known.
    #[must_use]
    pub fn was_up(&self) -> bool {
        self.best_rate_bits_per_s.is_some() || self.phases.iter().any(|phase| phase.up)
    }

    /// The card that it is a function of. `None`: it has no PCI address.
    #[must_use]
    pub fn card(&self) -> Option<&str> {
        self.pci.rsplit_once('.').map(|(card, _)| card)
    }

    /// Notes what ranks sent through it.
    pub(super) fn note_payload(&mut self, port: &Port, shares: &BTreeMap<Name, Share>, at: Timestamp) {
        let mut through = shares.iter().filter(|(name, _)| self.is_named(port, name)).peekable();
        if self.is_missing || through.peek().is_none() {
            self.payload = None;
            return;
        }
        let (bytes, is_estimated) = through.fold((0_u64, false), |sum, (_, share)| {
            (sum.0.saturating_add(share.bytes), sum.1 || share.is_estimated)
        });
        let (marks, estimated) = self.payload.get_or_insert_default();
        marks.push(at, bytes, RATE);
        *estimated = is_estimated;
    }

    fn note_phase(&mut self, at: Timestamp) -> bool {
        let (is_missing, up, rate_bits_per_s) = (self.is_missing, self.up, self.rate_bits_per_s);
        let phase = Phase { since: at, is_missing, up, rate_bits_per_s };
        let is_same = |last: &Phase| Phase { since: at, ..*last } == phase;
        if self.phases.back().is_some_and(is_same) {
            return false;
        }
        if self.phases.len() >= MAX_NIC_PHASES {
            self.phases.pop_front();
        }
        self.phases.push_back(phase);
        true
    }

    /// Whether this is how rings name it: its device (`mlx5_3`, `mlx5_3:2`), its interface, or several that are used as one
    /// (`mlx5_3+mlx5_4`).
    #[must_use]
    pub fn is_named(&self, port: &Port, name: &str) -> bool {
        name.split('+').any(|name| {
            let (nic, number) = match name.split_once(':') {
                Some((nic, number)) => (nic, number.parse().unwrap_or(1)),
                None => (name, 1),
            };
            (nic == &*port.nic && number == port.number.max(1))
                || (nic == &*self.interface && !nic.is_empty())
        })
    }

    /// Whether a ring of these processes goes through it.
    pub fn is_in_a_ring<'a>(&self, port: &Port, mut processes: impl Iterator<Item = &'a Process>) -> bool {
        processes.any(|process| {
            process.ranks().any(|rank| {
                let mut places = rank.facts.rings.values();
                places.any(|place| self.is_named(port, &place.nic) || self.is_named(port, &place.recv_nic))
            })
        })
    }

    /// Bytes that it has sent and received since it counts.
    #[must_use]
    pub fn bytes(&self) -> (Option<u64>, Option<u64>) {
        (self.sent.as_ref().map(Marks::value), self.received.as_ref().map(Marks::value))
    }

    /// Bytes per second that it sent and received over the last seconds.
    #[must_use]
    pub fn bytes_per_s(&self) -> (Option<f64>, Option<f64>) {
        (self.sent.as_ref().and_then(Marks::per_s), self.received.as_ref().and_then(Marks::per_s))
    }

    /// Payload bytes per second that ranks sent through it, and whether that is shared out among several NICs.
    #[must_use]
    pub fn payload_bytes_per_s(&self) -> Option<(f64, bool)> {
        let (marks, is_estimated) = self.payload.as_ref()?;
        Some((marks.per_s()?, *is_estimated))
    }

    /// How often its link went down since it counts.
    #[must_use]
    pub fn link_downs(&self) -> Option<u64> {
        self.link_downs.as_ref().map(Marks::value)
    }

    /// How often its link went down over the [`TROUBLE_WINDOW`] that ends `now`, by the host's clock: as it counts itself,
    /// or as was seen, whichever is more.
    #[must_use]
    pub fn link_downs_lately(&self, now: Timestamp) -> u64 {
        let pairs = self.phases.iter().zip(self.phases.iter().skip(1));
        let seen = pairs.filter(|(one, next)| one.up && !next.up && now.since(next.since) < TROUBLE_WINDOW);
        let told = self.link_downs.as_ref().map_or(0, Marks::risen);
        told.max(seen.count() as u64)
    }

    /// Counters of errors that are not 0, by name.
    pub fn errors(&self) -> impl Iterator<Item = ErrorCount> {
        error_counts(&self.errors)
    }

    /// Counters of what was lost, late or out of order and was repeated, that are not 0, by name.
    pub fn retransmits(&self) -> impl Iterator<Item = ErrorCount> {
        error_counts(&self.retransmits)
    }

    /// Counters of requests that failed for good, that are not 0, by name.
    pub fn failures(&self) -> impl Iterator<Item = ErrorCount> {
        error_counts(&self.failures)
    }

    /// Counters of pause frames and of congestion control that are not 0, by name.
    pub fn congestion(&self) -> impl Iterator<Item = FlowCount> {
        let counted = self.congestion.iter().filter(|(_, marks)| marks.value() > 0);
        counted.map(|(name, marks)| FlowCount {
            name: name.clone(),
            value: marks.value(),
            per_s: marks.per_s(),
            is_whole: marks.span() >= PAUSE_WINDOW,
        })
    }

    /// Bytes per second that it sent and received over the [`PAUSE_WINDOW`].
    #[must_use]
    pub fn flow_per_s(&self) -> (Option<f64>, Option<f64>) {
        let [sent, received] = self.flow.each_ref().map(|marks| marks.as_ref().and_then(Marks::per_s));
        (sent, received)
    }

    /// Bytes that it sent over the [`TROUBLE_WINDOW`]. 0: none, or nobody counts them.
    #[must_use]
    pub fn sent_lately(&self) -> u64 {
        self.sent_long.risen()
    }
}

fn error_counts(counters: &BTreeMap<Name, Marks>) -> impl Iterator<Item = ErrorCount> {
    let counted = counters.iter().filter(|(_, marks)| marks.value() > 0);
    counted.map(|(name, marks)| ErrorCount {
        name: name.clone(),
        value: marks.value(),
        risen: marks.risen(),
        risen_after: marks.risen_after(),
        risen_until: marks.risen_until(),
    })
}

/// A reading of counters. `same_agent`: a counter that it did not have before was 0.
struct Counted {
    at: Timestamp,
    same_agent: bool,
}

impl Counted {
    fn merge(
        &self,
        known: &mut BTreeMap<Name, Marks>,
        told: &[batch::NicCounter],
        reach: Reach,
        word: &mut Word<'_>,
    ) {
        for counter in told.iter().take(MAX_NIC_ERRORS) {
            if let Some(marks) = known.get_mut(&*counter.name) {
                marks.push(self.at, counter.value, reach);
            } else if counter.value > 0 && known.len() < MAX_NIC_ERRORS {
                let mut marks = Marks::first(self.at, if self.same_agent { 0 } else { counter.value });
                marks.push(self.at, counter.value, reach);
                known.insert(word.names.intern(&counter.name), marks);
            }
        }
        word.losses.add_many("nic_error_limit", told.len().saturating_sub(MAX_NIC_ERRORS));
    }
}

fn count(marks: &mut Option<Marks>, told: Option<u64>, at: Timestamp, reach: Reach) {
    match told {
        None => *marks = None,
        Some(value) => marks.get_or_insert_default().push(at, value, reach),
    }
}

/// The state of a NIC that the host shows no more; no kernel says it.
const MISSING: &str = "missing";

/// Bytes: over the last seconds.
pub(crate) const RATE: Reach = Reach { back: RATE_WINDOW, step: Duration::from_secs(1) };
/// Trouble: rare, so looked at over longer.
const TROUBLE: Reach = Reach { back: TROUBLE_WINDOW, step: Duration::from_secs(30) };
/// Pause frames: of the last half minute.
const PAUSE: Reach = Reach { back: PAUSE_WINDOW, step: Duration::from_secs(5) };
