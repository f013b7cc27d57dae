//! Several ranks in one process: each communicator has its own events, whoever else looks like it.

use std::collections::BTreeSet;

use ringscope_wire::Primitive::AllReduce;
use ringscope_wire::segment::layout::{COMMUNICATOR_DESTROYED, COMMUNICATOR_FORMING, DropReason};

use crate::harness::ranks_job;

/// Those that tell the end of an operation.
const VERSIONS: std::ops::RangeInclusive<u32> = 3..=7;

#[test]
fn splits_of_all_ranks_get_their_own_events_in_whatever_order_they_are_made() {
    for version in VERSIONS {
        let left = ranks_job("splits_of_all", version).succeed().only_segment();
        assert_eq!(left.snapshot.dropped, [], "version {version}");
        for child in 0..4 {
            let slot = 4 + child;
            let done = (1, 4 * (child as u64 + 1));
            left.expect(slot, AllReduce, done, done, 0);
            let communicator = left.communicator(slot);
            // Ranks 0 and 2 have become the first half, 1 and 3 the second.
            assert_eq!((communicator.rank as usize, communicator.n_ranks), (child / 2, 2));
            if version >= 4 {
                assert_eq!(communicator.comm_hash, 0xa11 + 0x100 * (child as u64 % 2 + 1));
            }
        }
    }
}

#[test]
fn ranks_made_by_several_threads_at_once_are_told_apart_by_their_calls() {
    for version in VERSIONS {
        let left = ranks_job("threads_of_all", version).succeed().only_segment();
        assert_eq!(left.snapshot.dropped, [], "version {version}");
        let mut identities = BTreeSet::new();
        for slot in 0..8 {
            let counters = left.counters(slot, AllReduce);
            let done = (counters.issued_calls, counters.issued_bytes);
            left.expect(slot, AllReduce, done, done, 0);
            let communicator = left.communicator(slot);
            let thread = (counters.issued_bytes / 4 - 1) / 2;
            identities.insert((thread, communicator.comm_hash));
        }
        // Each thread's two ranks are of one communicator, and no other thread's are.
        let hashes: BTreeSet<_> = identities.iter().map(|(_, hash)| *hash).collect();
        assert_eq!((identities.len(), hashes.len()), (4, 4), "version {version}: {identities:x?}");
    }
}

#[test]
fn what_fits_by_chance_keeps_no_communicator_from_its_events() {
    for version in VERSIONS {
        let left = ranks_job("late_end", version).succeed().only_segment();
        assert_eq!(left.snapshot.dropped, [], "version {version}");
        let used = |slot: &usize| left.counters(*slot, AllReduce).issued_calls > 0;
        let mut bytes: Vec<u64> = (0..4)
            .filter(used)
            .map(|slot| {
                let counters = left.counters(slot, AllReduce);
                left.expect(slot, AllReduce, (1, counters.issued_bytes), (1, counters.issued_bytes), 0);
                counters.issued_bytes
            })
            .collect();
        bytes.sort_unstable();
        assert_eq!(bytes, [4, 8], "version {version}");
    }
}

/// Two children of one parent, alike in rank and size, whose pointers nobody can tell apart. By their hashes their events can
/// be, where the collector knows how this version makes them: what is not known stays so.
#[test]
fn children_that_look_alike_are_never_taken_for_each_other() {
    for version in VERSIONS {
        for (nccl, is_backwards) in [("22400", false), ("22400", true), ("22800", false), ("22800", true)] {
            let job = ranks_job("alike", version).env("STUB_NCCL_VERSION", nccl);
            let job = if is_backwards { job.env("BACKWARDS", "1") } else { job };
            let left = job.succeed().only_segment();
            let case = format!("version {version}, {nccl}, backwards {is_backwards}");
            // Before version 5 an event does not say which call it is of.
            let is_known = nccl == "22400" && version >= 5;
            for (slot, bytes) in [(1, 4), (2, 8)] {
                let done = if is_known { (1, bytes) } else { (0, 0) };
                left.expect(slot, AllReduce, done, done, 0);
                let state = if is_known { COMMUNICATOR_DESTROYED } else { COMMUNICATOR_FORMING };
                assert_eq!(left.communicator(slot).state, state, "{case}");
            }
            // The calls themselves are of pointers that are not known.
            let unknown = |(reason, calls): &_| *reason == DropReason::UnknownCommunicator && *calls >= 2;
            assert!(left.snapshot.dropped.iter().any(unknown), "{case}: {:?}", left.snapshot.dropped);
        }
    }
}

#[test]
fn a_call_is_followed_to_its_end_whoever_turns_that_off_meanwhile() {
    for version in VERSIONS {
        let left = ranks_job("off_while_calling", version).succeed().only_segment();
        left.expect(0, AllReduce, (2, 8), (2, 8), 0);
        left.expect(1, AllReduce, (2, 12), (2, 12), 0);
        assert_eq!(left.snapshot.dropped, [], "version {version}");
    }
}
