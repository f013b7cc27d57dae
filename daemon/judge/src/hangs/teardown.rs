//! Ranks that are in destroy, finalize or abort and do not come out. Where ranks abort because they waited for somebody
//! in vain, that one is to blame and not they.

use ringscope_api::{FindingKind, Severity};

use super::case::Case;
use super::places::{self, Place};
use super::scene::Member;
use super::sight::{Sight, lives};
use super::words;

/// All who could be waited for are in it too, or it waits for nobody.
pub(super) fn all_in(case: &mut Case<'_, '_, '_>, place: u32) {
    let at = case.node(place).place;
    let sight = case.sight;
    let age = case.age(place);
    if age < sight.settings.stalled_after {
        return;
    }
    if matches!(at, Place::Abort { .. }) && gave_up(case, place) {
        return;
    }
    let mut judgement = case.blank(FindingKind::TeardownStuck, Some(at.communicator()));
    judgement.began_at = case.began(place);
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
    let names = words::names(sight, &culprits);
    judgement.message = match culprits.as_slice() {
        [(.., doing)] => format!("{names} {doing} and does not come out"),
        _ => format!("{names} are in {of} {since} and do not come out"),
    };
    judgement.advice =
        "End their processes (`kill -9`): nothing that they still hold is needed. See the library's WARN lines for what \
         went wrong before."
            .to_owned();
    case.warnings(at.communicator(), &mut judgement);
    case.tell(judgement, false);
}

/// A call that ranks have given up: they abort.
struct GivenUp<'s, 'a> {
    number: u64,
    aborting: Vec<&'s Member<'a>>,
    /// Who has not come to it. Never empty.
    late: Vec<&'s Member<'a>>,
}

impl<'s, 'a> GivenUp<'s, 'a> {
    /// Absent: nobody is known to be late.
    fn of(sight: &Sight<'s, 'a>, communicator: u32) -> Option<Self> {
        let members = &sight.communicator(communicator).members;
        let made = |member: &Member<'_>| sight.calls_made(member);
        let next = |member: &Member<'_>| {
            let last = member.last_completed.filter(|_| member.completion_known);
            last.map_or(Some(0), |last| last.number.map(|number| number + 1))
        };
        let aborts = |member: &&Member<'_>| places::aborts(sight.process(member.process), communicator);
        let aborting: Vec<&Member<'a>> = members.iter().filter(aborts).collect();
        let given_up = aborting.iter().filter_map(|member| {
            let next = next(member)?;
            made(member).is_some_and(|made| made > next).then_some(next)
        });
        let number = given_up.min()?;
        let has_not_come = |member: &&Member<'_>| {
            let process = sight.process(member.process);
            let proves = lives(process.life) && sight.blind(process).is_none();
            proves && made(member).is_some_and(|made| made <= number)
        };
        let late: Vec<&Member<'a>> = members.iter().filter(has_not_come).collect();
        (!late.is_empty()).then_some(Self { number, aborting, late })
    }
}

/// Names those who have not come to a call that others have given up, unless they are named already. Returns whether there
/// are such. Watchdogs of all ranks abort, also of those who have not come.
fn gave_up(case: &mut Case<'_, '_, '_>, place: u32) -> bool {
    let sight = case.sight;
    let communicator = case.node(place).place.communicator();
    let of = sight.communicator(communicator);
    let Some(GivenUp { number, aborting, late }) = GivenUp::of(sight, communicator) else { return false };
    let is_named = case.found.iter().map(|found| &found.judgement).any(|known| {
        let names = |member: &&Member<'_>| known.culprits.binary_search(&member.process).is_ok();
        known.communicator == Some(communicator) && late.iter().any(names)
    });
    if is_named {
        return true;
    }
    let mut judgement = case.blank(FindingKind::RankMissing, Some(communicator));
    judgement.began_at = case.began(place);
    judgement.severity = Severity::Critical;
    judgement.cause = "given_up";
    judgement.key = format!("call/{number}/given_up");
    let culprits: Vec<(u32, Option<u32>, String)> = late
        .iter()
        .map(|member| (member.process, Some(member.rank), words::doing(sight, member.process).1))
        .collect();
    case.accuse(&mut judgement, &culprits);
    judgement.victims = aborting.iter().map(|member| member.process).collect();
    judgement.victims.sort_unstable();
    judgement.victims.dedup();
    judgement.victims.retain(|process| judgement.culprits.binary_search(process).is_err());
    let has_not_come = format!("not come to call #{number} of {}", words::comm(of));
    let names = words::names(sight, &culprits);
    let what = match culprits.as_slice() {
        [(.., doing)] => format!("{names} has {has_not_come}: it {doing}"),
        _ => format!("{names} have {has_not_come}"),
    };
    let since = judgement.began_at.map(|at| format!(" since {}", words::clock(at))).unwrap_or_default();
    judgement.message = match judgement.victims.len() {
        1 => format!("{what}; 1 other waited{since}, has given up and aborts"),
        n => format!("{what}; {n} others waited{since}, have given up and abort"),
    };
    judgement.advice =
        "See what kept these ranks from the call (their output, their stacks): the others' aborts follow from it. Then end \
         all processes and restart."
            .to_owned();
    case.warnings(communicator, &mut judgement);
    case.tell(judgement, true).number = Some(number);
    true
}
