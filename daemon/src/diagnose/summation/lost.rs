//! A server or a worker was lost, and nothing runs in its place.

use std::time::Duration;

use super::super::judge::Judgement;
use super::Subject;
use crate::api::{FindingKind, Severity, SummationRole as Role};

/// Until a later group of the session runs; where none ever does, until all members have been gone for a while.
pub(super) fn judge(subject: Subject<'_>) -> Option<Judgement> {
    let Subject { group, model, now } = subject;
    let lost = group.lost(model, now)?;
    let is_over = group.ended(model).is_some_and(|ended| now.since(ended) >= TOLD_FOR);
    if is_over || group.has_successor(model, now) {
        return None;
    }
    let (cause, effect) = match lost.place.0 {
        Role::Server => ("server_lost", "what it owned has no service until the session goes on without it"),
        Role::Worker => ("worker_lost", "no round gets its gradients until the session goes on without it"),
    };
    let message = format!("{} was lost at {}: {}; {effect}", subject.who(lost.place), lost.since, lost.why);
    Some(subject.judgement(FindingKind::SumServerLost, Severity::Critical, lost.place, cause, message))
}

/// How long the loss that ended a whole job is told of: time for alerts to be seen.
const TOLD_FOR: Duration = Duration::from_secs(600);
