//! Accounts by the device's times beside accounts by the program's calls.

use std::time::Duration;

use ringscope_wire::batch::TimeBasis;

use super::{FOUR, Stage, at};
use crate::{Account, Accounts, accounts};

fn tell_by(stage: &mut Stage, ranks: impl Iterator<Item = usize>, basis: TimeBasis) {
    for rank in ranks {
        stage.told[rank].basis = basis.into();
    }
}

fn accounts_of(stage: &Stage) -> Accounts<'_> {
    let (_, job) = stage.model.jobs().next().unwrap();
    accounts(&stage.model, job, at(stage.s))
}

/// A library that enqueues long before the device runs hides most own time of those that are told by their calls.
#[test]
fn a_rank_that_alone_is_told_by_the_device_is_no_straggler() {
    let mut stage = Stage::new(&FOUR, |rank, _| if rank == 2 { 60 } else { 10 });
    tell_by(&mut stage, 2..3, TimeBasis::Started);
    stage.is_calm_for(40);
    let accounts = accounts_of(&stage);
    assert_eq!((accounts.ranks.len(), accounts.n_of_other_basis, accounts.is_device), (3, 1, false));
    assert!(accounts.ranks.iter().all(|account| account.process.pace().unwrap().device_error().is_none()));
}

#[test]
fn how_well_the_clock_of_the_device_is_known_is_told() {
    let mut stage = Stage::new(&FOUR, |_, _| 10);
    tell_by(&mut stage, 0..4, TimeBasis::Started);
    stage.told.iter_mut().for_each(|told| told.device_error_ns = 7_000);
    stage.is_calm_for(40);
    let accounts = accounts_of(&stage);
    assert!(accounts.is_device);
    let error = |account: &Account<'_>| account.process.pace().unwrap().device_error();
    assert!(accounts.ranks.iter().all(|account| error(account) == Some(Duration::from_micros(7))));
}

#[test]
fn of_those_that_are_told_alike_who_is_slow_is_still_named() {
    let mut stage = Stage::new(&FOUR, |rank, _| if rank == 1 { 60 } else { 40 });
    tell_by(&mut stage, 0..3, TimeBasis::Started);
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!(finding.rank, Some(1));
}

/// Of each step of 70 ms, 60 are in collectives by the calls, and 30 by the device.
#[test]
fn a_job_that_is_told_by_its_calls_again_is_no_slower() {
    let mut stage = Stage::new(&FOUR, |_, step| if step < 1000 { 40 } else { 10 });
    stage.transfer = Box::new(|step| if step < 1000 { 30 } else { 60 });
    for (seconds, basis) in [(70, TimeBasis::Started), (120, TimeBasis::Called)] {
        tell_by(&mut stage, 0..4, basis);
        stage.is_calm_for(seconds);
    }
}

/// What is usual is known again by the times that it is of.
#[test]
fn a_job_that_is_told_by_its_calls_after_a_restart_is_no_slower() {
    let mut stage = Stage::new(&FOUR, |_, step| if step < 1000 { 40 } else { 10 });
    stage.transfer = Box::new(|step| if step < 1000 { 30 } else { 60 });
    tell_by(&mut stage, 0..4, TimeBasis::Started);
    stage.is_calm_for(70);
    stage.restart();
    tell_by(&mut stage, 0..4, TimeBasis::Called);
    stage.is_calm_for(120);
}
