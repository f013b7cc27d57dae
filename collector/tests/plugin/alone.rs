//! Communicators, counters, links and graphs from the events alone.

use ringscope_wire::Primitive::{AllReduce, Recv, Send};
use ringscope_wire::segment::layout::{
    COMMUNICATOR_DESTROYED, COMPLETION_NONE, COMPLETION_PROFILER, LEVEL_STEPS, MADE_BY_UNSEEN, SOURCE_PLUGIN,
};

use crate::harness::{VERSIONS, job};

#[test]
fn every_version_gives_the_same_counters() {
    for version in VERSIONS {
        let left = job(version, "everything").left();
        // Versions 1 and 2 have no event for the end of an operation.
        let is_told = version >= 3;
        let done = |calls, bytes| if is_told { (calls, bytes) } else { (0, 0) };
        assert_eq!(left.progress(0xabc, AllReduce), [(3, 4120), done(3, 4120)], "version {version}");
        assert_eq!(left.progress(0xabc, Send), [(1, 5), done(1, 5)], "version {version}");
        assert_eq!(left.progress(0xabc, Recv), [(1, 7), done(1, 7)], "version {version}");
        assert_eq!(left.progress(0xdef, AllReduce), [(1, 4), done(1, 4)], "version {version}");
        let sent: Vec<_> = left
            .snapshot
            .links
            .iter()
            .map(|link| (link.primitive, link.peer, link.sent_bytes, link.sent_steps))
            .collect();
        assert_eq!(sent.len(), 2, "version {version}: {sent:?}");
        assert!(sent.contains(&(AllReduce, 2, 600, 6)) && sent.contains(&(AllReduce, 2, 200, 2)), "{sent:?}");
        assert_eq!(left.snapshot.dropped, [], "version {version}");
        assert_eq!((left.snapshot.profiler_version, left.snapshot.level), (version, LEVEL_STEPS));
    }
}

#[test]
fn every_version_gives_communicators() {
    for version in VERSIONS {
        let left = job(version, "everything").left();
        assert_eq!(left.snapshot.communicators.len(), 2);
        let comm = left.communicator(0xabc);
        assert_eq!((comm.made_by, comm.sources), (MADE_BY_UNSEEN, SOURCE_PLUGIN));
        assert_eq!((comm.rank, comm.name.as_str(), comm.state), (1, "world", COMMUNICATOR_DESTROYED));
        // Before version 4 nothing says how large it is.
        let size = if version >= 4 { (4, Some(2)) } else { (0, None) };
        assert_eq!((comm.n_ranks, comm.n_nodes), size, "version {version}");
        let completion = if version >= 3 { COMPLETION_PROFILER } else { COMPLETION_NONE };
        assert_eq!(comm.completion, completion, "version {version}");
        assert_eq!(left.communicator(0xdef).rank, 3);
    }
}

#[test]
fn runs_of_a_graph_are_counted_and_its_capture_is_not() {
    for version in 5..=7 {
        let left = job(version, "graph").left();
        let counters = left.counters(0xabc, AllReduce);
        assert_eq!((counters.captured_calls, counters.captured_bytes), (1, 400), "version {version}");
        assert_eq!((counters.replayed_calls, counters.replayed_bytes), (3, 1200));
        assert_eq!(left.progress(0xabc, AllReduce), [(4, 1204), (4, 1204)]);
        assert_eq!(left.snapshot.links[0].sent_bytes, 800);
        assert_eq!(left.snapshot.dropped, []);
    }
}

#[test]
fn before_version_5_the_runs_of_a_graph_are_calls_like_others() {
    for version in VERSIONS.take_while(|version| *version < 5) {
        let left = job(version, "graph").left();
        let counters = left.counters(0xabc, AllReduce);
        assert_eq!((counters.captured_calls, counters.replayed_calls), (0, 0));
        assert_eq!(left.progress(0xabc, AllReduce)[0], (4, 1204), "version {version}");
    }
}

#[test]
fn the_mask_follows_level_and_control_while_the_job_runs() {
    // Control words 0 to 4, then off, then as at the start.
    let expected = |start: &str| format!("{start} 1606 1646 1646 165e 1606 {start} ");
    for (level, start) in [("counters", "1646"), ("channels", "1646"), ("steps", "165e"), ("", "1646")] {
        let left = job(5, "levels").env("RINGSCOPE_LEVEL", level).left();
        assert_eq!(left.said, expected(start), "at level {level:?}");
        // Not those made while it was off.
        assert_eq!(left.progress(0xabc, AllReduce)[0].0, 5);
    }
}
