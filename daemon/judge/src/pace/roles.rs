//! Whether a rank does other work than those that it is compared with: a learner, an evaluator, one that holds the parameters, a stage of a
//! pipeline. Only its program and its calls tell: one that is slow from its first step on computes for longer as well. A role is so from
//! the first step on, so who was as fast as the others once has none. Pure.

use std::collections::BTreeSet;

use ringscope_api::words::list;
use ringscope_model::{Process, real};
use ringscope_wire::Primitive;

use super::measured::FIRST_STEPS;
use super::scene::Rank;

/// Since when somebody takes longer than its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// The first steps of the job.
    Start,
    /// It was as fast as they are before.
    Later,
    /// As far back as is known; what was before that nobody has seen.
    Unknown,
}

/// What those have in common that a rank is compared with.
pub(super) struct Usual<'m> {
    programs: BTreeSet<&'m str>,
    /// What any of them calls, and what all of them call.
    called: BTreeSet<Primitive>,
    called_by_all: BTreeSet<Primitive>,
    operations: f64,
    bytes: f64,
}

impl<'m> Usual<'m> {
    /// `rates`: operations and bytes per second that are usual.
    pub(super) fn of(others: impl Iterator<Item = &'m Process>, (operations, bytes): (f64, f64)) -> Self {
        let (mut programs, mut called) = (BTreeSet::new(), BTreeSet::new());
        let mut called_by_all: Option<BTreeSet<Primitive>> = None;
        for process in others {
            programs.extend(program(process));
            let calls = calls(process);
            called_by_all = Some(
                called_by_all
                    .map_or_else(|| calls.clone(), |all| all.intersection(&calls).copied().collect()),
            );
            called.extend(calls);
        }
        Self { programs, called, called_by_all: called_by_all.unwrap_or_default(), operations, bytes }
    }

    /// What a rank does other than all of them, in words that follow its name. `None`: nothing that shows.
    pub(super) fn differs(&self, rank: &Rank<'_>) -> Option<String> {
        let program = program(rank.process)
            .filter(|program| !self.programs.is_empty() && !self.programs.contains(program));
        if let Some(program) = program {
            return Some(format!(
                "it runs {program}, they run {}",
                list(self.programs.iter().copied().collect::<Vec<_>>(), NAMED)
            ));
        }
        let its = calls(rank.process);
        let names = |calls: Vec<&Primitive>| {
            list(calls.into_iter().map(|primitive| primitive.label()).collect::<Vec<_>>(), NAMED)
        };
        let more = names(its.difference(&self.called).collect());
        if !more.is_empty() && !self.called.is_empty() {
            return Some(format!("it calls {more}, they do not"));
        }
        let less = names(self.called_by_all.difference(&its).collect());
        if !less.is_empty() && !its.is_empty() {
            return Some(format!("they call {less}, it does not"));
        }
        let (operations, bytes) = (rank.measured.operations, rank.measured.bytes);
        let share = [(operations, self.operations), (bytes, self.bytes)]
            .into_iter()
            .filter(|(_, usual)| *usual > 0.0)
            .map(|(own, usual)| own / usual)
            .fold(1.0, f64::min);
        (share <= MUCH_LESS)
            .then(|| format!("it is asked for {:.0} % fewer calls or bytes than they", (1.0 - share) * 100.0))
    }
}

/// Since when, of a rank that takes `excess` longer now, as a share of the time; `before` is by how much it did earlier, as far as is
/// known: of late, and in its first seconds.
pub(super) fn since(rank: &Rank<'_>, excess: f64, before: [Option<f64>; 2]) -> Since {
    if before.into_iter().flatten().any(|before| before < excess / 3.0) {
        return Since::Later;
    }
    let measured = &rank.measured;
    let calls: u64 = rank.process.locals().map(|(_, local)| all_calls(local)).sum();
    let first_steps = FIRST_STEPS.saturating_mul(measured.operations_per_step);
    let is_whole = measured.n_known > 0 && calls.saturating_sub(measured.n_known) <= first_steps;
    if is_whole { Since::Start } else { Since::Unknown }
}

fn program(process: &Process) -> Option<&str> {
    // Where it lies may differ from host to host; whether its file was replaced since, and which version of an interpreter it is, too.
    let name = process.identity()?.executable.rsplit('/').next()?;
    let name = name.strip_suffix(REPLACED).unwrap_or(name);
    let bare = name.trim_end_matches(|end: char| end.is_ascii_digit() || end == '.');
    let name = if INTERPRETERS.contains(&bare) { bare } else { name };
    Some(name).filter(|name| !name.is_empty())
}

/// What it calls again and again.
fn calls(process: &Process) -> BTreeSet<Primitive> {
    let all: u64 = process.locals().map(|(_, local)| all_calls(local)).sum();
    let counters = process.locals().flat_map(|(_, local)| local.counters().iter());
    let often = counters.filter(|(_, counted)| real(counted.totals().issued_calls) >= SELDOM * real(all));
    often.map(|(primitive, _)| primitive).collect()
}

fn all_calls(local: &ringscope_model::Local) -> u64 {
    local.counters().values().map(|counted| counted.totals().issued_calls).sum()
}

/// What the kernel adds to the name of a program whose file is there no more.
const REPLACED: &str = " (deleted)";
/// What a program is that is run by one of these its name does not say.
const INTERPRETERS: [&str; 2] = ["python", "pypy"];
/// Programs and primitives that are named.
const NAMED: usize = 3;
/// Of all its calls: what is called less often is no part of a step.
const SELDOM: f64 = 0.02;
/// A rank that is asked for no more than this share of what its like are does other work.
const MUCH_LESS: f64 = 0.7;
