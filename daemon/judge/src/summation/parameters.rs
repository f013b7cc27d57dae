//! Parameters that are not the same on all workers, as these have found out by comparing hashes.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{FindingKind, Severity, SummationRole as Role, words};
use ringscope_model::summation::{Group, Party, parties};
use ringscope_wire::batch::{SummationComparison, SummationDifference};

use super::super::judgement::{Blame, Judgement};
use super::Subject;
use super::words::rounded;

/// Until a comparison shows that they are the same again, a later group of the session begins from one worker's, or the job was
/// started again. A job may end by it, so it is told for a while after the group's end. Of asynchronous sums parameters differ by design.
pub(super) fn judge(subject: Subject<'_>) -> Option<Judgement> {
    let Subject { group, model, now, .. } = subject;
    let compared = group.comparison()?;
    let difference = compared.difference.as_ref()?;
    let is_asynchronous = group.facts().is_some_and(|facts| facts.asynchronous);
    let is_over = group.ended(model).is_some_and(|ended| now.since(ended) >= TOLD_FOR);
    let goes_on = group.has_successor(model, now) || subject.restarted.is_some();
    if is_asynchronous || is_over || goes_on {
        return None;
    }
    let parties = parties(&difference.hashes);
    let (most, others) = parties.split_first()?;
    if others.is_empty() {
        return None;
    }
    let message = format!(
        "{} (found after {} steps, at {}; {}){}",
        who_has_which(subject, &difference.parameter, most, others),
        difference.steps,
        Timestamp(difference.at_ns),
        since(compared, difference),
        more(compared),
    );
    let (place, cause) = match odd_one(difference, most, others) {
        Some(worker) => (worker, "differs_from_most"),
        None => (0, "no_majority"),
    };
    let kind = FindingKind::SumParametersDiffer;
    let mut judgement = subject.judgement(kind, Severity::Critical, (Role::Worker, place), cause, message);
    if cause == "no_majority" {
        (judgement.host, judgement.rank) = (String::new().into(), None);
    }
    let began_at = Some(Timestamp(difference.at_ns));
    judgement.blame = Blame { advice: ADVICE.to_owned(), began_at, ..Blame::default() };
    Some(judgement)
}

/// Whether workers that end at this time may do so because of a difference: by default the job ends by it.
pub(super) fn may_have_ended(group: &Group, at: Timestamp) -> bool {
    let difference = group.comparison().and_then(|compared| compared.difference.as_ref());
    difference.is_some_and(|difference| {
        let found = Timestamp(difference.at_ns);
        at.since(found).max(found.since(at)) <= ENDS_WITHIN
    })
}

/// The lowest worker that has not what more than half of them have.
fn odd_one(difference: &SummationDifference, most: &Party, others: &[Party]) -> Option<u32> {
    let is_majority = 2 * most.workers.len() > difference.hashes.len();
    others.iter().filter_map(|party| party.workers.first().copied()).min().filter(|_| is_majority)
}

fn who_has_which(subject: Subject<'_>, parameter: &str, most: &Party, others: &[Party]) -> String {
    let n_workers = most.workers.len() + others.iter().map(|party| party.workers.len()).sum::<usize>();
    let who = |party: &Party| subject.who_all(party.workers.iter().copied());
    if 2 * most.workers.len() > n_workers {
        let mut odd: Vec<u32> = others.iter().flat_map(|party| party.workers.iter().copied()).collect();
        odd.sort_unstable();
        let rest = match most.workers.len() {
            1 => "that of the other worker".to_owned(),
            n => format!("that of the other {n} workers"),
        };
        let odd = subject.who_all(odd.into_iter());
        return format!("parameter {parameter} of {odd} is another one than {rest}");
    }
    let others: Vec<String> = others.iter().map(|party| format!("that of {}", who(party))).collect();
    format!(
        "parameter {parameter} of {} is another one than {}: no more than half have the same, so nobody knows whose is right",
        who(most),
        words::list(&others, NAMED),
    )
}

/// In which steps it became so.
fn since(compared: &SummationComparison, difference: &SummationDifference) -> String {
    match compared.equal_steps {
        Some(equal) if difference.steps > equal + 1 => {
            format!("it became so in steps {} to {}", equal + 1, difference.steps)
        }
        Some(_) => format!("it became so in step {}", difference.steps),
        None => "no comparison before it found them the same".to_owned(),
    }
}

fn more(compared: &SummationComparison) -> String {
    match compared.n_different {
        0 | 1 => String::new(),
        n => format!("; at least {} of {} parameters differ in all", rounded(n), compared.n_parameters),
    }
}

/// How long after the end of the group: time for alerts to be seen.
const TOLD_FOR: Duration = Duration::from_secs(600);
/// How long it takes processes to end by an error, and how far clocks of hosts lie apart.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Parties that are named.
const NAMED: usize = 4;

const ADVICE: &str = "Begin again from a checkpoint of before these steps, or give all workers one's by broadcast_parameters; \
                      look for what changes parameters there outside of the optimizer.";
