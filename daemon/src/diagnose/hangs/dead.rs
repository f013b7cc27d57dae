//! Processes that are gone while others still count on them. Survivors may be in no call at all: a killed process of a
//! communicator that others use is enough. One that has exited in good order is to blame only where somebody waits.

use std::collections::BTreeMap;
use std::time::Duration;

use super::case::Case;
use super::errors::REMOTE;
use super::scene::{Life, Member, MemberState};
use super::sight::{Sight, is_over, lives};
use super::sinks::{Group, Manner};
use super::{kernel, words};
use crate::api::{FindingKind, Severity};
use crate::clock::Timestamp;
use crate::words::plural;

/// One judgement for each host on which ranks have died. `groups`: those who are waited for.
pub(super) fn judge(case: &mut Case<'_, '_, '_>, groups: &[Group]) {
    let mut dead = Vec::new();
    let mut quiet = Vec::new();
    for (index, process) in (0_u32..).zip(&case.sight.scene.processes) {
        if lives(process.life) {
            continue;
        }
        let awaited = groups.iter().find(|group| {
            group.manner == Manner::Dead && group.ranks.iter().any(|(culprit, _)| *culprit == index)
        });
        let awaited = awaited.map(|group| case.node(group.place).place.communicator());
        if let Some((communicator, place)) = missed_in(case, index, awaited) {
            let is_quiet = process.life == Life::Exited && awaited.is_none();
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
    for (host, dead) in by_host {
        of_host(case, groups, host, &dead);
    }
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
    let ended = (!lives(process.life)).then(|| process.ended_at.unwrap_or(process.read_at));
    ended.into_iter().chain(aborted).min().map(|at| process.ours(at))
}

/// The same whether others still use its rank or have ended too.
pub(super) fn key(sight: &Sight<'_, '_>, process: u32) -> String {
    let process = sight.process(process);
    let host = sight.scene.hosts.get(process.host as usize).map_or("", |host| host.name);
    format!("dead/{host}/{}", process.pid)
}

/// The communicator in which others still use its rank: the one where they wait, else the largest.
fn missed_in(case: &Case<'_, '_, '_>, process: u32, awaited: Option<u32>) -> Option<(u32, u32)> {
    let sight = case.sight;
    let used = sight.parts(process).iter().copied().filter(|(communicator, place)| {
        let is_used = || {
            sight.communicator(*communicator).members.iter().any(|other| {
                other.process != process
                    && !is_over(other.state)
                    && sight.process(other.process).life == Life::Running
            })
        };
        !is_over(sight.member(*communicator, *place).state) && is_used()
    });
    used.max_by_key(|(communicator, _)| {
        (Some(*communicator) == awaited, sight.communicator(*communicator).members.len())
    })
}

fn of_host(case: &mut Case<'_, '_, '_>, groups: &[Group], host: u32, dead: &[(u32, u32, u32)]) {
    let sight = case.sight;
    let ended = |process: u32| sight.process(process).ended_at;
    let Some((first, communicator, _)) = dead.iter().min_by_key(|(process, ..)| ended(*process)).copied()
    else {
        return;
    };
    let mut judgement = case.blank(FindingKind::RankDead, Some(communicator));
    judgement.began_at = ended(first);
    judgement.severity = Severity::Critical;
    judgement.key = key(sight, first);
    let mut culprits: Vec<(u32, Option<u32>, String)> = dead
        .iter()
        .map(|(process, of, place)| {
            // Ranks of other communicators would be taken for ranks of this one.
            let rank = (*of == communicator).then(|| sight.member(*of, *place).rank);
            (*process, rank, words::ended(sight.process(*process)).to_owned())
        })
        .collect();
    culprits.sort_by_key(|(process, rank, _)| (*process != first, *rank));
    case.accuse(&mut judgement, &culprits);
    let nodes: Vec<u32> = groups
        .iter()
        .filter(|group| group.manner == Manner::Dead)
        .flat_map(|group| group.nodes.iter().copied())
        .filter(|node| judgement.culprits.binary_search(node).is_ok())
        .collect();
    judgement.victims = case.graph.victims(&nodes, &judgement.culprits);
    let it = sight.process(first);
    judgement.cause = if it.life == Life::Killed { "killed" } else { "exited" };
    let kernel = kernel::words_about(case, host, first, judgement.began_at);
    if let Some((cause, text)) = &kernel {
        judgement.cause = cause;
        judgement
            .details
            .push(crate::api::Detail { title: "The kernel says".to_owned(), lines: vec![text.clone()] });
    }
    judgement.message =
        message(case, groups, &culprits, &judgement.victims, communicator, kernel.map(|word| word.1));
    judgement.advice = format!(
        "See its own output, and the kernel's log of {} (out of memory, Xid). Only a restart of the job frees the others.",
        sight.host_name(it)
    );
    case.warnings(communicator, &mut judgement);
    case.tell(judgement, true);
}

fn message(
    case: &Case<'_, '_, '_>,
    groups: &[Group],
    culprits: &[(u32, Option<u32>, String)],
    victims: &[u32],
    communicator: u32,
    kernel: Option<String>,
) -> String {
    let sight = case.sight;
    let Some((first, rank, what)) = culprits.first() else { return String::new() };
    let at = sight.process(*first).ended_at.map(|at| format!(" at {}", words::clock(at))).unwrap_or_default();
    let more = match culprits.len() - 1 {
        0 => String::new(),
        n => format!(", and so were {} of its host", plural(n, "more process")),
    };
    let kernel = kernel.map(|kernel| format!(" ({kernel})")).unwrap_or_default();
    let place = groups.iter().find(|group| {
        group.manner == Manner::Dead && group.ranks.iter().any(|(process, _)| process == first)
    });
    let waiting = match (place, victims.len()) {
        (Some(group), n) if n > 0 => {
            format!("{} for it in {}", words::others_wait(n), case.place_words(group.place))
        }
        _ => format!("others still use {} with it", words::comm(sight.communicator(communicator))),
    };
    format!("{} {what}{at}{kernel}{more}; {waiting}", words::who(sight, *first, *rank))
}

/// That somebody is gone is seen a reading or two after it; its peers may be told before.
const SEEN_LATE: Duration = Duration::from_secs(5);
