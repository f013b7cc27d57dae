//! Groups whose network is cut in two, each worker in a network namespace: the part with most of the members goes on, with right
//! sums, and the other one ends and says why. So no model is trained twice.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::network::{NICS, address, build, command_on, confined, sh};
use common::process::Process;
use common::sum::sum_program;

const WORKERS: usize = 5;
/// How long a member may be silent, or is tried to be reached twice.
const TIMEOUT: (&str, &str) = ("RSCCL_TIMEOUT_S", "6");

/// A worker on the first host, if it is one of so many, or on the second one.
fn worker(program: &Path, worker: usize, on_first: usize, few: &str) -> Process {
    let mut command = command_on(usize::from(worker >= on_first), program);
    command.args(["endure", "-1", few]).env("RSUM_ROOT", format!("{}:4700", address(0, 0)));
    command.env("RSUM_SECRET", "a secret of this test").env("RSUM_ON_LOSS", "continue");
    command.env("RSUM_WORKERS", WORKERS.to_string()).env("RSUM_RANK", worker.to_string());
    // Sums are held against those in the order of the workers.
    Process::start(command.env("RSUM_LOCAL", "off").env(TIMEOUT.0, TIMEOUT.1))
}

/// Cuts a group of which so many workers are on the first host, with the one that gives the rendezvous.
fn cut(case: &str, on_first: usize) {
    build(2);
    let program = sum_program(case);
    let few = on_first.max(WORKERS - on_first).to_string();
    let mut workers: Vec<Process> =
        (0..WORKERS).map(|number| worker(&program, number, on_first, &few)).collect();
    let at_work = format!("GROUP of {WORKERS}, epoch 0");
    workers.iter().for_each(|worker| drop(worker.wait_for(&at_work, case)));
    for rail in 0..NICS {
        // Its NICs see nothing of that.
        sh(&format!("ip link set h1r{rail} nomaster"));
    }
    let second = workers.split_off(on_first);
    let (more, fewer) = if workers.len() > second.len() { (workers, second) } else { (second, workers) };
    for (rank, worker) in more.iter().enumerate() {
        worker.wait_for(&format!("ENDURED {rank} of {}", more.len()), case);
    }
    for worker in &fewer {
        worker.wait_for("LOST", case);
        let (_, said) = worker.wait_for("ERROR resume: there is no summation group: ", case);
        let here =
            format!("{} of the {WORKERS} members that are left of the last group are here", fewer.len());
        assert!(said.contains(&here), "{said}");
    }
}

#[test]
fn the_rendezvous_goes_to_the_part_with_most_members() {
    let name = "the_rendezvous_goes_to_the_part_with_most_members";
    confined(name, || cut("sum-cut-from", 2));
}

#[test]
fn the_rendezvous_goes_on_without_the_part_with_fewer_members() {
    let name = "the_rendezvous_goes_on_without_the_part_with_fewer_members";
    confined(name, || cut("sum-cut-off", 3));
}
