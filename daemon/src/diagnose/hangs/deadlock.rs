//! Ranks that wait for each other in a circle.

use std::collections::BTreeMap;

use super::case::Case;
use super::graph::At;
use super::{p2p, words};
use crate::api::{Detail, FindingKind, Severity};
use crate::words::list;

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
    // Who waits where, of those in the circle.
    let mut by_place: BTreeMap<u32, Vec<(u32, Option<u32>)>> = BTreeMap::new();
    for place in &places {
        let waiters = case.node(*place).waiters.iter();
        let inside = waiters.filter(|waiter| processes.binary_search(&waiter.process).is_ok());
        let inside: Vec<_> = inside.map(|waiter| (waiter.process, Some(waiter.rank))).collect();
        if !inside.is_empty() {
            by_place.insert(*place, inside);
        }
    }
    let Some(fewest) = by_place.values().map(Vec::len).min() else { return };
    let is_even = by_place.values().all(|waiters| waiters.len() == fewest);
    // Whose order differs from most: those in the place with the fewest. Where all have as many, nobody is odd.
    let odd: Vec<u32> = by_place
        .iter()
        .filter(|(_, waiters)| waiters.len() == fewest || is_even)
        .map(|(place, _)| *place)
        .collect();
    let Some(first_place) = odd.first().copied() else { return };
    let mut culprits: Vec<(u32, Option<u32>, String)> = Vec::new();
    for place in &odd {
        for (process, rank) in by_place.get(place).into_iter().flatten() {
            if !culprits.iter().any(|(known, ..)| known == process) {
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
    by_place: &BTreeMap<u32, Vec<(u32, Option<u32>)>>,
    culprits: &[(u32, Option<u32>, String)],
    (first_place, is_even): (u32, bool),
) {
    let communicator = case.node(first_place).place.communicator();
    let mut judgement = case.blank(FindingKind::OrderDeadlock, Some(communicator));
    judgement.began_at =
        places.iter().filter_map(|place| case.first_in(*place)).map(|first| first.since).max();
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
    let of: Vec<&str> = circle.iter().map(String::as_str).collect();
    let who: Vec<String> = culprits
        .iter()
        .take(words::NAMED)
        .map(|(process, rank, _)| words::who(case.sight, *process, *rank))
        .collect();
    let who: Vec<&str> = who.iter().map(String::as_str).collect();
    let who = list(&who, words::NAMED);
    judgement.message = if is_even {
        format!("{who} wait for each other: {}", list(&of, CIRCLE_NAMED))
    } else {
        let is = if culprits.len() == 1 { "calls" } else { "call" };
        format!(
            "{who} {is} in another order than the others, and all wait for each other: {}",
            list(&of, CIRCLE_NAMED)
        )
    };
    judgement.advice =
        "Make all ranks call in the same order on all communicators (one stream, or one thread that issues \
         all calls); sends and receives that cross each other belong into one group."
            .to_owned();
    judgement
        .details
        .push(Detail { title: "The circle".to_owned(), lines: circle.into_iter().take(LINES).collect() });
    judgement.details.extend(orders(case, culprits));
    case.tell(judgement, true);
}

fn full_key(case: &Case<'_, '_, '_>, place: u32) -> String {
    let at = case.node(place).place;
    format!("{}/{}", case.sight.communicator(at.communicator()).id, super::missing::place_key(at))
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
        let calls = calls.into_iter().take(ORDER);
        calls.map(|(operation, of)| format!("{} of {}", words::call(operation), words::comm(of))).collect()
    };
    let named = culprits.iter().take(ORDERS);
    named
        .map(|(process, rank, _)| Detail {
            title: format!("Open calls of {}, oldest first", words::who(case.sight, *process, *rank)),
            lines: order(*process),
        })
        .collect()
}

/// Places of a circle in one sentence.
const CIRCLE_NAMED: usize = 4;
/// And in the details.
const LINES: usize = 16;
/// Ranks whose orders are shown, and calls of each.
const ORDERS: usize = 3;
const ORDER: usize = 8;
