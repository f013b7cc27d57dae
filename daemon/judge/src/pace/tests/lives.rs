//! A job that is started again under its name.

use ringscope_api::{Finding, FindingKind};
use ringscope_samples::cluster::{self, Cluster};
use ringscope_wire::batch::{OwnTime, Process, ProcessState};

use super::{FOUR, Stage, at};

impl Stage {
    /// All processes end, and others take their place on other hosts.
    fn start_again(&mut self, hosts: &[(&str, u32, u32)]) {
        self.s += 1;
        let ended = (0..self.cluster.n_ranks())
            .map(|rank| Process { state: ProcessState::Exited.into(), ..self.cluster.word(rank) });
        let ended: Vec<Process> = ended.collect();
        self.cluster = Cluster { comm_hash: 0xdef, local_id: 9, ..Cluster::new(hosts, 2) };
        let processes = ended.into_iter().chain(self.cluster.processes()).collect();
        self.model.apply(&cluster::batch(self.s + 1, self.s, processes), at(self.s));
        let first = OwnTime { operations_per_step: 4, ..OwnTime::default() };
        (self.step, self.told) = (0, vec![first; self.told.len()]);
        self.recent.iter_mut().for_each(Vec::clear);
    }
}

#[test]
fn a_job_that_was_started_again_is_not_held_to_its_former_life() {
    let mut stage = Stage::new(&FOUR, |_, _| 40);
    stage.transfer = Box::new(|_| 30);
    stage.is_calm_for(60);
    stage.start_again(&[("c", 2, 2), ("d", 2, 2)]);
    stage.transfer = Box::new(|_| 60);
    stage.is_calm_for(90);
    // It is held to its own.
    stage.transfer = Box::new(|step| if step < 2_000 { 60 } else { 120 });
    assert!(stage.first(200).is_some());
}

/// A job of eight ranks on two hosts whose collectives take longer from step 800 on.
fn slower() -> Stage {
    let mut stage = Stage::new(&[("a", 4, 2), ("b", 4, 2)], |_, _| 40);
    stage.transfer = Box::new(|step| if step < 800 { 30 } else { 60 });
    let (_, found) = stage.first(120).unwrap();
    assert_eq!(found.finding, FindingKind::Slowdown);
    stage
}

#[test]
fn a_slowdown_ends_with_its_job() {
    let mut stage = slower();
    let ended = (0..stage.cluster.n_ranks())
        .map(|rank| Process { state: ProcessState::Exited.into(), ..stage.cluster.word(rank) });
    stage.s += 1;
    let ended = cluster::batch(stage.s + 1, stage.s, ended.collect());
    stage.model.apply(&ended, at(stage.s));
    stage.is_read = Box::new(|_, _| false);
    assert!((0..30).any(|_| stage.second().is_empty()));
}

/// Of a host that is late the others are not another job.
#[test]
fn a_slowdown_goes_on_while_the_first_host_is_silent_and_while_all_are() {
    let mut stage = slower();
    let since = stage.s;
    stage.is_read = Box::new(move |rank, s| !(since..since + 7).contains(&s) || rank >= 4);
    for _ in 0..40 {
        assert_eq!(stage.second().len(), 1, "second {}", stage.s);
    }
    let hours = |found: &[Finding]| found[0].cost.unwrap().rank_hours;
    let since = stage.s;
    stage.is_read = Box::new(move |_, s| s < since + 2);
    let before = hours(&(0..15).map(|_| stage.second()).last().unwrap());
    let after = hours(&(0..60).map(|_| stage.second()).last().unwrap());
    assert!((after - before).abs() < 1e-9, "{before} {after}");
}

/// Agents go on telling of processes that call nothing.
#[test]
fn a_straggler_ends_with_the_work_of_its_job() {
    let mut stage = Stage::new(&FOUR, |rank, _| 40 + if rank == 1 { 40 } else { 0 });
    assert!(stage.first(30).is_some());
    // No step comes any more.
    stage.now_ms = u64::MAX / 2;
    let over = (0..120).find(|_| {
        for told in &mut stage.told {
            told.covered_ns += 1_000_000_000;
        }
        stage.second().is_empty()
    });
    assert!(over.is_some());
}
