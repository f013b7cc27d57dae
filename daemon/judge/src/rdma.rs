//! Trouble with RDMA: what ports count, and what both ends of connections tell. A port is named where the facts of both ends
//! allow it: what all who lose packets have in common, or who sends the pause frames that stop others. Pure.

mod ends;
mod failures;
mod links;
mod mismatch;
mod pauses;
mod queue_pairs;
mod retransmits;
#[cfg(test)]
mod tests;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Evidence, FindingKind, Severity};
use ringscope_model::{Model, Name};

use self::links::Links;
pub(super) use self::queue_pairs::failed_here;
use super::hardware::errors::Usual;
use super::hardware::trouble::Trouble;
use super::judgement::{Blame, MAX_PROOF};

/// The causes of findings about RDMA, as the store may give them back.
pub(super) const CAUSES: [&str; 14] = [
    LOST,
    LOST_TOWARDS,
    FAILED,
    PEER_ENDED,
    AFTER_A_DEATH,
    CONNECTION_FAILED,
    CONNECTIONS_TO,
    PORT_DOWN,
    IN_ERROR,
    OTHER_KIND,
    SMALLER_MTU,
    TOO_LARGE,
    PAUSES_SENT,
    PAUSES_RECEIVED,
];
/// What it sends is lost.
const LOST: &str = "lost_packets";
/// What others send to it is lost.
const LOST_TOWARDS: &str = "lost_towards";
/// Requests failed.
const FAILED: &str = "failed_requests";
/// The same where the process at the other end has ended.
const PEER_ENDED: &str = "peer_ended";
/// The same where a process of a job on the host has ended, wherever.
const AFTER_A_DEATH: &str = "after_a_death";
/// Connections failed.
const CONNECTION_FAILED: &str = "connection_failed";
/// Connections of several hosts failed that lead to one port.
const CONNECTIONS_TO: &str = "connections_to";
/// Connections failed that begin or end at a port that is down.
const PORT_DOWN: &str = "port_down";
/// A queue pair stands in an error state, and nobody says why.
const IN_ERROR: &str = "in_error_state";
/// GIDs of another kind than most.
const OTHER_KIND: &str = "other_gid_kind";
/// Packets of another size than the other ends'.
const SMALLER_MTU: &str = "smaller_mtu";
/// A connection uses larger packets than one of its ends can.
const TOO_LARGE: &str = "mtu_too_large";
/// It sends pause frames all the time.
pub(super) const PAUSES_SENT: &str = "pauses_sent";
/// It is stopped by pause frames, and nobody is seen who sends them.
const PAUSES_RECEIVED: &str = "pauses_received";

/// Ports and connections of all hosts, judged; with the host that each is about.
pub(super) fn judge(model: &Model, usual: &Usual<'_>, now: Timestamp) -> Vec<(Name, Trouble)> {
    let links = Links::of(model);
    let mut found = retransmits::judge(model, usual, &links, now);
    found.extend(failures::judge(model, &links, now));
    found.extend(queue_pairs::judge(model, &links, now));
    found.extend(mismatch::judge(&links));
    found.extend(pauses::judge(model, &links, now));
    found.retain(|(host, one)| is_known(model, host, one.nic.as_deref()));
    for (_, one) in &mut found {
        one.culprits.retain(|host| model.host(host).is_some());
    }
    found
}

/// Whether there is such a port, as far as anybody knows who reads the host's hardware: a process may say of itself what it
/// likes.
fn is_known(model: &Model, host: &str, nic: Option<&str>) -> bool {
    match model.hardware_of(host).filter(|hardware| hardware.has_rdma()) {
        Some(hardware) => nic.is_none_or(|nic| hardware.nics.keys().any(|port| *port.label() == *nic)),
        None => model.host(host).is_some(),
    }
}

/// What is wrong with one port, without who else is to blame.
fn trouble(
    (kind, cause, severity): (FindingKind, &'static str, Severity),
    nic: Name,
    message: String,
    evidence: Vec<Evidence>,
) -> Trouble {
    let evidence = evidence.into_iter().take(MAX_PROOF).collect();
    Trouble {
        kind,
        nic: Some(nic),
        cause,
        costs_channels: false,
        severity: Some(severity),
        message,
        evidence,
        culprits: Vec::new(),
        blame: Blame::default(),
    }
}

/// Hosts of which the hardware was read lately: of the others nobody knows how their counters stand.
fn heard(model: &Model, now: Timestamp) -> impl Iterator<Item = (&Name, &ringscope_model::Hardware)> {
    model.hardware().filter(move |(_, hardware)| now.since(hardware.heard()) < super::HOST_GONE_AFTER)
}
