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

use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;
use rustc_hash::{FxHashMap, FxHashSet};

use super::curves::Timed;
use super::losses::Losses;
use super::names::Name;
use super::{CommunicatorId, Completed};
use gathered::{Gathered, Settled, Side};
use link::{Difference, KEPT_NS, Link, Sample};
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
    /// Takes an operation that one rank has completed; each once. With the word of its last rank: how long it took.
    pub(super) fn hear(&mut self, heard: Heard<'_>, losses: &mut Losses) -> Option<Timed> {
        let Heard { comm, n_ranks, host, operation, at_ns, now_ns } = heard;
        let at_ns = at_ns.min(now_ns);
        if now_ns - at_ns > KEPT_NS {
            // Nothing of that time is kept.
            return None;
        }
        // Without bytes nothing is waited for.
        let number = operation.call_number.filter(|_| n_ranks > 1 && operation.bytes > 0)?;
        let host = self.host_id(host);
        let gathered = self.gathered.entry(comm).or_default();
        let mut timed = None;
        for settled in gathered.take((number, operation), host, n_ranks, at_ns) {
            self.settle(&settled, losses);
            timed = timed.or_else(|| self.time(&settled));
        }
        timed
    }

    /// Forgets a communicator, after what its last operations tell.
    pub(super) fn forget(&mut self, comm: CommunicatorId, losses: &mut Losses) {
        for settled in self.gathered.remove(&comm).unwrap_or_default().rest() {
            self.settle(&settled, losses);
        }
    }

    /// Forgets what is too old to be of use, after what it tells.
    pub(super) fn sweep(&mut self, now_ns: u64, losses: &mut Losses) {
        let over: Vec<Gathered> = self
            .gathered
            .extract_if(|_, gathered| gathered.is_over(now_ns))
            .map(|(_, gathered)| gathered)
            .collect();
        for settled in over.into_iter().flat_map(Gathered::rest) {
            self.settle(&settled, losses);
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
    fn settle(&mut self, settled: &Settled, losses: &mut Losses) {
        let Settled { at_ns, sides, .. } = settled;
        let Some(first) = reference(sides).filter(|_| waits_for_all(settled.primitive)) else { return };
        for side in sides.iter().filter(|side| side.host != first.host) {
            let is_full = self.links.len() >= MAX_LINKS;
            let pair = (first.host, side.host);
            if is_full && !self.links.contains_key(&pair) {
                losses.add("clock_limit");
                continue;
            }
            self.links.entry(pair).or_default().take(Sample::of(side, first, *at_ns));
        }
    }

    /// How long an operation took of which all ranks have told: from when the last of them began it until the last had completed
    /// it. Where that is not known well enough: the least time of any rank, for who comes last waits for nobody.
    fn time(&self, settled: &Settled) -> Option<Timed> {
        let first = reference(&settled.sides).filter(|_| settled.is_whole)?;
        let by_clocks = || {
            let (mut begun_ns, mut done_ns, mut error_ns) = (i128::MIN, i128::MIN, 0);
            for side in &settled.sides {
                let known = match side.host == first.host {
                    true => Difference { offset_ns: 0, error_ns: 0 },
                    false => self.links.get(&(first.host, side.host))?.at(settled.at_ns)?,
                };
                let ours = |at_ns: u64| i128::from(at_ns) - i128::from(known.offset_ns);
                begun_ns = begun_ns.max(ours(side.begun_ns));
                done_ns = done_ns.max(ours(side.done_ns));
                error_ns = error_ns.max(known.error_ns);
            }
            let took_ns = u64::try_from(done_ns - begun_ns).ok()?;
            (error_ns <= took_ns / SURE).then_some(took_ns)
        };
        let by_clocks_ns = by_clocks();
        // Who gives or gets all of a rooted one may be through with it before the others are.
        let least_ns = || settled.sides.iter().map(|side| side.least_ns).min();
        let ns = by_clocks_ns.or_else(|| waits_for_all(settled.primitive).then(least_ns).flatten())?;
        Some(Timed {
            primitive: settled.primitive,
            bytes: settled.bytes,
            ns: ns.max(1),
            at: Timestamp(settled.at_ns),
            n_hosts: u32::try_from(settled.sides.len()).unwrap_or(u32::MAX),
            is_aligned: by_clocks_ns.is_some(),
            is_started: settled.is_started,
        })
    }
}

/// The side of the host that was heard of first.
fn reference(sides: &[Side]) -> Option<&Side> {
    sides.iter().min_by_key(|side| side.host)
}

/// Whether nobody completes it before all have called it.
fn waits_for_all(primitive: Primitive) -> bool {
    matches!(
        primitive,
        Primitive::AllReduce | Primitive::AllGather | Primitive::ReduceScatter | Primitive::AllToAll
    )
}

/// A time is known well enough by clocks that may be wrong by one in so many parts of it.
const SURE: u64 = 8;
