//! A server or a worker was lost.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{self, clock};
use ringscope_api::{FindingKind, Severity, SummationRole as Role};
use ringscope_model::summation::Lost;
use ringscope_model::{Process, ProcessState};

use super::super::judgement::Judgement;
use super::stuck::UntilEnd;
use super::{Subject, parameters};

/// Until a later group of the session runs, or the job was started again, and long enough to be seen where one does at once;
/// where none ever does, until all members have been gone for a while.
pub(super) fn judge(subject: Subject<'_>, waited_for: &UntilEnd) -> Option<Judgement> {
    let Subject { group, model, now, .. } = subject;
    let lost = group.lost(model, now)?;
    if !is_cause(subject, &lost, waited_for) {
        return None;
    }
    let after = After::of(subject);
    let is_over = match after {
        After::GoesOn => now.since(lost.since) >= MENDED_TOLD_FOR,
        After::Restarted(at) => now.since(at) >= MENDED_TOLD_FOR,
        After::Stands => group.ended(model).is_some_and(|ended| now.since(ended) >= TOLD_FOR),
    };
    if is_over {
        return None;
    }
    let (kind, cause) = match lost.place.0 {
        Role::Server => (FindingKind::SumServerLost, "server_lost"),
        Role::Worker if parameters::may_have_ended(group, lost.since) => {
            (FindingKind::RankDead, AFTER_DIFFERENCE)
        }
        Role::Worker => (FindingKind::RankDead, "worker_lost"),
    };
    let how = how(subject, &lost, cause);
    let message = format!("{}; {}", what(subject, &lost, how), after.words(lost.place.0));
    let mut judgement = subject.judgement(kind, after.severity(), lost.place, cause, message);
    judgement.blame.began_at = Some(lost.since);
    judgement.blame.advice = advice(subject, &lost, after);
    judgement.blame.accused = subject.culprit(lost.place, doing(&lost, how)).into_iter().collect();
    Some(judgement)
}

/// Whether a loss is more than how a job ends of which rounds had waited for somebody else for long: then workers give up, and
/// somebody ends the job.
fn is_cause(subject: Subject<'_>, lost: &Lost, waited_for: &UntilEnd) -> bool {
    let Subject { group, model, now, .. } = subject;
    // Whom its launch has ended is gone because of somebody else.
    if group.process(lost.place, model).is_some_and(|process| process.exit().told.is_some()) {
        return false;
    }
    let is_waited_for = |rank: u32| waited_for.told.iter().any(|one| one.rank == Some(rank));
    if !waited_for.is_known || is_waited_for(lost.rank) {
        return true;
    }
    let is_server = lost.place.0 == Role::Server;
    let process = group.process(lost.place, model);
    now.since(lost.since) >= END_SETTLES
        && match process.map(|process| (process.state(), process.exit_status())) {
            Some((ProcessState::Killed, _)) => {
                let others = group.members().filter(|(place, _)| !is_waited_for(group.rank(*place)));
                let mut others = others.map(|(place, _)| group.process(place, model));
                !others.all(|other| other.zip(process).is_some_and(|(other, lost)| killed_with(other, lost)))
            }
            Some((ProcessState::Exited, Some(0))) => is_server && group.ended(model).is_none(),
            _ => is_server,
        }
}

/// Whether somebody seems to have killed both at once.
fn killed_with(other: &Process, lost: &Process) -> bool {
    let apart = other.ended().zip(lost.ended()).map(|(one, other)| one.since(other).max(other.since(one)));
    matches!(other.state(), ProcessState::Killed | ProcessState::Gone)
        && apart.is_some_and(|apart| apart <= END_SETTLES)
}

/// What came after a loss.
#[derive(Clone, Copy)]
enum After {
    /// Nothing so far: the others cannot go on.
    Stands,
    /// A later group of the session, without who was lost.
    GoesOn,
    /// Another session of the same ranks in newer processes, which began then: the loss is history.
    Restarted(Timestamp),
}

impl After {
    fn of(subject: Subject<'_>) -> Self {
        let Subject { group, model, now, .. } = subject;
        match subject.restarted {
            Some(at) => Self::Restarted(at),
            None if group.has_successor(model, now) => Self::GoesOn,
            None => Self::Stands,
        }
    }

    fn severity(self) -> Severity {
        match self {
            Self::Stands => Severity::Critical,
            Self::GoesOn => Severity::Warning,
            Self::Restarted(_) => Severity::Info,
        }
    }

    fn words(self, role: Role) -> String {
        match (self, role) {
            (Self::Stands, Role::Worker) => "the others cannot go on".to_owned(),
            (Self::Stands, Role::Server) => {
                "what it owned has no service until the session goes on without it".to_owned()
            }
            (Self::GoesOn, _) => "the session goes on without it".to_owned(),
            (Self::Restarted(at), _) => format!("the job was started again at {}", clock(at)),
        }
    }
}

/// Who was lost, when and how.
fn what(subject: Subject<'_>, lost: &Lost, how: How) -> String {
    let (who, at) = (words::capital(&subject.who(lost.place)), clock(lost.since));
    match how {
        How::Killed => format!("{who} was killed or has crashed at {at}"),
        How::Differed => format!("{who} ended at {at}, after it had found that parameters differ"),
        How::Exited(status) => format!("{who} exited with status {status} at {at}"),
        How::Left if lost.place.0 == Role::Worker => format!("{who} left the job at {at} without saying why"),
        How::Left => format!("{who} was lost at {at}: its connection was closed"),
        How::Silent => format!("{who} was lost at {at}: {}", lost.why),
    }
}

/// The same as something that can follow its name.
fn doing(lost: &Lost, how: How) -> String {
    match how {
        How::Killed => "was killed or has crashed".to_owned(),
        How::Differed => "has ended after it had found that parameters differ".to_owned(),
        How::Exited(status) => format!("has exited with status {status}"),
        How::Left => "has left without saying why".to_owned(),
        How::Silent => format!("was lost: {}", lost.why),
    }
}

/// How a member went.
#[derive(Clone, Copy)]
enum How {
    /// Its process ended without a word of its own.
    Killed,
    /// By the error that parameters differ.
    Differed,
    /// By itself.
    Exited(u8),
    /// Its connections were closed, as the kernel does when a process ends.
    Left,
    /// By what the others say.
    Silent,
}

fn how(subject: Subject<'_>, lost: &Lost, cause: &str) -> How {
    let process = subject.group.process(lost.place, subject.model);
    match process.map(|process| (process.state(), process.exit_status())) {
        Some((ProcessState::Killed, _)) => How::Killed,
        Some((ProcessState::Exited, _)) if cause == AFTER_DIFFERENCE => How::Differed,
        Some((ProcessState::Exited, Some(status))) => How::Exited(status),
        _ if lost.why.ends_with(CLOSED) && cause == AFTER_DIFFERENCE => How::Differed,
        _ if lost.why.ends_with(CLOSED) => How::Left,
        _ => How::Silent,
    }
}

fn advice(subject: Subject<'_>, lost: &Lost, after: After) -> String {
    let host = match subject.group.host(lost.place, subject.model) {
        "" => "its host",
        host => host,
    };
    match (after, lost.place.0) {
        (After::Restarted(_), _) => "Nothing is to be done: the job was started again.".to_owned(),
        (_, Role::Worker) => format!(
            "Look at what it wrote last; `ringscope launch` prints it. If it wrote nothing, look at the kernel's log of {host} \
             (out of memory, Xid)."
        ),
        (_, Role::Server) => format!(
            "See on {host} whether it still runs, and what it wrote last (`journalctl -u ringscope-sumd`, or what \
             `ringscope launch` prints of it)."
        ),
    }
}

/// Cause of the loss of a worker that had just found other parameters than its own: it ends by that, unless it is told to go on.
pub(crate) const AFTER_DIFFERENCE: &str = "parameters_differ";
/// What the engine says where a peer's end was all that it saw.
const CLOSED: &str = "closed the connection";
/// A job that somebody ends goes process by process, on hosts that tell of it one after the other.
const END_SETTLES: Duration = Duration::from_secs(3);
/// How long the loss that ended a whole job is told of: time for alerts to be seen.
const TOLD_FOR: Duration = Duration::from_secs(600);
/// How long at least a loss is told of though the job goes on, which takes it less than a second: Prometheus looks twice.
const MENDED_TOLD_FOR: Duration = Duration::from_secs(30);
