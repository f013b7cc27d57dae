//! The faults of a fleet and their healthy twins.

use ringscope_api::FindingKind;

use super::program::{ALL_REDUCE, Edit, Kind, Signature};
use super::tell::{Life, Teller};

/// A fault, or a twin that looks like one.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) expected: &'static [FindingKind],
    /// Does it to the victim; returns who must be accused.
    pub(crate) happen: fn(&mut Teller, u32) -> Vec<u32>,
    /// Undoes it. Twins only.
    pub(crate) undo: Option<Undo>,
    /// For how long to listen: of faults at most, of twins exactly.
    pub(crate) seconds: u64,
    /// It is about slowness: the job is one whose time is told.
    pub(crate) is_slow: bool,
}

/// What undoes a fault, and after how many seconds.
pub(crate) type Undo = (u64, fn(&mut Teller, u32));

const fn fault(
    name: &'static str,
    expected: &'static [FindingKind],
    happen: fn(&mut Teller, u32) -> Vec<u32>,
) -> Case {
    Case { name, expected, happen, undo: None, seconds: 15, is_slow: false }
}

const fn twin(
    name: &'static str,
    happen: fn(&mut Teller, u32) -> Vec<u32>,
    undo: (u64, fn(&mut Teller, u32)),
) -> Case {
    Case { name, expected: &[], happen, undo: Some(undo), seconds: 12, is_slow: false }
}

use FindingKind::{
    AsyncError, CallMismatch, DeviceStalled, HostLost, InitStuck, OrderDeadlock, RankDead, RankMissing,
    TeardownStuck, TransferStalled,
};

pub(crate) const CASES: [Case; 25] = [
    fault("stopped", &[RankMissing], |fleet, victim| {
        fleet.halt(victim);
        fleet.rank(victim).activity = "T";
        vec![victim]
    }),
    fault("two_stopped", &[RankMissing], |fleet, victim| {
        let other = (victim + fleet.n_ranks() / 2) % fleet.n_ranks();
        for one in [victim, other] {
            fleet.halt(one);
            fleet.rank(one).activity = "T";
        }
        vec![victim, other]
    }),
    fault("killed", &[RankDead], |fleet, victim| {
        fleet.end(victim, Life::Killed);
        vec![victim]
    }),
    fault("exited_without_destroy", &[RankDead], |fleet, victim| {
        fleet.end(victim, Life::Exited);
        vec![victim]
    }),
    fault("host_killed", &[RankDead, HostLost], |fleet, victim| {
        let ranks = fleet.ranks_of_host_of(victim);
        ranks.iter().for_each(|rank| fleet.end(*rank, Life::Killed));
        ranks
    }),
    Case {
        seconds: 45,
        ..fault("host_unheard", &[HostLost], |fleet, victim| {
            let ranks = fleet.ranks_of_agent_of(victim);
            ranks.iter().for_each(|rank| fleet.halt(*rank));
            fleet.mute_agent_of(victim);
            ranks
        })
    },
    Case {
        seconds: 60,
        ..fault("busy_elsewhere", &[RankMissing], |fleet, victim| {
            fleet.halt(victim);
            vec![victim]
        })
    },
    Case {
        seconds: 60,
        ..fault("asleep_in_read", &[RankMissing], |fleet, victim| {
            fleet.halt(victim);
            fleet.rank(victim).activity = "S";
            vec![victim]
        })
    },
    fault("other_primitive", &[CallMismatch], |fleet, victim| {
        fleet.differ(victim, Signature { primitive: 4, op: 0, ..ALL_REDUCE }, true)
    }),
    fault("other_count", &[CallMismatch], |fleet, victim| {
        fleet.differ(victim, Signature { count: 1025, ..ALL_REDUCE }, true)
    }),
    fault("other_datatype", &[CallMismatch], |fleet, victim| {
        fleet.differ(victim, Signature { datatype: 9, ..ALL_REDUCE }, true)
    }),
    fault("other_op", &[CallMismatch], |fleet, victim| {
        fleet.differ(victim, Signature { op: 2, ..ALL_REDUCE }, true)
    }),
    Case {
        seconds: 60,
        ..fault("other_count_unnoticed", &[CallMismatch], |fleet, victim| {
            fleet.differ(victim, Signature { count: 1025, ..ALL_REDUCE }, false)
        })
    },
    fault("skipped_call", &[OrderDeadlock, RankMissing, CallMismatch], |fleet, victim| {
        let step = fleet.program.step() + 1;
        fleet.program.edit(victim, Edit::Skip { step });
        vec![victim]
    }),
    Case {
        seconds: 60,
        ..fault("nothing_moves", &[TransferStalled], |fleet, _| {
            fleet.program.stalled_from = Some(fleet.program.ranks[0].calls[Kind::World as usize] + 1);
            Vec::new()
        })
    },
    Case {
        seconds: 60,
        ..fault("never_started", &[DeviceStalled], |fleet, victim| {
            fleet.program.stalled_from = Some(fleet.program.ranks[0].calls[Kind::World as usize] + 1);
            fleet.rank(victim).never_starts = true;
            vec![victim]
        })
    },
    Case {
        seconds: 60,
        ..fault("init_without_one", &[InitStuck], |fleet, victim| {
            fleet.form(Some(victim), None);
            vec![victim]
        })
    },
    fault("init_of_another_size", &[InitStuck], |fleet, victim| {
        fleet.form(None, Some(victim));
        vec![victim]
    }),
    fault("stuck_in_destroy", &[TeardownStuck, RankMissing, OrderDeadlock], |fleet, victim| {
        fleet.halt(victim);
        fleet.rank(victim).inside = Some("ncclCommDestroy");
        vec![victim]
    }),
    fault("asynchronous_error", &[AsyncError], |fleet, victim| {
        fleet.halt(victim);
        fleet.rank(victim).error = Some(6);
        vec![victim]
    }),
    twin(
        "late_by_five_seconds",
        |fleet, victim| {
            fleet.halt(victim);
            Vec::new()
        },
        (5, |fleet, victim| {
            fleet.resume(victim);
        }),
    ),
    twin(
        "all_pause",
        |fleet, _| {
            fleet.pause = true;
            Vec::new()
        },
        (8, |fleet, _| fleet.pause = false),
    ),
    twin(
        "agent_silent",
        |fleet, victim| {
            fleet.mute_agent_of(victim);
            Vec::new()
        },
        (6, |fleet, _| fleet.unmute()),
    ),
    twin(
        "clock_off",
        |fleet, victim| {
            fleet.shift_clock_of(victim, 30);
            Vec::new()
        },
        (12, |_, _| ()),
    ),
    twin(
        "orderly_end",
        |fleet, _| {
            for rank in 0..fleet.n_ranks() {
                fleet.leave(rank);
            }
            Vec::new()
        },
        (12, |_, _| ()),
    ),
];

/// Their names.
pub(crate) const fn names<const N: usize>(cases: &[Case; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = cases[at].name;
        at += 1;
    }
    names
}
