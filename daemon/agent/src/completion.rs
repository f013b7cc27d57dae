//! For how long it is not known of a communicator's operations whether they are over, after the collector has lost what was
//! to tell it.
//!
//! The collector says of a communicator for ever that something was lost ([`Communicator::lost`]). But the library runs the
//! operations of a communicator one after the other: once one completes that was called after the newest loss, those
//! before it are over, and of those after it everything is known.

use ringscope_wire::segment::layout::{DropReason, LOST_RUN};
use ringscope_wire::segment::read::{Communicator, Counters};

/// The newest loss of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// The bits of [`Communicator::lost`].
    bits: u32,
    /// What the process has lost that could be a communicator's: nothing says which one's.
    events: u64,
    /// When it was first read, which is later than it was.
    pub(super) at_ns: u64,
    /// Something that was called later is over.
    pub(super) is_past: bool,
}

impl Lost {
    /// What is known now. `events` as [`events`] counts them; `newest_ns`: when the newest of its operations that are over
    /// was called.
    pub(super) fn of(
        before: Option<Self>,
        slot: &Communicator,
        events: u64,
        newest_ns: Option<u64>,
        now_ns: u64,
    ) -> Option<Self> {
        let new = Self { bits: slot.lost, events, at_ns: now_ns, is_past: false };
        let lost = before.filter(|before| (before.bits, before.events) == (new.bits, events)).unwrap_or(new);
        let is_past = newest_ns.is_some_and(|newest| newest > lost.at_ns) || is_all_over(slot);
        (slot.lost != 0).then_some(Self { is_past: lost.is_past || is_past, ..lost })
    }
}

/// What the process has lost of ends of operations.
pub(super) fn events(dropped: &[(DropReason, u64)]) -> u64 {
    let counts = dropped.iter().filter(|(reason, _)| {
        matches!(
            reason,
            DropReason::RecordOverwritten
                | DropReason::EventPoolFull
                | DropReason::UnmatchedEvent
                | DropReason::EventOutOfOrder
        )
    });
    counts.fold(0, |sum, (_, events)| sum.saturating_add(*events))
}

/// Whether all that was called is over. Runs whose end nobody tells count as completed from their beginning: that says nothing.
fn is_all_over(slot: &Communicator) -> bool {
    let over = |one: &Counters| one.issued_calls <= one.completed_calls.saturating_add(one.failed_calls);
    slot.lost & LOST_RUN == 0 && !slot.counters.is_empty() && slot.counters.iter().all(|(_, one)| over(one))
}
