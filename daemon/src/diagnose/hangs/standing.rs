//! How each process, communicator and the job stand. Green needs evidence: something completed, or nothing was asked
//! for, and somebody would have told otherwise.

use std::borrow::Cow;

use super::places;
use super::scene::{Collector, Life, Member, MemberState, NUMBERED, OperationState};
use super::sight::{Blind, Sight, is_over, lives};
use super::verdict::{Found, Stand, Verdict};
use crate::api::{Condition, FindingKind, Severity};
use crate::words::{other_segment_version, plural};

/// Says how everything stands, by what was found.
pub(super) fn fill(sight: &Sight<'_, '_>, verdict: &mut Verdict, found: &[Found]) {
    let n_processes = u32::try_from(sight.scene.processes.len()).unwrap_or(u32::MAX);
    let members: Vec<Vec<Stand>> = sight
        .scene
        .communicators
        .iter()
        .map(|of| of.members.iter().map(|member| part(sight, member)).collect())
        .collect();
    verdict.processes = (0..n_processes).map(|process| of_process(sight, process, &members)).collect();
    verdict.communicators =
        (0_u32..).zip(&members).map(|(index, members)| of_communicator(sight, index, members)).collect();
    for found in found {
        let judgement = &found.judgement;
        let Some(condition) = condition(judgement.kind, judgement.severity) else { continue };
        let reason = || Cow::Owned(judgement.message.clone());
        let worse = |stand: Option<&mut Stand>, condition: Condition| {
            if let Some(stand) = stand
                && stand.condition < condition
            {
                *stand = Stand { condition, reason: reason() };
            }
        };
        if let Some(communicator) = judgement.communicator
            && judgement.kind != FindingKind::KernelFault
        {
            worse(verdict.communicators.get_mut(communicator as usize), condition);
        }
        // Of whom nobody knows, nobody knows: an accusation would need more.
        let is_known = |process: &&u32| {
            judgement.kind != FindingKind::Waiting || sight.blind(sight.process(**process)).is_none()
        };
        for process in judgement.culprits.iter().filter(is_known) {
            worse(verdict.processes.get_mut(*process as usize), condition);
        }
        for process in &judgement.victims {
            let hung = condition.min(Condition::Hung);
            worse(verdict.processes.get_mut(*process as usize), hung);
            for (communicator, _) in waits_in(sight, *process) {
                worse(verdict.communicators.get_mut(communicator as usize), hung);
            }
        }
    }
    verdict.job = of_job(sight, verdict);
}

/// Communicators in which a process has something open.
fn waits_in<'x>(sight: &'x Sight<'_, '_>, process: u32) -> impl Iterator<Item = (u32, u32)> + 'x {
    let parts = sight.parts(process).iter().copied();
    parts.filter(|(communicator, place)| !sight.member(*communicator, *place).open.is_empty())
}

fn condition(kind: FindingKind, severity: Severity) -> Option<Condition> {
    match (kind, severity) {
        (FindingKind::RankDead | FindingKind::AsyncError | FindingKind::CallMismatch, _) => {
            Some(Condition::Failed)
        }
        (FindingKind::KernelFault, Severity::Critical) => Some(Condition::Failed),
        (FindingKind::KernelFault, _) => Some(Condition::Degraded),
        (_, Severity::Critical) => Some(Condition::Hung),
        (_, Severity::Warning) => Some(Condition::Degraded),
        (_, Severity::Info) => None,
    }
}

/// One rank's part of a communicator, by itself.
fn part(sight: &Sight<'_, '_>, member: &Member<'_>) -> Stand {
    let process = sight.process(member.process);
    if is_over(member.state) {
        return match member.state {
            MemberState::Destroyed => stand(Condition::Healthy, "it was destroyed in good order"),
            MemberState::Aborted => stand(Condition::Failed, "it was aborted"),
            _ => stand(Condition::Failed, "its init failed"),
        };
    }
    if let Some(blind) = sight.blind(process) {
        return unknown(blind);
    }
    if process.life == Life::Killed {
        return stand(Condition::Failed, "the process was killed or has crashed");
    }
    if member.state == MemberState::Forming {
        return stand(Condition::Unknown, "its init has not returned yet");
    }
    if process.segment_version < NUMBERED && process.life == Life::Running {
        return stand(
            Condition::Unknown,
            "its collector is too old to number calls: start it again under this version of ringscope",
        );
    }
    if !member.completion_known {
        let idle = member.calls.is_some_and(|calls| calls.made == 0);
        return match idle {
            true => stand(Condition::Healthy, "nothing was asked for"),
            false => stand(
                Condition::Unknown,
                "nothing tells when its calls end: the library's profiler or CUDA events would",
            ),
        };
    }
    let oldest = member.open.iter().find(|operation| operation.state != OperationState::Queued);
    match oldest {
        Some(_) if process.life == Life::Imported => {
            stand(Condition::Unknown, "a call was open when its file ended, and nothing tells how it went on")
        }
        Some(oldest) if sight.proven(process, oldest.issued_at.max(last_end(member))) > STALE => {
            stand(Condition::Unknown, "a call has been open for a while; nothing is known to be wrong")
        }
        _ if member.last_completed.is_some() => stand(Condition::Healthy, "its calls complete"),
        Some(_) => stand(Condition::Unknown, "its first call has not completed yet"),
        None => stand(Condition::Healthy, "nothing was asked for"),
    }
}

fn last_end(member: &Member<'_>) -> crate::clock::Timestamp {
    member.last_completed.and_then(|last| last.completed_at).unwrap_or_default()
}

fn of_process(sight: &Sight<'_, '_>, index: u32, members: &[Vec<Stand>]) -> Stand {
    let process = sight.process(index);
    match process.life {
        Life::Exited => return stand(Condition::Healthy, "it has exited"),
        Life::Killed => return stand(Condition::Failed, "it was killed or has crashed"),
        Life::Running | Life::Imported => {}
    }
    if process.collector == Collector::Absent && process.segment_version != 0 {
        let reason = Cow::Owned(other_segment_version(process.segment_version));
        return Stand { condition: Condition::Unknown, reason };
    }
    if let Some(blind) = sight.blind(process) {
        return unknown(blind);
    }
    let live = sight.parts(index).iter().filter(|(of, place)| !is_over(sight.member(*of, *place).state));
    let stands = live.map(|(of, place)| &members[*of as usize][*place as usize]);
    match stands.max_by_key(|stand| stand.condition) {
        Some(worst) => worst.clone(),
        None if !process.calls_seen => stand(
            Condition::Unknown,
            "no call of NCCL so far: it may still be starting, or use another library",
        ),
        None if !process.open_calls.is_empty() => stand(Condition::Unknown, "it is in its first call"),
        None => stand(Condition::Healthy, "it is in no communicator"),
    }
}

fn of_communicator(sight: &Sight<'_, '_>, index: u32, members: &[Stand]) -> Stand {
    let of = sight.communicator(index);
    let live = || of.members.iter().zip(members).filter(|(member, _)| !is_over(member.state));
    if live().count() == 0 {
        let worst = members.iter().max_by_key(|stand| stand.condition);
        return worst.cloned().unwrap_or_default();
    }
    if of.members.len() < of.n_ranks as usize {
        let unseen = of.n_ranks as usize - of.members.len();
        return Stand {
            condition: Condition::Unknown,
            reason: Cow::Owned(format!(
                "{} of {} are not seen: start all under `ringscope run`, with an agent on each host",
                plural(unseen, "rank"),
                of.n_ranks
            )),
        };
    }
    let leaving = |member: &Member<'_>| places::leaving(sight.process(member.process), index).is_some();
    let worst = live()
        .filter(|(member, _)| !leaving(member))
        .map(|(_, stand)| stand)
        .max_by_key(|stand| stand.condition);
    worst.cloned().unwrap_or_else(|| stand(Condition::Healthy, "it is being destroyed"))
}

fn of_job(sight: &Sight<'_, '_>, verdict: &Verdict) -> Stand {
    let running = (0_usize..).zip(&sight.scene.processes).filter(|(_, process)| lives(process.life));
    let processes = running.filter_map(|(index, _)| verdict.processes.get(index));
    let live = (0_usize..).zip(&sight.scene.communicators).filter(|(_, of)| {
        of.members.iter().any(|member| !is_over(member.state) && lives(sight.process(member.process).life))
    });
    let communicators = live.filter_map(|(index, _)| verdict.communicators.get(index));
    let worst = processes.chain(communicators).max_by_key(|stand| stand.condition);
    let found = verdict.judgements.first().filter(|worst| worst.severity == Severity::Critical);
    match (worst, found) {
        (Some(worst), Some(found)) if worst.condition >= Condition::Hung => {
            Stand { condition: worst.condition, reason: Cow::Owned(found.message.clone()) }
        }
        (Some(worst), _) if worst.condition == Condition::Healthy => {
            stand(Condition::Healthy, "all ranks' calls complete, or nothing was asked for")
        }
        (Some(worst), _) => worst.clone(),
        (None, Some(found)) => {
            Stand { condition: Condition::Failed, reason: Cow::Owned(found.message.clone()) }
        }
        (None, None) => stand(Condition::Healthy, "all its processes have ended"),
    }
}

fn unknown(blind: Blind) -> Stand {
    stand(
        Condition::Unknown,
        match blind {
            Blind::Unheard => "its agent is not heard: see whether the host answers and the agent runs",
            Blind::NotWatched => "its calls are not recorded: the collector is off or absent",
            Blind::Lost => "records of its calls were lost lately, so what is missing proves nothing",
        },
    )
}

const fn stand(condition: Condition, reason: &'static str) -> Stand {
    Stand { condition, reason: Cow::Borrowed(reason) }
}

/// A call that is open for longer is no evidence of health any more.
const STALE: std::time::Duration = std::time::Duration::from_secs(10);
