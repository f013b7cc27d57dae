//! The operations of one process: which are in flight, and which each communicator completed last.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::batch;
use ringscope_wire::segment::clock::Clock;
use ringscope_wire::segment::layout::{MAX_RECORDS, OPERATION_COMPLETED, OPERATION_ISSUED, OPERATION_QUEUED};
use ringscope_wire::segment::read::{Record, Records, Source, records};

use super::loss::{Loss, Losses};

/// Operations in flight that are sent: the oldest, which are those that hang.
const MAX_IN_FLIGHT: usize = 256;
/// Records read although they are closed, to read two open ones at once.
const MAX_GAP: u64 = 64;

/// Readings for which a ticket without a record is looked at again: its writer has taken it and not begun, or it was
/// passed over for the operation in its place. Its writer needs nanoseconds, unless it is not scheduled.
const MAX_LOOKS: u8 = 8;

/// What has been read of a process's records.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// Tickets below have been looked at; `None` before the first reading.
    cursor: Option<u64>,
    /// Those looked at that may still change. Each has a place among the records, which bounds their number.
    open: BTreeMap<u64, Open>,
    /// Newest completed operation by communicator, with its ticket.
    last_completed: BTreeMap<u64, (u64, batch::Operation)>,
    /// Those completed since they were last asked for, by ticket; `None` at a level that keeps none.
    history: Option<BTreeMap<u64, batch::Operation>>,
}

#[derive(Debug)]
enum Open {
    /// Followed until it ends, however many came after it: the collector passes over its place.
    InFlight(batch::Operation),
    /// Being written, or never finished.
    Torn,
    /// Not begun at the last readings, of which this is the number; most likely passed over for good.
    NotBegun(u8),
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
        for (from, to) in self.open_runs() {
            let found = records(source, from, to)?;
            self.take_open(from, to, found, clock);
        }
        let oldest = next_ticket.saturating_sub(MAX_RECORDS as u64);
        let first = self.cursor.is_none();
        let found = records(source, self.cursor.unwrap_or(oldest).min(next_ticket), next_ticket)?;
        if !first {
            losses.add(Loss::RingOverrun, found.overwritten);
        }
        self.take_new(found, clock);
        self.cursor = Some(next_ticket);
        Ok(())
    }

    /// Whether completed operations are kept from now on. What completed before is not.
    pub(super) fn keep_history(&mut self, is_kept: bool) {
        if is_kept != self.history.is_some() {
            self.history = is_kept.then(BTreeMap::new);
        }
    }

    /// Those completed since the last call, in the order in which they were called.
    pub(super) fn take_history(&mut self) -> Vec<batch::Operation> {
        self.history.as_mut().map(std::mem::take).unwrap_or_default().into_values().collect()
    }

    /// Those called and not finished, oldest first.
    pub(super) fn in_flight(&self) -> Vec<batch::Operation> {
        let operations = self.open.values().filter_map(|open| match open {
            Open::InFlight(operation) => Some(*operation),
            Open::Torn | Open::NotBegun(_) => None,
        });
        operations.take(MAX_IN_FLIGHT).collect()
    }

    /// The newest completed one of each of `communicators`; those of others are forgotten.
    pub(super) fn last_completed(&mut self, communicators: &BTreeSet<u64>) -> Vec<batch::Operation> {
        self.last_completed.retain(|local_id, _| communicators.contains(local_id));
        self.last_completed.values().map(|(_, operation)| *operation).collect()
    }

    /// Records that were being written at the last reading. Where writing had not begun nothing is missing: such a call
    /// was not forwarded, or the ticket was passed over.
    pub(super) fn torn(&self) -> u64 {
        self.open.values().filter(|open| matches!(open, Open::Torn)).count() as u64
    }

    /// The open tickets as few runs, each no longer than the records are many.
    fn open_runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for ticket in self.open.keys() {
            match runs.last_mut() {
                Some((from, to)) if *ticket <= *to + MAX_GAP && *ticket < *from + MAX_RECORDS as u64 => {
                    *to = ticket + 1;
                }
                _ => runs.push((*ticket, ticket + 1)),
            }
        }
        runs
    }

    /// Takes what was read of open tickets. Those whose place newer ones have got are open no more: the collector counts
    /// what it never saw completed.
    fn take_open(&mut self, from: u64, to: u64, found: Records, clock: Clock) {
        let mut before: BTreeMap<u64, Open> = self.open.extract_if(from..to, |_, _| true).collect();
        for record in &found.records {
            if let Some(open) = before.remove(&record.ticket) {
                self.take(record, Some(open), clock);
            }
        }
        for ticket in found.torn {
            // In the place of an operation in flight it is a newer record that is being written.
            if let Some(Open::Torn | Open::NotBegun(_)) = before.remove(&ticket) {
                self.open.insert(ticket, Open::Torn);
            }
        }
        for (ticket, _) in found.older {
            if let Some(Open::NotBegun(looks)) = before.remove(&ticket)
                && looks < MAX_LOOKS
            {
                self.open.insert(ticket, Open::NotBegun(looks + 1));
            }
        }
    }

    /// Takes what was read for the first time.
    fn take_new(&mut self, found: Records, clock: Clock) {
        // Newest first: of those completed only the newest is kept, and most are never looked at again.
        found.records.iter().rev().for_each(|record| self.take(record, None, clock));
        self.open.extend(found.torn.into_iter().map(|ticket| (ticket, Open::Torn)));
        for (ticket, older) in found.older {
            // It may have been in flight since before this agent started, or have come and stayed between two readings.
            if !self.open.contains_key(&older.ticket) {
                self.take(&older, None, clock);
            }
            self.open.insert(ticket, Open::NotBegun(0));
        }
    }

    fn take(&mut self, record: &Record, before: Option<Open>, clock: Clock) {
        let told = || {
            let mut operation = operation(record, clock);
            if let Some(Open::InFlight(before)) = before {
                // Said once, a time stays: the clock's rate gets better with every reading.
                operation.issued_at_ns = before.issued_at_ns;
            }
            operation
        };
        match record.state {
            OPERATION_QUEUED | OPERATION_ISSUED => {
                self.open.insert(record.ticket, Open::InFlight(told()));
            }
            OPERATION_COMPLETED => {
                let local_id = local_id(record);
                let last = self.last_completed.get(&local_id);
                let is_last = last.is_none_or(|(ticket, _)| *ticket <= record.ticket);
                if !is_last && self.history.is_none() {
                    return;
                }
                let operation = told();
                // Of those that completed before the first reading nobody knows how many were overwritten.
                if let Some(history) = self.history.as_mut().filter(|_| self.cursor.is_some()) {
                    history.insert(record.ticket, operation);
                }
                if is_last {
                    self.last_completed.insert(local_id, (record.ticket, operation));
                }
            }
            _ => {}
        }
    }
}

fn local_id(record: &Record) -> u64 {
    u64::from(record.generation) << 16 | u64::from(record.communicator)
}

fn operation(record: &Record, clock: Clock) -> batch::Operation {
    let state = i32::try_from(record.state).unwrap_or_default();
    batch::Operation {
        local_id: local_id(record),
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
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
