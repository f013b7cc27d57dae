//! A profiler plugin, written in C against versions 5 and 6 of NCCL's interface: order, completeness and bytes of its events.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::HashMap;

use common::{Job, compile, folder, rank_program};

/// An event as the plugin wrote it down.
#[derive(Debug)]
struct Event {
    kind: String,
    parent: u64,
    fields: Vec<String>,
    stopped: bool,
    sent_bytes: u64,
    received_bytes: u64,
}

fn read(log: &str) -> HashMap<u64, Event> {
    let mut events: HashMap<u64, Event> = HashMap::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "start" => {
                let fields = words[4..].iter().map(|word| (*word).to_owned()).collect();
                let (kind, parent) = (words[2].to_owned(), number(3));
                assert!(parent == 0 || events.contains_key(&parent), "{line}: its parent has begun");
                let event = Event { kind, parent, fields, stopped: false, sent_bytes: 0, received_bytes: 0 };
                events.insert(number(1), event);
            }
            "stop" => {
                let event = events.get_mut(&number(1)).unwrap();
                assert!(!event.stopped, "{line}: stopped once");
                event.stopped = true;
            }
            "state" => {
                let event = events.get_mut(&number(1)).unwrap();
                assert!(!event.stopped, "{line}: before its stop");
                match number(2) {
                    9 => event.sent_bytes += number(3),
                    11 => event.received_bytes += number(3),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    events
}

/// What is run, and how its events look.
struct Run<'a> {
    version: u32,
    n_ranks: usize,
    /// Settings beside the plugin's, the same for all ranks.
    settings: &'a [(&'a str, &'a str)],
    /// "shared" for buffers that the other ranks can read.
    memory: &'a str,
    nodes: &'a str,
    channels: usize,
    /// Ranks that each rank sends to on each channel.
    peers: usize,
    algorithm: &'a str,
}

const RING: Run<'_> = Run {
    version: 5,
    n_ranks: 4,
    settings: &[("RSCCL_ALGO", "ring")],
    memory: "own",
    nodes: "2",
    channels: 4,
    peers: 1,
    algorithm: "RING",
};

#[test]
fn a_plugin_hears_everything_and_the_bytes_are_right() {
    RING.check();
}

#[test]
fn the_newest_version_that_a_plugin_offers_is_used() {
    Run { version: 6, ..RING }.check();
}

#[test]
fn flat_rounds_are_told_too() {
    for n_ranks in [2, 4] {
        for memory in ["own", "shared"] {
            let settings = &[("RSCCL_HOST", "host-1"), ("RSCCL_NICS", "mlx5_0=127.0.1.1")];
            let (nodes, peers) = ("1", n_ranks - 1);
            Run { n_ranks, settings, memory, nodes, channels: 1, peers, algorithm: "DIRECT", ..RING }.check();
        }
    }
}

const COUNT: u64 = 64 * 1024;

impl Run<'_> {
    fn check(&self) {
        let Self { version, n_ranks, memory, nodes, .. } = self;
        let folder = folder(&format!("plugin-{version}-{n_ranks}-{memory}-{nodes}"));
        let program = rank_program(&folder);
        let plugin = folder.join("plugin.so");
        compile("plugin.c", &plugin, &["-shared", "-fPIC", &format!("-DVERSION={version}")]);
        let log = folder.join("events").to_string_lossy().into_owned();
        let environment = |_| {
            let own = [("NCCL_PROFILER_PLUGIN", plugin.to_str().unwrap()), ("PLUGIN_LOG", log.as_str())];
            let all = own.iter().chain(self.settings);
            all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let count = COUNT.to_string();
        let command = ["bench", count.as_str(), memory];
        let job = Job { program: &program, n_ranks: *n_ranks, command: &command, environment: &environment };
        for (rank, process) in job.start().into_iter().enumerate() {
            let log = format!("{log}.{}", process.child.id());
            assert!(process.rest().ends_with("DONE\n"));
            let log = std::fs::read_to_string(log).unwrap();
            let first: Vec<&str> = log.lines().next().unwrap().split(' ').collect();
            let (ranks, rank) = (n_ranks.to_string(), rank.to_string());
            assert_eq!(
                (first[0], &first[2..]),
                ("init", &["world", nodes, ranks.as_str(), rank.as_str()][..])
            );
            assert_eq!(log.lines().last(), Some("finalize 1"));
            self.check_events(&log);
        }
    }

    fn check_events(&self, log: &str) {
        let events = read(log);
        assert!(events.values().all(|event| event.stopped), "all that began has ended");
        let of_kind = |kind: &'static str| {
            events.iter().filter(move |(_, event)| event.kind == kind).collect::<Vec<_>>()
        };
        let rounds = 23;
        let parents = [
            ("CollApi", "GroupApi"),
            ("Coll", "CollApi"),
            ("KernelCh", "Coll"),
            ("ProxyOp", "Coll"),
            ("ProxyStep", "ProxyOp"),
        ];
        for (kind, parent) in parents {
            assert!(
                of_kind(kind).iter().all(|(_, event)| events[&event.parent].kind == parent),
                "{kind} in {parent}"
            );
        }
        let colls = of_kind("Coll");
        assert_eq!(
            (colls.len(), of_kind("GroupApi").len(), of_kind("CollApi").len()),
            (rounds, rounds, rounds)
        );
        let mut numbers: Vec<u64> = colls.iter().map(|(_, coll)| coll.fields[4].parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..rounds as u64).collect::<Vec<_>>());
        for (id, coll) in colls {
            let fields = [&coll.fields[..4], &coll.fields[5..]].concat();
            let channels = self.channels.to_string();
            let wanted =
                ["AllReduce", &COUNT.to_string(), "ncclFloat32", &channels, self.algorithm, "SIMPLE"];
            assert_eq!(fields, wanted);
            let children =
                |kind: &'static str| events.iter().filter(move |(_, e)| e.kind == kind && e.parent == *id);
            let wanted = (self.channels, 2 * self.peers * self.channels);
            assert_eq!((children("KernelCh").count(), children("ProxyOp").count()), wanted);
            let mut bytes = (0, 0);
            for (op, _) in children("ProxyOp") {
                for step in events.values().filter(|event| event.kind == "ProxyStep" && event.parent == *op) {
                    bytes = (bytes.0 + step.sent_bytes, bytes.1 + step.received_bytes);
                }
            }
            let n_ranks = self.n_ranks as u64;
            let expected = 2 * (n_ranks - 1) * COUNT * 4 / n_ranks;
            assert_eq!(bytes, (expected, expected));
        }
    }
}
