//! What is counted and recorded.

use ringscope_wire::Primitive::{AllReduce, Broadcast, Recv, Reduce, Send};
use ringscope_wire::segment::layout::{DropReason, LOST_RECORD, MAX_RECORDS, RECORDS_PER_BLOCK};
use ringscope_wire::segment::layout::{OPERATION_COMPLETED, OPERATION_FAILED, OPERATION_QUEUED};
use ringscope_wire::segment::read::{Counters, Record};
use ringscope_wire::{Datatype, Primitive};

use crate::harness::{Left, job, left_by, local_job};

#[test]
fn every_primitive_counts_its_calls_and_bytes() {
    assert_every_primitive(&left_by("every_primitive"));
}

#[test]
fn a_library_loaded_with_rtld_local_is_found_and_its_user_can_be_unloaded() {
    assert_every_primitive(&local_job("every_primitive").succeed().only_segment());
}

fn assert_every_primitive(left: &Left) {
    let expected: [(Primitive, u64, u64); 7] = [
        (AllReduce, 1, 400),
        // ncclBcast calls ncclBroadcast through the PLT: one call.
        (Broadcast, 2, 210),
        (Reduce, 1, 28),
        (Primitive::AllGather, 1, 32),
        (Primitive::ReduceScatter, 1, 36),
        (Send, 1, 44),
        (Recv, 1, 48),
    ];
    for (primitive, calls, bytes) in expected {
        left.expect(0, primitive, (calls, bytes), (calls, bytes), 0);
    }
    assert_eq!(left.snapshot.dropped, []);
    assert_eq!(left.snapshot.library_version, 22809);
    assert!(left.snapshot.exited);
    let peers: Vec<_> = left.records.iter().map(|record| (record.primitive, record.peer)).collect();
    assert_eq!(
        peers,
        [
            (AllReduce, None),
            (Broadcast, Some(2)),
            (Broadcast, Some(2)),
            (Reduce, Some(5)),
            (Primitive::AllGather, None),
            (Primitive::ReduceScatter, None),
            (Send, Some(4)),
            (Recv, Some(6)),
        ]
    );
    for record in &left.records {
        assert_eq!(
            (record.state, record.channels_done, record.channels_expected),
            (OPERATION_COMPLETED, 2, 2)
        );
        assert!(record.completed_ticks.unwrap() >= record.issued_ticks);
    }
    let bcast = &left.records[2];
    assert_eq!((bcast.count, bcast.bytes, bcast.seq_number, bcast.datatype), (10, 10, 1, Datatype(0)));
}

#[test]
fn without_the_profiler_calls_are_issued_and_never_completed() {
    let job = job("every_primitive").without("NCCL_PROFILER_PLUGIN").succeed();
    let left = job.only_segment();
    left.expect(0, AllReduce, (1, 400), (0, 0), 0);
    assert_eq!(left.communicator(0).n_nodes, None);
}

#[test]
fn a_group_is_issued_at_its_outermost_end_or_fails_whole() {
    let left = left_by("groups");
    // 1 in the nested group, 64 alone, 0 in progress; 4 and 16 failed with their groups, 128 refused.
    left.expect(0, Send, (3, 65), (3, 65), 3);
    left.expect(0, Recv, (1, 2), (1, 2), 2);
    left.expect(1, AllReduce, (1, 4), (1, 4), 0);
    let states: Vec<_> = left.records.iter().map(|record| (record.bytes, record.state)).collect();
    assert_eq!(
        states,
        [
            (1, OPERATION_COMPLETED),
            (2, OPERATION_COMPLETED),
            (4, OPERATION_COMPLETED), // the all-reduce
            (4, OPERATION_FAILED),
            (8, OPERATION_FAILED),
            (16, OPERATION_FAILED),
            (32, OPERATION_FAILED),
            (64, OPERATION_COMPLETED),
            (128, OPERATION_FAILED),
            (0, OPERATION_COMPLETED),
        ]
    );
    let sends: Vec<_> = left.records.iter().filter(|r| r.primitive == Send).map(|r| r.seq_number).collect();
    assert_eq!(sends, [0, 1, 2, 3, 4, 5], "no two calls share a number, whatever became of them");
}

#[test]
fn calls_in_an_open_group_are_queued() {
    let left = left_by("open_group");
    left.expect(0, Send, (0, 0), (0, 0), 0);
    let states: Vec<_> = left.records.iter().map(|record| (record.state, record.completed_ticks)).collect();
    assert_eq!(states, [(OPERATION_QUEUED, None), (OPERATION_QUEUED, None)]);
}

#[test]
fn threads_on_their_own_communicators_lose_nothing() {
    let left = left_by("threads");
    for slot in 0..4 {
        left.expect(slot, AllReduce, (340, 1360), (340, 1360), 0);
        left.expect(slot, Send, (340, 340), (340, 340), 0);
        left.expect(slot, Recv, (340, 340), (340, 340), 0);
    }
    assert_eq!(left.records.len(), 4080, "there is a place for each");
    // Each thread has what is left of its last block.
    let given = (4080_u64 / 4).next_multiple_of(RECORDS_PER_BLOCK as u64) * 4;
    assert_eq!(left.snapshot.next_ticket, given);
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn threads_that_share_a_communicator_in_turns_lose_nothing() {
    left_by("shared_communicator").expect(0, AllReduce, (8000, 32_000), (8000, 32_000), 0);
}

#[test]
fn completion_on_other_threads_counts_once_whenever_it_comes() {
    let left = left_by("racing_completion");
    left.expect(0, AllReduce, (60, 240), (60, 240), 0);
    left.expect(0, Send, (120, 120), (120, 120), 0);
    assert!(left.records.iter().all(|record| record.state == OPERATION_COMPLETED));
}

#[test]
fn what_the_library_skips_is_completed_at_once() {
    let left = left_by("trivial");
    left.expect(0, AllReduce, (2, 80), (2, 80), 0);
    left.expect(1, AllReduce, (1, 0), (1, 0), 0);
    left.expect(1, Send, (1, 0), (1, 0), 0);
    assert!(left.records.iter().all(|record| record.state == OPERATION_COMPLETED));
}

#[test]
fn network_steps_count_per_primitive_and_peer() {
    let left = left_by("network");
    let links: Vec<_> = left
        .snapshot
        .links
        .iter()
        .map(|link| {
            (link.communicator, link.generation, link.primitive, link.peer, link.sent_bytes, link.sent_steps)
        })
        .collect();
    let mut sorted = links;
    sorted.sort_unstable();
    // The send was launched once, and then three times as a captured graph: one call each, four steps.
    assert_eq!(sorted, [(0, 1, AllReduce, 5, 8000, 8), (0, 1, Send, 6, 28, 4)]);
    left.expect(0, Send, (2, 2), (2, 2), 0);
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn the_newest_records_are_kept_and_the_lost_ones_counted() {
    let left = left_by("wrap");
    left.expect(
        0,
        AllReduce,
        (40_000 + 16_384, 4 * (40_000 + 16_384)),
        (40_000 + 16_384, 4 * (40_000 + 16_384)),
        0,
    );
    // Of the group's records the oldest were overwritten before their operations completed.
    let lost = 20_000 - MAX_RECORDS as u64;
    let Counters { issued_calls, completed_calls, .. } = left.counters(0, Send);
    assert_eq!((issued_calls, completed_calls), (20_000, 20_000 - lost));
    assert_eq!(left.snapshot.dropped, [(DropReason::RecordOverwritten, lost)]);
    assert_eq!(left.communicator(0).lost, LOST_RECORD, "nobody shall take them to be in flight for ever");
    // One operation stayed in flight while all others passed it: its record was left in its place.
    left.expect(0, Reduce, (1, 1), (1, 1), 0);
    let passed_over = |record: &&Record| record.primitive == Reduce;
    let older: Vec<_> = left.older.iter().map(|(_, record)| record).filter(passed_over).collect();
    assert_eq!(older.len(), 1, "{older:?}");
}

#[test]
fn as_many_records_are_kept_as_the_agent_asks_for() {
    let left = left_by("more_places");
    left.expect(0, AllReduce, (40_000, 160_000), (40_000, 160_000), 0);
    assert_eq!(left.records.len() + left.older.len(), MAX_RECORDS);
    assert_eq!(left.snapshot.dropped, []);
}
