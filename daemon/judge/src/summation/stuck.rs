//! Rounds that wait for much longer than any did before, and where the waiting begins.
//!
//! Who is waited for may wait itself: a worker that sums for its host has nothing to pass on before the others of its host have
//! come, and what a worker pushes stands behind parts whose rounds wait for somebody else.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ringscope_api::words::{clock, plural};
use ringscope_api::{Detail, FindingKind, RankState, Severity, SummationGroupState, SummationRole as Role};
use ringscope_model::Process;
use ringscope_model::limits::LONG_WAIT;
use ringscope_model::summation::{Member, Place, Wait};
use ringscope_wire::batch::SummationStage;

use super::super::judgement::Judgement;
use super::super::{halted, seen};
use super::Subject;
use super::looks::{in_short, look_of};
use super::words::{STOPPED, advice_to_stuck, at_least};

/// One for each worker with whom waiting begins, with its longest round.
pub(super) fn judge(subject: Subject<'_>) -> Vec<Judgement> {
    let waits = subject.group.all_waits(subject.model, subject.now);
    if waits.iter().all(|wait| wait.age_told <= LONG_WAIT) {
        return Vec::new();
    }
    let waited_for = begins_with(subject, &waits, LONG_WAIT);
    let workers = subject.group.live(subject.model).filter(|((role, _), _)| *role == Role::Worker);
    let n_victims = u32::try_from(workers.count().saturating_sub(waited_for.len())).unwrap_or(u32::MAX);
    waited_for.into_iter().map(|one| one.judgement(subject, n_victims)).collect()
}

/// The same of a group that has ended, or lost somebody, when its rounds had waited for long: who waited has given up, or somebody
/// has ended the job, and what they waited for is the reason.
pub(super) fn until_end(subject: Subject<'_>) -> UntilEnd {
    let Subject { group, model, now, .. } = subject;
    let ended = group.ended(model);
    let waits = group.last_waits(model);
    let is_over = ended.is_some_and(|ended| now.since(ended) >= TOLD_FOR)
        || waits.iter().all(|wait| wait.age_told <= halted::GIVES_UP_AFTER);
    if is_over || group.has_successor(model, now) || subject.restarted.is_some() {
        return UntilEnd::default();
    }
    let waited_for = begins_with(subject, &waits, halted::GIVES_UP_AFTER);
    let is_known = waited_for.iter().any(|one| !one.why.waits);
    let told = waited_for.into_iter().map(|one| {
        let mut judgement = one.judgement(subject, 0);
        if let Some(ended) = ended {
            judgement.message =
                format!("Until its summation ended at {}: {}", clock(ended), judgement.message);
            halted::ADVICE_ENDED.clone_into(&mut judgement.blame.advice);
        }
        judgement
    });
    UntilEnd { told: told.collect(), is_known }
}

/// For whom a group had waited.
#[derive(Default)]
pub(super) struct UntilEnd {
    pub(super) told: Vec<Judgement>,
    /// Whether that is where the waiting begins: they wait for nobody themselves.
    pub(super) is_known: bool,
}

/// The workers with whom rounds begin to wait that have waited for longer than this, and than is usual.
fn begins_with<'w>(subject: Subject<'_>, waits: &'w [Wait<'w>], longer_than: Duration) -> Vec<WaitedFor<'w>> {
    let usual = subject.group.rounds().p99().unwrap_or_default();
    let limit = usual.saturating_mul(TIMES_P99).max(longer_than);
    let within = Within::of(waits);
    let mut told = BTreeSet::new();
    let mut waited_for = Vec::new();
    for wait in waits.iter().filter(|wait| wait.age_told > limit) {
        for worker in within.beginnings(wait) {
            if told.insert(worker) {
                waited_for.push(WaitedFor::of(subject, wait, (Role::Worker, worker)));
            }
        }
    }
    if waited_for.iter().any(|one| !one.why.waits) {
        waited_for.retain(|one| !one.why.waits);
    }
    waited_for.truncate(FINDINGS_MAX);
    waited_for
}

/// Rounds that wait for contributions, by whose service it is, part and round.
struct Within<'w>(HashMap<(Place, u32, u64), Vec<&'w Wait<'w>>>);

impl<'w> Within<'w> {
    fn of(waits: &'w [Wait<'w>]) -> Self {
        let mut within: HashMap<_, Vec<_>> = HashMap::new();
        for wait in waits.iter().filter(|wait| wait.for_push) {
            within.entry((wait.of, wait.key, wait.round)).or_default().push(wait);
        }
        Self(within)
    }

    /// The workers with whom a wait begins: not one that sums for its host, has come itself and waits for others there.
    fn beginnings(&self, wait: &Wait<'_>) -> BTreeSet<u32> {
        let of_host = |worker: u32| {
            let key = ((Role::Worker, worker), wait.key, wait.round);
            let own = self.0.get(&key).filter(|_| wait.for_push).into_iter().flatten();
            own.filter(move |own| !own.workers.contains(&worker)).flat_map(|own| own.workers.iter().copied())
        };
        let beginnings = wait.workers.iter().flat_map(|worker| {
            let others: Vec<u32> = of_host(*worker).collect();
            if others.is_empty() { vec![*worker] } else { others }
        });
        beginnings.collect()
    }
}

/// A worker that a round waits for, and what it does instead.
struct WaitedFor<'w> {
    place: Place,
    wait: &'w Wait<'w>,
    why: Why,
}

/// Why a worker has not done what a round waits for.
struct Why {
    cause: &'static str,
    text: String,
    /// Whether it may be waiting itself: then it is no culprit where another one is.
    waits: bool,
    /// The stage that holds its parts. Empty: none before the sum.
    stage: String,
}

impl Why {
    /// It waits for nobody.
    fn own(cause: &'static str, text: impl Into<String>) -> Self {
        Self { cause, text: text.into(), waits: false, stage: String::new() }
    }
}

impl<'w> WaitedFor<'w> {
    fn of(subject: Subject<'_>, wait: &'w Wait<'w>, place: Place) -> Self {
        let why = stands_still(subject, place).unwrap_or_else(|| {
            if wait.for_push {
                why(subject.group.member(place))
            } else {
                Why::own("not_taken", "it does not read what is sent to it")
            }
        });
        Self { place, wait, why }
    }

    fn judgement(self, subject: Subject<'_>, n_victims: u32) -> Judgement {
        let Self { place, wait, why: Why { cause, text, stage, .. } } = self;
        let who = subject.who(place);
        let what = if wait.for_push {
            format!("the contribution of {who}")
        } else {
            format!("{who} to take its answer")
        };
        let look = look_of(subject, place, wait);
        let doing = match look.and_then(|look| in_short(look, cause)) {
            Some(seen) if cause == STOPPED => format!("{text}, {seen}"),
            Some(seen) => format!("{text}, and is {seen}"),
            None => text,
        };
        let message = format!(
            "round {} of {} (part {}) has waited for {what} for at least {}: {doing}",
            wait.round,
            wait.tensor,
            wait.key,
            at_least(wait.age),
        );
        let kind = FindingKind::SumRoundStuck;
        let mut judgement = subject.judgement(kind, Severity::Critical, place, cause, message);
        judgement.blame.advice = advice_to_stuck(subject, place, (cause, &stage), look);
        judgement.blame.n_victims = n_victims;
        judgement.blame.accused = subject.culprit(place, doing).into_iter().collect();
        let lines = look.map(seen::lines).filter(|lines| !lines.is_empty());
        judgement.blame.details =
            lines.into_iter().map(|lines| Detail { title: who.clone(), lines }).collect();
        judgement
    }
}

/// Why a worker has not pushed, as far as its own words tell.
fn why(member: Option<&Member>) -> Why {
    let stages = member.map(|member| member.told().stages.as_slice()).unwrap_or_default();
    let is_held = |stage: &&SummationStage| stage.waiting_parts + stage.running_parts > 0;
    let waits = stages.iter().any(|stage| is_held(&stage));
    match stages.iter().take_while(|stage| stage.stage != "sum").filter(is_held).last() {
        Some(stage) => {
            let parts =
                plural(usize::try_from(stage.waiting_parts + stage.running_parts).unwrap_or(0), "part");
            let text = format!("it has {parts} in its stage {}", stage.stage);
            Why { cause: "in_pipeline", text, waits, stage: stage.stage.clone() }
        }
        None => Why { waits, ..Why::own("not_submitted", "its program has not submitted it") },
    }
}

/// What became of its process, if it cannot go on.
fn stands_still(subject: Subject<'_>, place: Place) -> Option<Why> {
    let Some(process) = subject.group.process(place, subject.model) else {
        return Some(Why::own("not_heard", "nothing was ever heard of it"));
    };
    let is_over = subject.group.state(subject.model, subject.now) != SummationGroupState::Running;
    match subject.model.rank_state(process, subject.now) {
        // That all are gone by then says nothing of what they did before.
        RankState::Killed | RankState::Exited | RankState::Gone if is_over => stopped(process),
        RankState::Killed => Some(Why::own("process_gone", "its process was killed")),
        RankState::Exited => Some(Why::own("process_gone", exited(process))),
        RankState::Gone => Some(Why::own("process_gone", "its process has ended")),
        RankState::Stale => Some(Why::own("not_heard", "nothing is heard of its host any more")),
        RankState::Running | RankState::Imported => stopped(process),
    }
}

fn exited(process: &Process) -> String {
    match process.exit_status() {
        Some(status) => format!("its process has exited with status {status}"),
        None => "its process has exited".to_owned(),
    }
}

fn stopped(process: &Process) -> Option<Why> {
    let how = halted::stopped(process.activity()?.state)?;
    Some(Why::own(STOPPED, format!("it is {how}")))
}

/// How long after the end of the group it is told.
const TOLD_FOR: Duration = Duration::from_secs(600);
/// So many times what 99 of 100 rounds take.
const TIMES_P99: u32 = 10;
/// Workers of a group that are named; where more are waited for the cause is elsewhere.
const FINDINGS_MAX: usize = 8;
