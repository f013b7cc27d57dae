//! How long the network takes for a byte of each way between hosts. A ring couples its ranks, so all of its links carry the same bytes
//! in the same time; but the slow one is busy for all of it, and the others wait for it. Pure, but for what it remembers from look to
//! look.

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

/// Where a way begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) host: Name,
    /// NICs of the channels that take the way, as rings name them. Empty: not known.
    pub(super) nics: Vec<Name>,
}

/// A way with what it did since it was looked at before.
#[derive(Clone, Debug)]
pub(super) struct Busy {
    pub(super) way: Way,
    /// Keys of the processes that send and receive.
    pub(super) processes: [Name; 2],
    pub(super) from: End,
    pub(super) to: End,
    /// Nanoseconds that the network has a byte, those counted in which it waits behind others. Where all ways have the same to do, as in a
    /// ring, they wait where it is slow.
    pub(super) step_ns: f64,
    /// Nanoseconds a byte takes on one of its NICs while that has something of the way, however much waits behind it.
    pub(super) wire_ns: f64,
    /// Share of the time in which the network had something of it; of several steps at once each counts.
    pub(super) load: f64,
}

/// The busy ways of a communicator.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    pub(super) n_ranks: usize,
    pub(super) busy: Vec<Busy>,
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

impl Links {
    /// The ways of a job by communicator that moved at least [`FEWEST_BYTES`] since they were measured before. All are measured at the
    /// same looks, so that they can be compared. `None`: none moved so much, or it is too early.
    pub(super) fn look(&mut self, model: &Model, job: &Job, now: Timestamp) -> Option<Vec<Ways>> {
        if now >= self.looked && now.since(self.looked) < WINDOW {
            return None;
        }
        self.looked = now;
        self.before.retain(|way, _| model.communicator(way.comm).is_some());
        let ways = job.communicators(model).map(|communicator| Ways {
            n_ranks: communicator.n_ranks() as usize,
            busy: self.busy(model, communicator, now),
        });
        let ways: Vec<Ways> = ways.filter(|ways| !ways.busy.is_empty()).collect();
        (!ways.is_empty()).then_some(ways)
    }

    fn busy(&mut self, model: &Model, communicator: &Communicator, now: Timestamp) -> Vec<Busy> {
        // Links are told only where each network step is asked for.
        if communicator.ranks(model).all(|rank| rank.local.links().is_empty()) {
            return Vec::new();
        }
        let ranks: HashMap<u32, RankRef<'_>> =
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
                if before.at == now {
                    continue;
                }
                self.before.insert(way.clone(), sent);
                busy.extend(between(way, (rank, to), (before, sent)));
            }
        }
        busy
    }
}

/// What a way did from one reading to the next. `None`: too little.
fn between(
    way: Way,
    (from, to): (&RankRef<'_>, &RankRef<'_>),
    (before, after): (Sent, Sent),
) -> Option<Busy> {
    let bytes = after.bytes.saturating_sub(before.bytes);
    let sending_ns = after.sending_ns.saturating_sub(before.sending_ns);
    if bytes < FEWEST_BYTES || sending_ns == 0 {
        return None;
    }
    let (own_nics, its_nics) = (nics(from, Leads::To(way.to)), nics(to, Leads::From(way.from)));
    let passed = after.at.since(before.at);
    // Where it is not known how many NICs there are, each step counts.
    let n_nics = Some(own_nics.len() as u64).filter(|n| *n > 0).unwrap_or(u64::MAX);
    let most_ns = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX).saturating_mul(n_nics);
    Some(Busy {
        processes: [from, to].map(|rank| rank.process.name().clone()),
        from: End { host: from.identity.host.clone(), nics: own_nics },
        to: End { host: to.identity.host.clone(), nics: its_nics },
        way,
        step_ns: real(sending_ns) / real(bytes),
        wire_ns: real(sending_ns.min(most_ns)) / real(bytes),
        load: real(sending_ns) / 1e9 / passed.as_secs_f64(),
    })
}

/// Which of a rank's hops are meant.
#[derive(Clone, Copy)]
enum Leads {
    To(u32),
    From(u32),
}

/// By which NICs the channels go whose rings take this way, in the order of the channels.
fn nics(rank: &RankRef<'_>, leads: Leads) -> Vec<Name> {
    let mut nics: Vec<Name> = Vec::new();
    for place in rank.facts.rings.values() {
        let nic = match leads {
            Leads::To(peer) if place.next == peer => &place.nic,
            Leads::From(peer) if place.prev == peer => &place.recv_nic,
            _ => continue,
        };
        if !nic.is_empty() && !nics.contains(nic) {
            nics.push(nic.clone());
        }
    }
    nics
}

/// What is compared: what was sent in so long.
const WINDOW: Duration = Duration::from_millis(2_500);
/// Over a way that sent less nothing is said.
const FEWEST_BYTES: u64 = 1 << 20;
