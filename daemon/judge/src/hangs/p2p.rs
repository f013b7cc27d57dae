//! Sends without their receives, receives without their sends, and pairs of other sizes.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use ringscope_api::{Detail, FindingKind, Severity};
use ringscope_wire::Primitive;

use super::case::Case;
use super::places::Place;
use super::scene::{Member, Pair};
use super::sight::{Sight, is_called};
use super::verdict::{Ask, Judgement, Question};
use super::words;

/// A circle in which a rank waits for a send or receive that the other side has never called, while that side waits in
/// a collective call: it has left the transfer out. Returns whether this explains the circle.
pub(super) fn in_circle(
    case: &mut Case<'_, '_, '_>,
    nodes: &[u32],
    processes: &[u32],
    places: &[u32],
) -> bool {
    if !places.iter().any(|place| !matches!(case.node(*place).place, Place::Pair { .. })) {
        return false;
    }
    let mut lacks_one = Vec::new();
    let mut explains = false;
    for place in places {
        let Place::Pair { communicator, from, to } = case.node(*place).place else { continue };
        let (lacking, primitive) = if has_called(case, communicator, to, from, Primitive::Recv) {
            (from, Primitive::Send)
        } else {
            (to, Primitive::Recv)
        };
        let other = if lacking == from { to } else { from };
        if has_called(case, communicator, lacking, other, primitive) {
            continue;
        }
        let Some(at) = case.sight.by_rank(communicator, lacking) else { continue };
        let process = case.sight.member(communicator, at).process;
        if processes.binary_search(&process).is_err() {
            continue;
        }
        explains = true;
        match has_left_out(case.sight, communicator, (lacking, other), primitive == Primitive::Send) {
            Some(false) => {}
            None if case.age(*place) < PAIRS_COME_WITHIN => ask(case, communicator, &[from, to]),
            _ => lacks_one.push((*place, (communicator, from, to), (process, lacking, other), primitive)),
        }
    }
    for (place, (communicator, from, to), (process, lacking, other), primitive) in case.at_most(lacks_one) {
        let instead = case.graph.places_of(process).next().map(|place| case.place_words(place));
        let instead = instead.map_or_else(|| "does something else".to_owned(), |of| format!("is in {of}"));
        let mut judgement = case.blank(FindingKind::P2pUnmatched, Some(communicator));
        judgement.began_at = case.began(place);
        case.accuse(&mut judgement, &[(process, Some(lacking), instead.clone())]);
        judgement.victims = case.graph.victims(nodes, &judgement.culprits);
        judgement.severity = Severity::Critical;
        judgement.cause = if primitive == Primitive::Send { "no_send" } else { "no_recv" };
        judgement.key = format!("pair/{from}-{to}/lacks");
        let (has, lacks) = match primitive {
            Primitive::Send => ("receives from it", "send"),
            _ => ("sends to it", "receive"),
        };
        judgement.message = format!(
            "{} has not called the {lacks} for rank {other}, which {has} in {} since {}, and {instead}; {}",
            words::who(case.sight, process, Some(lacking)),
            words::comm(case.sight.communicator(communicator)),
            judgement.began_at.map(words::clock).unwrap_or_default(),
            words::others_wait(judgement.victims.len()),
        );
        judgement.advice = format!("Stop the job: it cannot go on. {ADVICE}");
        judgement.details.extend(pairs(case, communicator, from, to));
        case.tell(judgement, true);
        ask(case, communicator, &[from, to]);
    }
    explains
}

/// Whether a rank has made fewer sends to (or receives from) another than that one has made for it: a send may end, and
/// its rank go on, long before the receive ends. Of files it is as open calls say it. `None`: nobody knows yet.
fn has_left_out(
    sight: &Sight<'_, '_>,
    communicator: u32,
    (rank, other): (u32, u32),
    is_send: bool,
) -> Option<bool> {
    let member = |rank: u32| Some(sight.member(communicator, sight.by_rank(communicator, rank)?));
    if member(rank)?.transfers.is_none() {
        return Some(true);
    }
    let made = |rank: u32, is_send: bool, peer: u32| made(member(rank)?, is_send, peer);
    match (made(rank, is_send, other), made(other, !is_send, rank)) {
        (Some(0), _) => Some(true),
        (own, others) => Some(own? < others?),
    }
}

/// How many sends (or receives) a rank has made with a peer. `None`: it has made some that are not told by peer.
fn made(member: &Member<'_>, is_send: bool, peer: u32) -> Option<u64> {
    let all = member.transfers.map(|all| if is_send { all.sends } else { all.recvs })?;
    let of_kind = || member.pairs.iter().filter(|pair| pair.is_send == is_send);
    let told: u64 = of_kind().map(|pair| pair.calls).sum();
    (told >= all).then(|| of_kind().find(|pair| pair.peer == peer).map_or(0, |pair| pair.calls))
}

/// Both sides are in it. Returns whether their sizes explain that it does not end.
pub(super) fn sizes_differ(case: &mut Case<'_, '_, '_>, place: u32) -> bool {
    let Place::Pair { communicator, from, to } = case.node(place).place else { return false };
    let of = |primitive: Primitive| {
        case.node(place).waiters.iter().find_map(|waiter| {
            let head = waiter.head?;
            (head.operation.signature.primitive == primitive).then_some((waiter.process, *head.operation))
        })
    };
    let (Some((sender, send)), Some((receiver, receive))) = (of(Primitive::Send), of(Primitive::Recv)) else {
        return false;
    };
    if send.bytes == receive.bytes && send.signature.datatype == receive.signature.datatype {
        return false;
    }
    let mut judgement = case.blank(FindingKind::P2pUnmatched, Some(communicator));
    judgement.began_at = case.began(place);
    let doing = [
        (sender, Some(from), format!("sends {} to rank {to}", amount(&send))),
        (receiver, Some(to), format!("receives {} from rank {from}", amount(&receive))),
    ];
    case.accuse(&mut judgement, &doing);
    judgement.victims = case.graph.victims(&[case.graph.place_node(place)], &judgement.culprits);
    judgement.severity = Severity::Critical;
    judgement.cause = "size";
    judgement.key = format!("pair/{from}-{to}/size");
    judgement.message = format!(
        "{} {}, and {} {}{}",
        words::who(case.sight, sender, Some(from)),
        doing[0].2,
        words::who(case.sight, receiver, Some(to)),
        doing[1].2,
        words::cost(judgement.victims.len(), judgement.began_at)
    );
    judgement.advice = "Stop the job and give both sides the same count and datatype.".to_owned();
    judgement.details.extend(pairs(case, communicator, from, to));
    case.tell(judgement, true);
    true
}

/// Details of a transfer that one side has not come to, and the question for more.
pub(super) fn detail(case: &mut Case<'_, '_, '_>, place: u32) -> Option<Detail> {
    let Place::Pair { communicator, from, to } = case.node(place).place else { return None };
    ask(case, communicator, &[from, to]);
    pairs(case, communicator, from, to)
}

/// Whether both sides have made as many calls, of other sizes: what was sent has ended, and the receive waits for more.
pub(super) fn unequal(case: &Case<'_, '_, '_>, place: u32) -> bool {
    let Place::Pair { communicator, from, to } = case.node(place).place else { return false };
    let both = case.sight.both_sides(communicator, from, to);
    // Of a group that has not ended nothing is sent.
    let is_queued = |rank: u32| {
        let at = case.sight.by_rank(communicator, rank);
        at.is_some_and(|at| case.sight.queued(case.sight.member(communicator, at)).is_some())
    };
    both.is_some_and(|(sent, received)| sent.calls == received.calls && sent.hash != received.hash)
        && !is_queued(from)
        && !is_queued(to)
}

/// Pairs of ranks that have made as many calls, of which the sizes differed: NCCL lets some of these pass, with wrong data.
/// Seen where somebody's calls by peer are told, which is where a transfer was slow; told of as long as the communicator
/// lives.
pub(super) fn completed(case: &mut Case<'_, '_, '_>) {
    let sight = case.sight;
    let told = pairs_told(case);
    for communicator in &sight.scene.communicators {
        let mut sent: BTreeMap<(u32, u32), Pair> = BTreeMap::new();
        for member in communicator.members.iter().filter(|member| sight.queued(member).is_none()) {
            let sends = member.pairs.iter().filter(|pair| pair.is_send);
            sent.extend(sends.map(|pair| ((member.rank, pair.peer), *pair)));
        }
        for member in communicator.members.iter().filter(|member| sight.queued(member).is_none()) {
            for received in member.pairs.iter().filter(|pair| !pair.is_send) {
                let Some(sent) = sent.get(&(received.peer, member.rank)) else { continue };
                // At as many calls both are of the same moment, whenever each was read.
                let differs = sent.calls == received.calls
                    && sent.hash != received.hash
                    && sent.bytes != received.bytes;
                if differs {
                    let ranks = (received.peer, member.rank);
                    case.memory.unequal.note(communicator.id, ranks, (*sent, *received));
                }
            }
        }
    }
    let mut differing = Vec::new();
    for (communicator, index) in sight.scene.communicators.iter().zip(0_u32..) {
        let known = case.memory.unequal.of(communicator.id);
        let untold = known.filter(|((from, to), _)| !told.contains(&(index, pair_key(*from, *to))));
        differing.extend(untold.map(|(ranks, pairs)| (index, ranks, pairs)));
    }
    for (communicator, ranks, pairs) in case.at_most(differing) {
        passed(case, communicator, ranks, pairs);
    }
}

/// Begins the keys of what is found of a pair of ranks.
fn pair_key(from: u32, to: u32) -> String {
    format!("pair/{from}-{to}/")
}

/// The pairs of ranks of which something is found, as communicator and key.
fn pairs_told(case: &Case<'_, '_, '_>) -> HashSet<(u32, String)> {
    let found = case.found.iter().map(|found| &found.judgement);
    let of_pairs = found.filter(|known| known.kind == FindingKind::P2pUnmatched);
    let key = |known: &Judgement| {
        let (pair, _) = known.key.rsplit_once('/')?;
        Some((known.communicator?, format!("{pair}/")))
    };
    of_pairs.filter_map(key).collect()
}

fn passed(
    case: &mut Case<'_, '_, '_>,
    communicator: u32,
    (from, to): (u32, u32),
    (sent, received): (Pair, Pair),
) {
    let sight = case.sight;
    let sides = sight.by_rank(communicator, from).zip(sight.by_rank(communicator, to));
    let Some((sender, receiver)) = sides else { return };
    let sender = sight.member(communicator, sender).process;
    let receiver = sight.member(communicator, receiver).process;
    let mut judgement = case.blank(FindingKind::P2pUnmatched, Some(communicator));
    let doing = [
        (sender, Some(from), format!("has sent {} bytes to rank {to}", sent.bytes)),
        (receiver, Some(to), format!("has received {} bytes from rank {from}", received.bytes)),
    ];
    case.accuse(&mut judgement, &doing);
    judgement.severity = Severity::Warning;
    judgement.cause = "size";
    judgement.key = format!("{}sizes", pair_key(from, to));
    judgement.message = format!(
        "{} has sent {} bytes to {} in {} calls, and that one has received {} in as many: what came may be wrong",
        words::who(sight, sender, Some(from)),
        sent.bytes,
        words::who(sight, receiver, Some(to)),
        sent.calls,
        received.bytes
    );
    judgement.advice =
        "Stop the job, for what came may be wrong, and give both sides the same count and datatype."
            .to_owned();
    case.tell(judgement, true);
}

fn amount(operation: &super::scene::Operation) -> String {
    let signature = words::signature(&operation.signature);
    signature
        .split(" of ")
        .nth(1)
        .and_then(|rest| rest.split(" to ").next())
        .map_or(signature.clone(), |rest| rest.split(" from ").next().unwrap_or(rest).to_owned())
}

/// Whether a rank has an open send or receive with a peer, wherever it is in its queue.
fn has_called(
    case: &Case<'_, '_, '_>,
    communicator: u32,
    rank: u32,
    peer: u32,
    primitive: Primitive,
) -> bool {
    let Some(at) = case.sight.by_rank(communicator, rank) else { return false };
    let member = case.sight.member(communicator, at);
    let process = case.sight.process(member.process);
    member.open.iter().any(|operation| {
        operation.signature.primitive == primitive
            && operation.signature.peer == Some(peer)
            && is_called(process, operation)
    })
}

/// How many calls each side has made, side by side.
fn pairs(case: &Case<'_, '_, '_>, communicator: u32, from: u32, to: u32) -> Option<Detail> {
    let (sent, received) = case.sight.both_sides(communicator, from, to)?;
    let line = |rank: u32, verb: &str, pair: Pair| {
        format!("rank {rank} has called {verb} {} times, {} bytes", pair.calls, pair.bytes)
    };
    Some(Detail {
        title: format!("From rank {from} to rank {to}"),
        lines: vec![line(from, "send", sent), line(to, "recv", received)],
    })
}

fn ask(case: &mut Case<'_, '_, '_>, communicator: u32, ranks: &[u32]) {
    for rank in ranks {
        let Some(at) = case.sight.by_rank(communicator, *rank) else { continue };
        let member = case.sight.member(communicator, at);
        let is_told = |is_send: bool| made(member, is_send, member.rank).is_some();
        if member.pairs.is_empty() || !is_told(true) || !is_told(false) {
            let what = Question::Pairs { communicator };
            case.asks.push(Ask { process: member.process, what });
        }
    }
}

/// Calls by peer come within this time from who is asked for them, even on a busy host; who does not tell them is judged
/// without.
const PAIRS_COME_WITHIN: Duration = Duration::from_secs(10);

const ADVICE: &str = "Compare the lists of sends and receives of both ranks: for each send there must be one receive, in \
                      the same order.";
