//! How a job ended, by how its processes did.

use ringscope_api::{Finding, FindingKind, Severity, blame, signal};
use ringscope_model::{Exit, Process, ProcessState, ToldToEnd};

use super::standing::ended_by_launch;

/// Sorts processes of a job that is over: who failed first, as far as that is known, comes first.
pub(super) fn first_failure_first(processes: &mut [&Process]) {
    let failed = processes.iter().filter(|process| !has_ended_well(process) && process.exit().told.is_none());
    let earliest = failed.filter_map(|process| process.ended()).min().unwrap_or_default();
    let order = |process: &Process| blame::order(process.exit().signal.map(i32::from));
    processes.sort_by_key(|process| {
        let ended = process.ended().unwrap_or_default();
        let is_later = ended.0.saturating_sub(earliest.0) > blame::AT_ONCE_NS;
        (is_later, order(process), ended)
    });
}

/// Why a job is over, where that says more than how its processes ended.
pub(super) fn why_over(finding: Option<&Finding>, processes: &[&Process]) -> Option<String> {
    if let Some(finding) = finding.filter(|finding| finding.severity == Severity::Critical) {
        return Some(finding.message.clone());
    }
    let n_processes = processes.len();
    let told = |process: &&Process| process.exit().told;
    if let Some(why) = processes.first().and_then(told).filter(|why| *why != ToldToEnd::WorkersDone)
        && processes.iter().all(|process| told(process) == Some(why))
    {
        return Some(ended_by_launch(why));
    }
    let were_killed =
        |process: &&Process| process.state() == ProcessState::Killed && process.exit() == Exit::default();
    (processes.iter().all(were_killed) && n_processes > 1).then(|| {
        format!(
            "all {n_processes} processes were killed, or crashed: somebody ended the job (Ctrl-C, scancel), or one failed and \
             its launcher ended the others; what they wrote last may say which"
        )
    })
}

/// By which signal somebody ended a job, where that ended several of its processes, and the others had ended well or were ended by
/// their launch.
pub(super) fn asked_to_end(processes: &[&Process]) -> Option<String> {
    let mut asked = Vec::new();
    for process in
        processes.iter().filter(|process| process.exit().told.is_none() && !has_ended_well(process))
    {
        let number = process.exit().signal.map(i32::from);
        asked.push(number.filter(|number| signal::asks_to_end(*number))?);
    }
    let name = signal::name(*asked.first()?);
    (asked.len() > 1).then(|| format!("somebody ended it: {} of its processes were sent {name}", asked.len()))
}

/// Whether its end needs no word: a job is judged by those of its processes that are there, or went badly.
pub(super) fn has_ended_well(process: &Process) -> bool {
    process.state() == ProcessState::Exited && process.exit_status().is_none_or(|status| status == 0)
}

/// Whether a job that ends in good order ends with what nobody may trust.
pub(super) fn makes_results_wrong(kind: FindingKind) -> bool {
    use FindingKind as Kind;
    matches!(kind, Kind::SumFingerprintMismatch | Kind::SumParametersDiffer | Kind::CallMismatch)
}
