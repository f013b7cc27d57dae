//! What was lost, counted by reason.

use std::collections::BTreeMap;

use ringscope_api::Dropped;
use ringscope_wire::batch;

use super::limits::MAX_DROP_REASONS;
use super::names::clip;

/// What the model itself left out. The reasons are words of this program, so there are few.
#[derive(Default)]
pub(super) struct Losses(BTreeMap<&'static str, u64>);

impl Losses {
    pub(super) fn add(&mut self, reason: &'static str) {
        self.add_many(reason, 1);
    }

    pub(super) fn add_many(&mut self, reason: &'static str, events: usize) {
        if events > 0 {
            let entry = self.0.entry(reason).or_default();
            *entry = entry.saturating_add(events as u64);
        }
    }

    pub(super) fn by_reason(&self) -> Dropped {
        self.0.iter().map(|(reason, events)| ((*reason).to_owned(), *events)).collect()
    }
}

/// Raises cumulative losses to what a batch says. Returns whether anything changed.
pub(super) fn raise(known: &mut Dropped, told: &[batch::Dropped], losses: &mut Losses) -> bool {
    let mut changed = false;
    for loss in told.iter().filter(|loss| loss.events > 0) {
        let reason = clip(&loss.reason);
        if let Some(events) = known.get_mut(reason) {
            changed |= *events < loss.events;
            *events = loss.events.max(*events);
        } else if known.len() < MAX_DROP_REASONS {
            known.insert(reason.to_owned(), loss.events);
            changed = true;
        } else {
            losses.add("reason_limit");
        }
    }
    changed
}

/// How many calls a collector lost of which nothing will be told any more. What else it loses are details of calls that
/// are counted all the same.
pub(super) fn hiding(dropped: &Dropped) -> u64 {
    HIDING.iter().filter_map(|reason| dropped.get(*reason)).fold(0, |sum, events| sum.saturating_add(*events))
}

/// `wire::segment::layout::DropReason`s that hide calls.
const HIDING: [&str; 6] = [
    "communicator_table_full",
    "communicator_not_read",
    "unknown_communicator",
    "panic",
    "no_segment",
    "no_library",
];
