//! Completion by CUDA events, and captured calls: a library without a profiler on a stub of the driver. The scenarios
//! themselves assert what the driver was asked, and that no capture was disturbed.

use ringscope_wire::Primitive::{AllReduce, Recv, Send};
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, COMMUNICATOR_DESTROYED, COMPLETION_EVENTS, COMPLETION_NONE, DropReason,
    LIVE_DRIVER, LOST_CUDA_EVENT, MAX_RECORDS, OPERATION_CAPTURED, OPERATION_COMPLETED, OPERATION_FAILED,
    OPERATION_ISSUED,
};

use crate::harness::{Left, cuda_job};

fn left_by(scenario: &str) -> Left {
    cuda_job(scenario, "cuda-driver").succeed().only_segment()
}

fn states(left: &Left) -> Vec<u32> {
    left.records.iter().map(|record| record.state).collect()
}

#[test]
fn an_event_confirms_what_was_called_before_it() {
    let left = left_by("in_order");
    // The fourth was never finished.
    left.expect(0, AllReduce, (4, 4), (3, 3), 0);
    let completed = OPERATION_COMPLETED;
    assert_eq!(states(&left), [completed, completed, completed, OPERATION_ISSUED]);
    for record in &left.records[..3] {
        assert!(record.completed_ticks.unwrap() > record.issued_ticks);
    }
    let busy = left.counters(0, AllReduce).busy_ticks;
    let sum: u64 = left.records[..3].iter().map(|r| r.completed_ticks.unwrap() - r.issued_ticks).sum();
    assert_eq!(busy, sum, "from the call to the look that saw the end");
    let communicator = left.communicator(0);
    assert_eq!((communicator.completion, communicator.compute_capability), (COMPLETION_EVENTS, Some(90)));
    assert_eq!(left.snapshot.flags & LIVE_DRIVER, LIVE_DRIVER);
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn a_segment_that_is_cut_under_the_thread_that_asks_events_ends_nothing() {
    cuda_job("cut_under_events", "cuda-driver").succeed();
}

#[test]
fn of_each_stream_the_oldest_event_alone_is_asked() {
    left_by("oldest_only").expect(0, AllReduce, (4, 4), (4, 4), 0);
}

#[test]
fn streams_complete_each_for_itself() {
    let left = left_by("two_streams");
    left.expect(0, AllReduce, (1, 1), (1, 1), 0);
    left.expect(0, Send, (1, 1), (1, 1), 0);
}

#[test]
fn a_group_gets_one_event_per_stream() {
    let left = left_by("group");
    left.expect(0, Send, (5, 5), (5, 5), 2);
    left.expect(0, Recv, (5, 5), (5, 5), 0);
    left.expect(0, AllReduce, (1, 1), (1, 1), 0);
    let states = states(&left);
    assert!(states[..11].iter().all(|state| *state == OPERATION_COMPLETED));
    assert_eq!(states[11..], [OPERATION_FAILED, OPERATION_FAILED]);
}

#[test]
fn a_group_over_many_streams_is_confirmed_whole() {
    let left = left_by("wide_group");
    left.expect(0, Send, (40, 40), (40, 40), 0);
    left.expect(0, Recv, (40, 40), (40, 40), 0);
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn of_a_wide_group_that_fails_nothing_is_counted_as_completed() {
    let left = left_by("wide_group_that_fails");
    for primitive in [Send, Recv] {
        let counters = left.counters(0, primitive);
        assert_eq!(counters.completed_calls, 0);
        // What was counted as issued before that was known cannot be taken back: nobody knows what became of it.
        assert_eq!(counters.issued_calls + counters.failed_calls, 40 + u64::from(primitive == Send));
    }
    assert_eq!(left.communicator(0).lost, LOST_CUDA_EVENT);
    left.expect(0, AllReduce, (1, 1), (1, 1), 0);
}

#[test]
fn a_stream_keeps_its_events_while_a_call_or_a_group_counts_on_them() {
    for (scenario, calls) in [("groups_on_new_streams", 2100), ("place_of_a_call", 2)] {
        let left = left_by(scenario);
        left.expect(0, AllReduce, (calls, calls), (calls, calls), 0);
        assert_eq!(left.communicator(0).lost, 0, "{scenario}");
    }
}

#[test]
fn calls_that_no_event_follows_keep_no_events() {
    let left = left_by("places_of_refused_calls");
    left.expect(0, AllReduce, (1501, 1), (1501, 1), 1500);
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn what_is_in_progress_gets_its_event_when_the_program_learns_that_it_is_done() {
    let left = left_by("in_progress");
    left.expect(0, AllReduce, (1, 1), (1, 1), 0);
    left.expect(0, Send, (2, 2), (2, 2), 0);
}

#[test]
fn asking_for_the_state_records_nothing_behind_what_hangs() {
    let left = left_by("hung_in_progress");
    left.expect(0, AllReduce, (3, 3), (3, 3), 0);
    assert_eq!(left.snapshot.dropped, [(DropReason::EventPoolFull, 1)]);
}

#[test]
fn a_captured_call_is_a_template_and_no_capture_is_disturbed() {
    let left = left_by("capture");
    left.expect(0, AllReduce, (1, 1), (1, 1), 1);
    left.expect(0, Send, (0, 0), (0, 0), 0);
    left.expect(0, Recv, (1, 1), (1, 1), 0);
    let captured = |primitive| {
        let counters = left.counters(0, primitive);
        (counters.captured_calls, counters.captured_bytes)
    };
    assert_eq!((captured(AllReduce), captured(Send), captured(Recv)), ((1, 1), (2, 2), (0, 0)));
    let of_first: Vec<_> =
        left.records.iter().filter(|record| record.communicator == 0).map(|record| record.state).collect();
    assert_eq!(
        of_first,
        [
            OPERATION_CAPTURED,
            OPERATION_CAPTURED,
            OPERATION_CAPTURED,
            OPERATION_COMPLETED,
            OPERATION_FAILED,
            OPERATION_COMPLETED,
        ]
    );
}

#[test]
fn a_backlog_longer_than_the_records_needs_four_events_and_loses_nothing() {
    let left = left_by("backlog");
    left.expect(0, AllReduce, (40_000, 40_000), (40_000, 40_000), 0);
    let kept: Vec<_> = left.records.iter().chain(left.older.iter().map(|(_, record)| record)).collect();
    assert!(kept.len() >= MAX_RECORDS / 4, "{} records", kept.len());
    assert!(kept.iter().all(|record| record.state == OPERATION_COMPLETED));
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn streams_beyond_the_table_are_counted_as_dropped() {
    let left = left_by("busy_streams");
    let [(DropReason::EventPoolFull, unconfirmed)] = left.snapshot.dropped[..] else {
        panic!("{:?}", left.snapshot.dropped)
    };
    assert!((188..400).contains(&unconfirmed), "{unconfirmed} of 700 on 512 streams");
    left.expect(0, AllReduce, (700, 700), (700 - unconfirmed, 700 - unconfirmed), 0);
}

#[test]
fn streams_that_come_and_go_share_the_table() {
    let left = left_by("passing_streams");
    left.expect(0, AllReduce, (1500, 1500), (1500, 1500), 0);
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn a_driver_without_events_to_give_means_that_nothing_tells_completion() {
    let left = left_by("refused_events");
    left.expect(0, AllReduce, (3, 3), (0, 0), 0);
    assert_eq!(left.communicator(0).completion, COMPLETION_NONE);
    assert_eq!(left.snapshot.dropped, [(DropReason::EventPoolFull, 1)]);
}

#[test]
fn a_call_whose_event_was_refused_is_confirmed_by_the_next() {
    let left = left_by("refused_record");
    left.expect(0, AllReduce, (2, 2), (2, 2), 0);
    assert_eq!(left.snapshot.dropped, [(DropReason::EventPoolFull, 1)]);
}

#[test]
fn a_forked_child_leaves_the_driver_alone() {
    let left = left_by("fork_with_events");
    left.expect(0, AllReduce, (1, 1), (1, 1), 0);
}

#[test]
fn an_abort_gives_up_what_its_events_would_confirm() {
    let left = left_by("aborted");
    assert_eq!(left.communicator(0).state, COMMUNICATOR_ABORTED);
    left.expect(0, AllReduce, (3, 3), (0, 0), 3);
    // The next communicator on the same stream; its end is seen at the program's exit.
    left.expect(1, AllReduce, (1, 1), (1, 1), 0);
}

#[test]
fn a_communicator_that_was_destroyed_ends_when_its_events_have_answered() {
    let left = left_by("destroyed");
    left.expect(0, AllReduce, (3, 3), (3, 3), 0);
    assert_eq!(left.communicator(0).state, COMMUNICATOR_DESTROYED);
}

#[test]
fn after_a_reset_of_the_device_its_events_are_left_alone_and_new_ones_tell() {
    let left = left_by("reset");
    left.expect(0, AllReduce, (3, 3), (1, 1), 2);
    left.expect(1, AllReduce, (3, 3), (3, 3), 0);
    assert_eq!(left.snapshot.dropped, [(DropReason::EventPoolFull, 2)]);
}

#[test]
fn an_abort_reaches_the_library_although_the_driver_holds_whoever_asks() {
    for scenario in ["hung_abort", "hung_revoke"] {
        let left = left_by(scenario);
        let aborted = left.snapshot.communicators.iter().filter(|c| c.state == COMMUNICATOR_ABORTED);
        assert_eq!(aborted.count(), 4, "{scenario}");
    }
}

#[test]
fn neither_a_destroy_nor_the_exit_waits_for_a_driver_that_does_not_answer() {
    for scenario in ["hung_destroy", "hung_exit", "hung_exit_locked", "hung_exit_in_driver"] {
        left_by(scenario);
    }
}

#[test]
fn threads_on_their_own_communicators_are_confirmed_to_the_last_call() {
    // Nothing waits for the events: the last ones are asked at exit.
    let left = left_by("threads_with_events");
    for slot in 0..4 {
        left.expect(slot, AllReduce, (5000, 5000), (5000, 5000), 0);
        left.expect(slot, Send, (10_000, 10_000), (10_000, 10_000), 0);
    }
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn without_a_fit_driver_there_is_neither_completion_nor_a_thread() {
    // Version 11 does not say which context is which: after a reset, events would be named to it that are gone.
    for driver in ["cuda-driver-old", "cuda-driver-11", "no driver"] {
        let left = cuda_job("bare", driver).succeed().only_segment();
        left.expect(0, AllReduce, (2, 2), (0, 0), 0);
        let communicator = left.communicator(0);
        assert_eq!((communicator.completion, communicator.compute_capability), (COMPLETION_NONE, None));
        assert_eq!(left.snapshot.flags & LIVE_DRIVER, 0);
        assert_eq!(left.snapshot.dropped, []);
    }
}

#[test]
fn the_record_path_allocates_nothing_with_events() {
    let left = left_by("no_allocation_with_events");
    left.expect(0, AllReduce, (20_001, 20_001), (20_001, 20_001), 0);
}
