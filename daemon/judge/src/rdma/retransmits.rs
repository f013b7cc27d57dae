//! Ports that send much again. Counters of the receiving side (`out_of_sequence`) accuse nobody: a fabric with adaptive routing
//! makes them rise by the thousand.

use std::collections::BTreeSet;

use ringscope_api::clock::Timestamp;
use ringscope_api::{FindingKind, Severity};
use ringscope_model::{ErrorCount, Model, Name, Nic, Port};

use super::ends::end_before;
use super::links::{Led, Links, NAMED, Place, apart, culprit, port, ports};
use super::{AFTER_A_DEATH, LOST, LOST_TOWARDS, heard, trouble};
use crate::hardware::errors::{LOSSES_RISEN, Usual};
use crate::hardware::trouble::Trouble;
use crate::hardware::words::error_line;

/// Counters of the side that sends: what it sent was lost, or not confirmed in time. EFA's `retrans_pkts` is not among them: its
/// packets take many ways at once, and it sends some of them again all the time.
const SENT_AGAIN: [&str; 11] = [
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans_to",
    "rcvd_seq_err",
    "completer_retry_err",
    "retrans_timeout_events",
    "to_retransmits",
    "seq_err_naks_rcvd",
    "missing_resp",
    "tcpRetransSegs",
];
/// Packets are taken to be so small where nobody says their size: then there are more of them, and the share is the smaller.
const PACKET_BYTES: u64 = 1024;
/// One packet in so many that is sent again is trouble, also where all ports do so; and in so many it is bad: a sender goes back to
/// the lost one and sends all that followed again.
const ONE_IN: u64 = 1000;
const BAD_ONE_IN: u64 = 100;
/// One of two loses much more than the other from so many times as much on.
const MUCH_WORSE: u64 = 4;
/// Fewer than one in so many cost nothing, also where the like ports send none again.
const NONE_IN: u64 = 1_000_000;

/// A port that sends much again.
struct Loser<'m> {
    place: Place,
    port: &'m Port,
    nic: &'m Nic,
    /// Its worst counter, and how far that rose on most ports that are alike.
    worst: ErrorCount,
    usual: Option<u64>,
    /// One packet in so many. Absent: nobody counts its bytes.
    one_in: Option<u64>,
    /// Where its connections lead.
    peers: BTreeSet<Place>,
    /// Who ended before it began, and was not there to confirm anything.
    end: Option<String>,
}

pub(super) fn judge(
    model: &Model,
    usual: &Usual<'_>,
    links: &Links<'_>,
    now: Timestamp,
) -> Vec<(Name, Trouble)> {
    let mut losers = Vec::new();
    for (host, hardware) in heard(model, now) {
        let ports = hardware.nics.iter().filter(|(port, _)| !port.is_interface);
        losers.extend(ports.filter_map(|(port, nic)| {
            let loser = Loser::of(host, port, nic, usual, links)?;
            let risen = std::slice::from_ref(&loser.worst);
            let end = end_before(model, links, (&loser.place, hardware), risen, now);
            Some(Loser { end, ..loser })
        }));
    }
    let (after_an_end, losers): (Vec<_>, Vec<_>) = losers.into_iter().partition(|loser| loser.end.is_some());
    let mut found: Vec<_> = after_an_end.iter().map(|loser| loser.trouble(&[])).collect();
    let led = losers.iter().map(|loser| (loser.place.clone(), loser.peers.clone())).collect();
    found.extend(apart(led).into_iter().flat_map(|group| named(&group, &losers)));
    found
}

/// Who is to blame, of losers that have to do with one another.
fn named(group: &Led, losers: &[Loser<'_>]) -> Vec<(Name, Trouble)> {
    let all: Vec<&Loser<'_>> = losers.iter().filter(|loser| group.contains_key(&loser.place)).collect();
    let target = culprit(group, 1).or_else(|| much_worse(&all));
    let Some(target) = target else { return all.iter().map(|loser| loser.trouble(&[])).collect() };
    let (own, others): (Vec<_>, Vec<_>) = all.iter().copied().partition(|loser| loser.place == target);
    match own.first() {
        // What it sends is lost and what is sent to it: its own link.
        Some(own) => vec![own.trouble(&others)],
        None if others.len() > 1 => vec![towards(&target, &others)],
        None => others.iter().map(|loser| loser.trouble(&[])).collect(),
    }
}

/// Of two that lose what they send to each other and to nobody else, the one that loses much more: what the other sends again it
/// has received, and the confirmations of that were lost on the same way.
fn much_worse(all: &[&Loser<'_>]) -> Option<Place> {
    let [one, other] = all else { return None };
    let are_alone = one.peers.iter().eq([&other.place]) && other.peers.iter().eq([&one.place]);
    let (one_in, other_in) = (one.one_in?, other.one_in?);
    let (worse, less, more) =
        if one_in < other_in { (one, one_in, other_in) } else { (other, other_in, one_in) };
    (are_alone && more / less.max(1) >= MUCH_WORSE).then(|| worse.place.clone())
}

impl<'m> Loser<'m> {
    fn of(host: &Name, port: &'m Port, nic: &'m Nic, usual: &Usual<'_>, links: &Links<'_>) -> Option<Self> {
        let counted = nic.retransmits().filter(|count| SENT_AGAIN.contains(&&*count.name));
        let worst = counted.max_by_key(|count| count.risen).filter(|count| count.risen >= LOSSES_RISEN)?;
        let packets = nic.sent_lately() / nic.mtu_bytes.map_or(PACKET_BYTES, |bytes| u64::from(bytes).max(1));
        let one_in = (packets > 0).then(|| packets / worst.risen.max(1));
        let (usual, is_worse) = usual.compare(port, nic, &worst);
        let is_much = one_in.is_some_and(|one_in| one_in <= ONE_IN);
        let is_nothing = one_in.is_some_and(|one_in| one_in > NONE_IN);
        if is_nothing || !is_worse && !is_much {
            return None;
        }
        let place = (host.clone(), port.label());
        let peers = links.peers(&place);
        Some(Self { place, port, nic, worst, usual, one_in, peers, end: None })
    }

    /// "packet_seq_err rose by 700 (by 5 on most of its like) in ten minutes".
    fn counter(&self) -> String {
        let usual = self.usual.map(|usual| format!(" (by {usual} on most of its like)")).unwrap_or_default();
        format!("{} rose by {}{usual} in ten minutes", self.worst.name, self.worst.risen)
    }

    fn severity(&self) -> Severity {
        if self.end.is_some() {
            return Severity::Info;
        }
        let is_bad = self.one_in.is_some_and(|one_in| one_in <= BAD_ONE_IN);
        if is_bad { Severity::Critical } else { Severity::Warning }
    }

    /// `towards`: the others that lose what they send to it.
    fn trouble(&self, towards: &[&Self]) -> (Name, Trouble) {
        let share = self.one_in.filter(|one_in| *one_in <= ONE_IN);
        let share =
            share.map(|one_in| format!(", about one packet in {}", one_in.max(1))).unwrap_or_default();
        let peers = match self.peers.len() {
            0 => String::new(),
            1..=NAMED => format!("; its connections lead to {}", ports(&self.peers)),
            n => format!(
                "; its connections lead to {n} ports, {} among them",
                ports(self.peers.iter().take(1))
            ),
        };
        let into = match towards {
            [] => String::new(),
            _ => format!(
                "; what is sent to it from {} is lost too",
                ports(towards.iter().map(|one| &one.place))
            ),
        };
        let (cause, end) = match &self.end {
            Some(end) => {
                (AFTER_A_DEATH, format!("; {end}, and who sends to a process that is gone counts that"))
            }
            None => (LOST, String::new()),
        };
        let message = format!(
            "{} sends again what was lost: {}{share}{peers}{into}{end}",
            port(&self.place),
            self.counter()
        );
        let (host, nic) = self.place.clone();
        let all = std::iter::once(self).chain(towards.iter().copied());
        let evidence = all.map(|one| error_line(one.port, one.nic, &one.worst)).collect();
        (host, trouble((FindingKind::RdmaRetransmits, cause, self.severity()), nic, message, evidence))
    }
}

/// All that is sent again goes to one port.
fn towards(target: &Place, losers: &[&Loser<'_>]) -> (Name, Trouble) {
    let named: Vec<String> = losers
        .iter()
        .take(NAMED)
        .map(|loser| format!("{} ({} rose by {})", port(&loser.place), loser.worst.name, loser.worst.risen))
        .collect();
    let more = losers.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!(
        "what is sent to {} is lost: all {} ports that send again send to it, and to no other port all of them: {}{more}, \
         in ten minutes",
        port(target),
        losers.len(),
        named.join(", ")
    );
    let severity = losers.iter().map(|loser| loser.severity()).max().unwrap_or(Severity::Warning);
    let evidence = losers.iter().map(|loser| error_line(loser.port, loser.nic, &loser.worst)).collect();
    let (host, nic) = target.clone();
    (host, trouble((FindingKind::RdmaRetransmits, LOST_TOWARDS, severity), nic, message, evidence))
}
