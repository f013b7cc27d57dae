//! Two plugins, of which the library knows one.

use ringscope_wire::Primitive::AllReduce;
use ringscope_wire::segment::layout::LIVE_CHAINED;

use crate::harness::{VERSIONS, guest, job, job_with, library};

const ALL: u32 = 0xffff;

#[test]
fn the_other_plugin_hears_what_it_would_hear_alone() {
    for version in VERSIONS {
        for scenario in ["everything", "graph"] {
            if scenario == "graph" && version >= 5 {
                // The host counts on the answer of the collector there.
                continue;
            }
            let mut alone = job_with(version, &guest(version), scenario).guest_env(ALL);
            alone.run();
            let mut both = job(version, scenario).chained(version, ALL);
            let output = both.run();
            assert_eq!(both.heard(), alone.heard(), "version {version}");
            let left = both.read(&output);
            assert_eq!(left.snapshot.flags & LIVE_CHAINED, LIVE_CHAINED);
            let [issued, completed] = left.progress(0xabc, AllReduce);
            assert_eq!(issued.0, if scenario == "graph" { 4 } else { 3 });
            assert!(version < 3 || completed == issued, "version {version}");
            assert_eq!(left.snapshot.dropped, [], "version {version}");
        }
    }
}

/// `STATIC_PLUGIN` names what the program was linked with.
#[test]
fn a_plugin_that_is_in_the_process_already_is_found_before_and_behind_the_collector() {
    let alone = {
        let mut alone = job_with(5, &guest(5), "everything").guest_env(ALL);
        alone.run();
        alone.heard()
    };
    let guest = guest(5).display().to_string();
    // Opened by the library, the collector is nowhere in the linker's order; preloaded, it comes before the plugin.
    for preloaded in [guest.clone(), format!("{}:{guest}", library().display())] {
        let named = job(5, "everything").guest_env(ALL).env("RINGSCOPE_CHAIN_PLUGIN", "STATIC_PLUGIN");
        let mut both = named.env("LD_PRELOAD", &preloaded);
        both.run();
        assert_eq!(both.heard(), alone, "{preloaded}");
    }
}

#[test]
fn an_older_plugin_hears_in_its_own_words() {
    for (library, plugin) in [(7, 6), (7, 5), (6, 4), (5, 4), (7, 3), (5, 2), (5, 1), (4, 3), (3, 2), (2, 1)]
    {
        // The newest table of its own that the library could speak is the older one.
        let mut both = job(library, "everything").chained(plugin, ALL);
        let output = both.run();
        let heard = both.heard();
        let count = |what: &str| heard.lines().filter(|line| line.contains(what)).count();
        let all_reduces =
            if plugin == 1 { " 4 10 7 2 1 2" } else { " AllReduce 10 ncclFloat32 2 RING SIMPLE" };
        assert_eq!(count(all_reduces), 1, "{plugin} in {library}:\n{heard}");
        let sends = if plugin == 1 { " 6 5 0 3" } else { " Send 5 ncclInt8 3" };
        assert_eq!(
            (count(sends), count("init"), count("finalize")),
            (1, 2, 2),
            "{plugin} in {library}:\n{heard}"
        );
        assert_eq!((count(" 8 below"), count(" 10 below"), count(" 40 below")), {
            let channels = if plugin >= 3 && library >= 3 { 10 } else { 0 };
            (8, 8, channels)
        });
        assert_eq!(count(" below -1"), 0, "a parent that is not its own:\n{heard}");
        assert_eq!(count(" 8 below 0"), 0, "proxy operations have their task:\n{heard}");
        let started = count("start ");
        assert_eq!(count("stop "), started, "{plugin} in {library}:\n{heard}");
        let left = both.read(&output);
        assert_eq!(left.progress(0xabc, AllReduce)[0], (3, 4120));
        assert_eq!(left.snapshot.dropped, []);
    }
}

#[test]
fn the_other_plugin_hears_only_what_it_asked_for() {
    let mut both = job(5, "everything").chained(5, 0x40);
    both.run();
    let heard = both.heard();
    let kinds: std::collections::BTreeSet<_> = heard
        .lines()
        .filter(|line| line.starts_with("start"))
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    // Channels, and what they hang below.
    assert_eq!(kinds, ["1", "100", "2", "200", "4", "40", "400"].into());
}

#[test]
fn a_plugin_that_refuses_or_is_missing_leaves_the_collector_at_work() {
    let refuses = job(5, "everything").chained(5, ALL).env("GUEST_REFUSES", "1");
    let missing = job(5, "everything").env("RINGSCOPE_CHAIN_PLUGIN", "/nonexistent/plugin.so");
    let itself = job(5, "everything").env("RINGSCOPE_CHAIN_PLUGIN", library());
    let too_new = job(4, "everything").chained(7, ALL);
    let none = job(5, "everything").env("RINGSCOPE_CHAIN_PLUGIN", "none");
    for job in [refuses, missing, itself, too_new, none] {
        let left = job.left();
        assert_eq!(left.progress(0xabc, AllReduce), [(3, 4120), (3, 4120)]);
        assert_eq!(left.snapshot.dropped, []);
    }
}

#[test]
fn both_hear_many_threads() {
    let mut both = job(5, "threads").chained(5, ALL).env("ROUNDS", "500");
    let output = both.run();
    let left = both.read(&output);
    for comm in 0x100..0x104 {
        assert_eq!(left.progress(comm, AllReduce), [(1000, 6000), (1000, 6000)]);
    }
    assert_eq!(both.heard().lines().filter(|line| line.starts_with("finalize")).count(), 5);
}
