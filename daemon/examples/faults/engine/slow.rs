//! What makes real jobs slow, and twins that only look like it (`engine/examples/fault_job/slow.c`).

use std::fs;
use std::path::Path;

use ringscope_api::FindingKind::{ComputeStraggler, OtherWork, SlowHost, TooSmall, UnevenWork};

use super::cases::{Case, Guilt, by, fault, named, twin};
use super::in_pairs;
use super::job::Shape;
use crate::pace;

/// How a job is slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slow {
    /// By how much the victim computes for longer, in percent of what all compute in a step.
    pub(crate) percent: u64,
    pub(crate) pause_ms: u64,
    /// Every so many steps, where it is periodic.
    pub(crate) every: u64,
    /// Shape and victim, where not the seed's.
    pub(crate) job: Option<&'static str>,
    pub(crate) victim: Option<u32>,
    /// Slow from its first step on.
    pub(crate) from_start: bool,
    /// What it costs is not the same at all times: what was said last is held to the last steps.
    pub(crate) changes: bool,
    /// In how many collectives the gradients are summed.
    pub(crate) pieces: u64,
    pub(crate) bytes: u64,
    /// Milliseconds that a step computes.
    pub(crate) step_ms: u64,
    /// Ranks, where not the usual.
    pub(crate) ranks: Option<u32>,
}

/// Milliseconds that a step computes.
const STEP_MS: u64 = 40;
/// Parts of a step, each before an all-reduce of the tensor-parallel group.
const LAYERS: u64 = 4;
/// By how much ranks differ anyway.
const SPREAD_PERCENT: u64 = 5;
/// Steps before a fault, at least: enough for two readings of an agent.
const STEPS_BEFORE: u64 = 60;
/// A twin goes on for so long after what looks like a fault: longer than naming may take.
const TWIN_MS: u64 = 16_000;
/// The same of one with small collectives.
const SMALL_TWIN_MS: u64 = 80_000;

impl Slow {
    /// As other jobs, over more hosts: among two, nobody can say which one is the odd one.
    pub(crate) fn shape(&self, seed: u64, ranks: Option<u32>) -> Shape {
        let job = self.job.unwrap_or(["dp", "2d", "3d"][(seed % 3) as usize]);
        let usual = if job == "3d" { 12 } else { 8 };
        let ranks = self.ranks.or(ranks).unwrap_or(usual);
        // A replica of the model, or two, on each.
        Shape {
            job,
            ranks,
            hosts: if ranks < 3 {
                ranks
            } else if ranks.is_multiple_of(8) {
                4
            } else {
                3
            },
        }
    }

    fn twin_ms(&self) -> u64 {
        if self.step_ms < STEP_MS { SMALL_TWIN_MS } else { TWIN_MS }
    }

    /// What the job program is told.
    pub(crate) fn arguments(&self, case: &Case, seed: u64, random: u64, victims: &str) -> Vec<String> {
        let at = if self.from_start { 0 } else { STEPS_BEFORE + random % 30 };
        let steps =
            if case.expected.is_empty() { at + self.twin_ms() / self.step_ms.max(4) } else { 100_000 };
        in_pairs([
            ("--fault", case.fault.to_owned()),
            ("--victim", victims.to_owned()),
            ("--at", at.to_string()),
            ("--steps", steps.to_string()),
            ("--seed", seed.to_string()),
            ("--step-ms", self.step_ms.to_string()),
            ("--layers", LAYERS.to_string()),
            ("--spread-percent", SPREAD_PERCENT.to_string()),
            ("--percent", self.percent.to_string()),
            ("--pause-ms", self.pause_ms.to_string()),
            ("--every", self.every.to_string()),
            ("--pieces", self.pieces.to_string()),
            ("--bytes", self.bytes.to_string()),
        ])
    }
}

const USUAL: Slow = Slow {
    percent: 30,
    pause_ms: 500,
    every: 20,
    job: None,
    victim: None,
    from_start: false,
    changes: false,
    pieces: 1,
    bytes: 262_144,
    step_ms: STEP_MS,
    ranks: None,
};

/// Seconds after the fault for which a trial listens: what is not named by then is missed.
pub(crate) const LISTEN_S: u64 = pace::LIMIT_S as u64 + 15;

/// The fault that needs what not every machine gives.
const CPU_QUOTA: &str = "cpu_quota";

/// Why a case cannot be tried on this machine. `None`: it can.
pub(crate) fn cannot(case: &Case) -> Option<&'static str> {
    let name = format!("ringscope-try-{}", std::process::id());
    let can_limit = || {
        [("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max")].iter().any(
            |(root, limit)| {
                let group = Path::new(root).join(&name);
                let can = fs::create_dir(&group).is_ok() && group.join(limit).exists();
                // Not there, where it could not be made.
                let _ = fs::remove_dir(&group);
                can
            },
        )
    };
    (case.fault == CPU_QUOTA && !can_limit())
        .then_some("it needs root, and cgroups with a limit of processor time")
}

const fn straggles(name: &'static str, kind: &'static str, slow: Slow) -> Case {
    let case = fault(kind, &[ComputeStraggler]);
    Case { within_s: LISTEN_S, slow: Some(slow), ..named(name, case) }
}

const fn looks_slow(name: &'static str, kind: &'static str, slow: Slow) -> Case {
    Case { slow: Some(slow), ..named(name, twin(kind)) }
}

/// Two ranks that do little else than collectives.
const fn small(pieces: u64) -> Slow {
    Slow { job: Some("dp"), ranks: Some(2), from_start: true, pieces, bytes: 262_140, step_ms: 8, ..USUAL }
}

/// What is too small is looked at for so long before it is said.
const SMALL_S: u64 = 90;

const fn percent(percent: u64) -> Slow {
    Slow { percent, ..USUAL }
}

pub(crate) const CASES: [Case; 32] = [
    // Of the whole step, collectives included, this is a tenth.
    straggles("slow_tenth", "slow_steady", percent(15)),
    straggles("slow_third", "slow_steady", percent(40)),
    straggles("slow_double", "slow_steady", percent(100)),
    straggles("slow_from_start", "slow_steady", Slow { from_start: true, ..percent(40) }),
    straggles("slow_busy", "slow_busy", percent(40)),
    straggles("slow_growing", "slow_growing", Slow { changes: true, ..percent(60) }),
    straggles("slow_intermittent", "slow_intermittent", Slow { changes: true, ..percent(150) }),
    straggles("slow_periodic", "slow_periodic", USUAL),
    straggles("slow_periodic_rare", "slow_periodic", Slow { pause_ms: 1_400, every: 50, ..USUAL }),
    straggles("stopped_duty", "stopped_duty", USUAL),
    straggles("cpu_quota", CPU_QUOTA, USUAL),
    by(Guilt::Two, straggles("slow_two", "slow_steady", percent(50))),
    // The delay of one rank is that of its whole tensor-parallel group for the replicas.
    straggles("nested_2d", "slow_steady", Slow { job: Some("2d"), victim: Some(3), ..percent(30) }),
    straggles("nested_3d", "slow_steady", Slow { job: Some("3d"), victim: Some(3), ..percent(30) }),
    by(Guilt::Host, Case { expected: &[SlowHost], ..straggles("slow_host", "slow_steady", percent(30)) }),
    Case { expected: &[UnevenWork], ..straggles("uneven_work", "uneven_work", percent(50)) },
    // Its twin is slow_from_start, which calls what the others call.
    Case {
        expected: &[OtherWork],
        ..straggles("other_role", "other_role", Slow { from_start: true, ..percent(40) })
    },
    Case {
        expected: &[TooSmall],
        within_s: SMALL_S,
        ..by(Guilt::Nobody, straggles("too_small", "small_pieces", small(64)))
    },
    looks_slow("large_enough", "small_pieces", small(1)),
    looks_slow("steady", "none", USUAL),
    looks_slow("uneven_batches", "uneven_batches", USUAL),
    looks_slow("warm_up", "warm_up", USUAL),
    looks_slow("first_steps", "first_steps", USUAL),
    looks_slow("evaluation_phase", "evaluation_phase", Slow { pause_ms: 2_500, ..USUAL }),
    looks_slow("checkpoint_once", "checkpoint", Slow { pause_ms: 2_500, ..USUAL }),
    looks_slow("unequal_stages", "unequal_stages", Slow { job: Some("3d"), ..USUAL }),
    looks_slow("pauses_alike", "pauses", USUAL),
    looks_slow("noisy_neighbour", "noisy_neighbour", USUAL),
    looks_slow("overlapped", "overlapped", USUAL),
    looks_slow("remade", "remade", USUAL),
    looks_slow("elastic_change", "elastic", USUAL),
    looks_slow("short_spell", "short_spell", USUAL),
];
