//! A library with a profiler on a driver with events: who tells completion follows the level, and nothing is counted twice
//! or lost on the way. The scenarios themselves assert what the library is asked for and who told what.

use ringscope_wire::Primitive::{AllReduce, Broadcast, Send};
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMMUNICATOR_DESTROYED, COMPLETION_EVENTS, COMPLETION_PROFILER, LOST_PROFILER_EVENT,
    LOST_RUN, MADE_BY_INIT, MADE_BY_UNSEEN, MAX_RECORDS, OPERATION_COMPLETED,
};

use crate::harness::level_job;

#[test]
fn events_tell_completion_unless_the_level_asks_the_profiler() {
    let left = level_job("one_by_one").succeed().only_segment();
    left.expect(0, AllReduce, (7, 7), (7, 7), 0);
    left.expect(0, Send, (1, 1), (1, 1), 0);
    assert_eq!(left.records.len(), 8);
    assert!(left.records.iter().all(|record| record.state == OPERATION_COMPLETED));
    assert_eq!(left.communicator(0).completion, COMPLETION_EVENTS);
    let links: Vec<_> = left.snapshot.links.iter().map(|link| (link.peer, link.sent_bytes)).collect();
    assert_eq!(links, [(2, 300)], "network bytes at level steps only");
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn a_level_that_changes_within_a_group_counts_each_call_once() {
    let left = level_job("in_a_group").succeed().only_segment();
    left.expect(0, Send, (5, 5), (5, 5), 0);
    assert!(left.records.iter().all(|record| record.state == OPERATION_COMPLETED));
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn a_communicator_without_events_costs_the_others_nothing_once_it_has_ended() {
    let left = level_job("unfit").succeed().only_segment();
    left.expect(1, AllReduce, (1, 1), (1, 1), 0);
    assert_eq!(left.communicator(1).completion, COMPLETION_EVENTS);
}

#[test]
fn a_communicator_that_nobody_called_for_costs_the_others_nothing_once_it_has_ended() {
    let left = level_job("unseen").succeed().only_segment();
    let made_by: Vec<_> = left.snapshot.communicators.iter().map(|c| (c.made_by, c.state)).collect();
    assert_eq!(made_by, [(MADE_BY_INIT, COMMUNICATOR_ACTIVE), (MADE_BY_UNSEEN, COMMUNICATOR_DESTROYED)]);
}

#[test]
fn what_the_profiler_alone_tells_of_is_closed_by_it_also_where_events_closed_others() {
    let left = level_job("unseen_after_many").succeed().only_segment();
    let calls = MAX_RECORDS as u64;
    left.expect(0, AllReduce, (calls, calls), (calls, calls), 0);
    assert_eq!(left.snapshot.dropped, []);
    left.expect(1, AllReduce, (100, 100), (100, 100), 0);
    assert!(left.records.iter().all(|record| record.state == OPERATION_COMPLETED));
}

#[test]
fn a_call_that_passes_by_is_lost_and_of_those_after_it_the_profiler_tells() {
    let left = level_job("past_the_wrappers").succeed().only_segment();
    left.expect(0, AllReduce, (3, 3), (2, 2), 0);
    assert_eq!(left.communicator(0).lost, LOST_PROFILER_EVENT);
    assert_eq!(left.communicator(1).lost, 0);
}

#[test]
fn a_thread_of_no_calls_takes_nothing_from_a_call_that_is_under_way() {
    level_job("lowered_from_outside").succeed();
}

#[test]
fn of_a_graph_that_was_captured_below_level_channels_nobody_tells_the_end() {
    let left = level_job("runs_of_graphs").succeed().only_segment();
    assert_eq!(left.communicator(0).lost, LOST_RUN);
    assert_eq!(left.counters(0, AllReduce).replayed_calls, 1);
    // Neither the call nor the runs of the other one have ended.
    left.expect(1, AllReduce, (3, 3), (0, 0), 0);
    assert_eq!((left.communicator(1).lost, left.counters(1, AllReduce).replayed_calls), (0, 2));
}

#[test]
fn events_tell_what_the_profiler_leaves_out() {
    let job = level_job("untold_broadcasts").env("STUB_NCCL_VERSION", "23007");
    let left = job.succeed().only_segment();
    left.expect(0, AllReduce, (3, 3), (3, 3), 0);
    left.expect(0, Broadcast, (2, 2), (2, 2), 0);
    assert!(left.records.iter().all(|record| record.state == OPERATION_COMPLETED));
    assert_eq!(left.communicator(0).completion, COMPLETION_PROFILER, "of all else the profiler tells");
    assert_eq!(left.snapshot.dropped, []);
}
