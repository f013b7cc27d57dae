//! Who is to blame: the sinks of the graph, those of one place and one manner together.

use std::collections::BTreeMap;

use super::case::Case;
use super::graph::{At, Sink};
use super::places::Place;
use super::scene::Life;
use super::sight::Blind;
use super::words;

/// In which manner somebody does not come, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Manner {
    /// Its process is gone.
    Dead,
    /// Its process is stopped.
    Stopped,
    /// It has left the communicator, or is leaving it.
    Left,
    /// It says nothing, and its peers say that it is missing: known from files.
    Missing,
    /// It runs, and does something else.
    Elsewhere,
    /// Nobody can say: it is not heard, not watched, calls were lost, or its files end too early ([`EARLIER`]).
    Blind(u8),
    /// Nobody tells of it at all.
    Unseen,
}

/// Those who do not come to one place in one manner.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) place: u32,
    pub(super) manner: Manner,
    /// Process and rank.
    pub(super) ranks: Vec<(u32, Option<u32>)>,
    /// Nodes, to find who waits for them.
    pub(super) nodes: Vec<u32>,
    /// Nobody knows whether these have come, and others are known not to have, who may be late merely.
    pub(super) is_beside: bool,
}

/// What the sinks are.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) groups: Vec<Group>,
    /// Places that all are in.
    pub(super) full: Vec<u32>,
    /// Nodes of those who wait for each other.
    pub(super) circles: Vec<Vec<u32>>,
}

/// Sorts the sinks.
pub(super) fn sort(case: &Case<'_, '_, '_>, sinks: Vec<Sink>) -> Sorted {
    let mut sorted = Sorted::default();
    let mut groups: BTreeMap<(u32, Manner), Group> = BTreeMap::new();
    for sink in sinks {
        let [node] = sink.nodes.as_slice() else {
            sorted.circles.push(sink.nodes);
            continue;
        };
        let node = *node;
        let (manner, who) = match case.graph.at(node) {
            At::Process(process) => (manner(case, process), Some((process, None))),
            At::Place(index) => match case.node(index).place {
                Place::Gone { communicator, member } => {
                    let member = case.sight.member(communicator, member);
                    (Manner::Left, Some((member.process, Some(member.rank))))
                }
                Place::Unseen { .. } => (Manner::Unseen, None),
                _ => {
                    sorted.full.push(index);
                    continue;
                }
            },
        };
        let places = case.graph.places_before(node);
        let key = |place: &u32| case.first_in(*place).map(|first| first.since_ours);
        let Some(place) = places.into_iter().min_by_key(|place| (key(place).is_none(), key(place))) else {
            continue;
        };
        let manner = match who {
            Some((process, _)) if manner == Manner::Elsewhere && ends_early(case, process, place) => {
                Manner::Blind(EARLIER)
            }
            Some((process, _)) if manner == Manner::Elsewhere && is_untold(case, process, place) => {
                Manner::Blind(UNTOLD)
            }
            _ => manner,
        };
        let group = groups.entry((place, manner)).or_insert_with(|| Group {
            place,
            manner,
            ranks: Vec::new(),
            nodes: Vec::new(),
            is_beside: false,
        });
        group.nodes.push(node);
        if let Some((process, rank)) = who {
            let communicator = case.node(place).place.communicator();
            group.ranks.push((process, rank.or_else(|| rank_in(case, process, communicator))));
        }
    }
    sorted.groups = groups.into_values().collect();
    for group in &mut sorted.groups {
        group.ranks.sort_by_key(|(process, rank)| (*rank, *process));
    }
    // Who cannot be heard explains nothing where somebody else cannot come. Ascending, as the groups are.
    let places_with = |is_such: fn(Manner) -> bool| -> Vec<u32> {
        let such = sorted.groups.iter().filter(|group| is_such(group.manner));
        such.map(|group| group.place).collect()
    };
    let sure = places_with(|manner| manner < Manner::Elsewhere);
    let late = places_with(|manner| manner == Manner::Elsewhere);
    let is_unknown = |group: &Group| group.manner >= Manner::Blind(0);
    sorted.groups.retain(|group| !is_unknown(group) || sure.binary_search(&group.place).is_err());
    for group in &mut sorted.groups {
        group.is_beside = is_unknown(group) && late.binary_search(&group.place).is_ok();
    }
    sorted
}

fn manner(case: &Case<'_, '_, '_>, process: u32) -> Manner {
    let it = case.sight.process(process);
    match it.life {
        Life::Killed | Life::Exited => Manner::Dead,
        _ if case.sight.blind(it) == Some(Blind::Unheard) => Manner::Blind(0),
        _ if words::stopped(it).is_some() => Manner::Stopped,
        Life::Imported if !it.told_by_peers.is_empty() => Manner::Missing,
        _ => match case.sight.blind(it) {
            None => Manner::Elsewhere,
            Some(Blind::NotWatched) => Manner::Blind(1),
            Some(_) => Manner::Blind(2),
        },
    }
}

/// Whether the files of a process end before the others had waited for long: it may have come since.
fn ends_early(case: &Case<'_, '_, '_>, process: u32, place: u32) -> bool {
    let it = case.sight.process(process);
    let first = case.first_in(place).map(|first| first.since_ours);
    it.life == Life::Imported
        && first.is_some_and(|first| it.heard_at.since(first) < case.sight.settings.sure_after)
}

/// Whether files tell of a process and not of its calls there, as a log does.
fn is_untold(case: &Case<'_, '_, '_>, process: u32, place: u32) -> bool {
    let place = case.node(place).place;
    let part = case.sight.parts(process).iter().find(|(of, _)| *of == place.communicator());
    let member = part.map(|(of, at)| case.sight.member(*of, *at));
    case.sight.process(process).life == Life::Imported
        && place.number().is_some()
        && member.is_some_and(|member| member.calls.is_none())
}

/// The files of a process end too early to tell whether it has come.
pub(super) const EARLIER: u8 = 3;
/// No file tells of the calls of a process.
pub(super) const UNTOLD: u8 = 4;

/// The process's rank in a communicator.
pub(super) fn rank_in(case: &Case<'_, '_, '_>, process: u32, communicator: u32) -> Option<u32> {
    let part = case.sight.parts(process).iter().find(|(known, _)| *known == communicator)?;
    Some(case.sight.member(part.0, part.1).rank)
}
