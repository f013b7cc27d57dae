//! The operations of one process: which are in flight, and which each communicator completed last.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::batch;
use ringscope_wire::segment::layout::{MAX_RECORDS, OPERATION_COMPLETED, OPERATION_ISSUED, OPERATION_QUEUED};
use ringscope_wire::segment::read::{Clock, Record, Source, records};

use super::loss::{Loss, Losses};

/// Operations in flight that are sent: the oldest, which are those that hang.
const MAX_IN_FLIGHT: usize = 256;
/// Records read although they are closed, to read two open ones at once.
const MAX_GAP: u64 = 64;

/// What has been read of a process's records.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// Tickets below have been looked at; `None` before the first reading.
    cursor: Option<u64>,
    /// Those looked at that may still change: in flight, or torn (`None`).
    open: BTreeMap<u64, Option<batch::Operation>>,
    /// Newest completed operation by communicator, with its ticket.
    last_completed: BTreeMap<u64, (u64, batch::Operation)>,
}

impl Operations {
    /// Reads what is new and what was open.
    pub(super) fn update<S: Source>(
        &mut self,
        source: &mut S,
        next_ticket: u64,
        clock: Clock,
        losses: &mut Losses,
    ) -> Result<(), S::Error> {
        let oldest = next_ticket.saturating_sub(MAX_RECORDS as u64);
        self.open.retain(|ticket, _| *ticket >= oldest);
        for (from, to) in self.open_runs() {
            for record in records(source, from, to)?.records {
                if self.open.contains_key(&record.ticket) {
                    self.take(&record, clock);
                }
            }
        }
        let first = self.cursor.is_none();
        let found = records(source, self.cursor.unwrap_or(oldest).min(next_ticket), next_ticket)?;
        if !first {
            losses.add(Loss::RingOverrun, found.overwritten);
        }
        found.records.iter().for_each(|record| self.take(record, clock));
        self.open.extend(found.torn.into_iter().map(|ticket| (ticket, None)));
        self.cursor = Some(next_ticket);
        Ok(())
    }

    /// Those called and not finished, oldest first.
    pub(super) fn in_flight(&self) -> Vec<batch::Operation> {
        self.open.values().flatten().take(MAX_IN_FLIGHT).cloned().collect()
    }

    /// The newest completed one of each of `communicators`; those of others are forgotten.
    pub(super) fn last_completed(&mut self, communicators: &BTreeSet<u64>) -> Vec<batch::Operation> {
        self.last_completed.retain(|local_id, _| communicators.contains(local_id));
        self.last_completed.values().map(|(_, operation)| *operation).collect()
    }

    /// Records that were being written at the last reading.
    pub(super) fn torn(&self) -> u64 {
        self.open.values().filter(|operation| operation.is_none()).count() as u64
    }

    /// The open tickets as few runs.
    fn open_runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for ticket in self.open.keys() {
            match runs.last_mut() {
                Some((_, end)) if *ticket <= *end + MAX_GAP => *end = ticket + 1,
                _ => runs.push((*ticket, ticket + 1)),
            }
        }
        runs
    }

    fn take(&mut self, record: &Record, clock: Clock) {
        let before = self.open.remove(&record.ticket).flatten();
        let mut operation = operation(record, clock);
        // Said once, a time stays: the clock's rate gets better with every reading.
        operation.issued_at_ns = before.map_or(operation.issued_at_ns, |before| before.issued_at_ns);
        match record.state {
            OPERATION_QUEUED | OPERATION_ISSUED => {
                self.open.insert(record.ticket, Some(operation));
            }
            OPERATION_COMPLETED => {
                let last = self.last_completed.get(&operation.local_id);
                if last.is_none_or(|(ticket, _)| *ticket <= record.ticket) {
                    self.last_completed.insert(operation.local_id, (record.ticket, operation));
                }
            }
            _ => {}
        }
    }
}

fn operation(record: &Record, clock: Clock) -> batch::Operation {
    let state = i32::try_from(record.state).unwrap_or_default();
    batch::Operation {
        local_id: u64::from(record.generation) << 16 | u64::from(record.communicator),
        primitive: batch::Primitive::from(record.primitive).into(),
        seq_number: record.seq_number,
        bytes: record.bytes,
        count: record.count,
        datatype: record.datatype.0.into(),
        peer: record.peer,
        state: batch::OperationState::try_from(state).unwrap_or_default().into(),
        issued_at_ns: clock.wall_ns(record.issued_ticks),
        completed_at_ns: record.completed_ticks.map(|ticks| clock.wall_ns(ticks)),
        channels_done: record.channels_done.into(),
        channels_expected: record.channels_expected.into(),
    }
}
