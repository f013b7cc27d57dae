//! Cumulative counters: they only grow, so repeats and old batches change nothing.

use ringscope_api::clock::Timestamp;
use ringscope_wire::{Primitive, batch};

use super::rate::Window;

/// Calls and payload bytes of one primitive, by NCCL's convention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Counters")]
pub struct Totals {
    pub issued_calls: u64,
    pub issued_bytes: u64,
    pub completed_calls: u64,
    pub completed_bytes: u64,
    pub failed_calls: u64,
    pub busy_ns: u64,
    pub captured_calls: u64,
    pub captured_bytes: u64,
    pub replayed_calls: u64,
    pub replayed_bytes: u64,
}

impl Totals {
    /// Adds another rank's or primitive's.
    pub fn add(&mut self, other: &Self) {
        for (mine, more) in self.fields().into_iter().zip(other.values()) {
            *mine = mine.saturating_add(more);
        }
    }

    /// Raises each to at least what is told. Returns whether anything changed.
    pub(super) fn raise(&mut self, told: &batch::Counters) -> bool {
        let before = *self;
        for (mine, told) in self.fields().into_iter().zip(Self::from(told).values()) {
            *mine = told.max(*mine);
        }
        *self != before
    }

    fn fields(&mut self) -> [&mut u64; 10] {
        [
            &mut self.issued_calls,
            &mut self.issued_bytes,
            &mut self.completed_calls,
            &mut self.completed_bytes,
            &mut self.failed_calls,
            &mut self.busy_ns,
            &mut self.captured_calls,
            &mut self.captured_bytes,
            &mut self.replayed_calls,
            &mut self.replayed_bytes,
        ]
    }

    fn values(mut self) -> [u64; 10] {
        self.fields().map(|field| *field)
    }
}

impl From<&batch::Counters> for Totals {
    fn from(told: &batch::Counters) -> Self {
        Self {
            issued_calls: told.issued_calls,
            issued_bytes: told.issued_bytes,
            completed_calls: told.completed_calls,
            completed_bytes: told.completed_bytes,
            failed_calls: told.failed_calls,
            busy_ns: told.busy_ns,
            captured_calls: told.captured_calls,
            captured_bytes: told.captured_bytes,
            replayed_calls: told.replayed_calls,
            replayed_bytes: told.replayed_bytes,
        }
    }
}

/// The counters of one primitive of one rank, and how fast they grow.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    pub(super) totals: Totals,
    pub(super) window: Window,
}

impl Counted {
    /// The counters.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Completed bytes per second over the last seconds.
    #[must_use]
    pub fn completed_bytes_per_s(&self, now: Timestamp) -> f64 {
        self.window.rate(now)
    }
}

/// The counters of one rank, by primitive. A rank calls a few of them, so they lie one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Counters(Vec<(Primitive, Counted)>);

impl Counters {
    /// Those of this primitive, made if there are none.
    pub(super) fn entry(&mut self, primitive: Primitive) -> &mut Counted {
        let at = self.0.partition_point(|(known, _)| *known < primitive);
        if self.0.get(at).is_none_or(|(known, _)| *known != primitive) {
            self.0.reserve_exact(1);
            self.0.insert(at, (primitive, Counted::default()));
        }
        &mut self.0[at].1
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Counted> {
        self.0.iter_mut().map(|(_, counted)| counted)
    }

    /// Those of this primitive.
    #[must_use]
    pub fn get(&self, primitive: Primitive) -> Option<&Counted> {
        self.iter().find(|(known, _)| *known == primitive).map(|(_, counted)| counted)
    }

    /// All, by primitive.
    pub fn iter(&self) -> impl Iterator<Item = (Primitive, &Counted)> {
        self.0.iter().map(|(primitive, counted)| (*primitive, counted))
    }

    /// All, in the order of their primitives.
    pub fn values(&self) -> impl Iterator<Item = &Counted> {
        self.0.iter().map(|(_, counted)| counted)
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What one rank has sent to one peer over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Payload bytes.
    pub bytes: u64,
    /// Network steps.
    pub steps: u64,
    /// Time that they took with the network; of several at once each counts. 0: not known.
    pub sending_ns: u64,
}
