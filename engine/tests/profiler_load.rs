//! How a profiler plugin is found, asked and let go, and what the log says of it, in each version of NCCL.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::events::{NEWEST, build, read};
use common::told::Ranks;
use common::{folder, source_folder};

/// A job of one rank, which makes its communicator and ends it; its log, and what the plugin has written.
fn said(mut ranks: Ranks) -> (String, String) {
    ranks.all("destroy");
    (ranks.log(0), ranks.told(0))
}

fn count(log: &str, words: &str) -> usize {
    log.matches(words).count()
}

#[test]
fn a_suffix_names_a_library_that_the_loader_finds() {
    for nccl in ["2.27", "2.28"] {
        let folder = folder(&format!("suffix-{nccl}"));
        build(&folder.join("libnccl-profiler-example.so"), 4);
        let path = folder.to_string_lossy().into_owned();
        let settings = [
            ("RSCCL_FAITHFUL", nccl),
            ("NCCL_PROFILER_PLUGIN", "example"),
            ("LD_LIBRARY_PATH", path.as_str()),
        ];
        let (log, events) = said(Ranks::start_in(folder, 1, &settings, &[]));
        assert!(events.starts_with("init ") && events.ends_with("finalize 1\n"), "{nccl}: {log}");
        let words = match nccl {
            "2.27" => "PROFILER/Plugin: Plugin name set by env to libnccl-profiler-example.so",
            _ => "Successfully loaded external profiler plugin libnccl-profiler-example.so",
        };
        assert_eq!(count(&log, words), 1, "{nccl}: {log}");
    }
}

#[test]
fn a_plugin_that_is_linked_into_the_program_is_asked() {
    let folder = folder("static");
    let plugin = source_folder().join("plugin.c").to_string_lossy().into_owned();
    let linked = ["-rdynamic", "-DVERSION=5", plugin.as_str()];
    let settings = [("RSCCL_FAITHFUL", "2.28"), ("NCCL_PROFILER_PLUGIN", "static")];
    let (log, events) = said(Ranks::start_in(folder, 1, &settings, &linked));
    assert!(events.starts_with("init ") && events.ends_with("finalize 1\n"), "{log}");
    assert_eq!(count(&log, "PROFILER/Plugin: Loaded test (v5)"), 1, "{log}");
}

#[test]
fn none_is_no_plugin_but_to_2_27_a_name() {
    let missing = "PROFILER/Plugin: Could not find: none libnccl-profiler-none.so. ";
    for (nccl, n) in [("2.27", 1), ("2.28", 0), ("2.32", 0), ("off", 0)] {
        let settings = [("RSCCL_FAITHFUL", nccl), ("NCCL_PROFILER_PLUGIN", "none")];
        let (log, events) = said(Ranks::start_in(folder(&format!("none-{nccl}")), 1, &settings, &[]));
        assert!(events.is_empty(), "{nccl}: {events}");
        assert_eq!(count(&log, missing), n, "{nccl}: {log}");
        assert_eq!(count(&log, "PROFILER/Plugin"), n, "{nccl}: {log}");
    }
}

#[test]
fn a_plugin_is_let_go_with_its_last_communicator_and_loaded_again_by_the_next() {
    let versions =
        [("2.27", 4, "loaded test"), ("2.28", 5, "Loaded test (v5)"), ("2.32", 7, "Loaded test (v7)")];
    for (nccl, version, words) in versions {
        let mut ranks = Ranks::start("again", (1, version), &[("RSCCL_FAITHFUL", nccl)]);
        let closing = "PROFILER/Plugin: Closing profiler plugin test";
        ranks.all("own");
        let log = ranks.log(0);
        assert_eq!((count(&log, words), count(&log, closing)), (1, 0), "{nccl}: {log}");
        ranks.all("destroy");
        let log = ranks.log(0);
        assert_eq!((count(&log, words), count(&log, closing)), (1, 1), "{nccl}: {log}");
        ranks.all("own");
        let log = ranks.log(0);
        assert_eq!((count(&log, words), count(&log, closing)), (2, 2), "{nccl}: {log}");
    }
}

/// 2.27 asks it no more, 2.28 takes no notice, later ones let it go and ask again.
#[test]
fn a_plugin_whose_init_fails_is_treated_as_by_each_version() {
    let refused = "Profiler init failed with error";
    for (nccl, version, n_asked, is_told) in
        [("2.27", 4, 1, false), ("2.28", 5, 2, true), ("2.30", 6, 2, false), ("2.32", 7, 2, false)]
    {
        let mut ranks =
            Ranks::start("refuses", (2, version), &[("RSCCL_FAITHFUL", nccl), ("PLUGIN_FAILS", "1")]);
        ranks.all("all_reduce");
        ranks.all("sync");
        // A plugin that was let go begins its file anew.
        let told = ranks.told(0);
        ranks.all("own");
        ranks.all("destroy");
        let (log, events) = (ranks.log(0), ranks.told(0));
        assert_eq!(count(&log, refused), n_asked, "{nccl}: {log}");
        let heard = read(if is_told { &events } else { &told });
        assert_eq!(heard.values().any(|event| event.kind == "Coll"), is_told, "{nccl}: {log}");
        assert_eq!(count(&events, "finalize"), if is_told { 2 } else { 0 }, "{nccl}: {events}");
        let let_go = if nccl >= "2.30" { 2 } else { 0 };
        assert!(count(&log, "Closing profiler plugin") >= let_go, "{nccl}: {log}");
    }
}

#[test]
fn the_mask_is_said_from_2_30_on() {
    for (nccl, version, n) in [("2.28", 5, 0), ("2.30", 6, 1), ("2.32", 7, 1)] {
        let settings = [("RSCCL_FAITHFUL", nccl), ("PLUGIN_MASK", "0x252")];
        let (log, _) = said(Ranks::start("mask", (1, version), &settings));
        let words = "Profiler event mask: 0x252 (594) - Enabled: Coll ProxyStep KernelCh CollApi ";
        assert_eq!(count(&log, words), n, "{nccl}: {log}");
    }
}

#[test]
fn a_send_of_nothing_is_told() {
    for (nccl, version) in NEWEST {
        for n_ranks in [1, 2] {
            let mut ranks = Ranks::start("nothing", (n_ranks, version), &[("RSCCL_FAITHFUL", nccl)]);
            ranks.all("nothing");
            ranks.all("sync");
            ranks.all("destroy");
            for (log, events) in ranks.events() {
                let of_kind = |kind: &str| events.values().filter(|event| event.kind == kind).count();
                let calls = if version >= 5 { 2 } else { 0 };
                assert_eq!((of_kind("P2pApi"), of_kind("P2p")), (calls, 2), "NCCL {nccl}: {log}");
                assert_eq!(of_kind("KernelCh"), 2, "NCCL {nccl}: {log}");
                assert!(events.values().all(|event| event.stopped), "NCCL {nccl}: {log}");
            }
        }
    }
}
