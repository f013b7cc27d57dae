//! Hosts of which nothing is heard any more. An agent that is ended kills nobody; nor does one that stands still while
//! the host's ranks go on, as their peers show.

use std::collections::BTreeMap;

use super::case::Case;
use super::scene::Life;
use super::sight::{is_over, lives};
use super::words;
use crate::api::{FindingKind, Severity};
use crate::words::plural;

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
    for (index, processes) in ranks {
        let Some(host) = sight.scene.hosts.get(index as usize) else { continue };
        let Some(heard) = host.heard_at else { continue };
        if host.agent_ended || now.since(heard) < sight.settings.host_lost_after {
            continue;
        }
        if processes.iter().any(|process| goes_on(case, *process)) {
            continue;
        }
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
            words::clock(heard),
            plural(processes.len(), "rank"),
        );
        judgement.advice =
            format!("See whether {} answers at all, and whether the agent runs there.", host.name);
        case.tell(judgement, waited);
    }
}

/// Whether somebody who needs this rank has completed something since it was heard last.
fn goes_on(case: &Case<'_, '_, '_>, process: u32) -> bool {
    let sight = case.sight;
    let heard = sight.process(process).heard_at;
    sight.parts(process).iter().any(|(communicator, place)| {
        let own = sight.member(*communicator, *place);
        !is_over(own.state)
            && sight.communicator(*communicator).members.iter().any(|other| {
                let peer = sight.process(other.process);
                let end = other.last_completed.and_then(|last| last.completed_at);
                other.process != process
                    && lives(peer.life)
                    && peer.host != sight.process(process).host
                    && end.is_some_and(|end| peer.ours(end).since(heard) > STILL_ALIVE)
            })
    })
}

/// What completes so long after a host's last word was not under way when it was spoken.
const STILL_ALIVE: std::time::Duration = std::time::Duration::from_secs(3);
