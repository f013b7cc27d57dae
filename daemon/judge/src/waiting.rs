//! Communicators that have changed and wait to be looked at. A look costs as much as a communicator has ranks: were a
//! large one looked at for each of its hosts as they come, the cost would grow with the square of its ranks. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{Communicator, CommunicatorId};

/// See the module.
#[derive(Default)]
pub(super) struct Waiting(BTreeMap<CommunicatorId, Wait>);

struct Wait {
    /// Since when it is not as it was judged.
    since: Timestamp,
    n_ranks: usize,
    /// Not every rank has been heard of: little can be said of it, and more will come.
    is_partial: bool,
}

impl Waiting {
    /// This communicator has changed.
    pub(super) fn add(&mut self, id: CommunicatorId, communicator: &Communicator, now: Timestamp) {
        let wait = self.0.entry(id).or_insert(Wait { since: now, n_ranks: 0, is_partial: false });
        wait.n_ranks = communicator.n_ranks_seen() as usize;
        wait.is_partial = communicator.n_ranks_seen() < communicator.n_ranks();
    }

    /// Whether this communicator waits.
    pub(super) fn has(&self, id: CommunicatorId) -> bool {
        self.0.contains_key(&id)
    }

    /// This communicator is forgotten.
    pub(super) fn remove(&mut self, id: CommunicatorId) {
        self.0.remove(&id);
    }

    /// Those whose turn has come, the longest waiting first, and no more than may be looked at in one go. `looked`: when
    /// each was last looked at.
    pub(super) fn take_due(
        &mut self,
        looked: impl Fn(&CommunicatorId) -> Timestamp,
        now: Timestamp,
    ) -> Vec<CommunicatorId> {
        if self.0.is_empty() {
            return Vec::new();
        }
        // Where the clock was set back, nobody waits until it has come as far again.
        let is_due = |(id, wait): &(&CommunicatorId, &Wait)| {
            let looked = looked(id);
            now < looked || now.since(looked) >= pause(wait)
        };
        let mut due: Vec<(Timestamp, CommunicatorId)> =
            self.0.iter().filter(is_due).map(|(id, wait)| (wait.since, *id)).collect();
        due.sort_unstable();
        let mut n_ranks = 0;
        let fits = |(_, id): &(Timestamp, CommunicatorId)| {
            let fits = n_ranks < RANKS_AT_ONCE;
            n_ranks += self.0.get(id).map_or(0, |wait| wait.n_ranks);
            fits
        };
        let due: Vec<CommunicatorId> = due.into_iter().take_while(fits).map(|(_, id)| id).collect();
        due.iter().for_each(|id| self.remove(*id));
        due
    }

    /// How long the one that waits longest has waited.
    pub(super) fn longest(&self, now: Timestamp) -> Duration {
        self.0.values().map(|wait| now.since(wait.since)).max().unwrap_or_default()
    }
}

/// Time between two looks at a communicator: so that they take a small part of the time, however often its facts change. A
/// small one is looked at at once.
fn pause(wait: &Wait) -> Duration {
    let beyond = u32::try_from(wait.n_ranks.saturating_sub(SMALL)).unwrap_or(u32::MAX);
    let pause = PAUSE_PER_RANK.saturating_mul(beyond);
    if wait.is_partial { pause * PARTIAL_TIMES } else { pause }
}

/// Ranks of a communicator that is never too large to be looked at.
const SMALL: usize = 64;
/// A look takes some microseconds a rank.
const PAUSE_PER_RANK: Duration = Duration::from_micros(100);
/// How much longer it is for one of which ranks are missing.
const PARTIAL_TIMES: u32 = 4;
/// Ranks looked at in one go, so that nobody waits long for the lock. Of one communicator always all.
const RANKS_AT_ONCE: usize = 50_000;
