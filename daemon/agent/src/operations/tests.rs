//! An agent that reads while a collector writes, over more operations than there are records.

use std::mem::offset_of;
use std::time::Duration;

use ringscope_api::clock;
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::clock::ClockAnchor;
use ringscope_wire::segment::layout;
use ringscope_wire::segment::read::snapshot;
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::*;

const LAP: u64 = MAX_RECORDS as u64;

/// The records of a process, written as the collector does it (`collector/src/issue.rs`, `place`).
struct Ring {
    bytes: Vec<u8>,
    next_ticket: u64,
}

impl Ring {
    fn new() -> Self {
        let mut fixed = layout::Fixed::new_zeroed();
        fixed.magic = layout::MAGIC;
        fixed.version = layout::VERSION;
        fixed.segment_bytes = size_of::<Segment>() as u64;
        fixed.tick_kind = layout::TICKS_MONOTONIC_NS;
        let mut bytes = vec![0; size_of::<Segment>()];
        bytes[..size_of::<layout::Fixed>()].copy_from_slice(fixed.as_bytes());
        assert!(snapshot(&mut bytes.as_slice()).is_ok());
        Self { bytes, next_ticket: 0 }
    }

    fn word(&mut self, ticket: u64, field: usize, value: u64, width: usize) {
        let index = usize::try_from(ticket % LAP).unwrap();
        let at = offset_of!(Segment, records) + index * size_of::<layout::Record>() + field;
        self.bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    fn is_in_flight(&self, ticket: u64) -> bool {
        let found = records(&mut self.bytes.as_slice(), ticket, ticket + 1).unwrap();
        let there = found.records.iter().chain(found.older.iter().map(|(_, record)| record));
        there.into_iter().any(|record| record.state == OPERATION_ISSUED)
    }

    /// A call: passes over up to three places in flight. Returns its ticket.
    fn call(&mut self) -> u64 {
        for _ in 0..3 {
            if self.is_in_flight(self.next_ticket) {
                self.next_ticket += 1;
            }
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.word(ticket, offset_of!(layout::Record, issued_ticks), ticket, 8);
        self.word(ticket, offset_of!(layout::Record, numbers), ticket << 32 | ticket, 8);
        self.word(ticket, offset_of!(layout::Record, what), layout::NUMBERED.into(), 4);
        self.state(ticket, OPERATION_ISSUED);
        self.word(ticket, offset_of!(layout::Record, ticket), ticket + 1, 8);
        ticket
    }

    fn state(&mut self, ticket: u64, state: u32) {
        let lap = (ticket / LAP) & ((1 << layout::LAP_BITS) - 1);
        let state = u64::from(state | 1 << 8) | lap << layout::LAP_SHIFT;
        self.word(ticket, offset_of!(layout::Record, state), state, 4);
    }

    fn finished_calls(&mut self, calls: u64) {
        for _ in 0..calls {
            let ticket = self.call();
            self.state(ticket, OPERATION_COMPLETED);
        }
    }
}

/// An agent's view of it.
#[derive(Default)]
struct Reader {
    operations: Operations,
    losses: Losses,
}

impl Reader {
    /// One reading; the operations in flight by their sequence number.
    fn read(&mut self, ring: &Ring) -> Vec<u64> {
        let clock = ClockAnchor { is_counter: false, ticks: 0, monotonic_ns: 0, wall_ns: 0 }.clock(1, 1);
        self.operations
            .update(&mut ring.bytes.as_slice(), ring.next_ticket, clock, &mut self.losses)
            .unwrap();
        self.operations.in_flight(|_| false).iter().map(|operation| operation.seq_number).collect()
    }

    fn lost(&self) -> Vec<(String, u64)> {
        self.losses.to_batch().into_iter().map(|dropped| (dropped.reason, dropped.events)).collect()
    }
}

#[test]
fn an_operation_that_hangs_is_shown_however_much_comes_after_it() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    ring.finished_calls(5);
    let hanging = [ring.call(), ring.call()];
    for _ in 0..10 {
        ring.finished_calls(LAP / 3);
        assert_eq!(reader.read(&ring), hanging);
    }
    assert!(ring.next_ticket > 3 * LAP);
    let latest = reader.operations.last_completed(&BTreeSet::from([1 << 16]));
    assert_eq!(latest[0].seq_number, ring.next_ticket - 1);
    assert_eq!(Reader::default().read(&ring), hanging, "also to an agent that starts only now");

    ring.state(hanging[0], OPERATION_COMPLETED);
    assert_eq!(reader.read(&ring), hanging[1..]);
    ring.state(hanging[1], OPERATION_COMPLETED);
    assert!(reader.read(&ring).is_empty());
    assert_eq!((reader.lost(), reader.operations.torn()), (vec![], 0), "nothing was lost");
}

#[test]
fn tickets_passed_over_are_given_up() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    let hanging = ring.call();
    ring.finished_calls(LAP + 10);
    assert_eq!(reader.read(&ring), [hanging]);
    assert_eq!(reader.operations.open.len(), 2, "{:?}", reader.operations.open);
    ring.finished_calls(LAP);
    assert_eq!(reader.read(&ring), [hanging]);
    assert_eq!(reader.operations.open.len(), 2, "that of this lap: {:?}", reader.operations.open);
    ring.state(hanging, OPERATION_COMPLETED);
    ring.finished_calls(LAP);
    reader.read(&ring);
    assert!(reader.operations.open.is_empty());
}

#[test]
fn a_thread_s_tickets_are_taken_however_late_it_uses_them() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    // Of the first block the thread uses two, and other threads go on.
    ring.finished_calls(2);
    ring.next_ticket = 64;
    ring.finished_calls(100);
    for _ in 0..20 {
        assert!(reader.read(&ring).is_empty());
    }
    assert_eq!(reader.operations.torn(), 0, "nothing is missing");
    let others = std::mem::replace(&mut ring.next_ticket, 2);
    assert_eq!(ring.call(), 2);
    ring.next_ticket = others;
    assert_eq!(reader.read(&ring), [2]);
}

#[test]
fn a_record_that_comes_late_is_taken() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    ring.finished_calls(LAP);
    // Its writer has the ticket and is not scheduled.
    ring.next_ticket += 1;
    assert!(reader.read(&ring).is_empty());
    assert_eq!(reader.operations.torn(), 0, "it was not forwarded");
    ring.next_ticket -= 1;
    let late = ring.call();
    assert_eq!(reader.read(&ring), [late]);
    // In the middle of its writing.
    ring.finished_calls(LAP - 1);
    let at = offset_of!(layout::Record, ticket);
    ring.state(late, OPERATION_COMPLETED);
    reader.read(&ring);
    ring.word(ring.next_ticket, at, layout::BEING_WRITTEN, 8);
    ring.next_ticket += 1;
    assert!(reader.read(&ring).is_empty());
    assert_eq!(reader.operations.torn(), 1);
}

#[test]
fn what_was_overwritten_between_two_readings_is_counted_and_no_more() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    ring.finished_calls(10);
    reader.read(&ring);
    let hanging = ring.call();
    ring.finished_calls(3 * LAP);
    // One hangs on, and the tickets that passed over it had no record.
    let lost = 3 * LAP + 1 - LAP;
    assert_eq!(reader.read(&ring), [hanging]);
    assert_eq!(reader.lost(), [("ring_overrun".to_owned(), lost)]);
}

/// Before records are overwritten between two readings.
#[test]
fn more_places_are_asked_for_once_half_of_them_are_written_between_two_readings() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    let at = offset_of!(Segment, live) + offset_of!(layout::Live, n_places);
    ring.bytes[at..at + 4].copy_from_slice(&4096_u32.to_le_bytes());
    ring.finished_calls(3000);
    reader.read(&ring);
    assert_eq!(reader.operations.wanted_places(4096), None, "nobody knows in how long");
    ring.finished_calls(1000);
    // The places from 4096 on are passed over.
    ring.next_ticket = LAP;
    ring.finished_calls(900);
    reader.read(&ring);
    assert_eq!(reader.operations.wanted_places(4096), None, "some 2000 of 4096");
    ring.finished_calls(2100);
    reader.read(&ring);
    assert_eq!(reader.operations.wanted_places(4096), Some(8192));
    assert_eq!(reader.operations.wanted_places(MAX_RECORDS), None, "there are no more");
    assert_eq!(reader.lost(), []);
}

#[test]
fn an_operation_whose_place_was_taken_after_all_is_gone() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    let gone: Vec<u64> = (0..4).map(|_| ring.call()).collect();
    assert_eq!(reader.read(&ring), gone);
    ring.finished_calls(LAP - 4);
    // Four busy places are one too many to pass over.
    let newer = ring.call();
    assert_eq!(newer, LAP + 3);
    assert_eq!(reader.read(&ring), [0, 1, 2, newer]);
}

#[test]
fn history_has_what_completed_since_it_was_asked_for() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    let poll = |ring: &Ring, reader: &mut Reader| {
        reader.read(ring);
        reader.operations.take_history().iter().map(|one| one.seq_number).collect::<Vec<_>>()
    };
    ring.finished_calls(1);
    assert!(poll(&ring, &mut reader).is_empty(), "completed before the first reading");
    let (first, second) = (ring.call(), ring.call());
    ring.state(second, OPERATION_COMPLETED);
    assert_eq!(poll(&ring, &mut reader), [second]);
    ring.state(first, OPERATION_COMPLETED);
    ring.finished_calls(1);
    assert_eq!(poll(&ring, &mut reader), [first, second + 1]);
}

#[test]
fn where_not_all_are_told_those_with_round_numbers_are() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    let start = clock::monotonic();
    reader.read(&ring);
    let mut read = |ring: &Ring, calls, after: Duration| {
        reader.operations.extents = BTreeMap::from([(1 << 16, Extent { calls, ..Extent::default() })]);
        reader.operations.tell_all(false, start + after);
        reader.read(ring);
        let told = reader.operations.take_history();
        (reader.operations.sampled_log2(1 << 16), told.iter().map(|one| one.call_number).collect::<Vec<_>>())
    };
    assert_eq!(read(&ring, 0, Duration::ZERO), (0, vec![]));
    ring.finished_calls(2);
    assert_eq!(
        read(&ring, 2, Duration::from_secs(1)),
        (0, vec![Some(0), Some(1)]),
        "all where there are few"
    );
    ring.finished_calls(6);
    let open = ring.call();
    ring.finished_calls(7);
    let (log2, told) = read(&ring, 16, Duration::from_secs(2));
    assert_eq!((log2, told), (2, vec![Some(4), Some(12)]), "each fourth");
    ring.state(open, OPERATION_COMPLETED);
    assert_eq!(read(&ring, 16, Duration::from_secs(3)).1, [Some(8)], "once it is over");
}

#[test]
fn the_oldest_of_each_communicator_is_told_however_many_another_has() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    for _ in 0..300 {
        ring.call();
    }
    let other = ring.call();
    ring.word(other, offset_of!(layout::Record, what), 3 << layout::WHAT_SLOT_SHIFT, 4);
    ring.call();
    let told = reader.read(&ring);
    assert_eq!(told.len(), MAX_IN_FLIGHT);
    assert_eq!((told[0], told[254], told[255]), (0, 254, other), "oldest first");
}

#[test]
fn a_call_whose_end_nobody_tells_is_not_in_flight_and_is_told_once_it_is_over() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    let untold = ring.call();
    ring.word(untold, offset_of!(layout::Record, what), layout::ENDS_BY_ORDER.into(), 4);
    let told = ring.call();
    assert_eq!(reader.read(&ring), [told]);
    ring.finished_calls(2 * LAP);
    assert_eq!(reader.read(&ring), [told], "followed, however much came after it");
    reader.operations.take_history();

    ring.state(untold, OPERATION_COMPLETED);
    assert_eq!(reader.read(&ring), [told]);
    let over: Vec<u64> = reader.operations.take_history().iter().map(|one| one.seq_number).collect();
    assert_eq!((over, reader.lost().len()), (vec![untold], 1), "of those that were overwritten alone");
}

/// Calls on streams: the number of each stream, and the flags of the call.
fn on_streams(calls: &[(u32, u32)]) -> Ring {
    let mut ring = Ring::new();
    for (stream, flags) in calls {
        let ticket = ring.call();
        ring.word(ticket, offset_of!(layout::Record, what), (*flags).into(), 4);
        ring.word(ticket, offset_of!(layout::Record, place), u64::from(*stream) << layout::GROUP_BITS, 4);
    }
    ring
}

#[test]
fn a_call_whose_end_nobody_tells_is_in_flight_as_long_as_it_holds_back_another_one() {
    const UNTOLD: u32 = layout::ENDS_BY_ORDER;
    const TOLD: u32 = layout::START_KNOWN;
    const OTHER_COMMUNICATOR: u32 = 1 << layout::WHAT_SLOT_SHIFT;
    let read = |calls: &[(u32, u32)]| Reader::default().read(&on_streams(calls));
    assert_eq!(read(&[(1, UNTOLD), (1, TOLD), (1, TOLD)]), [0, 1, 2]);
    assert_eq!(
        read(&[(1, UNTOLD), (1, UNTOLD), (1, TOLD)]),
        [1, 2],
        "the newest, for the others may be over"
    );
    assert_eq!(read(&[(1, UNTOLD), (1, TOLD), (1, UNTOLD)]), [0, 1]);
    assert_eq!(read(&[(1, UNTOLD), (2, TOLD)]), [1], "on another stream");
    assert_eq!(read(&[(0, UNTOLD), (0, TOLD)]), [1], "on streams that are not known");
    assert_eq!(read(&[(1, UNTOLD), (1, 0), (1, TOLD)]), [1, 2], "nobody would tell that it begins");
    let others = [(1, UNTOLD), (1, UNTOLD | OTHER_COMMUNICATOR), (1, TOLD)];
    assert_eq!(read(&others), [2], "whichever it is");
}

#[test]
fn what_comes_after_a_call_shows_that_it_is_over() {
    let calls = [(1, layout::ENDS_BY_ORDER), (1, layout::START_KNOWN), (1, layout::START_KNOWN)];
    let mut ring = on_streams(&calls);
    let mut reader = Reader::default();
    assert_eq!(reader.read(&ring), [0, 1, 2]);
    ring.word(1, offset_of!(layout::Record, started), 1, 4);
    assert_eq!(reader.read(&ring), [1, 2]);
    // Its beginning was not told, but its end.
    ring.word(1, offset_of!(layout::Record, started), 0, 4);
    ring.state(1, OPERATION_COMPLETED);
    assert_eq!(reader.read(&ring), [2]);
}

#[test]
fn a_call_in_a_group_that_has_not_ended_is_not_over_and_the_others_of_its_group_run_beside_it() {
    let mut ring = on_streams(&[(1, layout::ENDS_BY_ORDER), (1, layout::START_KNOWN)]);
    let mut reader = Reader::default();
    for ticket in 0..2 {
        ring.word(ticket, offset_of!(layout::Record, place), 1 << layout::GROUP_BITS | 7, 4);
        ring.state(ticket, OPERATION_QUEUED);
    }
    assert_eq!(reader.read(&ring), [0, 1]);
    (0..2).for_each(|ticket| ring.state(ticket, OPERATION_ISSUED));
    assert_eq!(reader.read(&ring), [1]);
}

/// Writes a number among the collective calls into a call's record.
fn number(ring: &mut Ring, ticket: u64, number: u64) {
    ring.word(ticket, offset_of!(layout::Record, numbers), number << 32 | ticket, 8);
    ring.word(ticket, offset_of!(layout::Record, what), layout::NUMBERED.into(), 4);
}

#[test]
fn operations_are_recalled_by_their_number_whatever_became_of_them() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    for call in 0..100 {
        let ticket = ring.call();
        number(&mut ring, ticket, call);
        if call % 2 == 0 {
            ring.state(ticket, OPERATION_COMPLETED);
        }
    }
    reader.read(&ring);
    let recall = |local_id, numbers| {
        let clock = ClockAnchor { is_counter: false, ticks: 0, monotonic_ns: 0, wall_ns: 0 }.clock(1, 1);
        let mut source = ring.bytes.as_slice();
        let found = reader.operations.recall(&mut source, ring.next_ticket, clock, (local_id, numbers));
        found.unwrap().iter().map(|one| one.call_number.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(recall(1 << 16, 20..=22), [20, 21, 22]);
    assert_eq!(recall(1 << 16, 0..=u64::MAX).len(), MAX_RECALLED);
    assert_eq!(recall(1 << 16, 98..=u64::MAX), [98, 99]);
    assert!(recall(2 << 16, 0..=u64::MAX).is_empty());
}

#[test]
fn numbers_are_whole_beyond_what_a_record_holds() {
    let near = (7 << 32) + 5;
    assert_eq!(whole(4, near), (7 << 32) + 4);
    assert_eq!(whole(u32::MAX, near), (7 << 32) - 1, "before the halves turned over");
    assert_eq!(whole(2, (7 << 32) - 1), (7 << 32) + 2, "a record newer than the count");
    assert_eq!(whole(u32::MAX, 5), u64::from(u32::MAX), "there is nothing before the first");
}

#[test]
fn of_two_threads_on_one_communicator_the_oldest_call_comes_first() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    // The second thread has the later block of tickets, and calls first.
    ring.next_ticket = 64;
    let oldest = ring.call();
    ring.word(oldest, offset_of!(layout::Record, issued_ticks), 1, 8);
    ring.next_ticket = 0;
    for ticket in 0..MAX_IN_FLIGHT as u64 {
        // Not the place of the second thread's.
        ring.next_ticket = if ticket < 64 { ticket } else { ticket + 64 };
        let later = ring.call();
        ring.word(later, offset_of!(layout::Record, issued_ticks), 1000 + later, 8);
    }
    let told = reader.read(&ring);
    assert_eq!((told.len(), told[0], told[1]), (MAX_IN_FLIGHT, oldest, 0));
}

#[test]
fn a_hostile_segment_does_not_grow_what_is_open() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    let at = offset_of!(layout::Record, ticket);
    for index in 0..LAP {
        ring.word(index, at, layout::BEING_WRITTEN, 8);
    }
    for _ in 0..5 {
        ring.next_ticket += LAP;
        reader.read(&ring);
        assert!(reader.operations.open.len() <= 2 * MAX_RECORDS, "{}", reader.operations.open.len());
    }
    for index in 0..LAP {
        ring.word(index, at, 0, 8);
    }
    for next_ticket in [u64::MAX, LAP, u64::MAX - 70, 3] {
        ring.next_ticket = next_ticket;
        reader.read(&ring);
        reader.read(&ring);
        assert!(reader.operations.open.len() <= MAX_RECORDS, "{}", reader.operations.open.len());
    }
}

#[test]
fn where_no_event_tells_times_calls_do() {
    let (mut ring, mut reader) = (Ring::new(), Reader::default());
    ring.finished_calls(1);
    reader.read(&ring);
    let local_id = *reader.operations.last_completed.keys().next().unwrap();
    reader.operations.extents.insert(local_id, Extent { by_events: true, ..Extent::default() });
    reader.operations.take_spans();
    for (has_times, is_raised, is_known) in [(true, false, false), (false, false, true), (true, true, true)] {
        reader.operations.tell_by_device(LEVEL_EVENTS, has_times, is_raised);
        ring.finished_calls(1);
        reader.read(&ring);
        let (over, _, is_whole) = reader.operations.take_spans();
        assert_eq!((over.len(), is_whole), (1, is_known), "{has_times} {is_raised}");
    }
}
