//! Errors that the library gave. Of those that differ, "remote error" is what the others' neighbours say: who says
//! something else is nearer to the cause.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::words::plural;
use ringscope_api::{Detail, FindingKind, Severity};
use ringscope_model::IN_PROGRESS;

use super::case::Case;
use super::scene::{CommError, Life, Member, MemberState, Operation};
use super::sight::Sight;
use super::words;

/// One judgement for each communicator that is in use and has an error.
pub(super) fn judge(case: &mut Case<'_, '_, '_>) {
    let sight = case.sight;
    for (communicator, index) in sight.scene.communicators.iter().zip(0_u32..) {
        let failed =
            |member: &&Member<'_>| holds(sight, member) && sight.process(member.process).life != Life::Exited;
        let told: Vec<&Member<'_>> = communicator.members.iter().filter(failed).collect();
        // Who has destroyed it in good order has got over it.
        if told.is_empty() || communicator.members.iter().all(|member| member.state == MemberState::Destroyed)
        {
            continue;
        }
        let when = |member: &&&Member<'_>| {
            let error = member.error.as_ref();
            let at = error.and_then(|error| error.at).map(|at| sight.process(member.process).ours(at));
            (error.is_some_and(|error| error.code == REMOTE), at.is_none(), at, member.rank)
        };
        let Some((first, error)) =
            told.iter().min_by_key(when).and_then(|member| Some((*member, member.error.as_ref()?)))
        else {
            continue;
        };
        // What neighbours say of one that is gone; who that is is known a moment later.
        let age = error.at.map(|at| sight.process(first.process).age(at, sight.scene.now));
        if error.code == REMOTE && age.is_some_and(|age| age < REMOTE_TOLD) {
            continue;
        }
        let mut judgement = case.blank(FindingKind::AsyncError, Some(index));
        judgement.began_at = error.at.map(|at| sight.process(first.process).ours(at));
        judgement.cause = word(error.code);
        judgement.key = "error".to_owned();
        judgement.severity = severity(sight, first, error);
        let doing = format!("got {} from {}", name(error.code), function(error));
        case.accuse(&mut judgement, &[(first.process, Some(first.rank), doing.clone())]);
        let victims = told.iter().map(|member| member.process).filter(|process| *process != first.process);
        judgement.victims = victims.collect();
        judgement.victims.sort_unstable();
        judgement.victims.dedup();
        let at = judgement.began_at.map(|at| format!(" at {}", words::clock(at))).unwrap_or_default();
        let others = match told.len() - 1 {
            0 => String::new(),
            n => format!("; {} said so as well", plural(n, "other rank")),
        };
        judgement.message = format!(
            "{} {doing}{at} in {}{others}",
            words::who(sight, first.process, Some(first.rank)),
            words::comm(communicator)
        );
        judgement.advice = advice(error.code).to_owned();
        judgement.details.push(by_code(&told));
        case.warnings(index, &mut judgement);
        case.tell(judgement, true);
    }
}

/// Whether what the library said last of a rank is an error that still holds. A call that it refused harms no other one: that
/// is over once a later one has completed.
pub(super) fn holds(sight: &Sight<'_, '_>, member: &Member<'_>) -> bool {
    let Some(error) = &member.error else { return false };
    let is_later = |last: &Operation| {
        let is_known = sight.process(member.process).life != Life::Imported;
        is_known && error.at.is_some_and(|at| last.issued_at > at)
    };
    let is_over = is_refusal(error) && member.last_completed.as_ref().is_some_and(is_later);
    error.code != IN_PROGRESS && error.code != SUCCESS && !is_over
}

/// A refused call is critical only where nothing has completed for long: the program may have handled it.
fn severity(sight: &Sight<'_, '_>, member: &Member<'_>, error: &CommError<'_>) -> Severity {
    let process = sight.process(member.process);
    let last_end = member.last_completed.as_ref().and_then(|last| last.completed_at);
    let goes_on = error.at.is_some_and(|at| {
        let since = last_end.map_or(at, |end| end.max(at));
        process.life == Life::Running && sight.proven(process, since) < sight.settings.wait_critical_least
    });
    if is_refusal(error) && goes_on { Severity::Warning } else { Severity::Critical }
}

/// Whether the library refused one call (`ncclInvalidArgument`, `ncclInvalidUsage`) and does its work.
fn is_refusal(error: &CommError<'_>) -> bool {
    matches!(error.code, 4 | 5)
}

fn by_code(told: &[&Member<'_>]) -> Detail {
    let mut ranks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for member in told {
        ranks.entry(member.error.as_ref().map_or(0, |error| error.code)).or_default().push(member.rank);
    }
    let lines = ranks.iter().map(|(code, ranks)| format!("{}: {}", name(*code), words::ranks(ranks)));
    Detail { title: "Who got what".to_owned(), lines: lines.collect() }
}

fn function<'e>(error: &'e CommError<'_>) -> &'e str {
    if error.function.is_empty() { "the library" } else { &error.function }
}

/// Source: `ncclResult_t`.
fn name(code: u32) -> String {
    let name = match code {
        1 => "ncclUnhandledCudaError",
        2 => "ncclSystemError",
        3 => "ncclInternalError",
        4 => "ncclInvalidArgument",
        5 => "ncclInvalidUsage",
        REMOTE => "ncclRemoteError",
        8 => "ncclTimeout",
        other => return format!("result {other}"),
    };
    name.to_owned()
}

fn word(code: u32) -> &'static str {
    match code {
        1 => "cuda_error",
        2 => "system_error",
        3 => "internal_error",
        4 => "invalid_argument",
        5 => "invalid_usage",
        REMOTE => "remote_error",
        8 => "timeout",
        _ => "error",
    }
}

fn advice(code: u32) -> &'static str {
    match code {
        1 => "A CUDA call failed: see this rank's output, and the kernel's log of its host for Xid.",
        2 => {
            "A system call failed: a connection, a limit (ulimit, shm) or a device; the WARN lines beside it say which."
        }
        4 | 5 => "The program calls the library wrongly: the WARN lines beside it say how.",
        REMOTE => {
            "Another process ended or failed: look for the rank that says something else, or that is gone."
        }
        _ => "See the library's WARN lines of this rank.",
    }
}

const SUCCESS: u32 = 0;

/// `ncclRemoteError`: a peer is gone, or its connection.
pub(super) const REMOTE: u32 = 6;
/// A remote error alone is told from this age on: its cause is named sooner.
const REMOTE_TOLD: Duration = Duration::from_secs(6);
