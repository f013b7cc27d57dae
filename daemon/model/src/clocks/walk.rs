//! From host to host: the clocks of those that share a communicator, and of those that share one with these.

use std::collections::{BTreeMap, VecDeque};

use super::link::Difference;
use super::{Clocks, HostId, Name};

/// The clock of a host against that of the one that the walk began at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// The host that the walk began at.
    pub(super) reference: Name,
    /// What is to be added to a time of the reference's clock for that of the host.
    pub(super) offset_ns: i64,
    /// How far that may be wrong, whatever the network did.
    pub(super) error_ns: u64,
}

impl Clocks {
    /// The clocks of these hosts against each other at a time. Those of which no collectives tell are left out.
    pub(super) fn offsets<'n>(
        &self,
        hosts: impl Iterator<Item = &'n Name>,
        at_ns: u64,
    ) -> BTreeMap<Name, Offset> {
        let known = hosts.filter_map(|host| Some((*self.hosts.get(host)?, host)));
        let mut left: BTreeMap<HostId, &Name> = known.collect();
        let mut beside: BTreeMap<HostId, Vec<(HostId, Difference)>> = BTreeMap::new();
        for ((first, second), link) in &self.links {
            if !left.contains_key(first) || !left.contains_key(second) {
                continue;
            }
            let Some(known) = link.at(at_ns) else { continue };
            let back = Difference { offset_ns: known.offset_ns.saturating_neg(), ..known };
            beside.entry(*first).or_default().push((*second, known));
            beside.entry(*second).or_default().push((*first, back));
        }
        let mut offsets = BTreeMap::new();
        while let Some((start, reference)) = left.pop_first() {
            let Some(neighbours) = beside.get(&start).filter(|neighbours| !neighbours.is_empty()) else {
                continue;
            };
            let of = |known: Difference| Offset {
                reference: Name::clone(reference),
                offset_ns: known.offset_ns,
                error_ns: known.error_ns,
            };
            let here = Difference { offset_ns: 0, error_ns: 0 };
            offsets.insert(Name::clone(reference), of(here));
            let mut queue: VecDeque<(HostId, Difference)> =
                neighbours.iter().map(|(host, known)| (*host, here.then(*known))).collect();
            while let Some((host, known)) = queue.pop_front() {
                let Some(name) = left.remove(&host) else { continue };
                offsets.insert(Name::clone(name), of(known));
                let next = beside.get(&host).into_iter().flatten();
                queue.extend(next.map(|(host, further)| (*host, known.then(*further))));
            }
        }
        offsets
    }
}

impl Difference {
    fn then(self, further: Self) -> Self {
        Self {
            offset_ns: self.offset_ns.saturating_add(further.offset_ns),
            error_ns: self.error_ns.saturating_add(further.error_ns),
        }
    }
}
