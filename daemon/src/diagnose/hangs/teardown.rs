//! Ranks that are in destroy, finalize or abort and do not come out.

use super::case::Case;
use super::places::Place;
use super::words;
use crate::api::{FindingKind, Severity};

/// All who could be waited for are in it too, or it waits for nobody.
pub(super) fn all_in(case: &mut Case<'_, '_, '_>, place: u32) {
    let at = case.node(place).place;
    let sight = case.sight;
    let age = case.age(place);
    if age < sight.settings.stalled_after {
        return;
    }
    let Some(first) = case.first_in(place) else { return };
    let mut judgement = case.blank(FindingKind::TeardownStuck, Some(at.communicator()));
    judgement.began_at = Some(first.since);
    judgement.severity = match age {
        age if age >= sight.settings.init_critical => Severity::Critical,
        age if age >= sight.settings.init_told => Severity::Warning,
        _ => Severity::Info,
    };
    judgement.cause = if matches!(at, Place::Abort { .. }) { "abort" } else { "all_in" };
    judgement.key = format!("{}/all", at.key());
    let since = case.since_words(place);
    let of = case.place_words(place);
    let culprits: Vec<(u32, Option<u32>, String)> = case
        .node(place)
        .waiters
        .iter()
        .map(|waiter| (waiter.process, Some(waiter.rank), format!("is in {of} {since}")))
        .collect();
    case.accuse(&mut judgement, &culprits);
    judgement.message = match culprits.as_slice() {
        [(process, rank, doing)] => {
            format!("{} {doing} and does not come out", words::who(sight, *process, *rank))
        }
        many => {
            let ranks: Vec<u32> = many.iter().filter_map(|(_, rank, _)| *rank).collect();
            format!("{} are in {of} {since} and do not come out", words::ranks(&ranks))
        }
    };
    judgement.advice =
        "End their processes (`kill -9`): nothing that they still hold is needed. See the library's WARN lines for what \
         went wrong before."
            .to_owned();
    case.warnings(at.communicator(), &mut judgement);
    case.tell(judgement, false);
}
