//! Groups whose rendezvous is lost: the process that gives it is killed, or does not answer, and the rest goes on, with the same
//! bits as a group without it. Every result is held against what it should be by the program itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::Rank;
use common::process::{HANG_WAIT, Process};
use common::sum::{Group, sum_program};

const CONTINUE: (&str, &str) = ("RSUM_ON_LOSS", "continue");

/// Workers that say when, and what.
fn processes(group: &Group<'_>, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<Process> {
    let worker = |worker| Process::start(&mut group.worker_command(worker, arguments, environment));
    (0..group.n_workers).map(worker).collect()
}

fn signal(process: &Process, name: &str) {
    let status = Command::new("kill").args([name, &process.child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn one_root_after_another_dies_and_the_last_worker_goes_on_alone() {
    let program = sum_program("sum-roots");
    let group = Group::new(&program, 4, 2);
    let servers: Vec<Rank> = group.servers(&[], &[]);
    let mut workers = processes(&group, &["endure", "-1", "1"], &[CONTINUE]);
    for epoch in 0..3 {
        let left = &workers[epoch..];
        let at_work = format!("GROUP of {}, epoch {epoch}", left.len());
        left.iter().for_each(|worker| drop(worker.wait_for(&at_work, "roots")));
        workers[epoch].child.kill().unwrap();
        for worker in &workers[epoch + 1..] {
            worker.wait_for("LOST", "roots");
        }
    }
    let last = workers.last_mut().unwrap();
    last.wait_for("ENDURED 0 of 1", "roots");
    last.wait_for("DONE", "roots");
    assert!(last.child.wait().unwrap().success());
    for said in servers.into_iter().map(Rank::rest) {
        assert!(
            said.contains("joined as rank 2 of 3 (1 workers")
                || said.contains("joined as rank 1 of 3 (1 workers"),
            "{said}"
        );
        assert!(said.ends_with("the job is over\n"), "{said}");
    }
}

#[test]
fn a_root_that_is_stopped_before_the_first_group_is_named() {
    let program = sum_program("sum-stopped-root");
    let group = Group::new(&program, 2, 1);
    let root = Process::start(&mut group.server_command(&["--root"], &[("NCCL_DEBUG", "INFO")]));
    root.wait_for("the rendezvous is at", "root");
    let worker = Process::start(&mut group.worker_command(0, &["sums"], &[("RSCCL_TIMEOUT_S", "1")]));
    root.wait_for("has come to the rendezvous", "worker 0");
    // When the root has answered another one, it has answered the first.
    let other = Process::start(&mut group.worker_command(0, &["sums"], &[]));
    other.wait_for("ERROR init", "another worker 0");
    signal(&root, "-STOP");
    worker.wait_for("it has said nothing for 2 s (twice RSCCL_TIMEOUT_S)", "a root that is stopped");
}

#[test]
fn a_root_that_is_stopped_between_two_groups_begins_none_of_its_own() {
    let program = sum_program("sum-forsaken");
    let group = Group::new(&program, 3, 0);
    let start = |worker| {
        let mut command =
            group.worker_command(worker, &["two-groups"], &[CONTINUE, ("RSCCL_TIMEOUT_S", "5")]);
        Process::start(command.stdin(Stdio::piped()))
    };
    let mut workers = [0, 1, 2].map(start);
    workers.iter().for_each(|worker| drop(worker.wait_for("SUSPENDED", "first group")));
    signal(&workers[0], "-STOP");
    let say = |worker: &mut Process| worker.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    workers.iter_mut().for_each(say);
    for worker in &workers[1..] {
        let (_, line) = worker.wait_for("SUMS", "without the root");
        assert!(line.contains(" of 2, 0 servers"), "{line}");
    }
    signal(&workers[0], "-CONT");
    workers[0].wait_for("REFUSED there is no summation group: the others have gone on without it", "root");
    workers[0].wait_for("ERROR once more", "root");
    workers[1..].iter().for_each(|worker| drop(worker.wait_for("DONE", "the others")));
}

#[test]
fn a_worker_that_comes_later_finds_the_next_root() {
    let program = sum_program("sum-later-root");
    let group = Group::new(&program, 3, 1);
    let server = group.server(&[], &[]);
    let mut workers = processes(&group, &["endure", "3", "3"], &[CONTINUE, ("NCCL_DEBUG", "WARN")]);
    workers.iter().for_each(|worker| drop(worker.wait_for("GROUP of 3, epoch 0", "later")));
    workers[0].child.kill().unwrap();
    workers[1].wait_for(&format!("find this process's rendezvous at 127.0.0.1:{}", group.port), "later");
    let again = Process::start(&mut group.worker_command(0, &["endure", "3", "3"], &[CONTINUE]));
    for (rank, worker) in [(0, &workers[1]), (1, &workers[2]), (2, &again)] {
        worker.wait_for(&format!("ENDURED {rank} of 3"), "later");
        worker.wait_for("DONE", "later");
    }
    assert!(server.rest().ends_with("the job is over\n"));
}

#[test]
fn a_root_that_does_not_answer_is_left_behind_and_told_so() {
    let program = sum_program("sum-silent-root");
    let group = Group::new(&program, 3, 1);
    // All learn from silence, which this says the length of.
    let patience = ("RSCCL_TIMEOUT_S", "15");
    let server = group.server(&[], &[patience]);
    let workers = processes(&group, &["endure", "-1", "2"], &[CONTINUE, patience]);
    workers.iter().for_each(|worker| drop(worker.wait_for("GROUP of 3, epoch 0", "silent")));
    signal(&workers[0], "-STOP");
    for (rank, worker) in [(0, &workers[1]), (1, &workers[2])] {
        worker.wait_for(&format!("ENDURED {rank} of 2"), "silent");
        worker.wait_for("DONE", "silent");
    }
    signal(&workers[0], "-CONT");
    workers[0].wait_for("LOST", "silent");
    workers[0]
        .wait_for("ERROR resume: there is no summation group: the others have gone on without it", "silent");
    assert!(server.rest().ends_with("the job is over\n"));
}

#[test]
fn a_server_that_gives_the_rendezvous_may_die() {
    let program = sum_program("sum-root-server");
    let group = Group::new(&program, 2, 2);
    let mut root = Process::start(&mut group.server_command(&["--root"], &[]));
    root.wait_for("the rendezvous is at", "server");
    let other = group.server(&[], &[]);
    let workers = processes(&group, &["endure", "-1", "2"], &[CONTINUE]);
    workers.iter().for_each(|worker| drop(worker.wait_for("GROUP of 2, epoch 0", "server")));
    root.child.kill().unwrap();
    for worker in &workers {
        worker.wait_for("ENDURED", "server");
        worker.wait_for("DONE", "server");
    }
    assert!(other.rest().ends_with("the job is over\n"));
}

/// Processor time of a process so far, in ticks of 10 ms.
fn ticks(process: &Process) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.child.id())).unwrap();
    // Behind the name, the 12th and 13th.
    let times = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
    times.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_server_without_descriptors_keeps_no_core_busy_and_takes_who_waits_once_it_has_some() {
    let program = sum_program("sum-descriptors");
    let group = Group::new(&program, 1, 1);
    let arguments = ["--root", "--stay", "--health", "127.0.0.1:0"];
    let server = Process::start(&mut group.server_command(&arguments, &[]));
    let (_, line) = server.wait_for("health is told at", "health");
    let health = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap().to_owned();
    server.wait_for("waiting for a job at", "rendezvous");
    let pid = server.child.id().to_string();
    let allow = |descriptors: &str| {
        let limit = format!("--nofile={descriptors}:");
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    // No new one is as low as that. A thread that waits for a caller has the first one's already.
    allow("3");
    let root = format!("127.0.0.1:{}", group.port);
    let mut callers = Vec::new();
    for (address, says) in [(&health, "GET /healthz HTTP/1.1\r\n\r\n"), (&root, "")] {
        callers.extend([(); 2].map(|()| TcpStream::connect(address).unwrap()));
        callers.iter_mut().rev().take(2).for_each(|caller| caller.write_all(says.as_bytes()).unwrap());
        let caller = callers.last_mut().unwrap();
        caller.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let before = ticks(&server);
        let error = caller.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        let took = ticks(&server) - before;
        assert!(took < 30, "{took} ticks of processor time in a second, while {address} is called");
    }
    allow("1000");
    for caller in &mut callers {
        caller.set_read_timeout(Some(HANG_WAIT)).unwrap();
        caller.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn servers_whose_job_never_comes_leave() {
    let program = sum_program("sum-idle");
    let group = Group::new(&program, 2, 1);
    let said = group.server(&[], &[("RSUM_IDLE_S", "1")]).rest();
    assert!(said.contains("nobody is at the rendezvous 127.0.0.1:"), "{said}");
    let said = group.server(&["--root"], &[("RSUM_IDLE_S", "1")]).rest();
    assert!(
        said.contains("no job has met at 127.0.0.1:") && said.contains("for 1 s (RSUM_IDLE_S)"),
        "{said}"
    );
}
