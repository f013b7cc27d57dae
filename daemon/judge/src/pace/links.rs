//! Which ways between hosts are slower than their like: how long the network takes for a byte of each. A ring couples its ranks, so
//! all of its links carry the same bytes in the same time; but the slow one is busy for all of it, and the others wait for it. Pure,
//! but for what it remembers from look to look.

use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{Communicator, CommunicatorId, Job, Model, Name, RankRef, real};

/// A way from one rank to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    pub(super) comm: CommunicatorId,
    pub(super) from: u32,
    pub(super) to: u32,
}

/// A way that is slower than its like.
#[derive(Clone, Debug)]
pub(super) struct SlowWay {
    pub(super) way: Way,
    /// Key of the process that sends.
    pub(super) process: Name,
    pub(super) from_host: Name,
    pub(super) to_host: Name,
    /// By which it leaves, where the rings say it. Empty: not known.
    pub(super) nic: Name,
    /// Bytes per second while it is busy, and what is usual among its like.
    pub(super) rate: (f64, f64),
    /// Ways that it is compared with.
    pub(super) n_like: usize,
}

/// What was sent over each way of a job when it was looked at before.
#[derive(Debug, Default)]
pub(super) struct Links {
    before: HashMap<Way, Sent>,
    looked: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Timestamp,
    bytes: u64,
    sending_ns: u64,
}

/// A way with what it did since it was looked at before.
struct Busy<'m> {
    rank: RankRef<'m>,
    to: RankRef<'m>,
    /// Nanoseconds a byte takes.
    ns_per_byte: f64,
    /// Share of the time in which the network had something of it; of several steps at once each counts.
    load: f64,
}

impl Links {
    /// The slow ways of a job, where enough was sent since the last look that gave something.
    pub(super) fn look(&mut self, model: &Model, job: &Job, now: Timestamp) -> Option<Vec<SlowWay>> {
        if now.since(self.looked) < WINDOW / 2 {
            return None;
        }
        self.looked = now;
        self.before.retain(|way, _| model.communicator(way.comm).is_some());
        let mut slow = Vec::new();
        let mut is_due = false;
        for communicator in job.communicators(model) {
            let busy = self.busy(model, communicator, now);
            is_due |= !busy.is_empty();
            slow.extend(slowest(communicator, &busy));
        }
        is_due.then_some(slow)
    }

    fn busy<'m>(
        &mut self,
        model: &'m Model,
        communicator: &'m Communicator,
        now: Timestamp,
    ) -> Vec<Busy<'m>> {
        // Links are told only where each network step is asked for.
        if communicator.ranks(model).all(|rank| rank.local.links().is_empty()) {
            return Vec::new();
        }
        let ranks: HashMap<u32, RankRef<'m>> =
            communicator.ranks(model).map(|rank| (rank.rank, rank)).collect();
        let mut busy = Vec::new();
        for rank in ranks.values() {
            let mut by_peer: HashMap<u32, (u64, u64)> = HashMap::new();
            for ((_, peer), sent) in rank.local.links() {
                let (bytes, sending_ns) = by_peer.entry(*peer).or_default();
                *bytes = bytes.saturating_add(sent.bytes);
                *sending_ns = sending_ns.saturating_add(sent.sending_ns);
            }
            for (peer, (bytes, sending_ns)) in by_peer {
                let Some(to) = ranks.get(&peer).filter(|to| to.identity.host != rank.identity.host) else {
                    continue;
                };
                let way = Way { comm: communicator.id(), from: rank.rank, to: peer };
                let sent = Sent { at: now, bytes, sending_ns };
                let before = *self.before.entry(way.clone()).or_insert(sent);
                if now.since(before.at) < WINDOW {
                    continue;
                }
                self.before.insert(way, sent);
                let (bytes, sending_ns) =
                    (bytes.saturating_sub(before.bytes), sending_ns.saturating_sub(before.sending_ns));
                if bytes >= FEWEST_BYTES && sending_ns > 0 {
                    let ns_per_byte = real(sending_ns) / real(bytes);
                    let load = real(sending_ns) / 1e9 / now.since(before.at).as_secs_f64();
                    busy.push(Busy { rank: *rank, to: *to, ns_per_byte, load });
                }
            }
        }
        busy
    }
}

/// Those that take much longer for a byte than the others of the communicator: at most a quarter of them.
fn slowest(communicator: &Communicator, busy: &[Busy<'_>]) -> Vec<SlowWay> {
    if busy.len() < FEWEST_WAYS {
        return Vec::new();
    }
    let mut all: Vec<f64> = busy.iter().map(|one| one.ns_per_byte).collect();
    all.sort_by(f64::total_cmp);
    let Some(usual) = all.get(all.len() / 2).copied() else { return Vec::new() };
    let is_slow = |one: &&Busy<'_>| one.ns_per_byte >= MUCH_SLOWER * usual && one.load >= BUSY;
    let slow: Vec<&Busy<'_>> = busy.iter().filter(is_slow).collect();
    if slow.len() > busy.len() / 4 {
        return Vec::new();
    }
    let told = slow.into_iter().map(|one| SlowWay {
        way: Way { comm: communicator.id(), from: one.rank.rank, to: one.to.rank },
        process: one.rank.process.name().clone(),
        from_host: one.rank.identity.host.clone(),
        to_host: one.to.identity.host.clone(),
        nic: nic(one),
        rate: (1e9 / one.ns_per_byte, 1e9 / usual),
        n_like: busy.len() - 1,
    });
    told.collect()
}

/// By which NIC the first channel of its ring that takes this way leaves.
fn nic(one: &Busy<'_>) -> Name {
    let mut rings = one.rank.facts.rings.values().filter(|place| place.next == one.to.rank);
    rings.find(|place| !place.nic.is_empty()).map(|place| place.nic.clone()).unwrap_or_default()
}

/// What is compared: what was sent in so long.
const WINDOW: Duration = Duration::from_millis(2_500);
/// Over a way that sent less nothing is said.
const FEWEST_BYTES: u64 = 1 << 20;
/// With fewer ways there is nothing to compare with.
const FEWEST_WAYS: usize = 4;
/// So many times as long for a byte: those that wait for a slow one are quicker than ever, so the difference is larger than that of
/// the links.
const MUCH_SLOWER: f64 = 2.0;
/// A link that has nothing to send for most of the time holds nobody up, however slow it is.
const BUSY: f64 = 0.4;
