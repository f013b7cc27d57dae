//! Processes that are gone while others still count on them. Survivors may be in no call at all: a killed process of a
//! communicator that others use is enough. One that has exited in good order is to blame only where somebody waits.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::plural;
use ringscope_api::{FindingKind, Severity};

use super::case::Case;
use super::errors::REMOTE;
use super::scene::{Life, Member, MemberState, Process};
use super::sight::{Sight, is_over, lives};
use super::sinks::{Group, Manner};
use super::{kernel, words};

/// One judgement for each host on which ranks have died. `groups`: those who are waited for.
pub(super) fn judge(case: &mut Case<'_, '_, '_>, groups: &[Group]) {
    let mut dead = Vec::new();
    let mut quiet = Vec::new();
    let awaited = Awaited::of(groups);
    let used = used(case);
    for (index, process) in (0_u32..).zip(&case.sight.scene.processes) {
        // Whom its launch has ended is gone because of somebody else.
        if lives(process.life) || process.exit.told.is_some() {
            continue;
        }
        let waits_in = awaited.0.get(&index).map(|place| case.node(*place).place.communicator());
        if let Some((communicator, place)) = missed_in(case, &used, index, waits_in) {
            let is_quiet = !process.ended_badly() && waits_in.is_none();
            if is_quiet { &mut quiet } else { &mut dead }.push((index, communicator, place));
        }
    }
    if dead.is_empty() {
        return;
    }
    let leavers = Leavers::of(case);
    let is_cause = |(process, ..): &(u32, u32, u32)| !leavers.told(case, *process);
    if dead.iter().any(is_cause) || leavers.any_aborts(case) {
        dead.retain(is_cause);
    } else if quiet.iter().any(is_cause) {
        quiet.retain(is_cause);
        dead = quiet;
    }
    let mut by_host: BTreeMap<u32, Vec<(u32, u32, u32)>> = BTreeMap::new();
    for one in dead {
        by_host.entry(case.sight.process(one.0).host).or_default().push(one);
    }
    // Those whose first rank died first, for there may be more than are told.
    let mut hosts: Vec<_> = by_host.into_iter().collect();
    let died = |(process, ..): &(u32, u32, u32)| left_at_end(case.sight.process(*process));
    hosts.sort_by_key(|(_, dead)| dead.iter().map(died).min());
    for (host, dead) in case.at_most(hosts) {
        of_host(case, &awaited, host, &dead);
    }
}

/// Of each of the dead who is waited for the place where that is.
struct Awaited(HashMap<u32, u32>);

impl Awaited {
    fn of(groups: &[Group]) -> Self {
        let dead = groups.iter().filter(|group| group.manner == Manner::Dead);
        let ranks = dead.flat_map(|group| group.ranks.iter().map(|(process, _)| (*process, group.place)));
        let mut places = HashMap::new();
        ranks.for_each(|(process, place)| _ = places.entry(process).or_insert(place));
        Self(places)
    }
}

/// Of each communicator that somebody who runs and is heard still uses: when the last of them made another one, in which calls
/// have completed. Who died before that is not needed any more. Zero: somebody has made none, or is in a call of this one.
fn used(case: &Case<'_, '_, '_>) -> Vec<Option<Timestamp>> {
    let sight = case.sight;
    let newest: Vec<Timestamp> =
        (0_u32..).zip(&sight.scene.processes).map(|(index, _)| newest_at_work(sight, index)).collect();
    let moved = |member: &Member<'_>| {
        let process = sight.process(member.process);
        let uses = !is_over(member.state) && process.life == Life::Running && !sight.is_unheard(process);
        let is_in = !member.open.is_empty() || member.queued.is_some();
        uses.then(|| if is_in { Timestamp(0) } else { newest[member.process as usize] })
    };
    sight.scene.communicators.iter().map(|of| of.members.iter().filter_map(moved).min()).collect()
}

/// When the newest of a process's communicators was made in which calls have completed, by our clock. Zero: there is none.
fn newest_at_work(sight: &Sight<'_, '_>, process: u32) -> Timestamp {
    let parts = sight.parts(process).iter();
    let members = parts.map(|(communicator, place)| sight.member(*communicator, *place));
    let at_work = members.filter(|member| !is_over(member.state) && member.last_completed.is_some());
    let made = at_work.map(|member| sight.process(process).ours(member.created_at));
    made.max().unwrap_or_default()
}

/// Of each communicator the two who were gone from it first, by our clock: who was told of that, and ended then, is a
/// victim and no cause.
struct Leavers(Vec<[Option<(Timestamp, u32)>; 2]>);

impl Leavers {
    fn of(case: &Case<'_, '_, '_>) -> Self {
        let communicators = case.sight.scene.communicators.iter();
        let first = communicators.map(|communicator| {
            let mut first: [Option<(Timestamp, u32)>; 2] = [None; 2];
            for member in &communicator.members {
                let Some(at) = left_at(case, member) else { continue };
                let one = Some((at, member.process));
                if first[0].is_none_or(|(known, _)| at < known) {
                    first = [one, first[0]];
                } else if first[1].is_none_or(|(known, _)| at < known) {
                    first[1] = one;
                }
            }
            first
        });
        Self(first.collect())
    }

    /// Whether the library told a process of a peer that was gone by then. An error from before that says nothing of it.
    fn told(&self, case: &Case<'_, '_, '_>, process: u32) -> bool {
        case.sight.parts(process).iter().any(|(communicator, place)| {
            let member = case.sight.member(*communicator, *place);
            let Some(error) = member.error.as_ref().filter(|error| error.code == REMOTE) else {
                return false;
            };
            let mut others = self.0[*communicator as usize].iter().flatten().filter(|(_, of)| *of != process);
            let at = error.at.map(|at| case.sight.process(process).ours(at));
            others.next().is_some_and(|(gone, _)| at.is_none_or(|at| gone.since(at) <= SEEN_LATE))
        })
    }

    /// Whether somebody has aborted a communicator whom nobody had told anything.
    fn any_aborts(&self, case: &Case<'_, '_, '_>) -> bool {
        let mut members =
            case.sight.scene.communicators.iter().flat_map(|communicator| &communicator.members);
        members.any(|member| member.state == MemberState::Aborted && !self.told(case, member.process))
    }
}

/// When a rank was gone, by our clock: its process ended, or it aborted.
fn left_at(case: &Case<'_, '_, '_>, member: &Member<'_>) -> Option<Timestamp> {
    let process = case.sight.process(member.process);
    let aborted = member.ended_at.filter(|_| member.state == MemberState::Aborted);
    let ended = (!lives(process.life)).then(|| left_at_end(process));
    ended.into_iter().chain(aborted.map(|at| process.ours(at))).min()
}

/// When a process that is gone was gone, by our clock.
fn left_at_end(process: &Process<'_>) -> Timestamp {
    process.ours(process.ended_at.unwrap_or(process.read_at))
}

/// The same whether others still use its rank or have ended too.
pub(super) fn key(sight: &Sight<'_, '_>, process: u32) -> String {
    let process = sight.process(process);
    let host = sight.scene.hosts.get(process.host as usize).map_or("", |host| host.name);
    format!("dead/{host}/{}", process.pid)
}

/// The communicator in which others still use its rank: the one where they wait, else the largest.
fn missed_in(
    case: &Case<'_, '_, '_>,
    used: &[Option<Timestamp>],
    process: u32,
    awaited: Option<u32>,
) -> Option<(u32, u32)> {
    let sight = case.sight;
    let died = left_at_end(sight.process(process));
    let used = sight.parts(process).iter().copied().filter(|(communicator, place)| {
        !is_over(sight.member(*communicator, *place).state)
            && used[*communicator as usize].is_some_and(|replaced| replaced <= died)
    });
    used.max_by_key(|(communicator, _)| {
        (Some(*communicator) == awaited, sight.communicator(*communicator).members.len())
    })
}

fn of_host(case: &mut Case<'_, '_, '_>, awaited: &Awaited, host: u32, dead: &[(u32, u32, u32)]) {
    let sight = case.sight;
    // Of one host, so by one clock.
    let ended = |process: u32| sight.process(process).ended_at;
    let Some((first, communicator, _)) = dead.iter().min_by_key(|(process, ..)| ended(*process)).copied()
    else {
        return;
    };
    let mut judgement = case.blank(FindingKind::RankDead, Some(communicator));
    judgement.began_at = ended(first).map(|at| sight.process(first).ours(at));
    judgement.severity = Severity::Critical;
    judgement.key = key(sight, first);
    let mut culprits: Vec<(u32, Option<u32>, String)> = dead
        .iter()
        .map(|(process, of, place)| {
            // Ranks of other communicators would be taken for ranks of this one.
            let rank = (*of == communicator).then(|| sight.member(*of, *place).rank);
            (*process, rank, words::ended(sight.process(*process)))
        })
        .collect();
    culprits.sort_by_key(|(process, rank, _)| (*process != first, *rank));
    case.accuse(&mut judgement, &culprits);
    // The node of a process has its number.
    let is_awaited = |process: &u32| awaited.0.contains_key(process);
    let nodes: Vec<u32> = judgement.culprits.iter().copied().filter(is_awaited).collect();
    judgement.victims = case.graph.victims(&nodes, &judgement.culprits);
    let it = sight.process(first);
    judgement.cause = if it.life == Life::Killed { "killed" } else { "exited" };
    let kernel = kernel::words_about(case, host, first);
    if let Some((cause, text)) = &kernel {
        judgement.cause = cause;
        judgement
            .details
            .push(ringscope_api::Detail { title: "The kernel says".to_owned(), lines: vec![text.clone()] });
    }
    judgement.message =
        message(case, awaited, &culprits, &judgement.victims, communicator, kernel.map(|word| word.1));
    judgement.advice = format!(
        "See its own output, and the kernel's log of {} (out of memory, Xid). Only a restart of the job frees the others.",
        sight.host_name(it)
    );
    case.warnings(communicator, &mut judgement);
    case.tell(judgement, true);
}

fn message(
    case: &Case<'_, '_, '_>,
    awaited: &Awaited,
    culprits: &[(u32, Option<u32>, String)],
    victims: &[u32],
    communicator: u32,
    kernel: Option<String>,
) -> String {
    let sight = case.sight;
    let Some((first, rank, what)) = culprits.first() else { return String::new() };
    let it = sight.process(*first);
    let at = it.ended_at.map(|at| format!(" at {}", words::clock(it.ours(at)))).unwrap_or_default();
    let more = match culprits.len() - 1 {
        0 => String::new(),
        n => format!("; {} of {} ended too", plural(n, "more process"), sight.host_name(it)),
    };
    let kernel = kernel.map(|kernel| format!(" ({kernel})")).unwrap_or_default();
    let waiting = match (awaited.0.get(first), victims.len()) {
        (Some(place), n) if n > 0 => {
            format!("{} for it in {}", words::others_wait(n), case.place_words(*place))
        }
        _ => format!("others still use {} with it", words::comm(sight.communicator(communicator))),
    };
    format!("{} {what}{at}{kernel}{more}; {waiting}", words::who(sight, *first, *rank))
}

/// That somebody is gone is seen a reading or two after it; its peers may be told before.
const SEEN_LATE: Duration = Duration::from_secs(5);
