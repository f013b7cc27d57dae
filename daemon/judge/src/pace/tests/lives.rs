//! A job that is started again under its name.

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
