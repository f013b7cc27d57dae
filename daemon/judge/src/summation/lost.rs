//! A server or a worker was lost.

use std::time::Duration;

use ringscope_api::{FindingKind, Severity, SummationRole as Role};

use super::super::judgement::Judgement;
use super::{Subject, parameters};

/// Until a later group of the session runs, and long enough to be seen where one does at once; where none ever does, until all
/// members have been gone for a while.
pub(super) fn judge(subject: Subject<'_>) -> Option<Judgement> {
    let Subject { group, model, now } = subject;
    let lost = group.lost(model, now)?;
    let (goes_on, age) = (group.has_successor(model, now), now.since(lost.since));
    let is_over = group.ended(model).is_some_and(|ended| now.since(ended) >= TOLD_FOR);
    if is_over || goes_on && age >= MENDED_TOLD_FOR {
        return None;
    }
    let (cause, effect) = match lost.place.0 {
        Role::Server => ("server_lost", "what it owned has no service until the session goes on without it"),
        Role::Worker => ("worker_lost", "no round gets its gradients until the session goes on without it"),
    };
    let cause = if lost.place.0 == Role::Worker && parameters::may_have_ended(group, lost.since) {
        AFTER_DIFFERENCE
    } else {
        cause
    };
    let (severity, effect) = if goes_on {
        (Severity::Warning, "the session goes on without it")
    } else {
        (Severity::Critical, effect)
    };
    let message = format!("{} was lost at {}: {}; {effect}", subject.who(lost.place), lost.since, lost.why);
    Some(subject.judgement(FindingKind::SumServerLost, severity, lost.place, cause, message))
}

/// Cause of the loss of a worker that had just found other parameters than its own: it ends by that, unless it is told to go on.
pub(crate) const AFTER_DIFFERENCE: &str = "parameters_differ";
/// How long the loss that ended a whole job is told of: time for alerts to be seen.
const TOLD_FOR: Duration = Duration::from_secs(600);
/// How long at least a loss is told of though the session goes on, which takes it less than a second: Prometheus looks twice.
const MENDED_TOLD_FOR: Duration = Duration::from_secs(30);
