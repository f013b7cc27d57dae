//! What hosts found in earlier communicators, by shape: what a new one is compared with.

use std::collections::{BTreeMap, HashMap};

use ringscope_api::clock::Timestamp;
use ringscope_model::{CommunicatorId, Name};

/// Communicators of one shape that are remembered. Only the one before is compared with, but several can live.
pub const MAX_PER_SHAPE: usize = 64;

/// Shapes that are remembered; those that were not seen for longest are forgotten first.
pub const MAX_SHAPES: usize = 10_000;

/// What can be compared: job and shape.
pub(super) type Shape = (Name, u64);

/// What each host found.
pub(super) type Inits = BTreeMap<Name, u32>;

/// By shape, in the order in which they were made.
#[derive(Default)]
pub(super) struct History(HashMap<Shape, BTreeMap<(Timestamp, CommunicatorId), Inits>>);

impl History {
    /// Notes what the hosts found. Returns the communicator after it, if that has to be compared anew.
    pub(super) fn note(
        &mut self,
        shape: &Shape,
        at: (Timestamp, CommunicatorId),
        inits: Inits,
    ) -> Option<CommunicatorId> {
        if !self.0.contains_key(shape) {
            self.make_room();
        }
        let same = self.0.entry(shape.clone()).or_default();
        let changed = same.insert(at, inits.clone()).is_none_or(|before| before != inits);
        let next = same.range((std::ops::Bound::Excluded(at), std::ops::Bound::Unbounded)).next();
        let next = next.map(|((_, id), _)| *id).filter(|_| changed);
        while same.len() > MAX_PER_SHAPE {
            same.pop_first();
        }
        next
    }

    /// Takes back what was noted wrong: more is known of that communicator now.
    pub(super) fn remove(&mut self, shape: &Shape, at: (Timestamp, CommunicatorId)) {
        if let Some(same) = self.0.get_mut(shape) {
            same.remove(&at);
        }
    }

    /// What the hosts found in the communicator before this one.
    pub(super) fn before(&self, shape: &Shape, at: (Timestamp, CommunicatorId)) -> Option<&Inits> {
        self.0.get(shape)?.range(..at).next_back().map(|(_, inits)| inits)
    }

    fn make_room(&mut self) {
        while self.0.len() >= MAX_SHAPES {
            let newest = |same: &BTreeMap<(Timestamp, CommunicatorId), Inits>| {
                same.last_key_value().map(|(at, _)| *at)
            };
            let oldest = self.0.iter().min_by_key(|(_, same)| newest(same)).map(|(shape, _)| shape.clone());
            let Some(oldest) = oldest else { return };
            self.0.remove(&oldest);
        }
    }
}
