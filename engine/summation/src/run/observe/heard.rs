//! What a service hears of its workers: who contributed when, and which results came of it.

use std::sync::Arc;

use rsum_observer::{Contributor, Round};

use super::voice::Voice;
use crate::server::message::Finished;
use rsccl_collective::clock;

/// Rounds of a key that are open at once, in a service.
const N_OPEN: usize = 2;

/// Counted since the group was joined.
#[derive(Debug)]
pub(in crate::run) struct Heard {
    voice: Arc<Voice>,
    /// By worker; without what is unanswered.
    contributors: Vec<Contributor>,
    /// By key, then by key of a host's sums.
    open: Vec<[Arrivals; N_OPEN]>,
    /// From the last contribution of a round to its result, over all rounds.
    summing_ns: u64,
}

/// Arrivals of one round.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    round: u64,
    /// When the first contribution was complete, 0 before.
    first_ns: u64,
    /// The same of the newest one.
    last_ns: u64,
    /// Whose that was.
    last_worker: usize,
}

impl Heard {
    pub(super) fn new(voice: Arc<Voice>, n_workers: usize) -> Self {
        let contributors = vec![Contributor::default(); n_workers];
        Self { voice, contributors, open: Vec::new(), summing_ns: 0 }
    }

    /// Rounds begin anew, of so many keys.
    pub(super) fn begin(&mut self, n_parts: usize) {
        self.open.clear();
        self.open.resize(2 * n_parts, [Arrivals::default(); N_OPEN]);
    }

    /// A worker's contribution is complete.
    pub(in crate::run) fn contributed(&mut self, worker: usize, bytes: usize) {
        if let Some(contributor) = self.contributors.get_mut(worker) {
            contributor.contributions += 1;
            contributor.bytes += bytes as u64;
            contributor.last_arrival_ns = clock::monotonic_ns();
        }
    }

    /// A contribution to a round is complete: a worker's, or that of a host whose last worker this was.
    pub(in crate::run) fn arrived(&mut self, worker: usize, key: u32, round: u64) {
        let now_ns = clock::monotonic_ns();
        if let Some(arrivals) = self.arrivals(key, round) {
            if arrivals.round != round || arrivals.first_ns == 0 {
                arrivals.first_ns = now_ns;
            }
            *arrivals = Arrivals { round, first_ns: arrivals.first_ns, last_ns: now_ns, last_worker: worker };
        }
    }

    /// A host's sum is there, which is no result.
    pub(in crate::run) fn summed(&mut self, key: u32, round: u64) {
        let arrived_ns = self.arrivals(key, round).map_or(u64::MAX, |arrivals| arrivals.last_ns);
        self.summing_ns += clock::monotonic_ns().saturating_sub(arrived_ns);
    }

    /// A round has its result.
    pub(in crate::run) fn made(&mut self, finished: &Finished) {
        let now_ns = clock::monotonic_ns();
        let Finished { key, round, n_contributors, fingerprint, .. } = *finished;
        let arrivals = self.arrivals(key, round).copied().unwrap_or_default();
        let last_arriver = arrivals.last_worker;
        let spread_ns = arrivals.last_ns.saturating_sub(arrivals.first_ns);
        self.summing_ns += now_ns.saturating_sub(arrivals.last_ns);
        if let Some(last) = self.contributors.get_mut(last_arriver) {
            last.last_arrivals += 1;
            last.late_ns += spread_ns;
        }
        self.voice.round(&Round {
            size: size_of::<Round>(),
            key,
            made: 1,
            round,
            fingerprint,
            contributors: u32::try_from(n_contributors).unwrap_or(u32::MAX),
            last_arriver: u32::try_from(last_arriver).unwrap_or(u32::MAX),
            spread_ns,
            took_ns: now_ns.saturating_sub(arrivals.first_ns),
            now_ns,
        });
    }

    /// When the first contribution to a round came; none if none is complete.
    pub(super) fn first_arrival_ns(&self, key: u32, round: u64) -> Option<u64> {
        let arrivals = self.open.get(key as usize)?.get(place(round))?;
        (arrivals.round == round && arrivals.first_ns > 0).then_some(arrivals.first_ns)
    }

    /// By worker, without what is unanswered.
    pub(super) fn contributors(&self) -> &[Contributor] {
        &self.contributors
    }

    /// Time that sums took.
    pub(super) fn summing_ns(&self) -> u64 {
        self.summing_ns
    }

    fn arrivals(&mut self, key: u32, round: u64) -> Option<&mut Arrivals> {
        self.open.get_mut(key as usize)?.get_mut(place(round))
    }
}

fn place(round: u64) -> usize {
    usize::try_from(round % N_OPEN as u64).unwrap_or(0)
}
