//! Wrong order, nonsense, too late, all at once: counted, and no harm done.

use ringscope_wire::Primitive::AllReduce;
use ringscope_wire::segment::layout::{COMMUNICATOR_ABORTED, COMMUNICATOR_DESTROYED, DropReason};

use crate::harness::{VERSIONS, job};

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
