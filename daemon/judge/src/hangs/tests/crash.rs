//! A job that ends because one of its processes crashed is told of, and one that ends in good order is not.

use ringscope_api::{FindingKind, Severity};
use ringscope_model::{Exit, ToldToEnd};

use super::super::scene::{CommError, Life, MemberState};
use super::build::{World, at, found, job, nothing, only};

/// Two hosts of eight; all but rank 3 wait in a call.
fn at_work() -> (World, u32) {
    let mut world = job(16);
    let all: Vec<u32> = (0..16).collect();
    let comm = world.comm("c0ffee", "", &all);
    world.enter(comm, all.into_iter().filter(|rank| *rank != 3));
    (world, comm)
}

fn kill_all_but(world: &mut World, spared: &[u32], seconds: f64) {
    for process in (0..16).filter(|process| !spared.contains(process)) {
        world.kill(process, seconds);
    }
}

#[test]
fn a_crash_that_ends_the_job_is_told_of_and_then_over() {
    let (mut world, _) = at_work();
    world.kill(3, 0.2);
    kill_all_but(&mut world, &[3], 0.6);
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::RankDead, Severity::Critical, "killed", vec![3])]);
    assert_eq!(
        only(&verdict).message,
        "rank 3 (host-0, pid 4003) was killed or has crashed at 14:00:00 UTC; the other 15 ended 0.4 s later"
    );
    only(&world.look(100.0));
    nothing(&world.look(130.0));
}

#[test]
fn an_exception_is_a_crash_too() {
    let (mut world, _) = at_work();
    world.kill(3, 0.2);
    world.process(3).life = Life::Exited;
    kill_all_but(&mut world, &[3], 0.6);
    assert_eq!(found(&world.until(2)), [(FindingKind::RankDead, Severity::Critical, "exited", vec![3])]);
}

#[test]
fn an_exception_in_all_is_one_of_who_had_it_first() {
    let (mut world, _) = at_work();
    world.kill(3, 0.2);
    kill_all_but(&mut world, &[3], 0.6);
    for process in 0..16 {
        let process = world.process(process);
        (process.life, process.exit.status) = (Life::Exited, Some(1));
    }
    let verdict = world.until(2);
    assert!(only(&verdict).message.contains("pid 4003) has exited with status 1 at"), "{verdict:#?}");
}

#[test]
fn of_one_reading_one_that_failed_where_the_others_were_killed_is_named() {
    let look = |statuses: &[(u32, Life, u8)]| {
        let (mut world, _) = at_work();
        kill_all_but(&mut world, &[], 0.2);
        for (index, life, status) in statuses {
            let process = world.process(*index);
            (process.life, process.exit.status) = (*life, Some(*status));
        }
        world.until(2)
    };
    for (life, words) in [
        (Life::Exited, "has exited with status 7 at"),
        (Life::Killed, "was ending with status 7 when it was killed at"),
    ] {
        let verdict = look(&[(3, life, 7)]);
        assert_eq!(only(&verdict).culprits, [3]);
        let message = &only(&verdict).message;
        assert!(message.contains(words) && message.ends_with("15 ended at about the same time"), "{message}");
    }
    nothing(&look(&[]));
    // A handler of SIGTERM, where somebody ended the job.
    nothing(&look(&[(0, Life::Exited, 143)]));
    nothing(&look(&[(0, Life::Exited, 0)]));
    // All fail alike, and the launcher kills the last one.
    let all_but_one: Vec<(u32, Life, u8)> = (0..15).map(|index| (index, Life::Exited, 1)).collect();
    nothing(&look(&all_but_one));
}

#[test]
fn who_ended_in_one_reading_is_one_of_them() {
    let (mut world, _) = at_work();
    world.kill(3, 0.2);
    world.kill(4, 0.2);
    // Another host's reading is no later than it may be by chance.
    world.kill(9, 0.4);
    kill_all_but(&mut world, &[3, 4, 9], 0.8);
    let verdict = world.until(2);
    assert_eq!(only(&verdict).culprits, [3, 4, 9]);
    assert!(only(&verdict).message.starts_with("one of rank 3 (host-0, pid 4003), "), "{verdict:#?}");
}

#[test]
fn a_job_that_is_ended_as_a_whole_has_no_culprit() {
    let (mut world, _) = at_work();
    kill_all_but(&mut world, &[2, 7], 0.2);
    world.kill(2, 0.6);
    world.kill(7, 0.6);
    nothing(&world.until(3));
}

#[test]
fn an_orderly_end_is_silent() {
    for (life, state) in [
        (Life::Exited, MemberState::Destroyed),
        (Life::Exited, MemberState::Active),
        // As `os._exit` does it: no exit handler runs.
        (Life::Killed, MemberState::Active),
    ] {
        let mut world = job(16);
        let all: Vec<u32> = (0..16).collect();
        let comm = world.comm("c0ffee", "", &all);
        for (index, process) in all.iter().enumerate() {
            world.kill(*process, if index < 2 { 0.2 } else { 0.7 });
            world.process(*process).life = life;
            world.member(comm, *process).state = state;
        }
        nothing(&world.until(3));
    }
}

#[test]
fn a_job_that_runs_again_is_no_crash_any_more() {
    let (mut world, _) = at_work();
    world.kill(3, 0.2);
    kill_all_but(&mut world, &[3], 0.6);
    only(&world.until(2));
    for process in 0..16 {
        // The earlier life's processes, as new ones of the scene.
        let before = world.scene.processes[process].host;
        let mut new = job(1).scene.processes.remove(0);
        new.host = before;
        new.pid = 5000 + u32::try_from(process).unwrap();
        new.started_at = at(1.0);
        world.scene.processes.push(new);
    }
    only(&world.look(3.0));
    let second: Vec<u32> = (16..32).collect();
    let comm = world.comm("beef", "", &second);
    nothing(&world.look(4.0));
    // The second life crashes as well, and the first one is no part of it.
    world.enter(comm, (0..16).filter(|rank| *rank != 5));
    world.kill(16 + 5, 20.0);
    for process in (16..32).filter(|process| *process != 16 + 5) {
        world.kill(process, 20.5);
    }
    world.look(21.0);
    assert_eq!(only(&world.look(22.0)).culprits, [16 + 5]);
}

#[test]
fn a_launch_knows_whom_it_has_ended_and_so_who_failed() {
    let told = |why| Exit { signal: Some(15), told: Some(why), ..Exit::default() };
    let look = |failed: &[(u32, f64, Exit)], why: ToldToEnd| {
        let (mut world, _) = at_work();
        kill_all_but(&mut world, &[], 0.6);
        for process in 0..16 {
            world.process(process).exit = told(why);
        }
        for (process, seconds, exit) in failed {
            world.kill(*process, *seconds);
            world.process(*process).exit = *exit;
            world.process(*process).life = if exit.signal.is_some() { Life::Killed } else { Life::Exited };
        }
        world.until(2)
    };
    let signal = |number| Exit { signal: Some(number), ..Exit::default() };
    let status = |status| Exit { status: Some(status), ..Exit::default() };
    let verdict = look(&[(3, 0.5, signal(9)), (4, 0.4, status(1))], ToldToEnd::Failure);
    assert_eq!(only(&verdict).culprits, [3], "who fails because another one was killed may be seen first");
    let message = &only(&verdict).message;
    assert!(
        message.contains("was ended by SIGKILL at ") && message.ends_with("; its launch then ended the job")
    );
    let advice = &only(&verdict).advice;
    assert!(advice.starts_with("Somebody killed it, or the kernel did because memory ran out: "), "{advice}");
    let verdict = look(&[(3, 0.5, status(3)), (4, 0.4, status(1))], ToldToEnd::Failure);
    assert_eq!(only(&verdict).culprits, [4]);
    assert_eq!(only(&look(&[(7, 0.1, signal(11))], ToldToEnd::Failure)).culprits, [7]);
    for why in [ToldToEnd::Signal(2), ToldToEnd::LaunchGone, ToldToEnd::Failure] {
        nothing(&look(&[], why));
    }
}

/// All were told to end by their launch because of a failure, and did.
fn end_by_launch(world: &mut World) {
    kill_all_but(world, &[], 0.6);
    for process in 0..16 {
        let told = Some(ToldToEnd::Failure);
        world.process(process).exit = Exit { signal: Some(15), told, ..Exit::default() };
    }
}

#[test]
fn who_failed_because_a_peer_was_gone_is_not_the_first() {
    let look = |code| {
        let (mut world, comm) = at_work();
        end_by_launch(&mut world);
        for (process, seconds) in [(4, 0.4), (3, 0.5)] {
            world.kill(process, seconds);
            let process = world.process(process);
            (process.life, process.exit) = (Life::Exited, Exit { status: Some(1), ..Exit::default() });
        }
        world.member(comm, 4).error = Some(CommError { code, at: Some(at(0.3)), ..CommError::default() });
        only(&world.until(2)).culprits.clone()
    };
    // `ncclRemoteError`, and none.
    assert_eq!(look(6), [3]);
    assert_eq!(look(0), [4]);
}

#[test]
fn who_had_ended_long_before_the_first_failure_did_not_end_with_it() {
    let (mut world, _) = at_work();
    kill_all_but(&mut world, &[], 40.0);
    for process in 0..16 {
        let process = world.process(process);
        (process.life, process.exit.status) = (Life::Exited, Some(1));
    }
    // It came to its end before it had called anything, and the others waited for it.
    world.kill(5, 9.0);
    let process = world.process(5);
    (process.life, process.exit.status) = (Life::Exited, Some(0));
    (process.launched, process.calls_seen) = (true, false);
    world.look(41.0);
    let message = only(&world.look(42.0)).message.clone();
    let words =
        "; global rank 5 (host-0, pid 4005) had ended 31 s before; the other 14 ended at about the same time";
    assert!(message.starts_with("rank 0 (") && message.ends_with(words), "{message}");
}

#[test]
fn a_summation_server_is_told_as_one_and_not_as_a_rank() {
    let (mut world, _) = at_work();
    end_by_launch(&mut world);
    world.kill(15, 0.4);
    let process = world.process(15);
    (process.life, process.exit) = (Life::Exited, Exit { status: Some(1), ..Exit::default() });
    (process.is_server, process.global_rank) = (true, None);
    let message = only(&world.until(2)).message.clone();
    let words = "summation server (host-1, pid 4015, rank 15) has exited with status 1 at ";
    assert!(message.starts_with(words), "{message}");
}

#[test]
fn where_only_witnesses_failed_by_themselves_nobody_is_accused() {
    let (mut world, comm) = at_work();
    end_by_launch(&mut world);
    // Rank 3 raised an exception, its connections closed, and it was still at its end when its launch ended it.
    for process in [2, 4] {
        world.kill(process, 0.4);
        world.member(comm, process).error =
            Some(CommError { code: 6, at: Some(at(0.3)), ..CommError::default() });
        let process = world.process(process);
        (process.life, process.exit) = (Life::Exited, Exit { status: Some(1), ..Exit::default() });
    }
    let verdict = world.until(2);
    let told = only(&verdict);
    assert_eq!((told.cause, &*told.culprits), ("peer_gone", &[][..]), "{told:#?}");
    let words = "because a peer of it was gone, and nobody tells which; its launch then ended the job";
    assert!(told.message.starts_with("rank 2 (") && told.message.ends_with(words), "{}", told.message);
}

#[test]
fn a_job_that_a_scheduler_ends_has_no_culprit_though_its_launch_ends_later() {
    let look = |signal, seconds| {
        let (mut world, _) = at_work();
        kill_all_but(&mut world, &[], 0.4);
        world.kill(3, seconds);
        for process in 0..16 {
            world.process(process).exit = Exit { signal: Some(15), ..Exit::default() };
        }
        world.process(3).exit.signal = Some(signal);
        world.until(4)
    };
    nothing(&look(15, 0.3));
    // One that failed is one, and so is one that was asked long before the others.
    assert_eq!(only(&look(11, 0.3)).culprits, [3]);
    let (mut world, _) = at_work();
    kill_all_but(&mut world, &[3], 2.0);
    world.kill(3, 0.3);
    for process in 0..16 {
        world.process(process).exit = Exit { signal: Some(15), ..Exit::default() };
    }
    assert_eq!(only(&world.until(4)).culprits, [3]);
}
