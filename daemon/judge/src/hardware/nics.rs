//! NICs that are down, missing or slow, flap or count errors.

use ringscope_api::{Evidence, FindingKind};
use ringscope_model::{Hardware, Model, Name, Nic, Port};

use super::ails::{Ail, Fall};
use super::errors::Usual;
use super::fleet::{Fleet, Ports};
use super::suspects::Suspect;
use super::words::{self, Why};
use super::{
    COSTS_CHANNELS, FLAPS, Health, NIC_DOWN, NIC_ERRORS, NIC_FLAPPING, NIC_MISSING, NIC_SLOW, Trouble,
};
use crate::judgement::Blame;

/// What one port should be.
struct Due {
    /// Why it should be up; none: nobody can say that it should.
    up: Option<Why>,
    /// The rate that it should have, and why.
    rate: Option<(u64, Why)>,
}

/// `usual`: how the ports of all hosts fare.
pub(super) fn judge(
    model: &Model,
    (fleet, usual): (&Fleet<'_>, &Usual<'_>),
    host: &Name,
    hardware: &Hardware,
    health: &mut Health,
) {
    let has_rdma = hardware.has_rdma();
    for (port, nic) in &hardware.nics {
        let due = Due::of(fleet, hardware, port, nic);
        let trouble = trouble(host, hardware, (port, nic), &due, usual);
        let suspects = suspects(port, nic, &due);
        let is_in_trouble = trouble.is_some() || !suspects.is_empty();
        // Beside RDMA devices, what interfaces do is nobody's business here, unless a ring goes through one.
        let counts =
            !port.is_interface || !has_rdma || (is_in_trouble && is_in_a_ring(model, host, port, nic));
        if counts {
            if let Some((trouble, ail)) = trouble {
                health.troubles.push(trouble);
                health.ails.push(ail);
            }
            health.suspects.extend(suspects);
        }
    }
}

impl Due {
    fn of(fleet: &Fleet<'_>, hardware: &Hardware, port: &Port, nic: &Nic) -> Self {
        let others = fleet.others(port, nic);
        let siblings = Ports::siblings(hardware, port, nic);
        let up = if others.are_up() {
            Some(Why::Others(others.n_up))
        } else if nic.was_up() {
            Some(Why::Before)
        } else {
            let is_alone = others.n == 0 && !is_second(hardware, port, nic);
            (is_alone && siblings.are_up()).then_some(Why::Siblings(siblings.n_up))
        };
        let of_siblings = siblings.usual_rate().filter(|_| others.n == 0 && siblings.n_up > 1);
        let rate = match others.usual_rate() {
            Some(rate) => Some((rate, Why::Others(others.n_up))),
            None => {
                let before = nic.best_rate_bits_per_s.map(|rate| (rate, Why::Before));
                before.max(of_siblings.map(|rate| (rate, Why::Siblings(siblings.n_up))))
            }
        };
        Self { up, rate }
    }
}

/// Whether it is the second port of a card, which is often left unused.
fn is_second(hardware: &Hardware, port: &Port, nic: &Nic) -> bool {
    let card =
        |pci: &str| pci.rsplit_once('.').map(|(card, function)| (card.to_owned(), function.to_owned()));
    let is_first = |other: &Nic| match (card(&other.pci), card(&nic.pci)) {
        (Some((other, first)), Some((card, function))) => other == card && first < function,
        _ => false,
    };
    port.number > 1 || hardware.nics.values().any(is_first)
}

fn is_in_a_ring(model: &Model, host: &Name, port: &Port, nic: &Nic) -> bool {
    nic.is_in_a_ring(port, model.host(host).into_iter().flat_map(|(_, processes)| processes))
}

/// What is wrong with the port now: one finding, of the worst, and the same for who asks why something is slow.
fn trouble(
    host: &Name,
    hardware: &Hardware,
    (port, nic): (&Port, &Nic),
    due: &Due,
    usual: &Usual<'_>,
) -> Option<(Trouble, Ail)> {
    let label = port.label();
    let mut wrong: Vec<(&'static str, String, Vec<Evidence>)> = Vec::new();
    if nic.is_missing {
        wrong.push((NIC_MISSING, words::missing(nic), vec![words::missing_line(nic)]));
    } else if let Some(why) = due.up.as_ref().filter(|_| !nic.up) {
        wrong.push((NIC_DOWN, words::down(nic, why), vec![words::state_line(port, nic)]));
    }
    let slow = nic.rate_bits_per_s.filter(|_| nic.up).zip(due.rate.as_ref());
    if let Some((is, (usual, why))) = slow.filter(|(is, (usual, _))| is < usual) {
        wrong.push((NIC_SLOW, words::slow(is, *usual, why), vec![words::rate_line(port, nic, is)]));
    }
    let downs = nic.link_downs_lately(hardware.read_at);
    if downs >= FLAPS {
        wrong.push((
            NIC_FLAPPING,
            words::flapping(downs),
            words::downs_line(port, nic).into_iter().collect(),
        ));
    }
    let errors = usual.bad(port, nic);
    if !errors.is_empty() {
        let lines = errors.iter().map(|bad| words::error_line(port, nic, &bad.error)).collect();
        wrong.push((NIC_ERRORS, words::errors(&errors), lines));
    }
    let cause = wrong.first()?.0;
    let what: Vec<String> = wrong.iter().map(|(_, words, _)| words.clone()).collect();
    let evidence: Vec<Evidence> =
        wrong.iter().flat_map(|(.., lines)| lines.clone()).take(super::super::judgement::MAX_PROOF).collect();
    let fall = Fall::of(hardware, nic).filter(|_| cause == NIC_SLOW);
    let rest = what.get(usize::from(fall.is_some())..).unwrap_or_default();
    let its = fall.map(Fall::words).into_iter().chain(rest.iter().map(|what| format!("it {what}")));
    let ail = Ail {
        nic: label.clone(),
        cause,
        words: its.collect::<Vec<String>>().join("; "),
        since: fall.map(|fall| fall.at),
        evidence: evidence.clone(),
    };
    let trouble = Trouble {
        kind: FindingKind::NicDegraded,
        cause,
        costs_channels: COSTS_CHANNELS.contains(&cause),
        message: format!("{label} of {host} {}", what.join("; it also ")),
        evidence,
        nic: Some(label),
        severity: None,
        culprits: Vec::new(),
        blame: Blame::default(),
    };
    Some((trouble, ail))
}

/// When the port was, or is, such that it takes channels from a communicator that is made then.
fn suspects(port: &Port, nic: &Nic, due: &Due) -> Vec<Suspect> {
    let nexts = nic.phases.iter().skip(1).map(|next| Some(next.since)).chain([None]);
    let mut suspects: Vec<Suspect> = Vec::new();
    for (index, (phase, until)) in nic.phases.iter().zip(nexts).enumerate() {
        let first = index == 0;
        let of = |cause, is: String, was: String, evidence| {
            Suspect::new(port.label(), cause, (is, was), evidence, phase.since, until, first)
        };
        let slow = phase.rate_bits_per_s.zip(due.rate.as_ref()).filter(|(is, (usual, _))| is < usual);
        if phase.is_missing {
            let line = words::missing_line(nic);
            suspects.push(of(NIC_MISSING, "is missing".to_owned(), "was missing".to_owned(), line));
        } else if !phase.up && due.up.is_some() {
            suspects.push(of(
                NIC_DOWN,
                "is down".to_owned(),
                "was down".to_owned(),
                words::state_line(port, nic),
            ));
        } else if let Some((is, (usual, _))) = slow.filter(|_| phase.up) {
            let rates = words::rates(is, *usual);
            let line = words::rate_line(port, nic, is);
            suspects.push(of(NIC_SLOW, format!("runs at {rates}"), format!("ran at {rates}"), line));
        }
    }
    suspects
}
