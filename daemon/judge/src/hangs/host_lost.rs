//! Hosts of which nothing is heard any more, while others are. An agent that is ended kills nobody; nor does one that stands still while
//! the host's ranks go on, as their peers show.

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{clock, plural};
use ringscope_api::{FindingKind, Severity};

use super::case::Case;
use super::scene::{Communicator, Life};
use super::sight::{is_over, lives};
use super::words;

/// One judgement for each lost host.
pub(super) fn judge(case: &mut Case<'_, '_, '_>) {
    let sight = case.sight;
    let now = sight.scene.now;
    let mut ranks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (index, process) in (0_u32..).zip(&sight.scene.processes) {
        if process.life == Life::Running && process.read_at.0 > 0 {
            ranks.entry(process.host).or_default().push(index);
        }
    }
    // A daemon that hears nobody has lost its network, its database or its agents' trust, and not all hosts.
    let Some(newest) = sight.scene.any_heard_at.map(|at| at.min(now)) else { return };
    let ends = newest_ends(case);
    let mut lost = Vec::new();
    for (index, processes) in ranks {
        let Some(host) = sight.scene.hosts.get(index as usize) else { continue };
        let Some(heard) = host.heard_at else { continue };
        if host.agent_ended || newest.since(heard) < sight.settings.host_lost_after {
            continue;
        }
        if processes.iter().any(|process| goes_on(case, &ends, *process)) {
            continue;
        }
        lost.push((index, host.last_word_at.unwrap_or(heard), processes));
    }
    // Those that fell silent first, for there may be more than are told.
    lost.sort_by_key(|(_, heard, _)| *heard);
    for (index, heard, processes) in case.at_most(lost) {
        let Some(host) = sight.scene.hosts.get(index as usize) else { continue };
        let mut judgement = case.blank(FindingKind::HostLost, None);
        let nodes = processes.clone();
        judgement.victims = case.graph.victims(&nodes, &processes);
        judgement.host = Some(index);
        judgement.key = format!("host/{}", host.name);
        judgement.cause = "unheard";
        judgement.began_at = Some(heard);
        judgement.culprits.clone_from(&processes);
        let waited = !judgement.victims.is_empty();
        judgement.severity = if waited { Severity::Critical } else { Severity::Warning };
        let waiting = if waited {
            format!("{} for its ranks", words::others_wait(judgement.victims.len()))
        } else {
            "nobody is known to wait for them".to_owned()
        };
        judgement.message = format!(
            "{} is not heard since {}; it has {} of this job, and {waiting}",
            host.name,
            if now.since(heard) < TODAY { words::clock(heard) } else { clock(heard) },
            plural(processes.len(), "rank"),
        );
        judgement.advice =
            format!("See whether {} answers at all, and whether the agent runs there.", host.name);
        case.tell(judgement, waited);
    }
}

/// Of each communicator the two hosts on which something has ended last, and when, by our clock.
type Ends = Vec<[Option<(u32, Timestamp)>; 2]>;

fn newest_ends(case: &Case<'_, '_, '_>) -> Ends {
    let sight = case.sight;
    let of = |communicator: &Communicator<'_>| {
        let mut newest: [Option<(u32, Timestamp)>; 2] = [None; 2];
        for member in &communicator.members {
            let process = sight.process(member.process);
            let end =
                member.last_completed.and_then(|last| last.completed_at).filter(|_| lives(process.life));
            let Some(end) = end.map(|end| process.ours(end)) else { continue };
            let is_newer = |than: Option<(u32, Timestamp)>| than.is_none_or(|(_, known)| end > known);
            if newest[0].is_some_and(|(host, _)| host == process.host) {
                newest[0] = newest[0].filter(|_| !is_newer(newest[0])).or(Some((process.host, end)));
            } else if is_newer(newest[0]) {
                newest = [Some((process.host, end)), newest[0]];
            } else if is_newer(newest[1]) {
                newest[1] = Some((process.host, end));
            }
        }
        newest
    };
    sight.scene.communicators.iter().map(of).collect()
}

/// Whether somebody on another host who needs this rank has completed something since it was heard last.
fn goes_on(case: &Case<'_, '_, '_>, ends: &Ends, process: u32) -> bool {
    let sight = case.sight;
    let it = sight.process(process);
    sight.parts(process).iter().any(|(communicator, place)| {
        let others = ends[*communicator as usize].iter().flatten().filter(|(host, _)| *host != it.host);
        let is_later = |(_, end): &(u32, Timestamp)| end.since(it.heard_at) > STILL_ALIVE;
        !is_over(sight.member(*communicator, *place).state) && others.copied().any(|end| is_later(&end))
    })
}

/// What completes so long after a host's last word was not under way when it was spoken.
const STILL_ALIVE: std::time::Duration = std::time::Duration::from_secs(3);
/// Before that, the time alone does not say when.
const TODAY: std::time::Duration = std::time::Duration::from_secs(12 * 3600);
