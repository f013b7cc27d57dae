//! What a service tells of itself.

use super::keys::Entry;
use super::part::Part;
use super::rounds::Slot;
use super::service::{Counters, Pending, Phase, Service, State};

impl Service {
    /// Every open round that waits for somebody, by key and round, and for whom.
    #[must_use]
    pub fn waits_for(&self) -> Vec<Pending> {
        let rounds = |entry: &Entry<State>| {
            let pending = |(round, slot): (u64, &Slot)| {
                let (phase, workers) = match slot {
                    Slot::Gathering(gathering) => (Phase::Push, gathering.missing().collect()),
                    Slot::Summed(summed) => (Phase::Pull, summed.unanswered().collect()),
                    Slot::Free | Slot::Adding(_) | Slot::Away(_) | Slot::Over => return None,
                };
                Some(Pending { key: entry.key, round, phase, workers })
            };
            entry.state.rounds.iter().filter_map(pending).collect::<Vec<_>>()
        };
        self.keys.iter().flat_map(rounds).collect()
    }

    /// What has happened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes of the payloads and results that are kept, and of memory that lies idle for the next ones.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let bytes = |slot: &Slot, part: Part| match slot {
            Slot::Gathering(gathering) => {
                let prefix = if gathering.prefix.is_none() { 0 } else { part.prefix_bytes() };
                gathering.n_landing() * part.pushed_bytes() + prefix
            }
            Slot::Adding(adding) if adding.has_prefix => part.prefix_bytes() + part.answered_bytes(),
            Slot::Adding(_) if part.codec.is_some() => part.answered_bytes(),
            Slot::Adding(_) => 0,
            Slot::Away(_) | Slot::Summed(_) => part.answered_bytes(),
            Slot::Free | Slot::Over => 0,
        };
        let kept = |entry: &Entry<State>| -> usize {
            entry.state.rounds.iter().map(|(_, slot)| bytes(slot, entry.part)).sum()
        };
        self.keys.iter().map(kept).sum::<usize>() + self.kept_bytes + self.buffers.idle_bytes()
    }
}
