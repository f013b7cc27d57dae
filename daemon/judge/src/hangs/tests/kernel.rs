//! What a kernel says of one process belongs to the job whose process that is, and to nobody else.

use ringscope_api::{FindingKind, Severity};
use ringscope_wire::batch::{KernelMessage, KernelMessageKind};

use super::super::scene::Life;
use super::build::{World, at, found, job, nothing};

fn says(world: &mut World, kind: KernelMessageKind, at_s: f64, pid: u32) {
    let message = KernelMessage {
        kind: kind.into(),
        pid: Some(pid),
        at_ns: at(at_s).0,
        text: "a process is gone".to_owned(),
        ..KernelMessage::default()
    };
    world.scene.hosts[0].kernel.push(Box::leak(Box::new(message)));
}

const KINDS: [KernelMessageKind; 2] = [KernelMessageKind::OutOfMemory, KernelMessageKind::Crash];

#[test]
fn what_it_said_before_the_job_or_of_other_programs_is_no_finding() {
    for kind in KINDS {
        let mut world = job(4);
        world.comm("c0ffee", "", &[0, 1, 2, 3]);
        // The number of one of the job's, of the process that had it before.
        says(&mut world, kind, -603.0, 4001);
        says(&mut world, kind, 0.5, 77);
        nothing(&world.look(2.0));
    }
}

#[test]
fn a_job_that_has_ended_gets_no_crash_of_others() {
    let mut world = job(4);
    world.comm("c0ffee", "", &[0, 1, 2, 3]);
    for process in 0..4 {
        world.kill(process, 0.5);
        world.process(process).life = Life::Exited;
    }
    // One of them has the number that a process of the job had.
    says(&mut world, KernelMessageKind::Crash, 30.0, 4001);
    says(&mut world, KernelMessageKind::Crash, 30.0, 77);
    says(&mut world, KernelMessageKind::Storage, 30.0, 78);
    nothing(&world.look(31.0));
}

#[test]
fn the_crash_of_a_rank_is_a_finding() {
    let mut world = job(4);
    world.comm("c0ffee", "", &[0, 1, 2, 3]);
    says(&mut world, KernelMessageKind::Crash, 0.5, 77);
    says(&mut world, KernelMessageKind::Crash, 0.5, 4001);
    world.kill(1, 0.7);
    let verdict = world.until(2);
    assert_eq!(
        found(&verdict),
        [
            (FindingKind::KernelFault, Severity::Critical, "crash", vec![1]),
            (FindingKind::RankDead, Severity::Critical, "crash", vec![1])
        ]
    );
}
