//! Processes that ended before a port or a connection was in trouble, which may be why. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::limits::TROUBLE_WINDOW;
use ringscope_model::{ErrorCount, Hardware, Model, Name, Process, ProcessState};

use super::links::{Link, Links, Place, failed_at};

/// Agents read connections every second; a failed one is told of so much later than it failed.
const READING: Duration = Duration::from_secs(2);
/// How long after the end of a process others may begin to count that it does not answer: libraries retry for so long.
const AFTERMATH: Duration = Duration::from_secs(120);
/// How long after that end they may go on with it, as far as the marks of counters tell.
const LAST: Duration = Duration::from_secs(180);

/// Whether the process at the other end had ended before the connection failed. Of one that ended after that, or as it failed,
/// the failure may be why; and who ended before this process began is of an earlier life of the job.
pub(super) fn failed_after_an_end(link: &Link<'_>) -> bool {
    let ended = link.other.and_then(Process::ended).filter(|ended| *ended > link.identity.started);
    ended
        .zip(failed_at(link.one))
        .is_some_and(|(ended, failed)| failed > ended && failed.since(ended) >= READING)
}

/// A process that ended before counters of a port rose and until about when they did, in a job of which the host had a process
/// that lived on: it may have sent there.
pub(super) fn end_before(
    model: &Model,
    links: &Links<'_>,
    (place, hardware): (&Place, &Hardware),
    risen: &[ErrorCount],
    now: Timestamp,
) -> Option<String> {
    let began = risen.iter().filter_map(|count| count.risen_after).min().unwrap_or_default();
    let stopped = risen.iter().filter_map(|count| count.risen_until).max().unwrap_or_default();
    let (began, stopped) = (hardware.ours(began), hardware.ours(stopped));
    let explains = |ended: Timestamp| {
        ended <= began
            && began.since(ended) < AFTERMATH
            && stopped.since(ended) < LAST
            && now.since(ended) < TROUBLE_WINDOW
    };
    let (_, processes) = model.host(&place.0)?;
    let lived = |process: &&Process| process.ended().is_none_or(|ended| ended > began);
    let living = processes.filter(lived).filter_map(Process::identity);
    let jobs: BTreeSet<&Name> = living.map(|identity| &identity.job).collect();
    let is_it = |process: &&Process| {
        process.ended().is_some_and(|ended| explains(ended) && may_have_sent(links, place, process, ended))
    };
    let ended = jobs.into_iter().filter_map(|name| model.job(name)).find_map(|(name, job)| {
        let process = job.processes(model).find(is_it)?;
        Some((name, process.identity()?, process.state()))
    });
    ended.map(|(name, identity, state)| {
        let how = if state == ProcessState::Killed { "was killed" } else { "had ended" };
        format!("process {} of {} in job {name} {how} before", identity.pid, identity.host)
    })
}

/// Whether a connection of the port may have led to a process that has ended: one does, or none is known that has lived on since.
fn may_have_sent(links: &Links<'_>, place: &Place, process: &Process, ended: Timestamp) -> bool {
    let leads_there = |link: &Link<'_>| link.other.is_some_and(|other| std::ptr::eq(other, process));
    let lived_on = |link: &Link<'_>| link.one.is_in_use() && link.one.since < ended;
    links.at(place).any(leads_there) || !links.at(place).any(lived_on)
}
