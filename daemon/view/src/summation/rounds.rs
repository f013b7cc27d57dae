//! Results.

use std::cmp::Reverse;

use ringscope_api::clock::Timestamp;
use ringscope_api::{SummationRound, SummationRounds};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;
use ringscope_model::summation::{Group, Outcome};

use super::members::ns;
use crate::number;

/// The newest results of a group, at most `limit`; only of the part `key` if there is one. `None`: no such group.
#[must_use]
pub fn summation_rounds(
    model: &Model,
    _diagnosis: &Diagnosis,
    _now: Timestamp,
    id: &str,
    key: Option<u32>,
    limit: usize,
) -> Option<SummationRounds> {
    let group = model.summation(id.parse().ok()?)?;
    let newest = group.rounds().newest().filter(|outcome| key.is_none_or(|key| outcome.key == key));
    let mut items: Vec<SummationRound> = newest.take(limit).map(|outcome| round(group, outcome)).collect();
    items.sort_by_key(|round| Reverse(round.at));
    Some(SummationRounds { items })
}

fn round(group: &Group, outcome: &Outcome) -> SummationRound {
    let made = outcome.made;
    let is_asynchronous = group.facts().is_some_and(|facts| facts.asynchronous);
    let service = |rank| group.services().find(|service| group.rank(service.place) == rank);
    SummationRound {
        key: outcome.key,
        round: outcome.round,
        fingerprint: format!("0x{:016x}", outcome.fingerprint()),
        at: outcome.at,
        made_by: made.and_then(|made| service(made.rank)).map(|service| number(service.index)),
        contributors: made.map(|made| made.contributors),
        last_arriver: made.map(|made| made.last_arriver),
        spread_ns: made.map(|made| ns(made.spread)),
        took_ns: made.map(|made| ns(made.took)),
        agree: outcome.agree().filter(|_| !is_asynchronous),
    }
}
