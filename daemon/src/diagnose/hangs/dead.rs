//! Processes that are gone while others still count on them. Survivors may be in no call at all: a killed process of a
//! communicator that others use is enough. One that has exited in good order is to blame only where somebody waits.

use std::collections::BTreeMap;

use super::case::Case;
use super::errors::REMOTE;
use super::missing::lives;
use super::scene::{Life, Member, MemberState};
use super::sight::is_over;
use super::sinks::{Group, Manner};
use super::{kernel, words};
use crate::api::{FindingKind, Severity};
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
    // Who was told that a peer is gone, and ended then, is a victim of the peer.
    let is_cause = |(process, ..): &(u32, u32, u32)| !was_told(case, *process);
    let is_aborted = case.sight.scene.communicators.iter().any(|communicator| {
        let aborted =
            |member: &Member<'_>| member.state == MemberState::Aborted && !was_told(case, member.process);
        communicator.members.iter().any(aborted)
    });
    if dead.iter().any(is_cause) || is_aborted {
        dead.retain(is_cause);
    } else if quiet.iter().any(is_cause) && !dead.is_empty() {
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

/// Whether the library told a process that a peer is gone.
fn was_told(case: &Case<'_, '_, '_>, process: u32) -> bool {
    case.sight.parts(process).iter().any(|(communicator, place)| {
        let error = &case.sight.member(*communicator, *place).error;
        error.as_ref().is_some_and(|error| error.code == REMOTE)
    })
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
    judgement.key = format!(
        "dead/{}/{}",
        sight.scene.hosts.get(host as usize).map_or("", |host| host.name),
        sight.process(first).pid
    );
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
        n => format!(
            ", and so were {} of its host",
            plural(n, "more process").replace("processs", "processes")
        ),
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
