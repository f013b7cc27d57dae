//! When a profiler plugin is told: by a thread of its own in the faithful mode, so that events may come after their
//! operation, and with the times at which things happened.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::HashMap;

use common::events::{Event, NEWEST};
use common::told::Ranks;

fn of_kind<'a>(events: &'a HashMap<u64, Event>, kind: &'a str) -> impl Iterator<Item = &'a Event> {
    events.values().filter(move |event| event.kind == kind)
}

#[test]
fn an_operation_is_over_before_its_channels_are_told_and_a_destroy_waits_for_that() {
    for (nccl, version) in NEWEST {
        let mut ranks = Ranks::start("gated", (2, version), &[("RSCCL_FAITHFUL", nccl), ("GATED", "1")]);
        ranks.all("all_reduce");
        // The plugin does not return from the first channel's beginning.
        ranks.all("begun");
        ranks.all("sync");
        ranks.all("open");
        ranks.all("destroy");
        for (log, events) in ranks.events() {
            assert!(of_kind(&events, "KernelCh").count() > 0, "NCCL {nccl}: {log}");
            assert!(events.values().all(|event| event.stopped), "NCCL {nccl}: {log}");
            assert!(log.ends_with("finalize 1\n"), "NCCL {nccl}: {log}");
        }
    }
}

#[test]
fn an_abort_or_a_revoke_leaves_what_is_not_over_unstopped() {
    let revokes = NEWEST.into_iter().filter(|(nccl, _)| *nccl != "2.27").map(|version| (version, "revoke"));
    for ((nccl, version), how) in NEWEST.map(|version| (version, "abort")).into_iter().chain(revokes) {
        let mut ranks = Ranks::start("abort", (2, version), &[("RSCCL_FAITHFUL", nccl)]);
        // Rank 1 never calls it.
        ranks.tell(0, "all_reduce");
        ranks.tell(0, "begun");
        ranks.all(how);
        if how == "revoke" {
            ranks.all("destroy");
        }
        let (log, events) = &ranks.events()[0];
        assert!(of_kind(events, "KernelCh").count() > 0, "NCCL {nccl}: {log}");
        assert!(of_kind(events, "KernelCh").all(|event| !event.stopped), "NCCL {nccl}: {log}");
        assert!(of_kind(events, "Coll").all(|event| event.stopped), "NCCL {nccl}: {log}");
        assert!(log.ends_with("finalize 1\n"), "NCCL {nccl}: {log}");
    }
}

#[test]
fn an_abort_waits_for_a_plugin_that_does_not_return_and_for_nothing_that_it_has_not_heard() {
    // More events than the queue has room for, so that the operations wait as well.
    let mut ranks = Ranks::start("full", (2, 5), &[("RSCCL_FAITHFUL", "2.28"), ("GATED", "1")]);
    ranks.all("all_reduce");
    ranks.all("begun");
    ranks.all("many");
    ranks.all("begin_abort");
    // The plugin has still not returned: no operation waits for it any more.
    ranks.all("drain");
    ranks.all("open");
    ranks.all("end_abort");
    for (log, events) in ranks.events() {
        assert!(of_kind(&events, "Coll").count() == 6001 && log.ends_with("finalize 1\n"));
        // What it was being told of when the abort came.
        assert_eq!(of_kind(&events, "KernelCh").count(), 1);
    }
}

#[test]
fn a_channel_lasts_from_its_launch_until_the_data_of_a_late_rank_came() {
    for (nccl, version) in NEWEST.into_iter().filter(|(nccl, _)| *nccl != "2.30") {
        // With one channel, the first that begins is all.
        let settings = [("RSCCL_FAITHFUL", nccl), ("NCCL_MAX_NCHANNELS", "1")];
        let mut ranks = Ranks::start("root", (3, version), &settings);
        for rank in [1, 2] {
            ranks.tell(rank, "broadcast");
            ranks.tell(rank, "begun");
        }
        let released: u64 = ranks.ask(0, "now").parse().unwrap();
        ranks.tell(0, "broadcast");
        ranks.all("sync");
        ranks.all("destroy");
        for (rank, (log, events)) in ranks.events().into_iter().enumerate() {
            assert!(of_kind(&events, "KernelCh").count() > 0, "NCCL {nccl}: {log}");
            for kernel in of_kind(&events, "KernelCh") {
                let began: u64 = kernel.fields[1].parse().unwrap();
                let ended = kernel.states.iter().find(|state| state.number == 22).unwrap().argument;
                let case = format!("NCCL {nccl}, rank {rank}: {began} to {ended}, released at {released}");
                assert_eq!(began < released, rank > 0, "{case}");
                assert!(ended > released, "{case}");
            }
        }
    }
}

#[test]
fn the_progress_thread_tells_what_it_does_itself() {
    for (nccl, version) in NEWEST {
        // Two hosts, so that there are proxies. No type is 0: only the sleep (15) is told to the ranks.
        let settings = [
            ("RSCCL_FAITHFUL", nccl),
            ("RSCCL_ALGO", "ring"),
            ("PLUGIN_MASK", "0x7f"),
            ("PLUGIN_BEGUN_TYPE", "0"),
            ("PLUGIN_BEGUN_STATE", "15"),
        ];
        let mut ranks = Ranks::start("control", (4, version), &settings);
        ranks.all("all_reduce");
        ranks.all("sync");
        // Once it has slept, it is idle no more with what comes next.
        ranks.all("begun");
        ranks.all("all_reduce");
        ranks.all("sync");
        ranks.all("destroy");
        for (log, events) in ranks.events() {
            let shown: Vec<Vec<(u64, u64)>> = of_kind(&events, "ProxyCtrl")
                .map(|event| event.states.iter().map(|state| (state.number, state.argument)).collect())
                .collect();
            assert!(shown.contains(&vec![(15, 0), (16, 0)]), "NCCL {nccl}: sleeps and wakes: {log}");
            assert!(shown.contains(&vec![(13, 0)]) && shown.contains(&vec![(14, 0)]), "NCCL {nccl}: {log}");
            let appended: u64 =
                shown.iter().filter(|states| states[0].0 == 17).map(|states| states[1].1).sum();
            let channels = if nccl == "2.32" { 0 } else { of_kind(&events, "KernelCh").count() };
            let taken_up = of_kind(&events, "ProxyOp").count() + channels;
            assert_eq!(appended, taken_up as u64, "NCCL {nccl}: {log}");
            assert!(events.values().all(|event| event.stopped), "NCCL {nccl}: {log}");
        }
    }
}

#[test]
fn no_thread_tells_outside_the_faithful_mode() {
    let mut ranks = Ranks::start("off", (4, 5), &[("RSCCL_FAITHFUL", "off"), ("PLUGIN_MASK", "0x7f")]);
    ranks.all("all_reduce");
    let process = ranks.ranks[0].child.id();
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap());
    assert!(names.into_iter().all(|name| !name.starts_with("NCCL")));
    ranks.all("sync");
    ranks.all("destroy");
    for (log, events) in ranks.events() {
        assert!(
            of_kind(&events, "ProxyCtrl").count() == 0 && of_kind(&events, "KernelCh").count() > 0,
            "{log}"
        );
    }
}

#[test]
fn as_2_32_channels_that_are_too_many_are_dropped_and_nothing_waits() {
    let mut ranks = Ranks::start("dropped", (2, 7), &[("RSCCL_FAITHFUL", "2.32"), ("GATED", "1")]);
    ranks.all("all_reduce");
    ranks.all("begun");
    ranks.all("many");
    // The plugin has not returned from the first.
    ranks.all("sync");
    ranks.all("open");
    ranks.all("destroy");
    for rank in 0..2 {
        assert!(ranks.log(rank).contains(" events of NCCL Profiler 2 were dropped"), "{}", ranks.log(rank));
    }
    for (_, events) in ranks.events() {
        assert_eq!(of_kind(&events, "Coll").count(), 6001);
        let n_kernels = of_kind(&events, "KernelCh").count();
        assert!((4096..6001).contains(&n_kernels), "{n_kernels}");
        assert!(events.values().all(|event| event.stopped));
    }
}

#[test]
fn a_channel_takes_the_collectives_of_a_group_in_turn() {
    for (nccl, version) in NEWEST {
        let mut ranks = Ranks::start("turns", (2, version), &[("RSCCL_FAITHFUL", nccl)]);
        ranks.all("group");
        ranks.all("sync");
        ranks.all("destroy");
        for (log, events) in ranks.events() {
            let mut times: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
            for kernel in of_kind(&events, "KernelCh") {
                let began = kernel.fields[1].parse().unwrap();
                let ended = kernel.states.iter().find(|state| state.number == 22).unwrap().argument;
                times.entry(&kernel.fields[0]).or_default().push((began, ended));
            }
            assert!(!times.is_empty(), "NCCL {nccl}: {log}");
            for of_channel in times.values_mut() {
                of_channel.sort_unstable();
                assert_eq!(of_channel.len(), 3, "NCCL {nccl}: {log}");
                let in_turn = of_channel.windows(2).all(|pair| pair[0].1 <= pair[1].0);
                assert!(in_turn, "NCCL {nccl}: {of_channel:?} in {log}");
            }
        }
    }
}

/// A step's states, in the order in which they come.
const OF_SENDS: [u64; 3] = [8, 20, 9];
const OF_RECEIVES: [u64; 3] = [10, 11, 12];

#[test]
fn steps_tell_what_they_wait_for_when_they_wait() {
    for (nccl, version) in NEWEST {
        // One ring, over two hosts: rank 0 receives from rank 3 over the network, and rank 1 sends to rank 2.
        let settings = [
            ("RSCCL_FAITHFUL", nccl),
            ("RSCCL_ALGO", "ring"),
            ("NCCL_MAX_NCHANNELS", "1"),
            ("PLUGIN_BEGUN_TYPE", "0x10"),
        ];
        let mut ranks = Ranks::start("steps", (4, version), &settings);
        for rank in 0..3 {
            ranks.tell(rank, "all_reduce");
        }
        ranks.tell(0, "begun");
        let released: u64 = ranks.ask(0, "now").parse().unwrap();
        ranks.tell(3, "all_reduce");
        ranks.all("sync");
        ranks.all("destroy");
        for (rank, (log, events)) in ranks.events().into_iter().enumerate() {
            let steps: Vec<&Event> = of_kind(&events, "ProxyStep").collect();
            assert!(!steps.is_empty(), "NCCL {nccl}, rank {rank}: {log}");
            for step in &steps {
                let states: Vec<u64> = step.states.iter().map(|state| state.number).collect();
                assert!(states == OF_SENDS || states == OF_RECEIVES, "NCCL {nccl}: {states:?} in {log}");
            }
            if rank == 0 {
                assert!(steps.iter().any(|step| step.at < released), "NCCL {nccl}: {log}");
                assert!(steps.iter().all(|step| step.states[1].at > released), "NCCL {nccl}: {log}");
            }
        }
    }
}
