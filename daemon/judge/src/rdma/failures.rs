//! Ports whose requests failed for good. One is enough: a reliable connection is gone with it. Where the process at the other
//! end has ended, that is why.

use std::collections::BTreeSet;

use ringscope_api::clock::Timestamp;
use ringscope_api::{FindingKind, Severity};
use ringscope_model::{ErrorCount, Hardware, Model, Name, Nic, Port};

use super::ends::{end_before, failed_after_an_end};
use super::links::{Link, Links, NAMED, Place, port, ports};
use super::queue_pairs::was_down;
use super::{AFTER_A_DEATH, FAILED, PEER_ENDED, PORT_DOWN, heard, trouble};
use crate::hardware::trouble::Trouble;
use crate::hardware::words::error_line;

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
    let is_at = |link: &Link<'_>, place: &Place| link.peer == *place || link.place() == *place;
    let is_why = |place: &&Place| {
        !failed.is_empty()
            && failed.iter().all(|link| is_at(link, place) && was_down(model, place, link, now))
    };
    let has_ended = |link: &&Link<'_>| failed_after_an_end(link);
    let (cause, severity, why) = if !peers.is_empty() && failed.iter().all(has_ended) {
        let why =
            format!("; the processes at {}, where they went, had ended before", ports(peers.iter().copied()));
        (PEER_ENDED, Severity::Info, why)
    } else if let Some(down) = peers.iter().copied().chain([&place]).find(is_why) {
        (PORT_DOWN, Severity::Info, format!("; {} is down", port(down)))
    } else if !peers.is_empty() {
        let why = format!("; the connections that failed led to {}", ports(peers.iter().copied()));
        (FAILED, Severity::Warning, why)
    } else if let Some(end) = end_before(model, links, (&place, hardware), risen, now) {
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
