//! What is found of slow ways, in words: a link, a NIC, a rail.

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{list, plural, rate};
use ringscope_api::{Cost, Culprit, Detail, FindingKind, Severity};
use ringscope_model::{Identity, Model, Name, Process};

use super::shared::{Fault, SlowWay, Subject};
use crate::judgement::{Blame, Judgement};

/// The finding. `cost`: what the job lost since it is slower than it was, where that is known.
pub(super) fn judgement(
    model: &Model,
    fault: &Fault,
    began: Timestamp,
    cost: Option<Cost>,
    n_processes: usize,
) -> Judgement {
    let mut told = match (&fault.subject, fault.ways.first()) {
        (Subject::Nic { host, nics }, _) => slow_nic(fault, host, nics),
        (Subject::Rail(rail), _) => congestion(fault, rail),
        (Subject::Link(_), Some(slow)) => slow_link(model, slow),
        (Subject::Link(_), None) => blank(FindingKind::SlowLink, ""),
    };
    let n_accused = usize::from(!told.blame.accused.is_empty());
    told.blame.cost = cost;
    told.blame.began_at = Some(fault.ail.as_ref().and_then(|ail| ail.since).unwrap_or(began).min(began));
    told.blame.n_victims = u32::try_from(n_processes.saturating_sub(n_accused)).unwrap_or(u32::MAX);
    told
}

fn slow_link(model: &Model, slow: &SlowWay) -> Judgement {
    let (way, from, to) = (&slow.busy.way, &slow.busy.from, &slow.busy.to);
    let nic = from.nics.first();
    let by = by(&from.nics);
    let identity = |key: &Name| model.process(key).and_then(Process::identity);
    let [sender, receiver] = slow.busy.processes.each_ref().map(identity);
    let global = |of: Option<&Identity>, rank: u32| of.and_then(|of| of.global_rank).unwrap_or(rank);
    let (sends, receives) = (global(sender, way.from), global(receiver, way.to));
    let accused = sender.map(|identity| Culprit {
        host: identity.host.to_string(),
        pid: Some(identity.pid),
        rank: Some(way.from),
        global_rank: identity.global_rank,
        place: identity.scheduled.in_words(),
        doing: format!("sends to rank {receives} on {}{by}", to.host),
    });
    let message = format!(
        "The link from {} to {}{by} (rank {sends} to rank {receives}) moves {}: whoever needs what it carries waits for it",
        from.host,
        to.host,
        rates(slow, "link")
    );
    let told = blank(FindingKind::SlowLink, LIKE);
    Judgement {
        host: from.host.clone(),
        rank: Some(way.from),
        nic: nic.cloned(),
        culprits: vec![to.host.to_string()],
        message,
        blame: Blame {
            comm: Some(way.comm),
            key: format!("{}>{}", way.from, way.to),
            accused: accused.into_iter().collect(),
            advice: "Look at both ends: `ethtool` or `ibstat` for the rate, `ip -s link` for errors and drops, `nstat -az \
                     TcpRetransSegs`. What else uses that NIC or that switch port?"
                .to_owned(),
            ..Blame::default()
        },
        ..told
    }
}

fn slow_nic(fault: &Fault, host: &Name, nics: &[Name]) -> Judgement {
    // As its other findings name it.
    let own = fault.ail.as_ref().map(|ail| vec![ail.nic.clone()]);
    let nics = own.as_deref().unwrap_or(nics);
    let name = match nics {
        [] => "The network".to_owned(),
        [nic] => nic.to_string(),
        nics => list(nics, NAMED),
    };
    let n_out = fault.ways.iter().filter(|slow| slow.busy.from.host == *host).count();
    let of = match (n_out, fault.ways.len() - n_out) {
        (out, 0) => format!("{} from it", plural(out, "link")),
        (0, into) => format!("{} to it", plural(into, "link")),
        (out, into) => format!("{} from it and {into} to it", plural(out, "link")),
    };
    let slowest = fault.ways.first().map(|slow| format!("of {of} the slowest moves {}", rates(slow, "link")));
    let why = fault.ail.as_ref().map(|ail| ail.words.clone());
    let all: Vec<String> = slowest.into_iter().chain(why).collect();
    let message = format!("{name} of {host} is slow: {}", all.join("; "));
    let doing = fault.ail.as_ref().map_or_else(
        || format!("what goes through {} is slow", name.replacen("The", "the", 1)),
        |ail| format!("{name}: {}", ail.words),
    );
    let told = blank(FindingKind::SlowNic, fault.ail.as_ref().map_or(LIKE, |ail| ail.cause));
    Judgement {
        host: host.clone(),
        nic: nics.first().cloned(),
        culprits: Vec::new(),
        message,
        evidence: fault.ail.as_ref().map(|ail| ail.evidence.clone()).unwrap_or_default(),
        blame: Blame {
            key: list(nics, usize::MAX),
            accused: vec![Culprit { host: host.to_string(), doing, ..Culprit::default() }],
            advice: "Look at its cable and its switch port: `ethtool` or `ibstat` for the rate, `ip -s link` for errors and \
                     drops. If its counters say nothing, look at what else uses it."
                .to_owned(),
            details: if fault.ways.is_empty() { Vec::new() } else { vec![links(fault)] },
            ..Blame::default()
        },
        ..told
    }
}

fn congestion(fault: &Fault, rail: &Name) -> Judgement {
    let speeds = fault.ways.first().map(|slow| rates(slow, "link")).unwrap_or_default();
    let message = format!(
        "{} by {rail} of different hosts are slow at once: the slowest moves {speeds}; no host or NIC has that alone, so it is \
         what they share: the switches of that rail, or other traffic there",
        plural(fault.ways.len(), "link")
    );
    let told = blank(FindingKind::Congestion, "rail");
    Judgement {
        message,
        blame: Blame {
            key: rail.to_string(),
            advice: "Look at the switches of that rail: queues, pauses, ECN marks, uplinks that are down; and at which other jobs \
                     send there."
                .to_owned(),
            details: vec![links(fault)],
            ..Blame::default()
        },
        ..told
    }
}

fn blank(kind: FindingKind, cause: &'static str) -> Judgement {
    Judgement {
        kind,
        severity: Severity::Warning,
        host: Name::default(),
        rank: None,
        channel: None,
        nic: None,
        cause,
        culprits: Vec::new(),
        message: String::new(),
        evidence: Vec::new(),
        blame: Blame::default(),
    }
}

/// "6.11 MB/s while it is busy, the other 7 links move 12.0 MB/s".
fn rates(slow: &SlowWay, noun: &str) -> String {
    let (own, usual) = (1e9 / slow.busy.wire_ns, 1e9 / slow.usual);
    let (others, usual) = (plural(slow.n_like, noun), rate(usual));
    format!("{} while it is busy, the other {others} move {usual}", rate(own))
}

fn by(nics: &[Name]) -> String {
    if nics.is_empty() { String::new() } else { format!(" by {}", list(nics, NAMED)) }
}

fn links(fault: &Fault) -> Detail {
    let line = |slow: &SlowWay| {
        let (from, to) = (&slow.busy.from, &slow.busy.to);
        format!(
            "{}{} to {}{}: {}",
            from.host,
            by(&from.nics),
            to.host,
            by(&to.nics),
            rate(1e9 / slow.busy.wire_ns)
        )
    };
    Detail { title: "Slow links".to_owned(), lines: fault.ways.iter().take(LINES).map(line).collect() }
}

/// The cause where nothing but the comparison tells.
const LIKE: &str = "slower_than_like";
/// NICs that one sentence names.
const NAMED: usize = 4;
/// Links that are listed.
const LINES: usize = 16;
