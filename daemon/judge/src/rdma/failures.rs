//! Ports whose requests failed for good. One is enough: a reliable connection is gone with it. Where the process at the other
//! end has ended, that is why.

use std::collections::BTreeSet;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{FindingKind, Severity};
use ringscope_model::limits::TROUBLE_WINDOW;
use ringscope_model::{ErrorCount, Hardware, Model, Name, Nic, Port, Process, ProcessState};

use super::links::{Link, Links, Place, port, ports};
use super::{AFTER_A_DEATH, FAILED, NAMED, PEER_ENDED, heard, trouble};
use crate::hardware::{Trouble, error_line};

/// How long after the end of a process others may begin to count that it does not answer: libraries retry for so long.
const AFTERMATH: Duration = Duration::from_secs(120);

pub(super) fn judge(model: &Model, links: &Links<'_>, now: Timestamp) -> Vec<(Name, Trouble)> {
    let mut found = Vec::new();
    for (host, hardware) in heard(model, now) {
        for (port, nic) in hardware.nics.iter().filter(|(port, _)| !port.is_interface) {
            let risen: Vec<ErrorCount> = nic.failures().filter(|count| count.risen > 0).collect();
            if !risen.is_empty() {
                found.push((host.clone(), one(model, links, (host, hardware, port, nic), &risen, now)));
            }
        }
    }
    found
}

fn one(
    model: &Model,
    links: &Links<'_>,
    (host, hardware, port_of, nic): (&Name, &Hardware, &Port, &Nic),
    risen: &[ErrorCount],
    now: Timestamp,
) -> Trouble {
    let place: Place = (host.clone(), port_of.label());
    let failed: Vec<&Link<'_>> = links.at(&place).filter(|link| !link.one.error.is_empty()).collect();
    let peers: BTreeSet<&Place> =
        failed.iter().filter(|link| link.knows_its_other_end()).map(|link| &link.peer).collect();
    let counters: Vec<String> =
        risen.iter().take(NAMED).map(|count| format!("{} rose by {}", count.name, count.risen)).collect();
    let counters = counters.join(", ");
    let has_ended = |link: &&Link<'_>| link.failed_after_an_end();
    let (cause, severity, why) = if !peers.is_empty() && failed.iter().all(has_ended) {
        let why =
            format!("; the processes at {}, where they went, had ended before", ports(peers.iter().copied()));
        (PEER_ENDED, Severity::Info, why)
    } else if !peers.is_empty() {
        let why = format!("; the connections that failed led to {}", ports(peers.iter().copied()));
        (FAILED, Severity::Warning, why)
    } else if let Some(end) = end_in_a_job_of(model, host, first_risen(hardware, risen), now) {
        (
            AFTER_A_DEATH,
            Severity::Info,
            format!("; {end}, and who sends to a process that is gone counts that"),
        )
    } else {
        (FAILED, Severity::Warning, String::new())
    };
    let message = format!("requests of {} failed for good: {counters} in ten minutes{why}", port(&place));
    let evidence = risen.iter().map(|count| error_line(port_of, nic, count)).collect();
    let mut found = trouble((FindingKind::RdmaErrors, cause, severity), place.1, message, evidence);
    found.culprits = peers.into_iter().map(|(host, _)| host.to_string()).collect();
    found
}

/// When the first of these counters began to rise: when it was last read as it had been before, by our clock.
pub(super) fn first_risen(hardware: &Hardware, risen: &[ErrorCount]) -> Timestamp {
    let first = risen.iter().filter_map(|count| count.risen_after).min().unwrap_or_default();
    hardware.ours(first)
}

/// A process that ended before the counters of a port rose, in a job of which the host had a process that lived on: it may have sent.
pub(super) fn end_in_a_job_of(
    model: &Model,
    host: &Name,
    risen: Timestamp,
    now: Timestamp,
) -> Option<String> {
    let (_, processes) = model.host(host)?;
    let lived = |process: &&Process| process.ended().is_none_or(|ended| ended > risen);
    let living = processes.filter(lived).filter_map(Process::identity);
    let jobs: BTreeSet<&Name> = living.map(|identity| &identity.job).collect();
    let is_it = |process: &&Process| {
        let explains = |ended: Timestamp| ended <= risen && risen.since(ended) < AFTERMATH;
        process.ended().is_some_and(|ended| explains(ended) && now.since(ended) < TROUBLE_WINDOW)
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
