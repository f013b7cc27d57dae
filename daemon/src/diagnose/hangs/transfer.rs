//! All have called, with the same call, and nothing moves: where progress ends, as far as anything tells.

use std::time::Duration;

use super::case::Case;
use super::places::Waiter;
use super::scene::Life;
use super::verdict::{Ask, Judgement, Question};
use super::{device, files, waiting, words};
use crate::api::{Detail, FindingKind, Severity};
use crate::words::{duration, list, plural, size};
use ringscope_wire::batch::Level;

/// Judges a full place whose calls agree.
pub(super) fn judge(case: &mut Case<'_, '_, '_>, place: u32) {
    let sight = case.sight;
    let age = case.age(place);
    let usual = waiting::usual(case, place);
    let limit = match usual {
        Some(p99) => p99.saturating_mul(sight.settings.wait_times_p99).max(sight.settings.stalled_after),
        // The first call of a size connects the ranks; nobody knows how long that takes here.
        None => sight.settings.stalled_after.saturating_mul(2),
    };
    if age < limit {
        return;
    }
    if device::judge(case, place) {
        return;
    }
    stalled(case, place, usual);
}

fn stalled(case: &mut Case<'_, '_, '_>, place: u32, usual: Option<Duration>) {
    let sight = case.sight;
    let at = case.node(place).place;
    let communicator = at.communicator();
    let waiters: Vec<Waiter<'_>> = case.node(place).waiters.clone();
    let sent = sent_in(case, communicator);
    if sent.iter().any(|sent| sent.moves) {
        return;
    }
    let mut judgement = case.blank(FindingKind::TransferStalled, Some(communicator));
    judgement.began_at = case.began(place);
    judgement.key = format!("{}/stalled", at.key());
    judgement.severity = Severity::Critical;
    judgement.victims = case.graph.victims(&[case.graph.place_node(place)], &[]);
    let of = case.place_words(place);
    let n = waiters.len();
    let since = case.since_words(place);
    let honest = match case.passed(place).len() {
        0 => format!(
            "all {n} ranks are in {of} with the same call {since}, and nothing moves: not the program"
        ),
        passed => {
            let mut ranks: Vec<u32> = waiters.iter().map(|waiter| waiter.rank).collect();
            ranks.sort_unstable();
            let is = if n == 1 { "is" } else { "are" };
            let others = plural(passed, "other rank");
            let (has, it) = if passed == 1 { ("has", "it") } else { ("have", "them") };
            format!("{} {is} in {of} {since}, and {others} {has} it behind {it}", words::ranks(&ranks))
        }
    };
    let usually = usual.map(|usual| format!(" (99 of 100 such calls take at most {})", duration(usual)));
    let usually = usually.unwrap_or_default();
    match hop(&sent) {
        Some((from, to)) => {
            blame(case, &mut judgement, communicator, from, to, &format!("{honest}{usually}"))
        }
        None => {
            judgement.cause = "nothing_moves";
            judgement.host = waiters.first().map(|waiter| sight.process(waiter.process).host);
            judgement.message = format!("{honest}{usually}{}", unknown_hop(case, &waiters, &sent));
        }
    }
    judgement.advice = "See the links, NICs and switches between these hosts (error counters, `ethtool`, `ibstat`), and the \
                        library's WARN lines; a GPU may have failed too: `nvidia-smi`, and the kernel's log for Xid."
        .to_owned();
    judgement.details.extend(starts(&waiters));
    judgement.details.extend(files::how_late(case, place, &[]));
    judgement.details.extend(bytes_by_hop(&sent));
    judgement.details.extend(hardware(case, &waiters));
    case.warnings(communicator, &mut judgement);
    raise(case, &waiters);
    case.tell(judgement, true).number = at.number();
}

/// Names the hop at which progress ends.
fn blame(
    case: &mut Case<'_, '_, '_>,
    judgement: &mut Judgement,
    communicator: u32,
    from: u32,
    to: u32,
    honest: &str,
) {
    let sight = case.sight;
    let process = |rank: u32| Some(sight.member(communicator, sight.by_rank(communicator, rank)?).process);
    let doing =
        [(from, format!("has sent least, to rank {to}")), (to, format!("gets nothing from rank {from}"))];
    let culprits: Vec<(u32, Option<u32>, String)> =
        doing.into_iter().filter_map(|(rank, doing)| Some((process(rank)?, Some(rank), doing))).collect();
    let names: Vec<String> =
        culprits.iter().map(|(process, rank, _)| words::who(sight, *process, *rank)).collect();
    case.accuse(judgement, &culprits);
    judgement.cause = "hop";
    judgement.message = format!("{}: progress ends on the way between them; {honest}", names.join(" to "));
}

/// What a rank has sent, to whom most, and whether that still grows.
struct Sent {
    rank: u32,
    to: Option<u32>,
    bytes: u64,
    moves: bool,
}

fn sent_in(case: &mut Case<'_, '_, '_>, communicator: u32) -> Vec<Sent> {
    let sight = case.sight;
    let mut all = Vec::new();
    for member in &sight.communicator(communicator).members {
        if member.links.is_empty() {
            continue;
        }
        let bytes: u64 = member.links.iter().map(|link| link.sent_bytes).sum();
        let quiet = case.memory.quiet_since(sight, communicator, member.rank, bytes);
        let process = sight.process(member.process);
        // Seen for the first time, it may well move: the next look tells.
        let moves = quiet == sight.scene.now || process.heard_at < quiet;
        let to = member.next_in_ring.or_else(|| {
            let most = member.links.iter().max_by_key(|link| link.sent_bytes);
            most.map(|link| link.peer)
        });
        all.push(Sent { rank: member.rank, to, bytes, moves });
    }
    all
}

/// The hop that has carried clearly least. In a ring every hop carries as much in each call.
fn hop(sent: &[Sent]) -> Option<(u32, u32)> {
    if sent.len() < 2 {
        return None;
    }
    let least = sent.iter().min_by_key(|sent| sent.bytes)?;
    let next = sent.iter().filter(|other| other.rank != least.rank).map(|other| other.bytes).min()?;
    (least.bytes < next).then_some((least.rank, least.to?))
}

fn unknown_hop(case: &Case<'_, '_, '_>, waiters: &[Waiter<'_>], sent: &[Sent]) -> String {
    if waiters.iter().any(|waiter| case.sight.process(waiter.process).life == Life::Imported) {
        return "; at which hop is not known: these files do not tell it".to_owned();
    }
    let low = waiters.iter().any(|waiter| case.sight.process(waiter.process).level != Level::Steps);
    match (sent.is_empty(), low) {
        (true, true) => "; at which hop is not known, for the level is below `steps`: it is raised now, which may show it \
                         with the next calls"
            .to_owned(),
        (true, false) => "; at which hop is not known: no rank sends over the network here".to_owned(),
        (false, _) => "; every hop has carried as much, so no hop stands out".to_owned(),
    }
}

fn raise(case: &mut Case<'_, '_, '_>, waiters: &[Waiter<'_>]) {
    let low = waiters.iter().find(|waiter| {
        let process = case.sight.process(waiter.process);
        process.level != Level::Steps && process.read_at.0 > 0
    });
    if let Some(waiter) = low {
        case.asks.push(Ask { process: waiter.process, what: Question::Raise, judgement: None });
    }
}

fn starts(waiters: &[Waiter<'_>]) -> Option<Detail> {
    let heads = || waiters.iter().filter_map(|waiter| Some((waiter.rank, waiter.head?.operation)));
    let known = heads().filter(|(_, operation)| operation.start_known).count();
    let started = heads().filter(|(_, operation)| operation.started_at.is_some()).count();
    let line = if known == 0 {
        "Whether the call has started on the GPUs is not known: nothing tells it here.".to_owned()
    } else {
        format!("{started} of {known} ranks of which it is known have started the call.")
    };
    (!waiters.is_empty()).then(|| Detail { title: "Started".to_owned(), lines: vec![line] })
}

fn bytes_by_hop(sent: &[Sent]) -> Option<Detail> {
    let line = |sent: &Sent| {
        let to = sent.to.map(|to| format!(" to rank {to}")).unwrap_or_default();
        format!("rank {}{to}: {}", sent.rank, size(sent.bytes))
    };
    let mut sorted: Vec<&Sent> = sent.iter().collect();
    sorted.sort_by_key(|sent| sent.bytes);
    let lines: Vec<String> = sorted.into_iter().take(HOPS).map(line).collect();
    (!lines.is_empty()).then(|| Detail { title: "Sent so far, the least first".to_owned(), lines })
}

/// What is wrong with the hardware of these hosts.
fn hardware(case: &Case<'_, '_, '_>, waiters: &[Waiter<'_>]) -> Option<Detail> {
    let mut hosts: Vec<u32> = waiters.iter().map(|waiter| case.sight.process(waiter.process).host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let of = |host: u32| case.sight.scene.hosts.get(host as usize);
    let troubled = hosts.into_iter().filter_map(of).filter(|host| !host.hardware.is_empty());
    let line = |host: &super::scene::Host<'_>| {
        let words: Vec<&str> = host.hardware.iter().map(AsRef::as_ref).collect();
        format!("{}: {}", host.name, list(&words, words::NAMED))
    };
    let lines: Vec<String> = troubled.take(HOPS).map(line).collect();
    (!lines.is_empty()).then(|| Detail { title: "Hardware of these hosts".to_owned(), lines })
}

/// Hops, and hosts, that are shown.
const HOPS: usize = 16;
