//! The order of calls, calls by peer, what a process waits in, and what the library answered.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use ringscope_wire::Primitive::{self, AllReduce, Recv, Send};
use ringscope_wire::segment::calls::read::{Mark, Pair, Sequence, marks, pairs};
use ringscope_wire::segment::layout::{COMMUNICATOR_FAILED, COMMUNICATOR_FORMING, DropReason};

use crate::harness::{Left, calls_job, cuda_job, job};

fn left_by(scenario: &str) -> Left {
    calls_job(scenario).succeed().only_segment()
}

impl Left {
    fn sequence(&self, slot: usize) -> Sequence {
        self.communicator(slot).sequence.unwrap()
    }

    fn marks(&self, slot: u16) -> Vec<Mark> {
        marks(&mut self.bytes.as_slice(), slot, 0).unwrap().0
    }

    fn pairs(&self) -> Vec<Pair> {
        let mut pairs = pairs(&mut self.bytes.as_slice()).unwrap();
        pairs.sort_by_key(|pair| (pair.communicator, pair.primitive, pair.peer));
        pairs
    }
}

#[test]
fn ranks_that_call_alike_have_the_same_hash_whatever_their_order_in_a_group() {
    let left = left_by("same_calls");
    assert_eq!(left.sequence(0), left.sequence(1));
    assert_eq!(left.sequence(0).calls, 60 + 1 + 6 + 1 + 61);
    // The group reached over the 64th call: the mark is at its end.
    let calls: Vec<u64> = left.marks(0).iter().map(|mark| mark.calls).collect();
    assert_eq!(calls, [67, 128]);
    assert_eq!(left.marks(0), left.marks(1));
    assert_ne!(left.marks(0)[0].hash, 0);
}

#[test]
fn each_difference_shows_in_the_hash() {
    let left = left_by("other_calls");
    let hash = |slot| left.sequence(slot).hash;
    for slot in (1..6).chain([7]) {
        assert_ne!(hash(slot), hash(0), "{slot}");
        assert_eq!(left.sequence(slot).calls, 3);
    }
    assert_eq!(hash(6), hash(0));
}

#[test]
fn calls_count_that_were_made_and_no_others() {
    let left = left_by("what_counts");
    assert_eq!(left.sequence(1), left.sequence(0));
    assert_eq!(left.sequence(0).calls, 6);
    let numbers: Vec<_> = left.records.iter().filter(|record| record.communicator == 1).collect();
    let numbers: Vec<_> = numbers.iter().map(|record| (record.count, record.call_number)).collect();
    let expected =
        [(1, Some(0)), (2, Some(1)), (88, None), (89, None), (3, Some(2)), (5, Some(4)), (6, Some(5))];
    assert_eq!(numbers, expected, "the fourth was made while recording was off");
    assert_eq!(left.snapshot.off_since_ticks, None);
}

#[test]
fn a_call_that_the_driver_says_is_captured_has_no_number() {
    let left = cuda_job("capture", "cuda-driver").succeed().only_segment();
    let of_first = left.records.iter().filter(|record| record.communicator == 0);
    let numbers: Vec<_> = of_first.map(|record| (record.primitive, record.call_number)).collect();
    let numbered: Vec<_> = numbers.iter().filter(|(_, number)| number.is_some()).collect();
    assert_eq!(numbered, [&(AllReduce, Some(0))], "{numbers:?}");
    assert_eq!(left.sequence(0).calls, 1);
}

#[test]
fn it_says_since_when_it_is_off() {
    let off = job("switched_off").succeed().only_segment();
    let made = off.communicator(0).created_ticks;
    assert!(off.snapshot.off_since_ticks.unwrap() > made);
    assert!(
        job("faulty").succeed().only_segment().snapshot.off_since_ticks.is_none(),
        "the test wrote the state"
    );
}

#[test]
fn calls_between_two_ranks_are_counted_by_peer_and_match_on_both_sides() {
    let left = left_by("peers");
    let pairs = left.pairs();
    let told: Vec<_> = pairs
        .iter()
        .map(|pair| (pair.communicator, pair.primitive, pair.peer, pair.calls, pair.bytes))
        .collect();
    let expected: [(u16, Primitive, u32, u64, u64); 3] =
        [(0, Send, 1, 3, 6), (0, Send, 2, 1, 20), (1, Recv, 0, 4, 30)];
    assert_eq!(told, expected);
    assert_eq!(left.sequence(0).calls, 0, "they have no place in the order of collective calls");
    assert!(left.records.iter().all(|record| record.call_number.is_none()));
}

#[test]
fn peers_beyond_the_table_are_counted_as_dropped() {
    let left = left_by("many_peers");
    let told: u64 = left.pairs().iter().map(|pair| pair.calls).sum();
    let dropped: u64 = left.snapshot.dropped.iter().map(|(_, events)| events).sum();
    assert_eq!(left.snapshot.dropped[0].0, DropReason::PairTableFull);
    assert!(told > 3500 && told + dropped == 6000, "{told} {dropped}");
}

#[test]
fn a_record_says_reduction_stream_group_and_start() {
    let left = left_by("places");
    let records = &left.records;
    assert_eq!(
        records.iter().map(|record| record.op).collect::<Vec<_>>(),
        [Some(2), Some(2), Some(2), None, None, None, None, None]
    );
    let stream = |at: usize| records[at].stream;
    assert!(records.iter().all(|record| record.stream != 0));
    assert_eq!(stream(0), stream(2));
    assert_ne!(stream(0), stream(1));
    assert!(stream(3) != stream(0) && stream(3) != stream(1), "the default stream is another one");
    let groups: Vec<_> = records.iter().map(|record| record.group).collect();
    assert_eq!(groups[..4], [0; 4]);
    assert!(groups[4] != 0 && groups[4] == groups[5] && groups[6] == groups[7] && groups[4] != groups[6]);
    for record in records {
        assert!(record.start_known);
        assert!(record.started_ticks.unwrap() >= record.issued_ticks);
    }
    // Nobody tells when an operation starts.
    let left = calls_job("places").without("NCCL_PROFILER_PLUGIN").succeed().only_segment();
    assert!(left.records.iter().all(|record| !record.start_known && record.started_ticks.is_none()));
}

#[test]
fn the_library_s_errors_are_kept_with_function_and_time() {
    let left = left_by("errors");
    let told: Vec<_> = (left.snapshot.communicators.iter())
        .map(|communicator| communicator.error.map(|error| (error.result, error.function)))
        .collect();
    let expected = [
        Some((4, "ncclAllReduce")),
        Some((6, "ncclCommGetAsyncError")),
        Some((3, "ncclGroupEnd")),
        Some((2, "ncclCommInitRank")),
    ];
    assert_eq!(told, expected);
    assert_eq!(left.communicator(3).state, COMMUNICATOR_FAILED);
    for communicator in &left.snapshot.communicators {
        assert!(communicator.error.unwrap().ticks >= communicator.created_ticks);
    }
}

#[test]
fn every_thread_has_its_entry_and_those_that_have_ended_make_room() {
    let left = left_by("many_threads");
    assert_eq!(left.snapshot.threads.len(), 256);
    for thread in &left.snapshot.threads {
        assert!(thread.returned_ticks.is_some(), "{thread:?}");
    }
    left.expect(0, AllReduce, (300, 1200), (300, 1200), 0);
}

/// What the one thread of a process waits in, and the segment then.
fn waiting(scenario: &str) -> (Left, &'static str, Option<(u16, u32)>) {
    let mut job = calls_job(scenario);
    let mut child = job.command().stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "waiting\n");
    let left = job.only_segment();
    let pid = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    let [thread] = left.snapshot.threads[..] else { panic!("{:?}", left.snapshot.threads) };
    assert_eq!((thread.thread, thread.returned_ticks), (pid, None));
    (left, thread.function, thread.communicator)
}

#[test]
fn what_a_process_waits_in_is_seen_while_it_waits() {
    let (left, function, communicator) = waiting("waits_in_init");
    assert_eq!((function, communicator), ("ncclCommInitRank", Some((0, 1))));
    assert_eq!(left.communicator(0).state, COMMUNICATOR_FORMING);
    let (_, function, communicator) = waiting("waits_in_destroy");
    assert_eq!((function, communicator), ("ncclCommDestroy", Some((0, 1))));
    let (left, function, communicator) = waiting("waits_in_group");
    assert_eq!((function, communicator), ("ncclGroupEnd", None));
    assert_eq!(left.sequence(0).calls, 1, "called, though the group has not ended");
    let (left, function, communicator) = waiting("waits_in_call");
    assert_eq!((function, communicator), ("ncclAllReduce", Some((0, 1))));
    assert_eq!((left.sequence(0).calls, left.records.len()), (2, 2));
}
