//! A profiler plugin, written in C against version 5 of NCCL's interface: order, completeness and bytes of its events.

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

#[test]
fn a_plugin_hears_everything_and_the_bytes_are_right() {
    let folder = folder("plugin");
    let program = rank_program(&folder);
    let plugin = folder.join("plugin.so");
    compile("plugin.c", &plugin, &["-shared", "-fPIC"]);
    let log = folder.join("events").to_string_lossy().into_owned();
    let environment = |_| {
        vec![
            ("NCCL_PROFILER_PLUGIN".to_owned(), plugin.to_string_lossy().into_owned()),
            ("PLUGIN_LOG".to_owned(), log.clone()),
            ("RSCCL_ALGO".to_owned(), "ring".to_owned()),
        ]
    };
    let (n_ranks, count) = (4_u64, 64 * 1024_u64);
    let count_text = count.to_string();
    let command = ["bench", count_text.as_str()];
    let job = Job { program: &program, n_ranks: 4, command: &command, environment: &environment };
    for (rank, process) in job.start().into_iter().enumerate() {
        let log = format!("{log}.{}", process.child.id());
        assert!(process.rest().ends_with("DONE\n"));
        let log = std::fs::read_to_string(log).unwrap();
        let first: Vec<&str> = log.lines().next().unwrap().split(' ').collect();
        assert_eq!((first[0], &first[2..]), ("init", &["world", "2", "4", rank.to_string().as_str()][..]));
        assert_eq!(log.lines().last(), Some("finalize 1"));
        check(&log, n_ranks, count);
    }
}

fn check(log: &str, n_ranks: u64, count: u64) {
    let events = read(log);
    assert!(events.values().all(|event| event.stopped), "all that began has ended");
    let of_kind =
        |kind: &'static str| events.iter().filter(move |(_, event)| event.kind == kind).collect::<Vec<_>>();
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
    assert_eq!((colls.len(), of_kind("GroupApi").len(), of_kind("CollApi").len()), (rounds, rounds, rounds));
    let mut numbers: Vec<u64> = colls.iter().map(|(_, coll)| coll.fields[4].parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..rounds as u64).collect::<Vec<_>>());
    for (id, coll) in colls {
        let fields = [&coll.fields[..4], &coll.fields[5..]].concat();
        assert_eq!(fields, ["AllReduce", &count.to_string(), "ncclFloat32", "4", "RING", "SIMPLE"]);
        let children =
            |kind: &'static str| events.iter().filter(move |(_, e)| e.kind == kind && e.parent == *id);
        assert_eq!((children("KernelCh").count(), children("ProxyOp").count()), (4, 8));
        let mut bytes = (0, 0);
        for (op, _) in children("ProxyOp") {
            for step in events.values().filter(|event| event.kind == "ProxyStep" && event.parent == *op) {
                bytes = (bytes.0 + step.sent_bytes, bytes.1 + step.received_bytes);
            }
        }
        let expected = 2 * (n_ranks - 1) * count * 4 / n_ranks;
        assert_eq!(bytes, (expected, expected));
    }
}
