//! NICs and GPUs of each host: the newest reading, and what of the earlier ones tells how it fares. Not stored: the next
//! reading is never far.

mod gpu;
mod marks;
mod nic;
mod payload;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ringscope_wire::batch::{self, NicKind};

pub use self::gpu::Gpu;
pub(super) use self::marks::Marks;
pub(super) use self::nic::RATE;
pub use self::nic::{ErrorCount, FailedQueuePair, FlowCount, Gid, Nic, Phase, Port};
use ringscope_api::clock::Timestamp;

use super::agents::Stamp;
use super::limits::{HARDWARE_KEPT, MAX_HARDWARE_HOSTS, MAX_NICS, MAX_PCI_PATH, STALE_AFTER};
use super::names::Names;
use super::word::Word;
use super::{Model, Name, Process};

/// What a host has.
#[derive(Debug)]
pub struct Hardware {
    stamp: Stamp,
    /// When it was last told of, by our clock.
    heard: Timestamp,
    /// When it was read, by the host's clock; all times below are.
    pub read_at: Timestamp,
    /// Its NICs, RDMA devices first; with those that it showed before and does not show any more.
    pub nics: BTreeMap<Port, Nic>,
    /// Its GPUs, by index. Absent: no driver answered.
    pub gpus: Option<Vec<Gpu>>,
    /// Its agent may see only some of its GPUs: how many it has is not known.
    pub gpus_confined: bool,
    /// Why not all its queue pairs are known, as its agent says. Empty: all are, or it has none.
    pub queue_pairs_lack: String,
    /// Most GPUs that it ever showed.
    pub most_gpus: usize,
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
        let mut word = Word {
            job: "",
            stamp,
            at: now,
            read_at: now,
            now,
            agent_host: "",
            names: &mut self.names,
            ways: &mut self.ways,
            losses: &mut self.losses,
        };
        let Some(changed) = known.merge(told, &mut word) else { return false };
        let processes =
            || self.hosts.get(&host).into_iter().flatten().filter_map(|id| self.processes.get(id));
        known.note_payload(&payload::shares(processes()));
        known.forget_interfaces(processes) || changed
    }

    /// Forgets what nobody has told of for long.
    pub(super) fn forget_hardware(&mut self, now: Timestamp) {
        let is_old = |_: &Name, hardware: &mut Hardware| now.since(hardware.heard) >= HARDWARE_KEPT;
        let gone: Vec<Name> = self.hardware.extract_if(.., is_old).map(|(host, _)| host).collect();
        gone.iter().for_each(|host| self.forget_idle_host(host));
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
            gpus_confined: false,
            queue_pairs_lack: String::new(),
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

    /// A moment of the host's clock, by ours.
    #[must_use]
    pub fn ours(&self, at: Timestamp) -> Timestamp {
        let ns = u128::from(at.0) + u128::from(self.heard.0);
        Timestamp(u64::try_from(ns.saturating_sub(u128::from(self.read_at.0))).unwrap_or(u64::MAX))
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
        let nics_changed = self.merge_nics(told, same_agent, word);
        let n_gpus = self.gpus.as_ref().map(Vec::len);
        self.gpus_confined = told.gpus_confined;
        let lacked = !self.queue_pairs_lack.is_empty();
        self.queue_pairs_lack.clone_from(&told.queue_pairs_lack);
        let lack_changed = lacked == self.queue_pairs_lack.is_empty();
        let before = self.gpus.take().unwrap_or_default();
        self.gpus =
            told.gpus_known.then(|| gpu::gpus(&told.gpus, &before, word.now, word.names, word.losses));
        self.most_gpus = self.most_gpus.max(self.gpus.as_ref().map_or(0, Vec::len));
        Some(is_first || nics_changed || lack_changed || n_gpus != self.gpus.as_ref().map(Vec::len))
    }

    /// Returns whether any came, went or is not as it was.
    fn merge_nics(&mut self, all: &batch::HostHardware, same_agent: bool, word: &mut Word<'_>) -> bool {
        let told = &all.nics;
        let (at, n_before) = (self.read_at, self.nics.len());
        let mut changed = false;
        let mut nics = BTreeMap::new();
        let mut new_cards = Vec::new();
        for nic in told.iter().take(MAX_NICS).filter(|nic| !nic.name.is_empty()) {
            let port = Port {
                is_interface: nic.kind() != NicKind::Rdma,
                nic: word.names.intern(&nic.name),
                number: nic.port,
            };
            let merged = match self.nics.remove(&port) {
                Some(mut known) => {
                    changed |= known.merge(nic, at, same_agent, word);
                    known
                }
                None => {
                    let new = Nic::new(nic, at, word);
                    new_cards.extend(new.card().map(|card| (port.is_interface, card.to_owned())));
                    new
                }
            };
            nics.insert(port, merged);
        }
        word.losses.add_many("nic_limit", told.len().saturating_sub(MAX_NICS));
        for (port, mut nic) in std::mem::take(&mut self.nics) {
            // A card that shows itself under another name is not missing: a bond, a driver that names it anew. Its
            // interface, which is listed by itself from now on, is not it.
            let is_it = |new: &(bool, String)| new.0 == port.is_interface && nic.card() == Some(&new.1);
            let is_renamed = new_cards.iter().any(is_it);
            // One whose driver still holds it was given to a pod or a virtual machine, and shows itself there.
            let is_given_away = all.network_functions.iter().any(|pci| **pci == *nic.pci);
            if nic.was_up() && !is_renamed && !is_given_away && nics.len() < MAX_NICS {
                changed |= nic.miss(at, word.names);
                nics.insert(port, nic);
            }
        }
        self.nics = nics;
        changed || self.nics.len() != n_before || !new_cards.is_empty()
    }

    /// Forgets the network interfaces that are missing and in no ring: they move to containers, and are unplugged.
    /// Returns whether there were any.
    fn forget_interfaces<'a, P: Iterator<Item = &'a Process>>(&mut self, processes: impl Fn() -> P) -> bool {
        let n_before = self.nics.len();
        self.nics
            .retain(|port, nic| !nic.is_missing || !port.is_interface || nic.is_in_a_ring(port, processes()));
        self.nics.len() != n_before
    }

    fn note_payload(&mut self, shares: &BTreeMap<Name, payload::Share>) {
        for (port, nic) in &mut self.nics {
            nic.note_payload(port, shares, self.read_at);
        }
    }
}

fn path(told: &[String], names: &mut Names) -> Box<[Name]> {
    told.iter().take(MAX_PCI_PATH).map(|bridge| names.intern(bridge)).collect()
}
