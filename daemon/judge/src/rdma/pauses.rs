//! Ports that pause frames stop. A port that is paused often and moves its bytes all the same is only busy. Who sends pause frames
//! all the time is to blame for all that are stopped.

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Evidence, FindingKind, Severity};
use ringscope_model::{FlowCount, Model, Name, Nic};

use super::links::{Links, NAMED, Place, port, ports};
use super::{PAUSES_RECEIVED, PAUSES_SENT, heard, trouble};
use crate::hardware::trouble::Trouble;
use crate::hardware::words::beside;

/// Share of the time from which on a port is stopped rather than slowed down.
const STOPPED: f64 = 0.5;
/// Share of its rate from which on it moves.
const MOVES: f64 = 0.05;
/// A pause frame asks for at most so many times of 512 bits (IEEE 802.3, annex 31B); drivers ask for that.
const PAUSE_BITS: f64 = 65_535.0 * 512.0;

struct Paused<'m> {
    place: Place,
    nic: &'m Nic,
    /// The counter that says so, and the share of the time.
    count: FlowCount,
    share: f64,
}

pub(super) fn judge(model: &Model, links: &Links<'_>, now: Timestamp) -> Vec<(Name, Trouble)> {
    let (mut stopped, mut senders) = (Vec::new(), Vec::new());
    for (host, hardware) in heard(model, now) {
        for (port_of, nic) in hardware.nics.iter().filter(|(_, nic)| nic.up) {
            let at = |(count, share)| Paused { place: (host.clone(), port_of.label()), nic, count, share };
            let (sent, received) = nic.flow_per_s();
            stopped.extend(paused(nic, "rx").filter(|_| !moves(nic, sent)).map(at));
            senders.extend(paused(nic, "tx").filter(|_| !moves(nic, received)).map(at));
        }
    }
    let mut of_senders: BTreeMap<&Place, (&Paused<'_>, Vec<&Paused<'_>>)> = BTreeMap::new();
    let mut found = Vec::new();
    for one in &stopped {
        let mut near = senders.iter().filter(|sender| may_stop(links, sender, one));
        match (near.next(), near.next()) {
            (Some(sender), None) => {
                of_senders.entry(&sender.place).or_insert((sender, Vec::new())).1.push(one);
            }
            _ => found.push(of_stopped(one)),
        }
    }
    found.extend(of_senders.into_values().map(|(sender, stopped)| of_sender(sender, &stopped)));
    found
}

/// Whether pause frames of one may reach the other: they are of one rail, or have a connection.
fn may_stop(links: &Links<'_>, sender: &Paused<'_>, stopped: &Paused<'_>) -> bool {
    let joins = |one: &Place, other: &Place| links.at(one).any(|link| link.peer == *other);
    sender.place != stopped.place
        && (sender.place.1 == stopped.place.1
            || joins(&sender.place, &stopped.place)
            || joins(&stopped.place, &sender.place))
}

/// The worst counter of pauses in one direction, and the share of the time that it stands for, where that is a stop.
fn paused(nic: &Nic, direction: &str) -> Option<(FlowCount, f64)> {
    let counts: Vec<FlowCount> = nic.congestion().filter(|count| is_pause(&count.name, direction)).collect();
    let is_measured = |count: &FlowCount| count.name.contains("duration");
    // Where the time is measured, how many frames came says nothing more: each may ask for less than the longest pause.
    let any_measured = counts.iter().any(is_measured);
    let shares = counts.into_iter().filter(|count| !any_measured || is_measured(count)).filter_map(|count| {
        let per_s = count.per_s?;
        // A duration is in microseconds (NVIDIA, "Understanding mlx5 ethtool counters").
        let share = match is_measured(&count) {
            true => per_s / 1e6,
            false => per_s * PAUSE_BITS / bits_per_s(nic)?,
        };
        Some((count, share))
    });
    shares.filter(|(_, share)| *share >= STOPPED).max_by(|one, other| one.1.total_cmp(&other.1))
}

/// "rx_prio3_pause", "rx_prio3_pause_duration", "rx_pause_ctrl_phy", "rx_pfc_ena_frames_pri3". Not how often
/// it began ("rx_prio3_pause_transition"), nor what a NIC says of storms itself ("tx_pause_storm_error_events").
fn is_pause(name: &str, direction: &str) -> bool {
    let names_it = name.contains("pause") || name.contains("pfc");
    names_it && name.starts_with(direction) && !name.contains("transition") && !name.contains("storm")
}

#[expect(clippy::cast_precision_loss, reason = "no link has 2^53 bits per second")]
fn bits_per_s(nic: &Nic) -> Option<f64> {
    nic.rate_bits_per_s.map(|rate| rate as f64)
}

/// Whether bytes go all the same; where nobody counts them, they may.
fn moves(nic: &Nic, bytes_per_s: Option<f64>) -> bool {
    let rate = bits_per_s(nic).map(|bits| bits / 8.0);
    bytes_per_s.zip(rate).is_none_or(|(is, rate)| is >= rate * MOVES)
}

impl Paused<'_> {
    fn percent(&self) -> String {
        format!("{:.0} % of the time", (self.share * 100.0).min(100.0))
    }

    /// A moment of it is no storm.
    fn severity(&self) -> Severity {
        if self.count.is_whole { Severity::Critical } else { Severity::Warning }
    }

    fn line(&self) -> Evidence {
        let per_s = self.count.per_s.unwrap_or_default();
        let text = format!("{}: {} ({per_s:.0} more a second)", self.count.name, self.count.value);
        Evidence { file: beside(self.nic, "hw_counters"), line: 0, text }
    }
}

fn of_stopped(stopped: &Paused<'_>) -> (Name, Trouble) {
    let message = format!(
        "{} stands still: it is told to pause {} ({}), and sends nearly nothing; who sends the pause frames is not seen",
        port(&stopped.place),
        stopped.percent(),
        stopped.count.name
    );
    let (host, nic) = stopped.place.clone();
    let what = (FindingKind::PfcStorm, PAUSES_RECEIVED, stopped.severity());
    (host, trouble(what, nic, message, vec![stopped.line()]))
}

fn of_sender(sender: &Paused<'_>, stopped: &[&Paused<'_>]) -> (Name, Trouble) {
    let stand = if stopped.len() == 1 { "stands" } else { "stand" };
    let message = format!(
        "{} stops others: it sends pause frames {} ({}) and takes nearly nothing; {} {stand} still",
        port(&sender.place),
        sender.percent(),
        sender.count.name,
        ports(stopped.iter().map(|one| &one.place))
    );
    let lines =
        std::iter::once(sender).chain(stopped.iter().copied().take(NAMED)).map(Paused::line).collect();
    let (host, nic) = sender.place.clone();
    (host, trouble((FindingKind::PfcStorm, PAUSES_SENT, sender.severity()), nic, message, lines))
}
