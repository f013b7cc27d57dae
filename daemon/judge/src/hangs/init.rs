//! Inits and splits that do not end: who disagrees on the number of ranks, who has not come, or all have and stay.

use ringscope_api::words::plural;
use ringscope_api::{Detail, FindingKind, Severity};

use super::absent::siblings;
use super::case::Case;
use super::places::Place;
use super::scene::{Life, Member, MemberState};
use super::sinks::{Group, Manner};
use super::{files, words};

/// Ranks of one init that give other numbers of ranks: they will never be complete. The smaller part is odd.
pub(super) fn disagreements(case: &mut Case<'_, '_, '_>) {
    let sight = case.sight;
    for (communicator, index) in sight.scene.communicators.iter().zip(0_u32..) {
        let forming = communicator.members.iter().any(|member| member.state == MemberState::Forming);
        if !forming {
            continue;
        }
        let others = siblings(sight, index);
        let members = |of: &u32| sight.communicator(*of).members.len();
        // Told once, of the part with the fewest ranks.
        let Some(most) = others.iter().max_by_key(|other| (members(other), **other)) else { continue };
        if (members(&index), index) >= (members(most), *most) {
            continue;
        }
        let mut judgement = case.blank(FindingKind::InitStuck, Some(index));
        let created = |member: &Member<'_>| sight.process(member.process).ours(member.created_at);
        judgement.began_at = communicator.members.iter().map(created).min();
        let says = format!("says that there are {} ranks", communicator.n_ranks);
        let culprits: Vec<(u32, Option<u32>, String)> = communicator
            .members
            .iter()
            .map(|member| (member.process, Some(member.rank), says.clone()))
            .collect();
        case.accuse(&mut judgement, &culprits);
        let majority = sight.communicator(*most);
        judgement.victims = majority.members.iter().map(|member| member.process).collect();
        judgement.victims.sort_unstable();
        judgement.victims.retain(|process| judgement.culprits.binary_search(process).is_err());
        judgement.cause = "n_ranks_differ";
        judgement.key = "n_ranks".to_owned();
        judgement.severity = Severity::Critical;
        let who = words::names(sight, &culprits);
        judgement.message = format!(
            "{who} called the init of {} with {} ranks, {} with {}: it cannot end{}",
            words::comm(majority),
            communicator.n_ranks,
            plural(majority.members.len(), "other"),
            majority.n_ranks,
            words::cost(judgement.victims.len(), judgement.began_at)
        );
        judgement.advice = "Stop the job and give all ranks the same world size (WORLD_SIZE, the launcher's number of nodes \
             and of processes per node)."
            .to_owned();
        case.tell(judgement, true);
    }
}

/// All have come, and the init does not end.
pub(super) fn all_in(case: &mut Case<'_, '_, '_>, place: u32) {
    let at = case.node(place).place;
    let sight = case.sight;
    let age = case.age(place);
    let disagrees = matches!(at, Place::Init { communicator } if !siblings(sight, communicator).is_empty());
    if age < sight.settings.init_told || disagrees {
        return;
    }
    if files::is_of(case, place) {
        return files::no_end(case, place);
    }
    let mut judgement = case.blank(FindingKind::InitStuck, Some(at.communicator()));
    judgement.began_at = case.began(place);
    judgement.severity =
        if age >= sight.settings.init_critical { Severity::Critical } else { Severity::Warning };
    judgement.victims = case.graph.victims(&[case.graph.place_node(place)], &[]);
    judgement.cause = "all_in";
    judgement.key = format!("{}/all", at.key());
    let (of, since) = (case.place_words(place), case.since_words(place));
    let n = case.node(place).waiters.len();
    judgement.message = match (at, sight.communicator(at.communicator()).members.len()) {
        // Others have come out of it, or may have.
        (Place::Split { .. }, n_members) if n < n_members => format!(
            "{n} of {n_members} ranks are in {of} {since}, and it does not end; all others may have come out of it"
        ),
        _ => format!("all {n} ranks are in {of} {since}, and it does not end: not the program"),
    };
    judgement.advice =
        "They cannot reach each other: see the library's WARN lines, the network interface that it chose \
         (NCCL_SOCKET_IFNAME) and firewalls between the hosts."
            .to_owned();
    case.warnings(at.communicator(), &mut judgement);
    case.tell(judgement, false);
}

/// The function that these ranks have not called and others wait in, where that is known.
pub(super) fn not_called(case: &Case<'_, '_, '_>, group: &Group) -> Option<String> {
    let sight = case.sight;
    let called_nothing =
        |process: u32| group.manner == Manner::Elsewhere || sight.has_never_called(sight.process(process));
    let place = case.node(group.place).place;
    let is_sure = group.ranks.iter().all(|(process, _)| called_nothing(*process));
    function(case, place, group.place).filter(|_| is_sure && !files::is_of(case, group.place))
}

/// The function that an init or a split is called with.
fn function(case: &Case<'_, '_, '_>, at: Place, place: u32) -> Option<String> {
    match at {
        Place::Init { communicator } => {
            let mut made_by =
                case.sight.communicator(communicator).members.iter().map(|member| member.made_by);
            Some(made_by.find(|name| !name.is_empty()).unwrap_or("ncclCommInitRank").to_owned())
        }
        Place::Split { parent } => {
            let waiters = case.node(place).waiters.iter();
            let mut forming = waiters.flat_map(|waiter| case.sight.process(waiter.process).forming.iter());
            forming.find(|one| one.parent == Some(parent)).map(|one| one.function.to_string())
        }
        _ => None,
    }
}

/// Of ranks nobody tells: the sentence, which says what would be needed.
pub(super) fn unseen(case: &Case<'_, '_, '_>, place: u32, of: &str, waiting: &str, since: &str) -> String {
    let at = case.node(place).place;
    let communicator = case.sight.communicator(at.communicator());
    let ranks = unseen_ranks(communicator.n_ranks, communicator.members.iter().map(|member| member.rank));
    let n_unseen = communicator.n_ranks as usize - communicator.members.len();
    let names = match n_unseen.saturating_sub(ranks.len()) {
        0 => words::ranks(&ranks),
        more => format!("{} and {more} more", words::ranks(&ranks)),
    };
    if files::is_of(case, place) {
        let they = if ranks.len() == 1 { "it has" } else { "they have" };
        return format!(
            "no file tells of {names}, so nobody knows whether {they} come to {of}; {waiting}{since}"
        );
    }
    let is_one = ranks.len() == 1;
    if matches!(at, Place::Init { .. }) {
        let (has, it) = if is_one { ("has", "it") } else { ("have", "them") };
        let function = function(case, at, place).unwrap_or_default();
        return format!("{names} {has} not called {function}; {waiting} for {it} in {of}{since}");
    }
    let (is, they) = if is_one { ("is", "it has") } else { ("are", "they have") };
    format!("{names} of {of} {is} not seen, so nobody knows whether {they} come; {waiting}{since}")
}

/// The ranks of which nobody tells, ascending; the first ones.
fn unseen_ranks(n_ranks: u32, seen: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seen = seen.peekable();
    let unseen = (0..n_ranks).filter(|rank| seen.next_if_eq(rank).is_none());
    unseen.take(UNSEEN_NAMED).collect()
}

/// Which ranks of an init are in which phase, beside the judgement of those who have not come; where nobody knows who these
/// are, what the other processes do.
pub(super) fn phases(case: &Case<'_, '_, '_>, group: &Group) -> Option<Detail> {
    let communicator = case.node(group.place).place.communicator();
    let of = case.sight.communicator(communicator);
    let (forming, formed): (Vec<_>, Vec<_>) =
        of.members.iter().partition(|member| member.state == MemberState::Forming);
    let ranks = |members: &[&Member<'_>]| {
        let ranks: Vec<u32> = members.iter().map(|member| member.rank).collect();
        words::ranks(&ranks)
    };
    let mut lines = vec![format!("in the init: {}", ranks(&forming))];
    if !formed.is_empty() {
        lines.push(format!("through it: {}", ranks(&formed)));
    }
    if group.ranks.is_empty() {
        lines.extend(outside(case, communicator));
    }
    (!forming.is_empty()).then(|| Detail { title: "Who is where".to_owned(), lines })
}

/// What the processes do that run and are not in the communicator: the ranks that it lacks are among them.
fn outside(case: &Case<'_, '_, '_>, communicator: u32) -> impl Iterator<Item = String> {
    let sight = case.sight;
    let outside = (0_u32..).zip(&sight.scene.processes).filter(move |(index, process)| {
        process.life == Life::Running && sight.parts(*index).iter().all(|(known, _)| *known != communicator)
    });
    let words = outside.map(move |(index, process)| {
        let (_, doing) = words::doing(sight, index);
        let doing = case.look_in_short(index, None).map_or(doing, |look| format!("is {look}"));
        let doing = if sight.is_unheard(process) { "is not heard".to_owned() } else { doing };
        format!("not in it: {} {doing}", words::who(sight, index, None))
    });
    words.take(words::NAMED)
}

/// Ranks of which nobody tells that are looked for.
const UNSEEN_NAMED: usize = 64;
