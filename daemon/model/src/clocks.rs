//! How the clocks of hosts differ, from collectives alone: no protocol that sets clocks is trusted.
//!
//! In an operation in which everybody needs what everybody contributes, nobody completes before the last has called. So for
//! hosts a and b, whose clocks are ahead of the true time by `off_a` and `off_b`, `completed_a - off_a >= called_b - off_b`:
//! each such operation bounds `off_a - off_b` from above by `completed_a - called_b`, and from below by `called_a -
//! completed_b`. Nothing has to be assumed but how fast two clocks drift apart ([`DRIFT_PPM`]).
//!
//! Work is done once for each operation and host: of a host's ranks the first completion and the last call count. Each operation
//! bounds all its hosts against the one that was heard of first, and a walk from host to host joins those that share
//! no communicator.

mod gathered;
mod link;
mod ours;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use ringscope_wire::Primitive;
use rustc_hash::{FxHashMap, FxHashSet};

use super::losses::Losses;
use super::names::Name;
use super::{CommunicatorId, Completed};
use gathered::{Gathered, Side};
use link::{KEPT_NS, Link, Sample};
pub use ours::{ClockBasis, HostClock, HostClocks};

/// How fast two clocks may drift apart, in millionths: each by 100 against the other. Quartz alone is within 50. A clock that
/// is being set may be faster: the kernel slews by up to 500, and chrony by more. What it tells then contradicts what was
/// known before, and a contradiction clears the link: that, and not this number, is what can be relied on.
const DRIFT_PPM: i64 = 200;
/// Pairs of hosts (`clock_limit`): each host of 20 000 with the first one of some five communicators. Each takes 2 KB at most,
/// so all of them 200 MB.
const MAX_LINKS: usize = 100_000;

/// What is known of the clocks of all hosts.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    hosts: HashMap<Name, HostId>,
    newest: HostId,
    /// By pairs: the second host's clock against that of the first, which has the lower number.
    links: FxHashMap<(HostId, HostId), Link>,
    /// Operations of which not all ranks have told.
    gathered: HashMap<CommunicatorId, Gathered>,
}

/// A host in here; never used again for another. The one that was heard of first has the lowest.
type HostId = u32;

/// An operation of one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard<'a> {
    pub(super) comm: CommunicatorId,
    pub(super) n_ranks: u32,
    pub(super) host: &'a Name,
    pub(super) operation: &'a Completed,
    /// When it completed, by our clock, to a second or so: only how old it is follows from that.
    pub(super) at_ns: u64,
    /// What it is now: nothing completes later, whatever an agent says.
    pub(super) now_ns: u64,
}

impl Clocks {
    /// Takes an operation that one rank has completed; each once.
    pub(super) fn hear(&mut self, heard: Heard<'_>, losses: &mut Losses) {
        let Heard { comm, n_ranks, host, operation, at_ns, now_ns } = heard;
        let at_ns = at_ns.min(now_ns);
        if now_ns - at_ns > KEPT_NS {
            // Nothing of that time is kept.
            return;
        }
        let Some(number) = operation.call_number.filter(|_| n_ranks > 1 && waits_for_all(operation)) else {
            return;
        };
        let host = self.host_id(host);
        let side = Side { host, completed_ns: operation.completed_at_ns, called_ns: operation.issued_at_ns };
        let gathered = self.gathered.entry(comm).or_default();
        for (at_ns, sides) in gathered.take(number, operation.primitive, side, n_ranks, at_ns) {
            self.settle(at_ns, &sides, losses);
        }
    }

    /// Forgets a communicator, after what its last operations tell.
    pub(super) fn forget(&mut self, comm: CommunicatorId, losses: &mut Losses) {
        for (at_ns, sides) in self.gathered.remove(&comm).unwrap_or_default().rest() {
            self.settle(at_ns, &sides, losses);
        }
    }

    /// Forgets what is too old to be of use, after what it tells.
    pub(super) fn sweep(&mut self, now_ns: u64, losses: &mut Losses) {
        let over: Vec<Gathered> = self
            .gathered
            .extract_if(|_, gathered| gathered.is_over(now_ns))
            .map(|(_, gathered)| gathered)
            .collect();
        for (at_ns, sides) in over.into_iter().flat_map(Gathered::rest) {
            self.settle(at_ns, &sides, losses);
        }
        self.links.retain(|_, link| link.is_of_use(now_ns));
        let mut used: FxHashSet<HostId> = self.links.keys().flat_map(|(one, other)| [*one, *other]).collect();
        used.extend(self.gathered.values().flat_map(Gathered::hosts));
        self.hosts.retain(|_, host| used.contains(host));
    }

    fn host_id(&mut self, host: &Name) -> HostId {
        if let Some(id) = self.hosts.get(host) {
            return *id;
        }
        self.newest = self.newest.wrapping_add(1);
        self.hosts.insert(Name::clone(host), self.newest);
        self.newest
    }

    /// Takes what an operation tells of the clocks of its hosts.
    fn settle(&mut self, at_ns: u64, sides: &[Side], losses: &mut Losses) {
        let Some(first) = sides.iter().min_by_key(|side| side.host) else { return };
        for side in sides.iter().filter(|side| side.host != first.host) {
            let is_full = self.links.len() >= MAX_LINKS;
            let pair = (first.host, side.host);
            if is_full && !self.links.contains_key(&pair) {
                losses.add("clock_limit");
                continue;
            }
            self.links.entry(pair).or_default().take(Sample::of(side, first, at_ns));
        }
    }
}

/// Whether nobody completes it before all have called it.
fn waits_for_all(operation: &Completed) -> bool {
    // Without bytes nothing is waited for.
    let is_of_all = matches!(
        operation.primitive,
        Primitive::AllReduce | Primitive::AllGather | Primitive::ReduceScatter | Primitive::AllToAll
    );
    is_of_all && operation.bytes > 0
}
