//! Every version of the profiler interface below the preloaded functions: what it tells belongs to the calls that passed.

use ringscope_wire::Primitive::{self, AllReduce, Broadcast, Recv, Reduce, Send};
use ringscope_wire::segment::layout::{COMPLETION_NONE, COMPLETION_PROFILER, OPERATION_COMPLETED};

use crate::harness::{Left, job, version_job};

const VERSIONS: [u32; 6] = [1, 2, 3, 4, 6, 7];
/// The first version that tells the end of an operation.
const FIRST_WITH_CHANNELS: u32 = 3;

fn left_by(scenario: &str, version: u32) -> Left {
    version_job(scenario, version).succeed().only_segment()
}

/// Issued and, if this version tells it, completed.
#[track_caller]
fn expect(left: &Left, version: u32, slot: usize, primitive: Primitive, done: (u64, u64), failed: u64) {
    let completed = if version < FIRST_WITH_CHANNELS { (0, 0) } else { done };
    left.expect(slot, primitive, done, completed, failed);
}

#[test]
fn each_task_finds_its_call() {
    for version in VERSIONS {
        let left = left_by("every_primitive", version);
        for (primitive, calls, bytes) in [
            (AllReduce, 1, 400),
            (Broadcast, 2, 210),
            (Reduce, 1, 28),
            (Primitive::AllGather, 1, 32),
            (Primitive::ReduceScatter, 1, 36),
            (Send, 1, 44),
            (Recv, 1, 48),
        ] {
            expect(&left, version, 0, primitive, (calls, bytes), 0);
        }
        assert_eq!(left.snapshot.dropped, [], "version {version}");
        assert_eq!(left.snapshot.profiler_version, version);
        assert_eq!((left.records.len(), left.snapshot.communicators.len()), (8, 1), "version {version}");
        let told = if version < FIRST_WITH_CHANNELS { COMPLETION_NONE } else { COMPLETION_PROFILER };
        assert_eq!(left.communicator(0).completion, told, "version {version}");
        if version >= FIRST_WITH_CHANNELS {
            assert!(left.records.iter().all(|record| record.state == OPERATION_COMPLETED));
        }
    }
}

#[test]
fn the_tasks_of_a_group_find_their_calls() {
    for version in VERSIONS {
        let left = left_by("groups", version);
        // As with the usual version. A call of no bytes is closed without the profiler.
        let [send, recv, all_reduce] = [(3, 65), (1, 2), (1, 4)];
        if version >= FIRST_WITH_CHANNELS {
            left.expect(0, Send, send, send, 3);
            left.expect(0, Recv, recv, recv, 2);
            left.expect(1, AllReduce, all_reduce, all_reduce, 0);
        } else {
            assert_eq!(left.counters(0, Send).issued_bytes, 65);
            assert_eq!(left.counters(0, Send).completed_bytes, 0);
        }
        assert_eq!(left.snapshot.dropped, [], "version {version}");
    }
}

#[test]
fn threads_do_not_take_each_others_tasks() {
    for version in VERSIONS {
        let left = left_by("threads", version);
        for slot in 0..4 {
            expect(&left, version, slot, AllReduce, (340, 1360), 0);
            expect(&left, version, slot, Send, (340, 340), 0);
            expect(&left, version, slot, Recv, (340, 340), 0);
        }
        assert_eq!(left.snapshot.dropped, [], "version {version}");
    }
}

/// NCCL 2.29.2 to 2.30.7 tells nothing of a broadcast but its call. What comes behind it tells that it is over, in the order
/// of its stream.
#[test]
fn broadcasts_of_which_nobody_tells_end_with_what_comes_behind_them() {
    for version in ["22902", "23007"] {
        let job = job("untold_broadcasts").env("STUB_NCCL_VERSION", version);
        let left = job.succeed().only_segment();
        left.expect(0, Broadcast, (4, 4), (2, 2), 0);
        left.expect(0, AllReduce, (2, 8), (2, 8), 0);
        left.expect(2, Broadcast, (1, 1), (1, 1), 0);
        assert_eq!(left.snapshot.dropped, []);
        let broadcasts: Vec<_> = left.records.iter().filter(|record| record.primitive == Broadcast).collect();
        assert!(broadcasts.iter().all(|record| record.ends_by_order && !record.start_known));
        let is_over: Vec<bool> =
            broadcasts.iter().map(|record| record.state == OPERATION_COMPLETED).collect();
        assert_eq!(is_over, [true, true, false, false, true]);
    }
    let overwritten = job("overwritten_broadcasts").env("STUB_NCCL_VERSION", "23007");
    let left = overwritten.succeed().only_segment();
    assert!(left.snapshot.communicators.iter().all(|communicator| communicator.lost == 0));
    left.expect(1, Broadcast, (2, 2), (2, 2), 2);
    for version in ["22901", "23203"] {
        let left = job("untold_broadcasts").env("STUB_NCCL_VERSION", version).succeed().only_segment();
        left.expect(0, Broadcast, (4, 4), (4, 4), 0);
        assert!(left.records.iter().all(|record| !record.ends_by_order));
    }
}
