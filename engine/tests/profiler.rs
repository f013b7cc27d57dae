//! A profiler plugin, written in C against all versions of NCCL's interface: order, completeness and bytes of its events.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::HashMap;

use std::path::PathBuf;

use common::events::{Event, NEWEST, build, read};
use common::{Job, compile, folder, rank_program};

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
    Run { version: 7, ..RING }.check();
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

/// A scripted job of four ranks on two hosts: what each rank's plugin wrote, and what its log says.
fn script(name: &str, version: u32, settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let folder = folder(&format!("script-{name}-{version}"));
    let program = folder.join("script");
    compile("script.c", &program, &["-lrsccl"]);
    let plugin = folder.join("plugin.so");
    build(&plugin, version);
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (events, log) = (path("events"), path("log.%p"));
    let environment = |_| {
        let own = [
            ("NCCL_PROFILER_PLUGIN", plugin.to_str().unwrap()),
            ("PLUGIN_LOG", events.as_str()),
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_FILE", log.as_str()),
        ];
        let all = own.iter().chain(settings);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let job = Job { program: &program, n_ranks: 4, command: &[], environment: &environment };
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let mut said = Vec::new();
    for process in job.start() {
        let pid = process.child.id();
        assert_eq!(process.rest(), "DONE\n", "{name}, interface {version}");
        said.push((read(format!("{events}.{pid}").into()), read(folder.join(format!("log.{pid}")))));
    }
    said
}

/// What is told of a scripted job in the faithful mode by an interface of this version.
struct Recorded<'a> {
    nccl: &'a str,
    version: u32,
    rank: usize,
    events: HashMap<u64, Event>,
}

impl Recorded<'_> {
    fn of_kind(&self, kind: &str) -> Vec<(u64, &Event)> {
        let mut found: Vec<_> = self
            .events
            .iter()
            .filter(|(_, event)| event.kind == kind)
            .map(|(id, event)| (*id, event))
            .collect();
        found.sort_by_key(|(id, _)| *id);
        found
    }

    fn names(&self, kind: &str) -> Vec<&str> {
        self.of_kind(kind).iter().map(|(_, event)| event.fields[0].as_str()).collect()
    }

    fn children(&self, of: u64, kind: &str) -> Vec<&Event> {
        self.of_kind(kind).into_iter().map(|(_, event)| event).filter(|event| event.parent == of).collect()
    }

    /// Returns the bytes that the first all-reduce sent over the network.
    fn check(&self) -> u64 {
        assert!(self.events.values().all(|event| event.stopped), "{}: all that began has ended", self.case());
        assert!(self.of_kind("unknown").is_empty(), "{}", self.case());
        self.calls_are_told();
        self.tasks_are_told();
        for (id, task) in self.of_kind("Coll") {
            let channels: usize = task.fields[3].parse().unwrap();
            let kernels = self.children(id, "KernelCh");
            assert_eq!(kernels.len(), if self.version >= 3 { channels } else { 0 }, "{}", self.case());
            assert!(kernels.iter().all(|kernel| kernel.thread != task.thread), "not by the caller");
        }
        self.only_networks_have_proxies()
    }

    fn case(&self) -> String {
        format!("NCCL {}, interface {}, rank {}", self.nccl, self.version, self.rank)
    }

    /// From version 5 on.
    fn calls_are_told(&self) {
        let n_p2p = self.of_kind("P2p").len();
        let wanted: &[&str] = &["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"];
        let has_calls = self.version >= 5;
        assert_eq!(self.names("CollApi"), if has_calls { wanted } else { &[] }, "{}", self.case());
        assert_eq!(self.of_kind("P2pApi").len(), if has_calls { n_p2p } else { 0 }, "{}", self.case());
        let (groups, launches) = (self.of_kind("GroupApi").len(), self.of_kind("KernelLaunch").len());
        // The broadcast of 2.30 has no task whose launch could be told.
        let lost = usize::from(self.nccl == "2.30");
        assert_eq!((groups, launches), if has_calls { (9, 9 - lost) } else { (0, 0) }, "{}", self.case());
        assert_eq!(self.of_kind("Group").len(), 9 - lost, "{}", self.case());
    }

    /// A collective each, and the sends and receives of the rest.
    fn tasks_are_told(&self) {
        let numbers = ["4", "2", "3", "0", "1"];
        let names = ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"];
        let wanted = if self.version == 1 { numbers } else { names };
        let wanted: Vec<&str> =
            (0..5).filter(|at| self.nccl != "2.30" || *at != 3).map(|at| wanted[at]).collect();
        assert_eq!(self.names("Coll"), wanted, "{}", self.case());
        let at_root = if self.rank == 0 { 5 } else { 1 };
        assert_eq!(self.of_kind("P2p").len(), 2 * 4 + 2 * at_root + 2, "{}", self.case());
        let parent = if self.version >= 5 { ["CollApi", "P2pApi"] } else { ["Group", "Group"] };
        for (kind, parent) in ["Coll", "P2p"].into_iter().zip(parent) {
            let parents = self.of_kind(kind).into_iter().map(|(_, event)| &self.events[&event.parent].kind);
            assert!(parents.into_iter().all(|kind| kind == parent), "{}: {kind} in {parent}", self.case());
        }
    }

    /// Ranks 0 and 1 share a host, and 2 and 3. Returns the bytes that the first all-reduce sent.
    fn only_networks_have_proxies(&self) -> u64 {
        for (_, op) in self.of_kind("ProxyOp") {
            let peer: usize = op.fields[4].parse().unwrap();
            assert_ne!(peer / 2, self.rank / 2, "{}: a proxy within the host", self.case());
        }
        let (first, _) = self.of_kind("Coll")[0];
        let ops = self.of_kind("ProxyOp").into_iter().filter(|(_, op)| op.parent == first);
        let steps: Vec<&Event> = ops.flat_map(|(id, _)| self.children(id, "ProxyStep")).collect();
        steps.iter().map(|step| step.sent_bytes).sum()
    }
}

#[test]
fn as_each_version_of_nccl_all_interfaces_that_it_knows_hear_of_every_call() {
    for (nccl, newest) in NEWEST {
        for version in 1..=newest {
            let settings = [("RSCCL_FAITHFUL", nccl), ("RSCCL_ALGO", "ring"), ("RSCCL_CROSS_NIC", "0")];
            let mut sent = 0;
            for (rank, (events, log)) in script(nccl, version, &settings).into_iter().enumerate() {
                let loaded = match nccl {
                    "2.27" => "PROFILER/Plugin: loaded test".to_owned(),
                    _ => format!("PROFILER/Plugin: Loaded test (v{version})"),
                };
                assert!(log.contains(&loaded), "NCCL {nccl}: {log}");
                assert!(events.starts_with("init") && events.ends_with("finalize 1\n"), "{events}");
                sent += Recorded { nccl, version, rank, events: read(&events) }.check();
            }
            // On each channel's ring one rank of each of two hosts sends to the other one. Before version 4 no bytes are told.
            let ring = 2 * (2 * 3 * COUNT * 4 / 4);
            assert_eq!(sent, if version >= 4 { ring } else { 0 }, "NCCL {nccl}, interface {version}");
        }
    }
}

/// All primitives, and the exchange that is one launch.
const PRIMITIVES: [&str; 8] =
    ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AlltoAll", "Gather", "Scatter"];

#[test]
fn outside_the_faithful_mode_what_the_library_does_is_told_by_the_newest_interface() {
    for (rank, (events, log)) in script("off", 7, &[("RSCCL_FAITHFUL", "off")]).into_iter().enumerate() {
        let told = Recorded { nccl: "off", version: 7, rank, events: read(&events) };
        assert!(log.contains("PROFILER/Plugin: Loaded test (v7)"), "{log}");
        assert!(told.events.values().all(|event| event.stopped), "{events}");
        assert!(told.names("CollApi") == PRIMITIVES && told.names("Coll") == PRIMITIVES, "{events}");
        assert_eq!(told.names("P2p"), ["Send", "Recv"], "{events}");
        let n_launches = PRIMITIVES.len() + 1;
        for kind in ["GroupApi", "KernelLaunch", "Group"] {
            assert_eq!(told.of_kind(kind).len(), n_launches, "{kind}: {events}");
        }
        let peers = told.of_kind("ProxyOp").into_iter().map(|(_, op)| op.fields[4].parse::<usize>().unwrap());
        assert!(peers.into_iter().any(|peer| peer / 2 == rank / 2), "also within the host: {events}");
    }
}

#[test]
fn an_interface_that_nccl_does_not_know_is_passed_over_with_a_word() {
    for (nccl, version, words) in [
        ("2.27", 6, "PROFILER/Plugin: failed to find ncclProfiler_v4\n"),
        ("2.28", 7, "plugin.so is unsupported\n"),
    ] {
        for (events, log) in script(&format!("unknown-{nccl}"), version, &[("RSCCL_FAITHFUL", nccl)]) {
            assert!(events.is_empty() && log.contains(words), "{nccl}: {log}");
        }
    }
}

impl Run<'_> {
    fn check(&self) {
        let Self { version, n_ranks, memory, nodes, .. } = self;
        let folder = folder(&format!("plugin-{version}-{n_ranks}-{memory}-{nodes}"));
        let program = rank_program(&folder);
        let plugin = folder.join("plugin.so");
        build(&plugin, *version);
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
