//! Summation groups of real processes that sum asynchronously, over the C API.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use common::sum::{Group, sum_program};
use common::{Rank, compile, folder};

const ASYNC: (&str, &str) = ("RSUM_ASYNC", "1");

#[test]
fn workers_go_through_as_many_rounds_as_they_like_and_lose_no_push() {
    let program = sum_program("sum-async");
    let group = Group::new(&program, 3, 1);
    let servers = group.servers(&[], &[]);
    let workers = group.workers(&["add", "30", "5", "90"], &[ASYNC]);
    let said: Vec<String> = workers.into_iter().map(Rank::rest).collect();
    assert!(said.iter().all(|said| said.ends_with("DONE\n")), "{said:?}");
    assert!(said.iter().any(|said| said.contains("ROUNDS 30 5 90\n")), "the last one sees all: {said:?}");
    servers.into_iter().for_each(|server| assert!(server.rest().ends_with("the job is over\n")));
}

#[test]
fn who_sums_otherwise_is_turned_away_by_name() {
    let program = sum_program("sum-async-differ");
    let group = Group::new(&program, 2, 1);
    let first = group.worker_at_rendezvous(&["add", "3"], &[ASYNC, ("RSUM_STALENESS", "2")]);
    for other in [&[][..], &[ASYNC], &[ASYNC, ("RSUM_STALENESS", "3")]] {
        let said = group.worker(1, &["add", "3"], other).rest();
        assert!(
            said.contains("worker 1 (") && said.contains("RSUM_ASYNC and RSUM_STALENESS must be"),
            "{said}"
        );
        assert!(said.contains("asynchronous sums with a staleness of 2"), "{said}");
    }
    let said = group.server(&[], &[("RSUM_ASYNC", "0")]).rest();
    assert!(said.contains("a server (") && said.contains("is set to synchronous sums"), "{said}");
    let server = group.server(&[], &[]);
    let second = group.worker(1, &["add", "3"], &[ASYNC, ("RSUM_STALENESS", "2")]);
    for worker in [first, second] {
        let said = worker.rest();
        assert!(said.ends_with("DONE\n"), "{said}");
    }
    assert!(server.rest().ends_with("the job is over\n"));
}

#[test]
fn a_watcher_in_c_is_told_how_far_behind_the_slowest_worker_was() {
    let program = sum_program("sum-async-watched");
    let folder = folder("sum-async-watcher");
    let watcher = folder.join("observer.so");
    compile("observer.c", &watcher, &["-shared", "-fPIC"]);
    let group = Group::new(&program, 2, 1);
    let pages = ["server", "worker-0", "worker-1"].map(|name| folder.join(name));
    let texts = pages.each_ref().map(|page| page.to_str().unwrap());
    let watched = |page| [("RSUM_OBSERVER", watcher.to_str().unwrap()), ("OBSERVED", page)];
    let server = group.server(&[], &watched(texts[0]));
    let bound = [ASYNC, ("RSUM_STALENESS", "3")];
    let worker =
        |rank: usize| group.worker(rank, &["add", "20"], &[&bound[..], &watched(texts[rank + 1])].concat());
    for said in [worker(0), worker(1), server].map(Rank::rest) {
        assert!(said.ends_with("DONE\n") || said.ends_with("the job is over\n"), "{said}");
    }
    let pulls = pages.each_ref().map(|page| {
        let told = std::fs::read_to_string(page).unwrap();
        let sample = told.lines().rfind(|line| line.starts_with("sample")).unwrap();
        assert!(sample.contains(" sizes=1 "), "{sample}");
        let pulls = sample.split_once("staleness=").unwrap().1;
        pulls.split(',').map(|pulls| pulls.parse().unwrap()).collect::<Vec<u64>>()
    });
    assert!(pulls.iter().all(|pulls| pulls.len() == 5 && pulls[4] == 0), "none beyond the bound: {pulls:?}");
    assert_eq!(pulls.iter().flatten().sum::<u64>(), 2 * 21, "the first value and 20 rounds: {pulls:?}");
}

#[test]
fn a_worker_that_dies_is_named_by_the_others() {
    let program = sum_program("sum-async-loss");
    let group = Group::new(&program, 3, 1);
    let servers = group.servers(&[], &[]);
    let mut workers = group.workers(&["add", "-1"], &[ASYNC]);
    workers.iter_mut().for_each(|worker| assert_eq!(worker.line(), "READY"));
    let mut lost = workers.remove(1);
    lost.child.kill().unwrap();
    lost.child.wait().unwrap();
    for said in workers.into_iter().chain(servers).map(Rank::rest) {
        assert!(said.contains("rank 1 ("), "{said}");
    }
}

fn status(address: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /status HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_server_says_how_stale_the_workers_are_and_for_whom_they_wait() {
    let program = sum_program("sum-async-status");
    let group = Group::new(&program, 2, 1);
    // The tensor is one part, and the server's, whose NIC has most room.
    let mut server = group.server(&["--health", "127.0.0.1:0"], &[("RSUM_NIC_MBIT_S", "100000")]);
    let line = server.line();
    let address = line.split("http://").nth(1).unwrap().strip_suffix("/status").unwrap().to_owned();
    let mut workers =
        group.workers(&["add", "-1"], &[ASYNC, ("RSUM_STALENESS", "3"), ("RSUM_NIC_MBIT_S", "1000")]);
    workers.iter_mut().for_each(|worker| assert_eq!(worker.line(), "READY"));
    let stopped = workers[1].child.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &stopped]).status().unwrap().success());
    let told = std::iter::repeat_with(|| status(&address))
        .find(|told| told["service"]["waiting"]["workers"][0] == 1)
        .unwrap();
    let spread = &told["service"]["asynchronous"];
    assert_eq!((&spread["staleness_bound"], &spread["lead"]["max"]), (&3.into(), &3.into()), "{told}");
    let pushes: u64 =
        spread["staleness"]["buckets"].as_array().unwrap().iter().filter_map(|n| n.as_u64()).sum();
    assert_eq!(told["service"]["finished_rounds"], pushes, "{told}");
    for mut worker in workers {
        worker.child.kill().unwrap();
        worker.child.wait().unwrap();
    }
    assert!(server.rest().contains("rank"));
}
