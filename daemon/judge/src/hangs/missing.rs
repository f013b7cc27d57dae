//! Somebody has not come: to a collective call, a transfer, an init, a split or a destroy that others are in.

use ringscope_api::words::list;
use ringscope_api::{Detail, FindingKind, Severity};

use super::case::Case;
use super::places::{self, Place};
use super::scene::{Collector, MemberState};
use super::sight::Blind;
use super::sinks::{EARLIER, Group, Manner, UNTOLD};
use super::verdict::Judgement;
use super::{files, init, p2p, waiting, words};
use crate::seen;

/// Judges those who do not come to one place in one manner. The dead are judged elsewhere, all at once.
pub(super) fn judge(case: &mut Case<'_, '_, '_>, group: &Group) {
    let place = case.node(group.place).place;
    let kind = kind_at(place);
    let mut judgement = case.blank(kind, Some(place.communicator()));
    judgement.began_at = case.began(group.place);
    let culprits: Vec<(u32, Option<u32>, String)> =
        group.ranks.iter().map(|(process, rank)| (*process, *rank, doing(case, group, *process).1)).collect();
    case.accuse(&mut judgement, &culprits);
    let all: Vec<u32> = judgement.culprits.clone();
    judgement.victims = case.graph.victims(&group.nodes, &all);
    judgement.cause = group.ranks.first().map_or("not_seen", |(process, _)| doing(case, group, *process).0);
    judgement.key = key(place, group);
    judgement.message = message(case, group, &culprits, judgement.victims.len());
    judgement.advice = advice(case, group, judgement.cause);
    already_called(case, group, &mut judgement);
    if matches!(place, Place::Init { .. }) {
        judgement.details.extend(init::phases(case, group));
    }
    let unequal = p2p::unequal(case, group.place);
    judgement.details.extend(p2p::detail(case, group.place));
    judgement.details.extend(files::how_late(case, group.place, &all));
    calls_of(case, group, &mut judgement);
    case.warnings(place.communicator(), &mut judgement);
    let number = place.number();
    if unequal {
        // It has made as many calls as the other side, of other sizes: it will not come.
        judgement.severity = Severity::Critical;
        judgement.cause = "size";
        judgement.message.push_str("; both sides have made as many calls, of different sizes");
        case.tell(judgement, true);
        return;
    }
    match group.manner {
        Manner::Dead => {}
        Manner::Stopped | Manner::Left | Manner::Missing => {
            judgement.severity = Severity::Critical;
            case.tell(judgement, true).number = number;
        }
        Manner::Elsewhere | Manner::Blind(_) | Manner::Unseen => {
            waiting::tell(case, group, judgement, number);
        }
    }
}

/// What it is when somebody does not come there.
pub(super) fn kind_at(place: Place) -> FindingKind {
    match place {
        Place::Pair { .. } => FindingKind::P2pUnmatched,
        Place::Init { .. } | Place::Split { .. } => FindingKind::InitStuck,
        Place::Teardown { .. } | Place::Abort { .. } => FindingKind::TeardownStuck,
        _ => FindingKind::RankMissing,
    }
}

fn key(place: Place, group: &Group) -> String {
    let manner = match group.manner {
        Manner::Dead => "dead",
        Manner::Stopped => "stopped",
        Manner::Left => "left",
        Manner::Missing => "missing",
        Manner::Elsewhere => "elsewhere",
        Manner::Blind(_) => "blind",
        Manner::Unseen => "unseen",
    };
    format!("{}/{manner}", place.key())
}

/// What one of them does instead, as far as anybody has looked: a word, and a sentence that can follow its name.
fn doing(case: &Case<'_, '_, '_>, group: &Group, process: u32) -> (&'static str, String) {
    let (cause, told) = state(case, group, process);
    match case.look_in_short(process, case.began(group.place)) {
        Some(look) => (cause, words::with_look(case.sight, process, (cause, told), &look)),
        None => (cause, told),
    }
}

/// The same without a look.
fn state(case: &Case<'_, '_, '_>, group: &Group, process: u32) -> (&'static str, String) {
    let sight = case.sight;
    let it = sight.process(process);
    let communicator = case.node(group.place).place.communicator();
    match group.manner {
        Manner::Left => left(case, process, communicator),
        Manner::Blind(EARLIER) => {
            let until = words::clock(it.heard_at);
            ("earlier", format!("is told of until {until} only, so nobody knows whether it has come since"))
        }
        Manner::Blind(UNTOLD) => {
            ("untold", "has no dump here, so nobody knows whether it has come".to_owned())
        }
        Manner::Blind(_) => match sight.blind(it) {
            Some(Blind::Unheard) => {
                let host = sight.scene.hosts.get(it.host as usize);
                let last_word =
                    host.and_then(|host| host.last_word_at).map_or(it.heard_at, |at| at.min(it.heard_at));
                let at = words::clock(last_word);
                let has_ended = host.is_some_and(|host| host.agent_ended);
                let told = if has_ended {
                    format!("is not watched since {at}: the agent on its host was stopped")
                } else {
                    format!("is not heard since {at}, so nobody knows what it does")
                };
                ("unheard", told)
            }
            // A collector is there from the first call on.
            Some(Blind::NotWatched) if sight.has_never_called(it) => {
                ("never_called", words::NEVER_CALLED.to_owned())
            }
            Some(Blind::NotWatched) if it.collector == Collector::Absent => {
                ("not_watched", "is not watched (it has no collector that can be read)".to_owned())
            }
            Some(Blind::NotWatched) => ("not_watched", "is not watched (its collector is off)".to_owned()),
            _ => ("events_lost", "may have made the call: records of its calls were lost".to_owned()),
        },
        _ => words::doing(sight, process),
    }
}

fn left(case: &Case<'_, '_, '_>, process: u32, communicator: u32) -> (&'static str, String) {
    let sight = case.sight;
    let it = sight.process(process);
    if let Some((function, since)) = places::leaving(it, communicator) {
        return ("left", format!("is in {function} since {}", words::clock(it.ours(since))));
    }
    let part = sight.parts(process).iter().find(|(known, _)| *known == communicator);
    let member = part.map(|(known, place)| sight.member(*known, *place));
    let at = member.and_then(|member| member.ended_at).map(|at| format!(" at {}", words::clock(it.ours(at))));
    let at = at.unwrap_or_default();
    match member.map(|member| member.state) {
        Some(MemberState::Aborted) => ("aborted", format!("has aborted the communicator{at}")),
        Some(MemberState::Failed) => ("init_failed", format!("has failed to join{at}")),
        _ => ("left", format!("has destroyed the communicator{at}")),
    }
}

fn message(
    case: &Case<'_, '_, '_>,
    group: &Group,
    culprits: &[(u32, Option<u32>, String)],
    n_victims: usize,
) -> String {
    let of = case.place_words(group.place);
    let began = case.began(group.place);
    let since = began.map(|at| format!(" since {}", words::clock(at))).unwrap_or_default();
    let waiting = words::others_wait(n_victims);
    let has_not_called = init::not_called(case, group);
    match culprits {
        [] => init::unseen(case, group.place, &of, &waiting, &since),
        [(process, rank, doing)] => {
            let who = words::who(case.sight, *process, *rank);
            let doing = match &has_not_called {
                Some(function) if doing == words::NEVER_CALLED => {
                    format!("has not called {function}, nor anything else of the library")
                }
                Some(function) => format!("has not called {function}: it {doing}"),
                None => doing.clone(),
            };
            format!("{who} {doing}; {waiting} for it in {of}{since}")
        }
        many => {
            let names = words::names(case.sight, many);
            let what = match &has_not_called {
                Some(function) => {
                    format!("have not called {function}, and {waiting} for them in {of}{since}")
                }
                None => format!("have not come to {of}, and {waiting}{since}"),
            };
            let each = many
                .iter()
                .map(|(process, rank, doing)| format!("{} {doing}", words::who(case.sight, *process, *rank)));
            format!("{names} {what}: {}", list(each, words::NAMED))
        }
    }
}

fn advice(case: &Case<'_, '_, '_>, group: &Group, cause: &str) -> String {
    let is_file = files::is_of(case, group.place);
    let Some((process, _)) = group.ranks.first() else {
        if is_file {
            return "Import the dumps or logs of these ranks too: one of them may be the one that all wait for."
                .to_owned();
        }
        let watch = "under `ringscope run`, with an agent on each host";
        let place = case.node(group.place).place;
        if !matches!(place, Place::Init { .. }) {
            return format!("Start all ranks {watch}, to know what they do.");
        }
        let n_ranks = case.sight.communicator(place.communicator()).n_ranks;
        return format!(
            "See whether all {n_ranks} ranks were started, and what those that are missing write. Start them {watch}, to \
             know what they do."
        );
    };
    let it = case.sight.process(*process);
    let (host, there) = (case.sight.host_name(it), case.sight.place_name(it));
    let began = case.began(group.place);
    let look = case.look_of(*process, began).filter(|_| !is_file);
    if matches!(cause, "blocked" | "asleep" | "idle" | "never_called")
        && let Some(remedy) = look.and_then(|look| seen::remedy(look, &there, it.pid))
    {
        return remedy;
    }
    match (group.manner, cause) {
        (Manner::Stopped, "zombie") => {
            format!("Restart the job; on {there}, see who was to wait for pid {}.", it.pid)
        }
        (Manner::Stopped, _) => {
            format!("On {there}: `kill -CONT {}` lets it go on; find out who stopped it.", it.pid)
        }
        (Manner::Left, _) => {
            "It left while others still call: look in its output for an exception, or for fewer steps or \
             batches than the others have. Only a restart frees the others."
                .to_owned()
        }
        (Manner::Missing, _) => files::see_missing(host),
        (_, "never_called") => {
            format!(
                "On {there}: `py-spy dump --pid {0}` says what it does instead, `ringscope doctor --pid {0}` whether its calls \
                 can be seen. The others go on as soon as it calls.",
                it.pid
            )
        }
        (Manner::Blind(EARLIER), _) => {
            "Import a dump of it that was written as late as the others'.".to_owned()
        }
        (Manner::Blind(UNTOLD), _) => "Import its dump too: it may be the one that all wait for.".to_owned(),
        (Manner::Elsewhere, _) if is_file => {
            "See what it did after its last call (its output, its stacks at that time): the network is not the cause."
                .to_owned()
        }
        (Manner::Blind(0), _) => format!("See whether {host} answers and its agent runs there."),
        (Manner::Blind(_), _) => "Switch its collector on, or start it under `ringscope run`.".to_owned(),
        (_, "blocked") => {
            format!("It waits for a disk, a file system or a device: see the kernel's log of {host}.")
        }
        (_, "group_open") => "See which way through its program begins a group and does not end it (an exception, a return between \
                              ncclGroupStart and ncclGroupEnd): the library has no call of the group before its end."
            .to_owned(),
        _ => format!(
            "See what it does (`py-spy dump --pid {}` on {there}): the network is not the cause.",
            it.pid
        ),
    }
}

/// A stopped rank may well have made the call: then nothing is missing but its progress.
fn already_called(case: &Case<'_, '_, '_>, group: &Group, judgement: &mut Judgement) {
    let place = case.node(group.place).place;
    let Some(number) = place.number() else { return };
    let made = group.ranks.iter().all(|(process, _)| {
        let part = case.sight.parts(*process).iter().find(|(known, _)| *known == place.communicator());
        let member = part.map(|(known, at)| case.sight.member(*known, *at));
        member.and_then(|member| case.sight.calls_made(member)).is_some_and(|made| made > number)
    });
    if group.manner == Manner::Stopped && made {
        judgement.kind = FindingKind::TransferStalled;
        judgement.details.push(Detail {
            title: "Calls".to_owned(),
            lines: vec![
                "All ranks have made this call; it cannot go on while a process is stopped.".to_owned(),
            ],
        });
    }
}

/// The place that others are in, and how far each culprit is.
fn calls_of(case: &Case<'_, '_, '_>, group: &Group, judgement: &mut Judgement) {
    let place = case.node(group.place).place;
    let Some(number) = place.number() else { return };
    let is_file = files::is_of(case, group.place);
    let mut lines = Vec::new();
    for (process, rank) in group.ranks.iter().take(words::NAMED) {
        let part = case.sight.parts(*process).iter().find(|(known, _)| *known == place.communicator());
        let Some(member) = part.map(|(known, at)| case.sight.member(*known, *at)) else { continue };
        let Some(made) = case.sight.calls_made(member) else { continue };
        let rank = rank.map_or_else(String::new, |rank| format!("rank {rank}: "));
        lines.push(match member.last_completed {
            // Dumps number calls as who wrote them does.
            _ if is_file => match made.checked_sub(1).filter(|newest| *newest > 0) {
                Some(newest) => format!("{rank}its newest call is #{newest}"),
                None => format!("{rank}no call so far"),
            },
            Some(last) => {
                format!("{rank}{made} calls made (collectives in this communicator), the last one that ended is {}", words::call(&last))
            }
            None => format!("{rank}{made} calls made (collectives in this communicator)"),
        });
    }
    lines.push(format!("The others are in call #{number}."));
    judgement.details.push(Detail { title: "How far they are".to_owned(), lines });
}
