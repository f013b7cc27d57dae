//! The operations of one process: which are in flight, and which each communicator completed last.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::ops::RangeInclusive;
use std::time::Instant;

use ringscope_wire::batch;
use ringscope_wire::segment::clock::Clock;
use ringscope_wire::segment::layout::{
    COMPLETION_EVENTS, LEVEL_CHANNELS, LEVEL_EVENTS, LEVEL_STEPS, MAX_RECORDS, OPERATION_COMPLETED,
    OPERATION_ISSUED, OPERATION_QUEUED,
};
use ringscope_wire::segment::read::{Communicator, Record, Records, Source, records};
use rustc_hash::FxHasher;

use super::loss::{Loss, Losses};
use super::own_time::Span;

mod held;
mod sampled;

use sampled::Sampling;

/// Operations in flight that are sent: the oldest, which are those that hang.
const MAX_IN_FLIGHT: usize = 256;
/// Operations that are told because somebody asked for them; the format promises no more.
const MAX_RECALLED: usize = 64;
/// A send or recv that is in flight for so long may wait for a peer that will never come.
const SLOW_PAIR_NS: u64 = 1_000_000_000;
/// Records read although they are closed, to read two open ones at once.
const MAX_GAP: u64 = 64;

/// What has been read of a process's records.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// Tickets below have been looked at; `None` before the first reading.
    cursor: Option<u64>,
    /// Those looked at that may still change. Each has a place among the records, which bounds their number.
    open: BTreeMap<u64, Open>,
    /// Newest completed operation by communicator, with the ticks at which it was called.
    last_completed: BTreeMap<u64, (u64, batch::Operation)>,
    /// Those completed since they were last asked for that are to be told, by ticket.
    history: BTreeMap<u64, batch::Operation>,
    /// Which of them; `None` at a level that tells all.
    sampling: Option<Sampling>,
    /// Tickets that got a place between the last two readings.
    newest: u64,
    /// Whether operations begin, in time, when the device begins them.
    by_device: bool,
    /// Whether CUDA events tell the device's times: of some operations they may not.
    by_events: bool,
    /// Those completed since they were last asked for, in time.
    over: Vec<Span>,
    /// Whether all that began or ended since the reading before is known: none was overwritten or is still being written, and something
    /// tells the end of all of them.
    is_whole: bool,
    /// How far each communicator has counted, for records have the low halves of numbers alone.
    extents: BTreeMap<u64, Extent>,
}

/// How far a communicator has counted.
#[derive(Debug, Default)]
struct Extent {
    calls: u64,
    /// Whether CUDA events tell the end of its operations.
    by_events: bool,
    /// By primitive.
    next_seq_numbers: BTreeMap<usize, u64>,
}

#[derive(Debug)]
enum Open {
    /// Followed until it ends, however many came after it: the collector passes over its place.
    InFlight(batch::Operation),
    /// Followed too, but nobody tells when it ends: it is told in flight only where it holds back another one ([`held`]).
    EndsByOrder(batch::Operation),
    /// Being written, or never finished.
    Torn,
    /// Without a record so far: its thread has got it and not used it, or it was passed over for the operation in its place.
    NotBegun,
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
        // A place is given to newer tickets after so many. What is no ticket of this process is none that is open.
        self.open.retain(|ticket, open| {
            let has_record = matches!(open, Open::InFlight(_) | Open::EndsByOrder(_));
            let may_come = next_ticket.saturating_sub(MAX_RECORDS as u64) <= *ticket && *ticket < next_ticket;
            has_record || may_come
        });
        for (from, to) in self.open_runs() {
            let found = records(source, from, to)?;
            self.take_open(from, to, found, clock);
        }
        let oldest = next_ticket.saturating_sub(MAX_RECORDS as u64);
        let first = self.cursor.is_none();
        let found = records(source, self.cursor.unwrap_or(oldest).min(next_ticket), next_ticket)?;
        self.newest = if first { 0 } else { found.placed };
        if !first {
            losses.add(Loss::RingOverrun, found.overwritten);
        }
        self.is_whole = !first && found.overwritten == 0;
        self.take_new(found, clock);
        self.is_whole &= !self.open.values().any(|open| matches!(open, Open::EndsByOrder(_) | Open::Torn));
        self.cursor = Some(next_ticket);
        Ok(())
    }

    /// How many places its records should have in place of so many, if that is too few for the next reading to find them all.
    pub(super) fn wanted_places(&self, n_places: usize) -> Option<u32> {
        let is_wanted = n_places < MAX_RECORDS && self.newest > n_places as u64 / 2;
        u32::try_from(2 * n_places).ok().filter(|_| is_wanted)
    }

    /// Takes how far the communicators have counted. Before [`Operations::update`].
    pub(super) fn know(&mut self, communicators: &[Communicator]) {
        let before = std::mem::take(&mut self.extents);
        self.extents = (communicators.iter())
            .map(|slot| {
                let id = u64::from(slot.generation & 0xff_ffff) << 16 | u64::from(slot.slot);
                let known = before.get(&id).map_or(0, |extent| extent.calls);
                let calls = slot.sequence.map_or(known, |sequence| sequence.calls);
                let counters = slot.counters.iter();
                let next_seq_numbers =
                    counters.map(|(primitive, one)| (primitive.index(), one.next_seq_number)).collect();
                (id, Extent { calls, by_events: slot.completion == COMPLETION_EVENTS, next_seq_numbers })
            })
            .collect();
    }

    /// The operations of a communicator with these numbers, whatever their state, as far as their records are there.
    pub(super) fn recall<S: Source>(
        &self,
        source: &mut S,
        next_ticket: u64,
        clock: Clock,
        (local_id, numbers): (u64, RangeInclusive<u64>),
    ) -> Result<Vec<batch::Operation>, S::Error> {
        let found = records(source, next_ticket.saturating_sub(MAX_RECORDS as u64), next_ticket)?;
        let older = found.older.into_iter().map(|(_, record)| record);
        let mut recalled: BTreeMap<u64, batch::Operation> = BTreeMap::new();
        // One that is in flight may stand in the places of several tickets.
        for record in found.records.into_iter().chain(older) {
            let operation = self.operation(&record, clock);
            let number = operation.call_number.filter(|_| self::local_id(&record) == local_id);
            if let Some(number) = number.filter(|number| numbers.contains(number)) {
                recalled.insert(number, operation);
            }
        }
        Ok(recalled.into_values().take(MAX_RECALLED).collect())
    }

    /// Communicators with a send or recv that is in flight for long.
    pub(super) fn slow_pairs(&self, now_ns: u64) -> BTreeSet<u64> {
        let pairs = [batch::Primitive::Send.into(), batch::Primitive::Recv.into()];
        let slow = self.open.values().filter_map(|open| match open {
            Open::InFlight(operation) if pairs.contains(&operation.primitive) => Some(operation),
            _ => None,
        });
        let slow = slow.filter(|operation| operation.issued_at_ns.saturating_add(SLOW_PAIR_NS) <= now_ns);
        slow.map(|operation| operation.local_id).collect()
    }

    /// Those completed since the last call, those under way, and whether that is all.
    pub(super) fn take_spans(&mut self) -> (Vec<Span>, Vec<Span>, bool) {
        let open = self.open.values().filter_map(|open| match open {
            Open::InFlight(operation) => span(operation, self.by_device),
            _ => None,
        });
        (std::mem::take(&mut self.over), open.collect(), self.is_whole)
    }

    /// Whether all completed operations are told from now on, or some. After [`Operations::know`], before
    /// [`Operations::update`].
    pub(super) fn tell_all(&mut self, all: bool, now: Instant) {
        if all {
            self.sampling = None;
            return;
        }
        let counted = self.extents.iter().map(|(local_id, extent)| (*local_id, extent.calls));
        self.sampling.get_or_insert_default().learn(counted, now);
    }

    /// Of a communicator, completed operations are told whose number is divisible by two to the power of this.
    pub(super) fn sampled_log2(&self, local_id: u64) -> u32 {
        self.sampling.as_ref().map_or(0, |sampling| sampling.log2(local_id))
    }

    /// Operations begin, in time, when the device begins them, where the level tells it. A level that was raised for a while changes
    /// nothing: times of two kinds cannot be compared. Not `has_times`: no CUDA event tells times, for the driver refuses to, or is
    /// too old. Then calls tell more than nothing.
    pub(super) fn tell_by_device(&mut self, level: u32, has_times: bool, is_raised: bool) {
        self.by_events = level == LEVEL_EVENTS && has_times && !is_raised;
        self.by_device = self.by_events || matches!(level, LEVEL_CHANNELS | LEVEL_STEPS) && !is_raised;
    }

    /// Those completed since the last call, in the order in which they were called.
    pub(super) fn take_history(&mut self) -> Vec<batch::Operation> {
        std::mem::take(&mut self.history).into_values().collect()
    }

    /// Those called and not finished, oldest first. Where there are too many, the oldest of each communicator stay: what a
    /// rank waits for is told however many calls another communicator has in flight. `is_over`: known from elsewhere.
    pub(super) fn in_flight(&self, is_over: impl Fn(&batch::Operation) -> bool) -> Vec<batch::Operation> {
        let holding = held::holding(&self.open, &self.last_completed);
        let in_flight = self.open.iter().filter_map(|(ticket, open)| match open {
            Open::InFlight(operation) => Some((*ticket, *operation)),
            Open::EndsByOrder(operation) => holding.contains(ticket).then_some((*ticket, *operation)),
            Open::Torn | Open::NotBegun => None,
        });
        let mut in_flight: Vec<(u64, batch::Operation)> =
            in_flight.filter(|(_, operation)| !is_over(operation)).collect();
        // Tickets tell the order of one thread's calls alone, for threads take them in blocks.
        let age = |(ticket, operation): &(u64, batch::Operation)| (operation.issued_at_ns, *ticket);
        in_flight.sort_unstable_by_key(age);
        if in_flight.len() > MAX_IN_FLIGHT {
            let mut seen = BTreeSet::new();
            let (first, others): (Vec<_>, Vec<_>) =
                in_flight.into_iter().partition(|(_, operation)| seen.insert(operation.local_id));
            in_flight = first.into_iter().chain(others).take(MAX_IN_FLIGHT).collect();
            in_flight.sort_unstable_by_key(age);
        }
        in_flight.into_iter().map(|(_, operation)| operation).collect()
    }

    /// When the newest completed one of a communicator was called.
    pub(super) fn newest_completed(&self, local_id: u64) -> Option<u64> {
        self.last_completed.get(&local_id).map(|(_, operation)| operation.issued_at_ns)
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
                Some((from, to))
                    if *ticket <= to.saturating_add(MAX_GAP)
                        && *ticket < from.saturating_add(MAX_RECORDS as u64) =>
                {
                    *to = ticket.saturating_add(1);
                }
                _ => runs.push((*ticket, ticket.saturating_add(1))),
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
            if let Some(Open::Torn | Open::NotBegun) = before.remove(&ticket) {
                self.open.insert(ticket, Open::Torn);
            }
        }
        for ticket in found.older.into_iter().map(|(ticket, _)| ticket).chain(found.unused) {
            if let Some(Open::NotBegun) = before.remove(&ticket) {
                self.open.insert(ticket, Open::NotBegun);
            }
        }
    }

    /// Takes what was read for the first time.
    fn take_new(&mut self, found: Records, clock: Clock) {
        // Newest first: of those completed only the newest is kept, and most are never looked at again.
        found.records.iter().rev().for_each(|record| self.take(record, None, clock));
        self.open.extend(found.torn.into_iter().map(|ticket| (ticket, Open::Torn)));
        self.open.extend(found.unused.into_iter().map(|ticket| (ticket, Open::NotBegun)));
        for (ticket, older) in found.older {
            // It may have been in flight since before this agent started, or have come and stayed between two readings.
            if !self.open.contains_key(&older.ticket) {
                self.take(&older, None, clock);
            }
            self.open.insert(ticket, Open::NotBegun);
        }
    }

    fn take(&mut self, record: &Record, before: Option<Open>, clock: Clock) {
        let told = |operations: &Self| {
            let mut operation = operations.operation(record, clock);
            if let Some(Open::InFlight(before) | Open::EndsByOrder(before)) = before {
                // Said once, a time stays: the clock's rate gets better with every reading.
                operation.issued_at_ns = before.issued_at_ns;
                operation.started_at_ns = before.started_at_ns.or(operation.started_at_ns);
            }
            operation
        };
        match record.state {
            OPERATION_QUEUED | OPERATION_ISSUED => {
                let operation = told(self);
                // In a group that has not ended it is not over for sure.
                let may_be_over = record.ends_by_order && record.state == OPERATION_ISSUED;
                let open = if may_be_over { Open::EndsByOrder } else { Open::InFlight };
                self.open.insert(record.ticket, open(operation));
            }
            OPERATION_COMPLETED => {
                let local_id = local_id(record);
                let last = self.last_completed.get(&local_id);
                let is_last = last.is_none_or(|(ticks, _)| *ticks <= record.issued_ticks);
                let operation = told(self);
                self.over.extend(span(&operation, self.by_device));
                // Without its time, what it covers of the device's is not known: called long before, it would hide all own time.
                let should_be_timed =
                    self.by_events && self.extents.get(&local_id).is_some_and(|extent| extent.by_events);
                self.is_whole &= !should_be_timed || operation.start_known;
                // Of those that completed before the first reading nobody knows how many were overwritten.
                if self.cursor.is_some() && self.is_told(record) {
                    self.history.insert(record.ticket, operation);
                }
                if is_last {
                    self.last_completed.insert(local_id, (record.issued_ticks, operation));
                }
            }
            _ => {}
        }
    }

    /// Whether a completed operation is one of those that are told one by one. Of the numbers the low halves are enough.
    fn is_told(&self, record: &Record) -> bool {
        let Some(sampling) = &self.sampling else { return true };
        let log2 = sampling.log2(local_id(record));
        record.completed_ticks.is_some()
            && record.call_number.is_some_and(|number| number.trailing_zeros() >= log2)
    }

    fn operation(&self, record: &Record, clock: Clock) -> batch::Operation {
        let extent = self.extents.get(&local_id(record));
        let next = extent.and_then(|extent| extent.next_seq_numbers.get(&record.primitive.index()));
        let calls = extent.map_or(0, |extent| extent.calls);
        batch::Operation {
            seq_number: whole(record.seq_number, next.copied().unwrap_or_default()),
            call_number: record.call_number.map(|number| whole(number, calls)),
            ..operation(record, clock)
        }
    }
}

/// The operation in time. `None`: it has not begun, though something would tell.
fn span(operation: &batch::Operation, by_device: bool) -> Option<Span> {
    let is_device = by_device && operation.start_known;
    let from_ns = if is_device { operation.started_at_ns? } else { operation.issued_at_ns };
    let to_ns = operation.completed_at_ns.map(|end_ns| end_ns.max(from_ns));
    let mut signature = FxHasher::default();
    (operation.local_id, operation.primitive, operation.bytes).hash(&mut signature);
    Some(Span { from_ns, to_ns, is_device, signature: signature.finish() })
}

/// The number whose low half is known, near to one that is known whole.
fn whole(low: u32, near: u64) -> u64 {
    let ahead = low.wrapping_sub((near & 0xffff_ffff) as u32).cast_signed();
    near.checked_add_signed(ahead.into()).unwrap_or_else(|| low.into())
}

fn local_id(record: &Record) -> u64 {
    u64::from(record.generation) << 16 | u64::from(record.communicator)
}

fn operation(record: &Record, clock: Clock) -> batch::Operation {
    let state = i32::try_from(record.state).unwrap_or_default();
    batch::Operation {
        local_id: local_id(record),
        primitive: batch::Primitive::from(record.primitive).into(),
        seq_number: record.seq_number.into(),
        bytes: record.bytes,
        count: record.count,
        datatype: record.datatype.0.into(),
        peer: record.peer,
        state: batch::OperationState::try_from(state).unwrap_or_default().into(),
        issued_at_ns: clock.wall_ns(record.issued_ticks),
        completed_at_ns: record.completed_ticks.map(|ticks| clock.wall_ns(ticks)),
        channels_done: record.channels_done.into(),
        channels_expected: record.channels_expected.into(),
        call_number: record.call_number.map(u64::from),
        op: record.op.map(u32::from),
        started_at_ns: record.started_ticks.map(|ticks| clock.wall_ns(ticks)),
        start_known: record.start_known,
        stream: record.stream,
        group: record.group,
        ends_by_order: record.ends_by_order,
    }
}

#[cfg(test)]
mod tests;
