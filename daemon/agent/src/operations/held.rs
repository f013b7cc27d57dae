//! Calls whose end nobody tells, and which hold back what was called after them.
//!
//! Such a call may have ended long ago. But what comes after it on its stream begins as soon as it ends. Where that would be
//! seen to begin and has not, the call runs or waits, as far as anybody can know: the stream may wait for something else
//! between the two.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::batch;

use super::Open;

/// The tickets of those that hold back another one. Of several before it on its stream that is the newest, which waits for all
/// who have not come to the others either; of several communicators it may be any, and none is named.
pub(super) fn holding(
    open: &BTreeMap<u64, Open>,
    last_completed: &BTreeMap<u64, (u64, batch::Operation)>,
) -> BTreeSet<u64> {
    let mut holding = BTreeSet::new();
    // By stream what may hold back the next one.
    let mut before: BTreeMap<u32, Before> = BTreeMap::new();
    let mut in_order: Vec<(&u64, &Open)> = open.iter().collect();
    // Tickets tell the order of one thread's calls alone.
    in_order.sort_by_key(|(_, open)| match open {
        Open::InFlight(operation) | Open::EndsByOrder(operation) => operation.issued_at_ns,
        Open::Torn | Open::NotBegun => u64::MAX,
    });
    for (ticket, open) in in_order {
        match open {
            Open::EndsByOrder(operation) if operation.stream != 0 => {
                let one = Before { ticket: *ticket, operation, is_any: false };
                let known = before.entry(operation.stream).or_insert(one);
                let is_any = known.is_any || known.operation.local_id != operation.local_id;
                *known = Before { is_any, ..one };
            }
            Open::InFlight(later) if later.state() == batch::OperationState::Issued => {
                if before.get(&later.stream).is_none_or(|known| !known.is_before(later)) {
                    continue;
                }
                // Those after it wait for this one, whichever it waits for.
                let known = before.remove(&later.stream);
                let is_held = later.start_known && later.started_at_ns.is_none();
                let known = known.filter(|known| is_held && !known.is_any && !known.is_over(last_completed));
                holding.extend(known.map(|known| known.ticket));
            }
            _ => {}
        }
    }
    holding
}

#[derive(Clone, Copy)]
struct Before<'a> {
    ticket: u64,
    operation: &'a batch::Operation,
    /// There are such calls of other communicators before it.
    is_any: bool,
}

impl Before<'_> {
    /// Whether one that was called after it on its stream is.
    fn is_over(&self, last_completed: &BTreeMap<u64, (u64, batch::Operation)>) -> bool {
        let mut last = last_completed.values();
        last.any(|(_, last)| {
            last.issued_at_ns > self.operation.issued_at_ns
                && last.stream == self.operation.stream
                && self.is_before(last)
        })
    }

    /// Whether one that was called later waits for it: calls of one group run at the same time.
    fn is_before(&self, later: &batch::Operation) -> bool {
        later.group == 0 || later.group != self.operation.group
    }
}
