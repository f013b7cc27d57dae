//! The order of calls, calls that do not return and errors, from the segment to the daemon.

use std::mem::offset_of;

use ringscope_wire::Primitive;
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::calls::hash::check;
use ringscope_wire::segment::calls::layout::{Area, Mark, Pair, Thread, call_word};
use ringscope_wire::segment::layout::{
    Communicator, LOST_CUDA_EVENT, LOST_RECORD, LOST_RUN, Live, OPERATION_COMPLETED, OPERATION_ISSUED,
    Record, VERSION, link_key,
};

use crate::daemon::{Answer, FakeDaemon, key};
use crate::segment::{ANCHOR_TICKS, ANCHOR_WALL_NS, SegmentWriter};
use crate::{Host, SLOT_0};

fn slot(segment: &SegmentWriter, field: usize, bytes: &[u8]) {
    segment.write(offset_of!(Segment, communicators) + field, bytes);
}

fn called(segment: &SegmentWriter, calls: u64, hash: u64) {
    slot(segment, offset_of!(Communicator, calls_hash), &hash.to_le_bytes());
    slot(segment, offset_of!(Communicator, calls_check), &check(calls, hash).to_le_bytes());
    slot(segment, offset_of!(Communicator, calls), &calls.to_le_bytes());
}

fn area(segment: &SegmentWriter, at: usize, value: u64) {
    segment.write(offset_of!(Segment, calls) + at, &value.to_le_bytes());
}

/// A mark at the 64th call.
fn mark(segment: &SegmentWriter) {
    let at = offset_of!(Area, marks);
    area(segment, at + offset_of!(Mark, calls), 64);
    area(segment, at + offset_of!(Mark, hash), 0x64);
    slot(segment, offset_of!(Communicator, n_marks), &1_u64.to_le_bytes());
}

/// A thread that has entered ncclCommDestroy and not returned.
fn waits(segment: &SegmentWriter) {
    let at = offset_of!(Area, threads);
    area(segment, at + offset_of!(Thread, thread), 4243);
    area(segment, at + offset_of!(Thread, call), call_word(12, Some((0, 1))));
    area(segment, at + offset_of!(Thread, entered_ticks), ANCHOR_TICKS + 9);
    segment.live(offset_of!(Live, n_threads), 1);
}

fn with_a_pair(segment: &SegmentWriter) {
    let at = offset_of!(Area, pairs);
    segment.write(offset_of!(Segment, live) + offset_of!(Live, pair_regions), &1_u64.to_le_bytes());
    area(segment, at + offset_of!(Pair, calls), 2);
    area(segment, at + offset_of!(Pair, check), check(2, 0));
    area(segment, at + offset_of!(Pair, key), link_key(1, 0, 5, 6));
}

#[tokio::test]
async fn what_a_rank_called_and_waits_in_arrives() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 0xfeed);
    called(&segment, 65, 0xca11);
    mark(&segment);
    waits(&segment);
    with_a_pair(&segment);
    slot(&segment, offset_of!(Communicator, error_ticks), &(ANCHOR_TICKS + 7).to_le_bytes());
    slot(&segment, offset_of!(Communicator, error_function), &16_u32.to_le_bytes());
    slot(&segment, offset_of!(Communicator, error), &6_u32.to_le_bytes());
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;

    let process = daemon.process(42);
    assert_eq!(process.segment_version, VERSION);
    let sequence = &process.sequences[0];
    assert_eq!((sequence.local_id, sequence.calls, sequence.hash), (SLOT_0, 65, 0xca11));
    assert_eq!((sequence.marks.len(), sequence.marks[0].calls, sequence.marks[0].hash), (1, 64, 0x64));
    let open = &process.open_calls[0];
    assert_eq!((open.thread, open.function.as_str(), open.local_id), (4243, "ncclCommDestroy", Some(SLOT_0)));
    assert_eq!(open.entered_at_ns, ANCHOR_WALL_NS + 9);
    let communicator = daemon.communicator(42, SLOT_0);
    assert_eq!(
        (communicator.error, communicator.error_function.as_str()),
        (Some(6), "ncclCommGetAsyncError")
    );
    assert_eq!(communicator.error_at_ns, Some(ANCHOR_WALL_NS + 7));
    assert_eq!(communicator.completion_lost, "");
    assert!(process.pairs.is_empty(), "no send hangs, and nobody asked");

    // Only what is new: no mark again.
    called(&segment, 66, 0xca12);
    let batch = daemon.until_batch(Answer::Take, |batch| batch.processes[0].sequences.len() == 1).await;
    let process = &batch.processes[0];
    assert_eq!((process.sequences[0].calls, process.sequences[0].marks.len()), (66, 0));
    assert!(process.communicators.is_empty() && process.open_calls.len() == 1);
    // Of an operation that nobody will tell the end of, as soon as the collector knows it.
    slot(&segment, offset_of!(Communicator, lost), &LOST_RECORD.to_le_bytes());
    let batch = daemon.until_batch(Answer::Take, |batch| !batch.processes[0].communicators.is_empty()).await;
    let told = &batch.processes[0].communicators[0].completion_lost;
    assert_eq!(told, "newer calls have overwritten the record of one in flight");
    // Unless it may have been lost.
    daemon.answer(Answer::ResendAll);
    segment.calls(0, Primitive::AllReduce, 1, 1);
    let resent = |batch: &ringscope_wire::batch::Batch| {
        let sequences = batch.processes.iter().flat_map(|process| &process.sequences);
        sequences.map(|sequence| sequence.marks.len()).sum::<usize>() == 1
    };
    daemon.until_batch(Answer::ResendAll, resent).await;
    agent.stop().await;
}

#[tokio::test]
async fn calls_by_peer_are_told_while_a_send_hangs() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let mut segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 0xfeed);
    with_a_pair(&segment);
    let send = segment.record(0, OPERATION_ISSUED);
    let primitive = u32::try_from(Primitive::Send.index() << 8 | 7).expect("small");
    segment.record_field(send, offset_of!(Record, what), &primitive.to_le_bytes());
    let agent = host.agent();
    daemon.until(|all| all.get(&key(42)).is_some_and(|process| !process.pairs.is_empty())).await;
    let pair = &daemon.process(42).pairs[0];
    assert_eq!((pair.local_id, pair.peer, pair.calls), (SLOT_0, 6, 2));
    agent.stop().await;
}

/// An event was lost behind the first call; the second, called later, completes.
#[tokio::test]
async fn what_completes_after_a_loss_tells_that_what_was_before_it_is_over() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let mut segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    segment.calls(0, Primitive::AllReduce, 3, 0);
    segment.record(0, OPERATION_ISSUED);
    slot(&segment, offset_of!(Communicator, lost), &LOST_CUDA_EVENT.to_le_bytes());
    let agent = host.agent();
    daemon.until(|all| all.get(&key(42)).is_some_and(|one| one.in_flight.len() == 1)).await;
    assert!(!daemon.communicator(42, SLOT_0).completion_lost.is_empty(), "nothing is known of it");

    // Called after the agent has read that something was lost.
    let later = ringscope_api::clock::now().0 - ANCHOR_WALL_NS + ANCHOR_TICKS;
    for (ticket, state) in [(1, OPERATION_COMPLETED), (2, OPERATION_ISSUED)] {
        segment.record_at(ticket, ticket, state);
        segment.record_field(ticket, offset_of!(Record, issued_ticks), &(later + ticket).to_le_bytes());
    }
    let next_ticket = offset_of!(Segment, live) + offset_of!(Live, next_ticket);
    segment.write(next_ticket, &3_u64.to_le_bytes());
    daemon.until(|all| all[&key(42)].communicators.iter().any(|one| one.completion_lost.is_empty())).await;
    daemon.until(|all| all[&key(42)].in_flight.len() == 1).await;
    assert_eq!(daemon.process(42).in_flight[0].seq_number, 2, "the first one is over");

    // The next loss is told anew.
    segment.drop_event(10, 1);
    daemon.until(|all| all[&key(42)].communicators.iter().any(|one| !one.completion_lost.is_empty())).await;
    agent.stop().await;
}

#[tokio::test]
async fn a_process_that_calls_faster_than_its_records_are_read_is_asked_for_more() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let mut segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    segment.live(offset_of!(Live, n_places), 64);
    segment.record(0, OPERATION_ISSUED);
    let agent = host.agent();
    daemon.until(|all| all.get(&key(42)).is_some_and(|one| one.in_flight.len() == 1)).await;
    assert_eq!(segment.wanted_places(), 0);

    // More than half of the places, before the next reading.
    (1..=40).for_each(|ticket| segment.record_at(ticket, ticket, OPERATION_ISSUED));
    let next_ticket = offset_of!(Segment, live) + offset_of!(Live, next_ticket);
    segment.write(next_ticket, &41_u64.to_le_bytes());
    daemon.until(|all| all[&key(42)].in_flight.len() == 41).await;
    assert_eq!(segment.wanted_places(), 128);
    agent.stop().await;
}

/// They count as completed, which says nothing of their end.
#[tokio::test]
async fn of_runs_whose_end_nobody_tells_nothing_is_known() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    segment.calls(0, Primitive::AllReduce, 3, 3);
    slot(&segment, offset_of!(Communicator, lost), &LOST_RUN.to_le_bytes());
    let agent = host.agent();
    daemon.until(|all| all.get(&key(42)).is_some_and(|one| !one.communicators.is_empty())).await;
    let told = &daemon.communicator(42, SLOT_0).completion_lost;
    assert!(told.contains("run of a CUDA graph"), "{told}");
    agent.stop().await;
}
