//! What came to the API after its first years, and several copies of the library in one process.

use ringscope_wire::Primitive::{self, AllReduce, Broadcast, Send};
use ringscope_wire::comm_hash::{Scheme, magic_of_grow, of_grow};
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, COMMUNICATOR_ACTIVE, COMMUNICATOR_FAILED, COMMUNICATOR_FORMING, COMMUNICATOR_FREE,
    DropReason, MADE_BY_GROW, MADE_BY_INIT, MADE_BY_SHRINK, MADE_BY_SPLIT, OPERATION_COMPLETED,
    OPERATION_ISSUED, SOURCE_CALLS,
};

use crate::harness::{job, left_by, several_job};

#[test]
fn newer_primitives_count_their_calls_and_bytes() {
    let left = left_by("newer_primitives");
    let expected: [(Primitive, u64, u64); 9] = [
        (Primitive::AllToAll, 2, 4 * (10 + 6)),
        (Primitive::Gather, 2, 4 * (11 + 7)),
        (Primitive::Scatter, 2, 4 * (12 + 8)),
        (Primitive::PutSignal, 1, 2 * 13),
        // Each variant with a configuration calls the one without: one call.
        (AllReduce, 1, 4),
        (Broadcast, 1, 8),
        (Primitive::Reduce, 1, 12),
        (Primitive::AllGather, 1, 16),
        (Primitive::ReduceScatter, 1, 20),
    ];
    for (primitive, calls, bytes) in expected {
        left.expect(0, primitive, (calls, bytes), (calls, bytes), 0);
    }
    assert_eq!(left.snapshot.registrations, 3, "the refused one is none");
    assert_eq!(left.snapshot.dropped, []);
    let peers: Vec<_> = left.records.iter().take(4).map(|record| record.peer).collect();
    assert_eq!(peers, [None, Some(2), Some(1), Some(5)]);
}

#[test]
fn an_operation_in_parts_is_not_over_before_the_last_of_them() {
    let left = left_by("parts_of_one");
    left.expect(0, Primitive::AllToAll, (2, 80), (1, 40), 0);
    assert_eq!(left.records[0].state, OPERATION_COMPLETED);
    let second = &left.records[1];
    assert_eq!((second.state, second.channels_done, second.channels_expected), (OPERATION_ISSUED, 2, 4));
}

#[test]
fn a_simulated_group_never_was() {
    let left = left_by("simulated");
    left.expect(0, AllReduce, (1, 32), (1, 32), 0);
    left.expect(0, Send, (0, 0), (0, 0), 0);
    let records: Vec<_> = left.records.iter().map(|record| (record.bytes, record.seq_number)).collect();
    assert_eq!(records, [(32, 2)]);
}

#[test]
fn children_take_after_their_parents() {
    let left = job("kinship").without("NCCL_PROFILER_PLUGIN").succeed().only_segment();
    let mut first = [0; 128];
    first[0] = 5;
    let scheme = Scheme::of_version(22_809);
    let world = scheme.of_unique_id(&first);
    let hashes: Vec<_> = left.snapshot.communicators.iter().map(|comm| comm.comm_hash).collect();
    assert_eq!(
        hashes,
        [
            world,
            scheme.of_split(world, 1, 4),
            scheme.of_split(world, 2, 4),
            scheme.of_shrink(world),
            scheme.of_shrink(world),
            of_grow(magic_of_grow(5, 3), 16),
            of_grow(6, 16),
        ]
    );
    let made_by: Vec<_> = left.snapshot.communicators.iter().skip(1).map(|comm| comm.made_by).collect();
    assert_eq!(
        made_by,
        [MADE_BY_SPLIT, MADE_BY_SPLIT, MADE_BY_SHRINK, MADE_BY_SHRINK, MADE_BY_GROW, MADE_BY_GROW]
    );
    let parents: Vec<_> = left.snapshot.communicators.iter().map(|comm| comm.parent_hash).collect();
    assert_eq!(parents, [0, world, world, world, world, world, 0]);
    let settings: Vec<_> = left
        .snapshot
        .communicators
        .iter()
        .map(|comm| (comm.min_ctas, comm.max_ctas, comm.shares_resources))
        .collect();
    assert_eq!(
        settings,
        [
            (Some(2), Some(16), None),
            (Some(2), Some(16), Some(true)),
            (None, Some(4), Some(true)),
            (Some(2), Some(16), Some(true)),
            (None, Some(4), Some(false)), // what the parent did was given up
            (Some(2), Some(16), Some(false)),
            (None, Some(4), None),
        ]
    );
    let places: Vec<_> = left.snapshot.communicators.iter().map(|comm| (comm.rank, comm.n_ranks)).collect();
    assert_eq!(places, [(3, 8), (1, 4), (1, 4), (2, 7), (2, 7), (3, 16), (12, 16)]);
    assert_eq!(left.communicator(0).name, "world");
    assert!(left.snapshot.communicators.iter().all(|comm| comm.sources == SOURCE_CALLS));
    // The two that were shrunk have one hash and are two all the same.
    left.expect(3, AllReduce, (1, 4 << 3), (0, 0), 0);
    left.expect(4, AllReduce, (1, 4 << 4), (0, 0), 0);
}

#[test]
fn the_environment_decides_over_sharing() {
    let job = job("kinship").env("NCCL_COMM_SPLIT_SHARE_RESOURCES", "0").succeed();
    let left = job.only_segment();
    let shares: Vec<_> = left.snapshot.communicators.iter().map(|comm| comm.shares_resources).collect();
    assert_eq!(shares, [None, Some(false), Some(false), Some(true), Some(false), Some(false), None]);
}

#[test]
fn a_revoked_communicator_is_aborted_and_stays_so() {
    let left = left_by("kinship");
    assert_eq!(left.communicator(1).state, COMMUNICATOR_ABORTED);
    // One completed, one was in flight, one was refused.
    left.expect(1, AllReduce, (2, 8 + 4000), (1, 8), 2);
}

#[test]
fn a_communicator_that_does_not_block_is_described_when_it_is_ready() {
    for profiler in [true, false] {
        let job =
            if profiler { job("non_blocking") } else { job("non_blocking").without("NCCL_PROFILER_PLUGIN") };
        let left = job.succeed().only_segment();
        let (comm, child) = (left.communicator(0), left.communicator(1));
        assert_eq!((comm.rank, comm.n_ranks, comm.device), (6, 8, Some(6)));
        assert_eq!((child.state, child.rank, child.n_ranks), (COMMUNICATOR_ACTIVE, 3, 4));
        assert_eq!((left.counters(1, AllReduce).issued_calls, child.device), (1, Some(3)));
        // The last child's parent was aborted before it was there.
        let states: Vec<_> = left.snapshot.communicators.iter().skip(2).map(|comm| comm.state).collect();
        assert!(states.iter().all(|state| *state == COMMUNICATOR_FREE), "{states:?}");
    }
}

#[test]
fn an_init_that_goes_on_is_over_when_the_library_says_so() {
    let left = left_by("non_blocking_inits");
    let known = |slot: usize| {
        let communicator = left.communicator(slot);
        assert_ne!(communicator.pointer, 0);
        (communicator.state, communicator.device, communicator.error.map(|error| error.result))
    };
    assert_eq!(known(0), (COMMUNICATOR_FORMING, None, None));
    assert_eq!(known(1), (COMMUNICATOR_ACTIVE, Some(6), None));
    assert_eq!(known(2), (COMMUNICATOR_FAILED, None, Some(6)));
    left.expect(1, AllReduce, (1, 12), (1, 12), 0);
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn where_the_library_has_put_a_child_is_never_read_later() {
    for profiler in [true, false] {
        let job = job("passing_place");
        let job = if profiler { job } else { job.without("NCCL_PROFILER_PLUGIN") };
        let job = job.succeed();
        let taken = job.taken_bytes();
        assert!(taken <= 320 << 10, "{taken} bytes: slots that nobody used were looked at");
        let left = job.only_segment();
        let children: Vec<_> = left
            .snapshot
            .communicators
            .iter()
            .enumerate()
            .filter(|(_, c)| c.made_by == MADE_BY_SPLIT)
            .collect();
        let known = children.iter().map(|(_, c)| (c.state, c.rank, c.n_ranks)).collect::<Vec<_>>();
        assert_eq!(known[..2], [(COMMUNICATOR_ACTIVE, 3, 4), (COMMUNICATOR_ACTIVE, 1, 2)]);
        for ((slot, _), bytes) in children.iter().zip([12, 20]) {
            let issued = left.counters(*slot, AllReduce);
            assert_eq!((issued.issued_calls, issued.issued_bytes), (1, bytes));
        }
        assert_eq!(left.snapshot.dropped, [(DropReason::UnknownCommunicator, 1)]);
    }
}

#[test]
fn what_the_library_calls_to_describe_a_communicator_is_not_the_programs() {
    for profiler in [true, false] {
        let job = job("made_beside_a_child");
        let job = if profiler { job } else { job.without("NCCL_PROFILER_PLUGIN") };
        let left = job.succeed().only_segment();
        let known: Vec<_> = left.snapshot.communicators.iter().map(|c| (c.state, c.made_by)).collect();
        let active = COMMUNICATOR_ACTIVE;
        assert_eq!(known, [(active, MADE_BY_INIT), (active, MADE_BY_SPLIT), (active, MADE_BY_INIT)]);
        for (slot, bytes) in [(1, 12), (2, 4)] {
            let issued = left.counters(slot, AllReduce);
            assert_eq!((issued.issued_calls, issued.issued_bytes), (1, bytes), "slot {slot}");
        }
        assert_eq!(left.snapshot.dropped, []);
    }
}

#[test]
fn each_copy_of_the_library_gets_its_own_calls() {
    let users = ["libframework.so", "libstatic_old.so", "libstatic_new.so"];
    let left = several_job("copy", &users).without("NCCL_PROFILER_PLUGIN").succeed().only_segment();
    assert_eq!((left.snapshot.n_libraries, left.snapshot.library_version), (3, 22_809));
    let mut id = [0; 128];
    id[0] = 1;
    assert_eq!(left.snapshot.communicators.len(), 12);
    for (slot, communicator) in left.snapshot.communicators.iter().enumerate() {
        let version = [22_809, 22_105, 23_203][communicator.library as usize];
        assert_eq!(communicator.comm_hash, Scheme::of_version(version).of_unique_id(&id));
        left.expect(slot, AllReduce, (2, 12), (0, 0), 0);
        left.expect(slot, Broadcast, (1, 8), (0, 0), 0);
        left.expect(slot, Send, (1, 4), (0, 0), 0);
    }
    assert_eq!(left.snapshot.dropped, [(DropReason::UnknownCommunicator, 12)]);
}

#[test]
fn first_calls_from_many_threads_at_once_find_the_whole_library() {
    for _ in 0..20 {
        let left = left_by("first_calls");
        assert_eq!((left.snapshot.n_libraries, left.snapshot.communicators.len()), (1, 16));
        for slot in 0..16 {
            left.expect(slot, AllReduce, (1, 4), (1, 4), 0);
        }
        assert_eq!(left.snapshot.dropped, []);
    }
}

#[test]
fn a_function_that_the_library_lacks_is_an_error_and_counted() {
    let left = several_job("missing", &["libstatic_old.so"]).succeed().only_segment();
    assert_eq!(left.snapshot.dropped, [(DropReason::NoLibrary, 4)]);
    left.expect(0, AllReduce, (1, 4), (1, 4), 0);
}
