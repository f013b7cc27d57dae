//! NICs and GPUs of each host: the newest reading, and what of the earlier ones tells how it fares. Not stored: the next
//! reading is never far.

mod marks;
mod payload;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ringscope_wire::batch::{self, NicKind};

use self::marks::{Marks, Reach};
use super::agents::Stamp;
use super::limits::{
    HARDWARE_KEPT, MAX_GPUS, MAX_HARDWARE_HOSTS, MAX_NIC_ERRORS, MAX_NIC_PHASES, MAX_NICS, MAX_PCI_PATH,
    RATE_WINDOW, STALE_AFTER, TROUBLE_WINDOW,
};
use super::losses::Losses;
use super::merge::Word;
use super::names::Names;
use super::{Model, Name};
use crate::clock::Timestamp;

/// What a host has.
#[derive(Debug)]
pub struct Hardware {
    stamp: Stamp,
    /// When it was last told of, by our clock.
    heard: Timestamp,
    /// When it was read, by the host's clock; all times below are.
    pub read_at: Timestamp,
    /// Its NICs, RDMA devices first.
    pub nics: BTreeMap<Port, Nic>,
    /// Its GPUs, by index. Absent: no driver answered.
    pub gpus: Option<Vec<Gpu>>,
    /// Most GPUs that it ever showed.
    pub most_gpus: usize,
}

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
    /// Only those that were ever seen other than 0.
    errors: BTreeMap<Name, Marks>,
    payload: Option<(Marks, bool)>,
}

/// How a link was for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// When it was first read so.
    pub since: Timestamp,
    /// Whether data could flow.
    pub up: bool,
    /// Its rate.
    pub rate_bits_per_s: Option<u64>,
}

/// One GPU.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Gpu")]
pub struct Gpu {
    pub index: u32,
    pub name: Name,
    pub uuid: Name,
    pub pci: Name,
    pub pci_path: Box<[Name]>,
    pub numa_node: Option<u32>,
    pub memory_bytes: Option<u64>,
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
}

impl Model {
    /// What each host has, of those that told.
    pub fn hardware(&self) -> impl Iterator<Item = (&Name, &Hardware)> {
        self.hardware.iter()
    }

    /// What a host has. `None`: nobody has read it lately.
    #[must_use]
    pub fn hardware_of(&self, host: &str) -> Option<&Hardware> {
        self.hardware.get(host)
    }

    /// Takes one host's hardware. Returns whether any of it is not as it was, beside what it counts.
    pub(super) fn apply_hardware(
        &mut self,
        told: &batch::HostHardware,
        stamp: Stamp,
        now: Timestamp,
    ) -> bool {
        if told.host.is_empty() {
            self.losses.add("bad_host_name");
            return false;
        }
        let host = self.names.intern(&told.host);
        if !self.hardware.contains_key(&host) && self.hardware.len() >= MAX_HARDWARE_HOSTS {
            self.losses.add("hardware_host_limit");
            return false;
        }
        self.hosts.entry(host.clone()).or_default();
        let known = self.hardware.entry(host.clone()).or_insert_with(|| Hardware::new(told, stamp));
        let mut word =
            Word { stamp, at: now, now, agent_host: "", names: &mut self.names, losses: &mut self.losses };
        let Some(changed) = known.merge(told, &mut word) else { return false };
        let processes = self.hosts.get(&host).into_iter().flatten().filter_map(|id| self.processes.get(id));
        known.note_payload(&payload::shares(processes));
        changed
    }

    /// Forgets what nobody has told of for long.
    pub(super) fn forget_hardware(&mut self, now: Timestamp) {
        let hosts = &mut self.hosts;
        self.hardware.retain(|host, hardware| {
            let keep = now.since(hardware.heard) < HARDWARE_KEPT;
            if !keep && hosts.get(host).is_some_and(std::collections::BTreeSet::is_empty) {
                hosts.remove(host);
            }
            keep
        });
    }
}

impl Hardware {
    fn new(told: &batch::HostHardware, stamp: Stamp) -> Self {
        Self {
            stamp,
            heard: Timestamp::default(),
            read_at: Timestamp(told.read_at_ns),
            nics: BTreeMap::new(),
            gpus: None,
            most_gpus: 0,
        }
    }

    /// When it was last told of, by our clock.
    #[must_use]
    pub fn heard(&self) -> Timestamp {
        self.heard
    }

    /// Whether it is what the host has now, or only what it had.
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now.since(self.heard) < STALE_AFTER
    }

    /// Whether it has any RDMA device.
    #[must_use]
    pub fn has_rdma(&self) -> bool {
        self.nics.keys().any(|port| !port.is_interface)
    }

    /// `None`: an older word, or one that was taken before.
    fn merge(&mut self, told: &batch::HostHardware, word: &mut Word<'_>) -> Option<bool> {
        let is_first = self.heard == Timestamp::default();
        if !is_first && (!word.stamp.replaces(self.stamp) || word.stamp == self.stamp) {
            return None;
        }
        // Another agent may list other counters: those are not new errors.
        let same_agent = self.stamp.agent() == word.stamp.agent();
        self.stamp = word.stamp;
        self.heard = word.now;
        self.read_at = Timestamp(told.read_at_ns);
        let mut changed = is_first;
        let mut nics = BTreeMap::new();
        let n_before = self.nics.len();
        for nic in told.nics.iter().take(MAX_NICS).filter(|nic| !nic.name.is_empty()) {
            let port = Port {
                is_interface: nic.kind() != NicKind::Rdma,
                nic: word.names.intern(&nic.name),
                number: nic.port,
            };
            let before = self.nics.remove(&port);
            let at = self.read_at;
            let merged = match before {
                Some(mut known) => {
                    changed |= known.merge(nic, at, same_agent, word);
                    known
                }
                None => Nic::new(nic, at, word),
            };
            nics.insert(port, merged);
        }
        word.losses.add_many("nic_limit", told.nics.len().saturating_sub(MAX_NICS));
        changed |= nics.len() != n_before || !self.nics.is_empty();
        self.nics = nics;
        let n_gpus = self.gpus.as_ref().map(Vec::len);
        self.gpus = told.gpus_known.then(|| gpus(&told.gpus, word.names, word.losses));
        self.most_gpus = self.most_gpus.max(self.gpus.as_ref().map_or(0, Vec::len));
        Some(changed || n_gpus != self.gpus.as_ref().map(Vec::len))
    }

    fn note_payload(&mut self, shares: &BTreeMap<Name, payload::Share>) {
        for (port, nic) in &mut self.nics {
            let mut through = shares.iter().filter(|(name, _)| nic.is_named(port, name)).peekable();
            if through.peek().is_none() {
                nic.payload = None;
                continue;
            }
            let (bytes, is_estimated) = through.fold((0_u64, false), |sum, (_, share)| {
                (sum.0.saturating_add(share.bytes), sum.1 || share.is_estimated)
            });
            let (marks, estimated) = nic.payload.get_or_insert_default();
            marks.push(self.read_at, bytes, RATE);
            *estimated = is_estimated;
        }
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
    fn new(told: &batch::Nic, at: Timestamp, word: &mut Word<'_>) -> Self {
        let empty = word.names.intern("");
        let mut nic = Self {
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
            errors: BTreeMap::new(),
            payload: None,
        };
        nic.merge(told, at, false, word);
        nic
    }

    /// Returns whether its link, or what it is, is not as it was. `same_agent`: the one that told of it before, so that
    /// a counter that was not there was 0.
    fn merge(&mut self, told: &batch::Nic, at: Timestamp, same_agent: bool, word: &mut Word<'_>) -> bool {
        let names = &mut *word.names;
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
        self.count_errors(&told.errors, at, same_agent, word);
        changed
    }

    fn note_phase(&mut self, at: Timestamp) -> bool {
        let phase = Phase { since: at, up: self.up, rate_bits_per_s: self.rate_bits_per_s };
        let is_same = |last: &Phase| (last.up, last.rate_bits_per_s) == (phase.up, phase.rate_bits_per_s);
        if self.phases.back().is_some_and(is_same) {
            return false;
        }
        if self.phases.len() >= MAX_NIC_PHASES {
            self.phases.pop_front();
        }
        self.phases.push_back(phase);
        true
    }

    fn count_errors(
        &mut self,
        told: &[batch::NicCounter],
        at: Timestamp,
        same_agent: bool,
        word: &mut Word<'_>,
    ) {
        for counter in told.iter().take(MAX_NIC_ERRORS) {
            if let Some(marks) = self.errors.get_mut(&*counter.name) {
                marks.push(at, counter.value, TROUBLE);
            } else if counter.value > 0 && self.errors.len() < MAX_NIC_ERRORS {
                let mut marks = Marks::first(at, if same_agent { 0 } else { counter.value });
                marks.push(at, counter.value, TROUBLE);
                self.errors.insert(word.names.intern(&counter.name), marks);
            }
        }
        word.losses.add_many("nic_error_limit", told.len().saturating_sub(MAX_NIC_ERRORS));
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
        let counted = self.errors.iter().filter(|(_, marks)| marks.value() > 0);
        counted.map(|(name, marks)| ErrorCount {
            name: name.clone(),
            value: marks.value(),
            risen: marks.risen(),
        })
    }
}

fn count(marks: &mut Option<Marks>, told: Option<u64>, at: Timestamp, reach: Reach) {
    match told {
        None => *marks = None,
        Some(value) => marks.get_or_insert_default().push(at, value, reach),
    }
}

fn path(told: &[String], names: &mut Names) -> Box<[Name]> {
    told.iter().take(MAX_PCI_PATH).map(|bridge| names.intern(bridge)).collect()
}

fn gpus(told: &[batch::Gpu], names: &mut Names, losses: &mut Losses) -> Vec<Gpu> {
    losses.add_many("gpu_limit", told.len().saturating_sub(MAX_GPUS));
    let gpu = |gpu: &batch::Gpu| Gpu {
        index: gpu.index,
        name: names.intern(&gpu.name),
        uuid: names.intern(&gpu.uuid),
        pci: names.intern(&gpu.pci),
        pci_path: path(&gpu.pci_path, names),
        numa_node: gpu.numa_node,
        memory_bytes: gpu.memory_bytes,
    };
    let mut gpus: Vec<Gpu> = told.iter().take(MAX_GPUS).map(gpu).collect();
    gpus.sort_by_key(|gpu| gpu.index);
    gpus
}

/// Bytes: over the last seconds.
const RATE: Reach = Reach { back: RATE_WINDOW, step: Duration::from_secs(1) };
/// Trouble: rare, so looked at over longer.
const TROUBLE: Reach = Reach { back: TROUBLE_WINDOW, step: Duration::from_secs(30) };
