//! Rounds that wait for much longer than any did before, and for whom.

use std::collections::BTreeSet;

use ringscope_api::words::plural;
use ringscope_api::{FindingKind, RankState, Severity, SummationRole as Role};
use ringscope_model::limits::LONG_WAIT;
use ringscope_model::summation::{Place, Wait};

use super::super::judgement::Judgement;
use super::Subject;
use super::words::at_least;

/// One for each worker that is waited for, with its longest round.
pub(super) fn judge(subject: Subject<'_>) -> Vec<Judgement> {
    let Subject { group, model, now } = subject;
    let waits = group.waits(model, now);
    if waits.iter().all(|wait| wait.age_told <= LONG_WAIT) {
        return Vec::new();
    }
    let limit = group.rounds().p99().unwrap_or_default().saturating_mul(TIMES_P99).max(LONG_WAIT);
    let mut told = BTreeSet::new();
    let mut judgements = Vec::new();
    for wait in waits.iter().filter(|wait| wait.age_told > limit) {
        for worker in wait.workers {
            if told.len() < FINDINGS_MAX && told.insert(*worker) {
                judgements.push(judgement(subject, wait, (Role::Worker, *worker)));
            }
        }
    }
    judgements
}

fn judgement(subject: Subject<'_>, wait: &Wait<'_>, place: Place) -> Judgement {
    let (cause, why) = if wait.for_push { why(subject, place) } else { not_taken(subject, place) };
    let who = subject.who(place);
    let what = if wait.for_push {
        format!("the contribution of {who}")
    } else {
        format!("{who} to take its answer")
    };
    let message = format!(
        "round {} of {} (part {}) has waited for {what} for at least {}: {why}",
        wait.round,
        wait.tensor,
        wait.key,
        at_least(wait.age),
    );
    subject.judgement(FindingKind::SumRoundStuck, Severity::Critical, place, cause, message)
}

/// Why a worker has not pushed, as far as its own words tell.
fn why(subject: Subject<'_>, place: Place) -> (&'static str, String) {
    if let Some(gone) = gone(subject, place) {
        return gone;
    }
    let stages =
        subject.group.member(place).map(|member| member.told().stages.as_slice()).unwrap_or_default();
    let before_sum = stages.iter().take_while(|stage| stage.stage != "sum");
    let held = before_sum.filter(|stage| stage.waiting_parts + stage.running_parts > 0);
    match held.last() {
        Some(stage) => {
            let parts =
                plural(usize::try_from(stage.waiting_parts + stage.running_parts).unwrap_or(0), "part");
            ("in_pipeline", format!("it has {parts} in its stage {}", stage.stage))
        }
        None => ("not_submitted", "its program has not submitted it".to_owned()),
    }
}

fn not_taken(subject: Subject<'_>, place: Place) -> (&'static str, String) {
    gone(subject, place).unwrap_or_else(|| ("not_taken", "it does not read what is sent to it".to_owned()))
}

/// What became of its process, if it cannot go on.
fn gone(subject: Subject<'_>, place: Place) -> Option<(&'static str, String)> {
    let Some(process) = subject.group.process(place, subject.model) else {
        return Some(("not_heard", "nothing was ever heard of it".to_owned()));
    };
    match subject.model.rank_state(process, subject.now) {
        RankState::Killed => Some(("process_gone", "its process was killed".to_owned())),
        RankState::Exited => Some(("process_gone", "its process has exited".to_owned())),
        RankState::Gone => Some(("process_gone", "its process has ended".to_owned())),
        RankState::Stale => Some(("not_heard", "nothing is heard of its host any more".to_owned())),
        RankState::Running | RankState::Imported => None,
    }
}

/// So many times what 99 of 100 rounds take.
const TIMES_P99: u32 = 10;
/// Workers of a group that are named; where more are waited for the cause is elsewhere.
const FINDINGS_MAX: usize = 8;
