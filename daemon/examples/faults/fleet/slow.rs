//! Slow ranks and hosts of a fleet, and healthy twins that look like it.

use ringscope_api::FindingKind::{ComputeStraggler, SlowDevice, SlowHost, UnevenWork};

use super::cases::Case;
use super::pace::Slow;
use super::tell::Teller;
use crate::pace;

const fn slow(name: &'static str, happen: fn(&mut Teller, u32) -> Vec<u32>) -> Case {
    let seconds = pace::LIMIT_S as u64 + 15;
    Case { name, expected: &[ComputeStraggler], happen, undo: None, seconds, is_slow: true }
}

const fn twin(name: &'static str, happen: fn(&mut Teller, u32) -> Vec<u32>) -> Case {
    Case { expected: &[], seconds: 25, ..slow(name, happen) }
}

pub(crate) const CASES: [Case; 18] = [
    // Of the whole step a tenth.
    slow("slow_tenth", |fleet, victim| fleet.slow(&[victim], Slow::Steady(17))),
    slow("slow_double", |fleet, victim| fleet.slow(&[victim], Slow::Steady(100))),
    slow("slow_intermittent", |fleet, victim| fleet.slow(&[victim], Slow::OneOf(5, 150))),
    slow("slow_periodic", |fleet, victim| fleet.slow(&[victim], Slow::Periodic(20, 700))),
    slow("slow_two", |fleet, victim| {
        let other = (victim + fleet.n_ranks() / 2) % fleet.n_ranks();
        fleet.slow(&[victim, other], Slow::Steady(40))
    }),
    slow("slow_clock_off", |fleet, victim| {
        fleet.shift_clock_of(victim, 30);
        fleet.slow(&[victim], Slow::Steady(40))
    }),
    Case {
        expected: &[SlowHost],
        ..slow("slow_host", |fleet, victim| fleet.slow(&fleet.ranks_of_host_of(victim), Slow::Steady(40)))
    },
    Case {
        expected: &[UnevenWork],
        ..slow("uneven_work", |fleet, victim| fleet.slow(&[victim], Slow::GivenMore(50)))
    },
    Case {
        expected: &[SlowDevice],
        ..slow("slow_device", |fleet, victim| {
            fleet.tell_of_gpus([victim]);
            fleet.slow(&[victim], Slow::Steady(40))
        })
    },
    // Nobody waits for anybody longer than before.
    twin("hot_alike", |fleet, _| {
        fleet.tell_of_gpus(0..fleet.n_ranks());
        Vec::new()
    }),
    twin("steady", |_, _| Vec::new()),
    twin("uneven_batches", |fleet, _| {
        fleet.pace_mut(|pace| pace.spread_percent = 60);
        Vec::new()
    }),
    twin("unequal_stages", |fleet, _| {
        fleet.pace_mut(|pace| pace.stage_percent = 25);
        Vec::new()
    }),
    twin("pauses_alike", |fleet, _| {
        fleet.pace_mut(|pace| pace.all_pause = true);
        Vec::new()
    }),
    twin("checkpoint_once", |fleet, victim| {
        fleet.slow(&[victim], Slow::Spell(1, 5_000));
        Vec::new()
    }),
    // All compute for longer in their first steps, rank 0 above all, and then it is as usual.
    twin("warm_up", |fleet, _| {
        let all: Vec<u32> = (0..fleet.n_ranks()).collect();
        fleet.slow(&all, Slow::Spell(10, 300));
        fleet.slow(&[0], Slow::Spell(10, 500));
        Vec::new()
    }),
    twin("short_spell", |fleet, victim| {
        fleet.slow(&[victim], Slow::Spell(5, 150));
        Vec::new()
    }),
    twin("clock_off_slowly", |fleet, victim| {
        fleet.shift_clock_of(victim, 30);
        fleet.pace_mut(|pace| pace.spread_percent = 30);
        Vec::new()
    }),
];
