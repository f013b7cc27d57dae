//! Wrong order, nonsense, too late, all at once: counted, and no harm done.

use proptest::prelude::{ProptestConfig, proptest};
use ringscope_wire::Primitive::AllReduce;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, COMMUNICATOR_DESTROYED, DropReason, LOST_PROFILER_EVENT, STATE_ON,
};

use crate::harness::{Left, VERSIONS, job};

#[test]
fn events_out_of_order_and_unknown_ones_are_counted() {
    for version in VERSIONS {
        let left = job(version, "disorder").left();
        let [issued, completed] = left.progress(0xabc, AllReduce);
        assert_eq!((issued, completed.0), ((1, 4), u64::from(version >= 3)), "version {version}");
        // What is no handle, or no longer one; before version 3 there are no channels to end twice.
        assert!(
            left.dropped(DropReason::EventOutOfOrder) >= 5,
            "version {version}: {:?}",
            left.snapshot.dropped
        );
        assert!(
            left.dropped(DropReason::UnknownEvent) >= 2,
            "version {version}: {:?}",
            left.snapshot.dropped
        );
        assert!(
            left.dropped(DropReason::UnmatchedEvent) >= 1,
            "version {version}: {:?}",
            left.snapshot.dropped
        );
        let unknown_communicators = if version >= 5 { 2 } else { 0 };
        assert_eq!(left.dropped(DropReason::UnknownCommunicator), unknown_communicators);
        assert_eq!(left.dropped(DropReason::Panic), 0);
        assert_eq!(left.communicator(0xabc).state, COMMUNICATOR_DESTROYED);
    }
}

#[test]
fn what_was_in_flight_at_the_end_is_counted() {
    for version in VERSIONS {
        let left = job(version, "unfinished").left();
        assert_eq!(left.progress(0xabc, AllReduce)[0], (1, 4));
        if version >= 4 {
            assert_eq!(left.progress(0xabc, AllReduce)[1], (0, 0));
            assert_eq!(left.communicator(0xabc).state, COMMUNICATOR_ABORTED, "version {version}");
            assert_eq!(left.counters(0xabc, AllReduce).failed_calls, 1);
            assert_eq!(left.dropped(DropReason::EventOutOfOrder), 1);
        }
        assert_eq!(left.dropped(DropReason::Panic), 0);
    }
}

/// Nobody shall believe that what is in flight hangs: and only on the communicator whose events were lost.
fn assert_lost(version: u32, scenario: &str, in_flight: u64) {
    let left = job(version, scenario).left();
    let [issued, completed] = left.progress(0xabc, AllReduce);
    assert_eq!(issued.0 - completed.0, in_flight, "version {version}, {scenario}");
    let lost = (left.communicator(0xabc).lost, left.communicator(0xdef).lost);
    assert_eq!(lost, (LOST_PROFILER_EVENT, 0), "version {version}, {scenario}");
}

#[test]
fn a_communicator_whose_events_are_lost_is_told_of() {
    for version in 3..=7 {
        assert_lost(version, "unfollowed", 1);
    }
    // Before, no event of a task is that of its call, and none of a run that of its capture.
    for version in 5..=7 {
        assert_lost(version, "taskless", 1);
        assert_lost(version, "many_runs", 1);
        assert_lost(version, "old_template", 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_is_counted_and_disturbs_nobody(seed: u64) {
        for version in VERSIONS {
            assert_unharmed(version, &job(version, "nonsense").env("SEED", seed.to_string()).env("ROUNDS", "20000").left());
        }
    }

    #[test]
    fn nonsense_reaches_a_chained_plugin_only_with_handles_of_its_own(seed: u64) {
        for version in VERSIONS {
            // The guest ends the process at a handle that is not its own.
            let job = job(version, "nonsense").env("SEED", seed.to_string());
            assert_unharmed(version, &job.chained(version, 0xffff).left());
        }
    }
}

/// What was said of the good communicator counts, and all else is among what was dropped.
fn assert_unharmed(version: u32, left: &Left) {
    let dropped = &left.snapshot.dropped;
    assert_eq!(left.snapshot.state, STATE_ON, "version {version}");
    assert_eq!(left.dropped(DropReason::Panic), 0, "version {version}");
    for reason in [DropReason::UnknownEvent, DropReason::EventOutOfOrder] {
        assert!(left.dropped(reason) > 0, "version {version}: {reason:?} in {dropped:?}");
    }
    let completed = if version >= 3 { (2, 8) } else { (0, 0) };
    assert_eq!(left.progress(0xabc, AllReduce), [(2, 8), completed], "version {version}: {dropped:?}");
    assert_eq!(left.communicator(0xabc).state, COMMUNICATOR_DESTROYED, "version {version}");
}

#[test]
fn threads_do_not_disturb_each_other() {
    for version in VERSIONS {
        let left = job(version, "threads").left();
        for comm in 0x100..0x104 {
            let [issued, completed] = left.progress(comm, AllReduce);
            assert_eq!(issued, (4000, 24_000), "version {version}");
            assert!(version < 3 || completed == issued, "version {version}: {completed:?}");
        }
        let [issued, completed] = left.progress(0xabc, AllReduce);
        assert_eq!((issued.0, completed.0), (300, if version >= 3 { 300 } else { 0 }), "version {version}");
    }
}
