//! The log of a job as each version of NCCL words and orders it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{Job, compile, folder};

/// The logs of a scripted job of four ranks on two hosts, by rank.
fn logs(name: &str, settings: &[(&str, &str)]) -> Vec<String> {
    let folder = folder(&format!("faithful-log-{name}"));
    let program = folder.join("script");
    compile("script.c", &program, &["-lrsccl"]);
    let log = folder.join("log.%p").to_string_lossy().into_owned();
    let environment = |_| {
        let own = [
            ("NCCL_PROFILER_PLUGIN", "none"),
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_SUBSYS", "ALL"),
            ("NCCL_DEBUG_FILE", log.as_str()),
        ];
        let all = own.iter().chain(settings);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let job = Job { program: &program, n_ranks: 4, command: &[], environment: &environment };
    let end = |process: common::Rank| {
        let pid = process.child.id();
        assert_eq!(process.rest(), "DONE\n", "{name}");
        std::fs::read_to_string(folder.join(format!("log.{pid}"))).unwrap()
    };
    job.start().into_iter().map(end).collect()
}

/// The first line with this in it: where it is, by which thread, and all of it.
fn line<'a>(log: &'a str, words: &str) -> (usize, &'a str, &'a str) {
    let found = log.lines().enumerate().find(|(_, line)| line.contains(words));
    let (at, line) = found.unwrap_or_else(|| panic!("no {words:?} in {log}"));
    let thread = line.split(' ').next().and_then(|writer| writer.rsplit(':').next()).unwrap();
    (at, thread, line)
}

#[test]
fn connections_are_told_when_they_are_made() {
    for log in logs("early", &[("RSCCL_FAITHFUL", "2.28")]) {
        let (connected, made) = (line(&log, "Connected all rings"), line(&log, "Init COMPLETE"));
        assert!(connected.0 < made.0 && line(&log, " via ").0 < connected.0, "{log}");
    }
    for log in logs("late", &[("RSCCL_FAITHFUL", "2.28"), ("NCCL_RUNTIME_CONNECT", "1")]) {
        let (connected, made) = (line(&log, "Connected all rings"), line(&log, "Init COMPLETE"));
        let (first, thread, text) = line(&log, " via ");
        assert!(made.0 < first && first < connected.0, "{log}");
        assert!(
            thread != made.1 && !text.contains("0x"),
            "by another thread, without the communicator: {text}"
        );
    }
}

#[test]
fn lines_are_those_of_the_version_and_nothing_else_is_said() {
    for (version, release, path) in [
        ("2.27", "2.27.7", "SHM/direct/direct"),
        ("2.28", "2.28.9", "SHM/direct/direct"),
        ("2.30", "2.30.7", "SHM/direct"),
        ("2.32", "2.32.3", "SHM/direct"),
    ] {
        for (rank, log) in logs(version, &[("RSCCL_FAITHFUL", version)]).iter().enumerate() {
            let newer = ["2.30", "2.32"].contains(&version);
            let head = if newer {
                format!("[Rank {rank}] ncclCommInitRankConfig comm 0x")
            } else {
                "] NCCL INFO ncclCommInitRankConfig comm 0x".to_owned()
            };
            assert!(line(log, " - Init START").2.contains(&head), "{version}: {log}");
            assert!(line(log, " via SHM").2.ends_with(path), "{version}: {log}");
            assert!(!log.contains("Traffic ") && !log.contains("RSCCL_"), "{version}: {log}");
            let said = log.matches(&format!("NCCL version {release}")).count();
            assert_eq!(said, 1, "{version}: {log}");
            let config = line(log, "Comm config Comm name set to world").0;
            assert!(
                config > line(log, "NCCL version").0 && config < line(log, "Init START").0,
                "{version}: {log}"
            );
            let plugin = log.matches("NCCL_PROFILER_PLUGIN set by environment to none\n").count();
            assert_eq!(plugin, usize::from(version != "2.27"), "{version}: {log}");
            assert!(
                line(log, "Bootstrap: Using mlx5_0:127.0.").0 < line(log, "NCCL version").0,
                "{version}: {log}"
            );
        }
    }
}
