//! Ranks that wait for each other in a circle.

use std::collections::{BTreeSet, HashSet};

use ringscope_api::words::list;
use ringscope_api::{Detail, FindingKind, Severity};

use super::case::Case;
use super::graph::At;
use super::places::Place;
use super::{p2p, words};

/// Judges one circle; its nodes are processes and places.
pub(super) fn judge(case: &mut Case<'_, '_, '_>, nodes: &[u32]) {
    let mut processes = Vec::new();
    let mut places = Vec::new();
    for node in nodes {
        match case.graph.at(*node) {
            At::Process(process) => processes.push(process),
            At::Place(place) if case.node(place).place.is_real() => places.push(place),
            At::Place(_) => {}
        }
    }
    if p2p::in_circle(case, nodes, &processes, &places) {
        return;
    }
    let mut by_place: Vec<Inside> = Vec::new();
    for place in &in_order(case, &places) {
        let waiters = case.node(*place).waiters.iter();
        let inside = waiters.filter(|waiter| processes.binary_search(&waiter.process).is_ok());
        let inside: Vec<_> = inside.map(|waiter| (waiter.process, Some(waiter.rank))).collect();
        if !inside.is_empty() {
            by_place.push((*place, inside));
        }
    }
    let Some(fewest) = by_place.iter().map(|(_, waiters)| waiters.len()).min() else { return };
    let is_even = by_place.iter().all(|(_, waiters)| waiters.len() == fewest);
    // Whose order differs from most: those in the place with the fewest. Where all have as many, nobody is odd.
    let odd = || by_place.iter().filter(|(_, waiters)| waiters.len() == fewest || is_even);
    let Some(first_place) = odd().map(|(place, _)| *place).min() else { return };
    let mut culprits: Vec<(u32, Option<u32>, String)> = Vec::new();
    let mut known = HashSet::new();
    for (place, waiters) in odd() {
        for (process, rank) in waiters {
            if known.insert(*process) {
                culprits.push((*process, *rank, format!("is in {}", case.place_words(*place))));
            }
        }
    }
    tell(case, nodes, &places, &by_place, &culprits, (first_place, is_even));
}

fn tell(
    case: &mut Case<'_, '_, '_>,
    nodes: &[u32],
    places: &[u32],
    by_place: &[Inside],
    culprits: &[(u32, Option<u32>, String)],
    (first_place, is_even): (u32, bool),
) {
    let communicator = case.node(first_place).place.communicator();
    let mut judgement = case.blank(FindingKind::OrderDeadlock, Some(communicator));
    judgement.began_at = places.iter().filter_map(|place| case.began(*place)).max();
    case.accuse(&mut judgement, culprits);
    judgement.victims = case.graph.victims(nodes, &judgement.culprits);
    judgement.cause = if is_even { "circle" } else { "odd_order" };
    judgement.severity = Severity::Critical;
    let keys: Vec<String> = places.iter().map(|place| full_key(case, *place)).collect();
    judgement.key =
        format!("circle/{}", keys.iter().take(4).map(String::as_str).collect::<Vec<_>>().join("+"));
    let circle: Vec<String> = by_place
        .iter()
        .map(|(place, waiters)| {
            let ranks: Vec<u32> = waiters.iter().filter_map(|(_, rank)| *rank).collect();
            format!("{} in {}", words::ranks(&ranks), case.place_words(*place))
        })
        .collect();
    let in_short = list(&circle, CIRCLE_NAMED);
    let who = words::who_all(case.sight, culprits);
    let cost = words::cost(judgement.victims.len(), judgement.began_at);
    judgement.message = if is_even {
        format!("{who} wait for each other: {in_short}{cost}")
    } else {
        let is = if culprits.len() == 1 { "calls" } else { "call" };
        format!("{who} {is} in another order than the others, and all wait for each other: {in_short}{cost}")
    };
    let is_init = |place: &u32| matches!(case.node(*place).place, Place::Init { .. } | Place::Split { .. });
    judgement.advice = if places.iter().all(is_init) { ADVICE_INIT } else { ADVICE }.to_owned();
    judgement
        .details
        .push(Detail { title: "The circle".to_owned(), lines: circle.into_iter().take(LINES).collect() });
    judgement.details.extend(orders(case, culprits));
    case.tell(judgement, true);
}

/// The places of a circle, each before the one in which those are that it waits for, as far as one way leads.
fn in_order(case: &Case<'_, '_, '_>, places: &[u32]) -> Vec<u32> {
    let mut left: BTreeSet<u32> = places.iter().copied().collect();
    let mut ordered: Vec<u32> = Vec::with_capacity(left.len());
    while let Some(first) = left.first().copied() {
        let after = ordered.last().map(|last| case.graph.places_after(*last)).unwrap_or_default();
        let next = after.into_iter().find(|place| left.contains(place)).unwrap_or(first);
        left.remove(&next);
        ordered.push(next);
    }
    ordered
}

fn full_key(case: &Case<'_, '_, '_>, place: u32) -> String {
    let at = case.node(place).place;
    format!("{}/{}", case.sight.communicator(at.communicator()).id, at.key())
}

/// The calls of each culprit in the order in which it made them.
fn orders(case: &Case<'_, '_, '_>, culprits: &[(u32, Option<u32>, String)]) -> Vec<Detail> {
    let order = |process: u32| {
        let mut calls: Vec<_> = case
            .sight
            .parts(process)
            .iter()
            .flat_map(|(communicator, place)| {
                let of = case.sight.communicator(*communicator);
                case.sight.member(*communicator, *place).open.iter().map(move |operation| (operation, of))
            })
            .collect();
        calls.sort_by_key(|(operation, _)| operation.issued_at);
        let calls = calls
            .into_iter()
            .map(|(operation, of)| format!("{} of {}", words::call(operation), words::comm(of)));
        let it = case.sight.process(process);
        let functions = it.open_calls.iter().filter_map(|open| {
            let of = case.sight.communicator(open.communicator?);
            let since = words::clock(it.ours(open.entered_at));
            Some(format!("{} of {}, since {since}", open.function, words::comm(of)))
        });
        calls.chain(functions).take(ORDER).collect()
    };
    let named = culprits.iter().take(ORDERS);
    named
        .map(|(process, rank, _)| Detail {
            title: format!("Open calls of {}, oldest first", words::who(case.sight, *process, *rank)),
            lines: order(*process),
        })
        .collect()
}

/// A place, and who of the circle is in it.
type Inside = (u32, Vec<(u32, Option<u32>)>);

const ADVICE: &str = "Stop the job: it cannot go on. Make all ranks call in the same order on all communicators (one stream, or \
                      one thread that issues all calls); sends and receives that cross each other belong into one group.";
const ADVICE_INIT: &str = "Stop the job: it cannot go on. Make the communicators in the same order on all ranks: each init waits \
                           until all of its ranks have come.";
/// Places of a circle in one sentence.
const CIRCLE_NAMED: usize = 4;
/// And in the details.
const LINES: usize = 16;
/// Ranks whose orders are shown, and calls of each.
const ORDERS: usize = 3;
const ORDER: usize = 8;
