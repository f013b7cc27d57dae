//! Readings of one segment, changed in between as a collector does it.

use std::mem::offset_of;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::calls::hash::check;
use ringscope_wire::segment::calls::layout::{
    Area, Mark as MarkLayout, Pair, Thread as ThreadLayout, call_word,
};
use ringscope_wire::segment::clock::ClockAnchor;
use ringscope_wire::segment::layout::{self, Communicator as Slot, Fixed, Live, link_key};
use ringscope_wire::segment::read::snapshot;
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::*;

const SLOT_0: u64 = 1 << 16;
const MILLISECOND: u64 = 1_000_000;

/// A segment whose ticks are nanoseconds, and an agent that reads it.
struct Stage {
    bytes: Vec<u8>,
    calls: Calls,
    now: u64,
}

impl Stage {
    fn new() -> Self {
        let mut fixed = Fixed::new_zeroed();
        fixed.magic = layout::MAGIC;
        fixed.version = layout::VERSION;
        fixed.segment_bytes = size_of::<Segment>() as u64;
        fixed.tick_kind = layout::TICKS_MONOTONIC_NS;
        let mut bytes = vec![0; size_of::<Segment>()];
        bytes[..size_of::<Fixed>()].copy_from_slice(fixed.as_bytes());
        let mut stage = Self { bytes, calls: Calls::default(), now: 1_000 * MILLISECOND };
        stage.put(offset_of!(Segment, live) + offset_of!(Live, n_communicators), 1, 4);
        stage.put(offset_of!(Segment, live) + offset_of!(Live, n_threads), 2, 4);
        stage.slot(offset_of!(Slot, state), u64::from(layout::COMMUNICATOR_ACTIVE), 4);
        stage.slot(offset_of!(Slot, generation), 1, 4);
        stage
    }

    fn put(&mut self, at: usize, value: u64, width: usize) {
        self.bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    fn slot(&mut self, field: usize, value: u64, width: usize) {
        self.put(offset_of!(Segment, communicators) + field, value, width);
    }

    fn area(&mut self, at: usize, value: u64) {
        self.put(offset_of!(Segment, calls) + at, value, 8);
    }

    fn called(&mut self, calls: u64, hash: u64) {
        self.slot(offset_of!(Slot, calls), calls, 8);
        self.slot(offset_of!(Slot, calls_hash), hash, 8);
        self.slot(offset_of!(Slot, calls_check), check(calls, hash), 8);
    }

    /// Marks with the number as hash, up to `n_marks` of them.
    fn marked(&mut self, n_marks: u64) {
        for number in n_marks.saturating_sub(64)..n_marks {
            let at =
                offset_of!(Area, marks) + usize::try_from(number % 64).unwrap() * size_of::<MarkLayout>();
            self.area(at, (number + 1) * 64);
            self.area(at + 8, number);
        }
        self.slot(offset_of!(Slot, n_marks), n_marks, 8);
    }

    fn thread(&mut self, index: usize, function: u8, entered: u64, returned: u64) {
        let at = offset_of!(Area, threads) + index * size_of::<ThreadLayout>();
        self.area(at + offset_of!(ThreadLayout, thread), 100 + index as u64);
        self.area(at + offset_of!(ThreadLayout, call), call_word(function, Some((0, 1))));
        self.area(at + offset_of!(ThreadLayout, entered_ticks), entered);
        self.area(at + offset_of!(ThreadLayout, returned_ticks), returned);
    }

    fn read(&mut self) {
        let read = snapshot(&mut self.bytes.as_slice()).unwrap();
        let clock = ClockAnchor { is_counter: false, ticks: 0, monotonic_ns: 0, wall_ns: 0 }.clock(1, 1);
        self.calls.update(&mut self.bytes.as_slice(), &read, clock, self.now).unwrap();
    }

    fn hashes(&mut self, before: &[CallSequence]) -> (Vec<CallSequence>, Vec<u64>) {
        let told = self.calls.sequences(before, |_| 0);
        let hashes = told[0].marks.iter().map(|mark| mark.hash).collect();
        (told, hashes)
    }
}

#[test]
fn the_order_of_calls_is_told_and_stays_while_it_is_being_written() {
    let mut stage = Stage::new();
    stage.called(3, 0xabc);
    stage.read();
    let told = |stage: &mut Stage| stage.calls.sequences(&[], |_| 0)[0].clone();
    let before = told(&mut stage);
    assert_eq!((before.local_id, before.calls, before.hash), (SLOT_0, 3, 0xabc));
    stage.slot(offset_of!(Slot, calls), 4, 8);
    stage.read();
    assert_eq!(told(&mut stage), before, "a count without its hash");
    // Of one that only the profiler told of, no order is known.
    stage.slot(offset_of!(Slot, made_by), u64::from(MADE_BY_UNSEEN), 4);
    stage.read();
    assert!(stage.calls.sequences(&[], |_| 0).is_empty());
}

#[test]
fn marks_are_told_once_and_again_where_they_were_lost() {
    let mut stage = Stage::new();
    stage.marked(2);
    stage.read();
    let (unsent, hashes) = stage.hashes(&[]);
    assert_eq!(hashes, [0, 1]);
    stage.marked(3);
    stage.read();
    assert_eq!(stage.hashes(&unsent).1, [0, 1, 2], "those that are not sent yet, and the new one");
    stage.read();
    assert!(stage.hashes(&[]).1.is_empty());
    stage.calls.forget_told();
    stage.read();
    assert_eq!(stage.hashes(&[]).1, [0, 1, 2]);
    // Of more than a batch takes the newest.
    stage.marked(200);
    stage.read();
    assert_eq!(stage.hashes(&[]).1, (184..200).collect::<Vec<_>>());
}

#[test]
fn a_call_is_open_until_it_returns_and_the_oldest_comes_first() {
    let mut stage = Stage::new();
    let old = stage.now - 500 * MILLISECOND;
    stage.thread(0, 18, stage.now - 20 * MILLISECOND, 0);
    stage.thread(1, 5, old, 0);
    stage.read();
    let open: Vec<_> = stage
        .calls
        .open_calls()
        .into_iter()
        .map(|call| (call.thread, call.function, call.entered_at_ns))
        .collect();
    assert_eq!(open[0], (101, "ncclCommInitRank".to_owned(), old));
    assert_eq!((open.len(), open[1].1.as_str()), (2, "ncclGroupEnd"));
    assert_eq!(stage.calls.open_calls()[0].local_id, Some(SLOT_0));
    assert_eq!(stage.calls.last_returned_at_ns(), None);
    let returned = stage.now + MILLISECOND;
    stage.thread(1, 5, old, returned);
    stage.read();
    assert_eq!((stage.calls.open_calls().len(), stage.calls.last_returned_at_ns()), (1, Some(returned)));
}

#[test]
fn a_call_that_has_just_begun_is_no_news() {
    let mut stage = Stage::new();
    stage.thread(0, 23, stage.now - MILLISECOND, 0);
    stage.read();
    assert!(stage.calls.open_calls().is_empty());
}

#[test]
fn an_operation_that_was_seen_inside_returned_when_it_was_not_any_more() {
    let mut stage = Stage::new();
    let entered = stage.now - 400 * MILLISECOND;
    stage.thread(0, 23, entered, 0);
    stage.read();
    stage.now += 1_000 * MILLISECOND;
    let seen_outside = stage.now;
    stage.thread(0, 23, entered, entered);
    stage.read();
    assert_eq!(stage.calls.last_returned_at_ns(), Some(seen_outside));
    stage.now += 1_000 * MILLISECOND;
    stage.read();
    assert_eq!(stage.calls.last_returned_at_ns(), Some(seen_outside));
}

#[test]
fn calls_by_peer_are_told_of_those_that_are_asked_for() {
    let mut stage = Stage::new();
    stage.put(offset_of!(Segment, live) + offset_of!(Live, pair_regions), 1, 8);
    for (index, (generation, peer)) in [(1, 7), (1, 2), (2, 9)].into_iter().enumerate() {
        let at = offset_of!(Area, pairs) + index * size_of::<Pair>();
        stage.area(at + offset_of!(Pair, key), link_key(generation, 0, 5, peer));
        stage.area(at + offset_of!(Pair, calls), 3);
        stage.area(at + offset_of!(Pair, check), check(3, 0));
    }
    let read = snapshot(&mut stage.bytes.as_slice()).unwrap();
    let mut peers = |wanted: &[u64]| {
        let wanted = wanted.iter().copied().collect();
        stage.calls.read_pairs(&mut stage.bytes.as_slice(), &read.communicators, &wanted).unwrap();
        stage.calls.pairs().iter().map(|pair| (pair.peer, pair.calls)).collect::<Vec<_>>()
    };
    assert!(peers(&[]).is_empty());
    assert_eq!(peers(&[SLOT_0]), [(2, 3), (7, 3)], "not those of a communicator that had the slot before");
}
