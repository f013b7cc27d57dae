//! How often parts are summed: the time from one round of a part to its next one, of the parts that are in use.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::SummationRound;

use super::super::limits::{ARRIVALS_WINDOW, MAX_GROUP_ROUNDS};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Beats {
    /// With which rounds begin anew.
    placement_epoch: u64,
    /// By part.
    parts: BTreeMap<u32, Beat>,
}

/// Rounds of a part, and when its service made them by the clock of that host.
#[derive(Clone, Copy, Debug)]
struct Beat {
    first: (u64, Timestamp),
    newest: (u64, Timestamp),
    /// Of the last window that is over.
    before: Option<Duration>,
}

impl Beats {
    /// Takes a result that a service made.
    pub(super) fn hear(&mut self, placement_epoch: u64, told: &SummationRound) {
        if placement_epoch < self.placement_epoch {
            return;
        }
        if placement_epoch > self.placement_epoch {
            *self = Self { placement_epoch, parts: BTreeMap::new() };
        }
        let made = (told.round, Timestamp(told.at_ns));
        let has_room = self.parts.len() < MAX_GROUP_ROUNDS;
        match self.parts.get_mut(&told.key) {
            Some(beat) => beat.hear(made),
            None if has_room => {
                self.parts.insert(told.key, Beat { first: made, newest: made, before: None });
            }
            None => {}
        }
    }

    /// The time of a round of most parts that are in use. `None`: no part was summed twice of late.
    pub(super) fn round(&self) -> Option<Duration> {
        let newest = self.parts.values().map(|beat| beat.newest.1).max()?;
        let in_use = self.parts.values().filter(|beat| newest.since(beat.newest.1) < ARRIVALS_WINDOW);
        let mut rounds: Vec<Duration> = in_use.filter_map(Beat::round).collect();
        let middle = rounds.len().checked_sub(1)? / 2;
        Some(*rounds.select_nth_unstable(middle).1)
    }
}

impl Beat {
    fn hear(&mut self, made: (u64, Timestamp)) {
        if made.0 <= self.newest.0 {
            return;
        }
        if self.newest.1.since(self.first.1) >= ARRIVALS_WINDOW {
            *self = Self { first: self.newest, newest: made, before: self.round() };
        } else {
            self.newest = made;
        }
    }

    fn round(&self) -> Option<Duration> {
        let span = self.newest.1.since(self.first.1);
        let rounds = u32::try_from(self.newest.0 - self.first.0).unwrap_or(u32::MAX);
        span.checked_div(rounds).filter(|round| !round.is_zero()).or(self.before)
    }
}
