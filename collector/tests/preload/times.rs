//! When the device begins and ends operations: a library without a profiler, on a stub of the driver that has two devices with clocks of
//! their own. The scenarios note when the device truly did.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use ringscope_wire::Primitive::{AllReduce, Send};
use ringscope_wire::segment::layout::{
    COMPLETION_EVENTS, DropReason, LEVEL_EVENTS, OPERATION_CAPTURED, OPERATION_COMPLETED, OPERATION_FAILED,
    OPERATION_ISSUED, STARTED_SHIFT,
};
use ringscope_wire::segment::read::Record;

use crate::harness::{Job, Left, cuda_job, times_job};

/// What the clocks may drift between two narrowings, and a start is rounded down.
const SLACK_NS: u64 = 250_000;
/// Before much is known the clock is as good as the polling thread looks often, which a busy machine holds up.
const ROUGH_NS: u64 = 100_000_000;

fn run(scenario: &str) -> (Left, Job) {
    let job = times_job(scenario, "cuda-driver").succeed();
    (job.only_segment(), job)
}

/// Nanoseconds of so many ticks of this machine.
fn ns(ticks: u64) -> u64 {
    static RATE: OnceLock<(u64, u64)> = OnceLock::new();
    let (passed_ns, in_ticks) = *RATE.get_or_init(|| {
        let anchor = || cuda_job("bare", "no driver").succeed().only_segment().snapshot.clock;
        let first = anchor();
        cuda_job("threads_with_events", "cuda-driver").succeed();
        let second = anchor();
        (second.monotonic_ns - first.monotonic_ns, second.ticks - first.ticks)
    });
    u64::try_from(u128::from(ticks) * u128::from(passed_ns) / u128::from(in_ticks)).unwrap()
}

/// A time of a record by `CLOCK_MONOTONIC`.
fn at_ns(left: &Left, ticks: u64) -> u64 {
    let anchor = left.snapshot.clock;
    anchor.monotonic_ns + ns(ticks - anchor.ticks)
}

fn error_ns(left: &Left) -> u64 {
    ns(left.snapshot.device_error_ticks.unwrap())
}

/// The noted times, as from when to when.
fn truth(job: &Job) -> Vec<RangeInclusive<u64>> {
    job.truth_ns().chunks(2).map(|pair| pair[0]..=pair[1]).collect()
}

/// Asserts that these operations began and ended when they truly did: the last one up to the error that is told.
#[track_caller]
fn expect_true<'a>(
    left: &Left,
    records: impl IntoIterator<Item = &'a Record>,
    truth: &[RangeInclusive<u64>],
) {
    let records: Vec<_> = records.into_iter().collect();
    assert_eq!(2 * records.len(), truth.len());
    for (n, (record, times)) in records.iter().zip(truth.chunks(2)).enumerate() {
        assert!(record.start_known && record.state == OPERATION_COMPLETED, "{record:?}");
        let within_ns = if n + 1 == records.len() { error_ns(left) + SLACK_NS } else { ROUGH_NS };
        // A start may have been told when less was known.
        for (ticks, time, within_ns) in [
            (record.started_ticks.unwrap(), &times[0], ROUGH_NS),
            (record.completed_ticks.unwrap(), &times[1], within_ns),
        ] {
            let told_ns = at_ns(left, ticks);
            let is_true = (time.start() - within_ns..=time.end() + within_ns).contains(&told_ns);
            assert!(is_true, "{n}: {} ns beside", told_ns.cast_signed() - time.start().cast_signed());
        }
    }
}

fn flags(left: &Left) -> Vec<(u32, bool, bool)> {
    let of = |record: &Record| (record.state, record.start_known, record.started_ticks.is_some());
    left.records.iter().map(of).collect()
}

#[test]
fn an_operation_has_begun_when_the_device_gets_to_it() {
    let (left, job) = run("one_by_one");
    left.expect(0, AllReduce, (4, 4), (2, 2), 0);
    let completed = OPERATION_COMPLETED;
    let expected = [
        (completed, true, true),
        (completed, true, true),
        (OPERATION_ISSUED, true, true),
        (OPERATION_ISSUED, true, false),
    ];
    assert_eq!(flags(&left), expected);
    expect_true(&left, &left.records[..2], &truth(&job)[..4]);
    assert_eq!((left.snapshot.level, left.communicator(0).completion), (LEVEL_EVENTS, COMPLETION_EVENTS));
    assert_eq!(left.snapshot.dropped, []);
}

/// A stream that runs late, and is destroyed by the program before it has run: the worst of what calls alone say.
#[test]
fn what_is_enqueued_long_before_has_the_times_of_the_device() {
    let (left, job) = run("late");
    left.expect(0, AllReduce, (101, 101), (101, 101), 0);
    assert_eq!(left.snapshot.dropped, []);
    let error_ns = error_ns(&left);
    assert!(error_ns < 10_000_000, "{error_ns} ns");
    expect_true(&left, &left.records, &truth(&job));
    let waited = left.records[51..].iter().map(|record| record.started_ticks.unwrap() - record.issued_ticks);
    assert!(ns(waited.min().unwrap()) > 100_000_000, "called a tenth of a second before");
}

#[test]
fn each_stream_and_each_device_has_its_own_clock() {
    let (left, job) = run("two_devices");
    assert_eq!(left.snapshot.dropped, []);
    let of = |slot: u16| left.records.iter().filter(move |record| record.communicator == slot);
    let truth = truth(&job);
    expect_true(&left, of(0), &truth[..80]);
    expect_true(&left, of(1), &truth[80..]);
    let (left, job) = run("two_streams");
    left.expect(0, AllReduce, (20, 20), (20, 20), 0);
    expect_true(&left, &left.records, &self::truth(&job));
}

#[test]
fn a_group_begins_when_its_last_input_is_there() {
    let (left, job) = run("group");
    left.expect(0, AllReduce, (40, 40), (40, 40), 0);
    let truth = truth(&job);
    for calls in 0..2 {
        expect_true(&left, left.records.iter().skip(calls).step_by(2), &truth);
    }
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn beyond_what_a_stream_can_have_operations_have_no_times_and_are_counted() {
    let (left, _) = run("full");
    left.expect(0, AllReduce, (201, 201), (201, 201), 0);
    assert_eq!(left.snapshot.dropped, [(DropReason::DeviceTimesFull, 72)]);
    let known: Vec<bool> = left.records.iter().map(|record| record.start_known).collect();
    let expected = [[true; 128].as_slice(), &[false; 72], &[true]].concat();
    assert_eq!(known, expected);
    assert!(left.records.iter().all(|record| record.start_known == record.started_ticks.is_some()));
}

#[test]
fn nothing_is_recorded_into_a_capture() {
    let (left, _) = run("capture");
    left.expect(0, AllReduce, (1, 1), (1, 1), 0);
    left.expect(0, Send, (0, 0), (0, 0), 0);
    let captured = (OPERATION_CAPTURED, false, false);
    assert_eq!(flags(&left), [(OPERATION_COMPLETED, true, true), captured, captured, captured]);
    let (left, _) = run("capture_in_a_group");
    assert_eq!(flags(&left), [(OPERATION_FAILED, false, false); 2]);
}

#[test]
fn what_has_no_end_when_its_call_returns_has_no_times() {
    let (left, _) = run("without_an_end");
    left.expect(0, AllReduce, (1, 1), (1, 1), 0);
    left.expect(1, AllReduce, (1, 1), (1, 1), 2);
    let failed = (OPERATION_FAILED, false, false);
    let completed = OPERATION_COMPLETED;
    let expected = [(completed, false, false), failed, failed, failed, (completed, true, true)];
    assert_eq!(flags(&left), expected);
    assert_eq!(left.snapshot.dropped, [(DropReason::DeviceTimesUnbounded, 3)]);
}

#[test]
fn whatever_the_driver_refuses_ends_the_times_and_not_completion() {
    for scenario in ["fault_1", "fault_2", "fault_3", "fault_4", "fault_5", "fault_6"] {
        let (left, _) = run(scenario);
        left.expect(0, AllReduce, (3, 3), (3, 3), 0);
        let reasons: Vec<_> = left
            .snapshot
            .dropped
            .iter()
            .filter(|(reason, _)| *reason == DropReason::DeviceTimesFailed)
            .collect();
        assert_eq!(reasons, [&(DropReason::DeviceTimesFailed, 1)], "{scenario}");
        let is_unknown = |record: &Record| !record.start_known && record.started_ticks.is_none();
        assert!(left.records.iter().all(is_unknown), "{scenario}");
    }
}

#[test]
fn a_driver_that_refuses_later_on_is_said_to_tell_no_times() {
    let (left, _) = run("fault_later");
    left.expect(0, AllReduce, (3, 3), (3, 3), 0);
    assert_eq!(left.records.iter().filter(|record| record.start_known).count(), 1);
    assert_eq!(left.snapshot.dropped, [(DropReason::DeviceTimesFailed, 1)]);
    assert_eq!(left.snapshot.device_error_ticks, None);
}

#[test]
fn events_that_the_driver_gave_before_it_refused_are_used_when_times_are_asked_for_again() {
    let (left, _) = run("made_in_parts");
    left.expect(0, AllReduce, (3, 3), (3, 3), 0);
    let known: Vec<bool> = left.records.iter().map(|record| record.start_known).collect();
    assert_eq!(known, [false, false, true]);
    assert_eq!(left.snapshot.dropped, [(DropReason::DeviceTimesFailed, 1)]);
}

#[test]
fn a_driver_that_cannot_tell_times_tells_completion() {
    let job = times_job("full", "cuda-driver-untimed").succeed();
    let left = job.only_segment();
    left.expect(0, AllReduce, (201, 201), (201, 201), 0);
    assert_eq!((left.snapshot.level, left.snapshot.device_error_ticks), (LEVEL_EVENTS, None));
    assert!(left.records.iter().all(|record| !record.start_known));
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn a_forked_child_leaves_the_times_to_its_parent() {
    let (left, job) = run("fork_with_times");
    left.expect(0, AllReduce, (1, 1), (1, 1), 0);
    let record = &left.records[0];
    let lasted = record.completed_ticks.unwrap() - record.started_ticks.unwrap();
    let truth = truth(&job);
    let least = truth[1].start() - truth[0].end();
    assert!(ns(lasted + (1 << STARTED_SHIFT)) + 20_000 > least);
}

#[test]
fn an_abort_gives_up_times_and_the_next_communicator_has_its_own() {
    let (left, _) = run("aborted");
    left.expect(0, AllReduce, (3, 3), (0, 0), 3);
    left.expect(1, AllReduce, (1, 1), (1, 1), 0);
    let next = left.records.last().unwrap();
    assert!(next.start_known && next.started_ticks.is_some(), "{next:?}");
}

#[test]
fn after_a_reset_of_the_device_there_are_new_events() {
    let (left, _) = run("reset");
    left.expect(0, AllReduce, (2, 2), (1, 1), 0);
    assert_eq!(flags(&left)[1], (OPERATION_COMPLETED, true, true));
    assert_eq!(left.snapshot.dropped, [(DropReason::EventPoolFull, 1)]);
}

#[test]
fn threads_on_their_own_communicators_have_times() {
    let (left, _) = run("threads");
    for slot in 0..4 {
        left.expect(slot, AllReduce, (5000, 5000), (5000, 5000), 0);
        left.expect(slot, Send, (10_000, 10_000), (10_000, 10_000), 0);
    }
    let known = left.records.iter().filter(|record| record.start_known);
    assert!(known.clone().count() > 100 && known.clone().all(|record| record.started_ticks.is_some()));
    let is_full = |reason: &DropReason| *reason == DropReason::DeviceTimesFull;
    assert!(left.snapshot.dropped.iter().all(|(reason, _)| is_full(reason)), "{:?}", left.snapshot.dropped);
}

#[test]
fn the_record_path_allocates_nothing_with_times() {
    run("no_allocation").0.expect(0, AllReduce, (5001, 5001), (5001, 5001), 0);
}
