//! Where ranks wait: calls that need others, and who is in each of them.

use std::collections::HashMap;

use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;

use super::scene::{Life, MemberState, Process};
use super::sight::{Head, Sight};
use super::words;

/// Something that ranks are in together, or a node that stands for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    /// A collective call.
    Collective { communicator: u32, number: u64 },
    /// Sends and receives of one pair of ranks: who sends, who receives.
    Pair { communicator: u32, from: u32, to: u32 },
    /// The init of a communicator.
    Init { communicator: u32 },
    /// A split, shrink or grow of a communicator.
    Split { parent: u32 },
    /// Its destroy or finalize.
    Teardown { communicator: u32 },
    /// Its abort, by one rank: that waits for nobody.
    Abort { communicator: u32, rank: u32 },
    /// The registration of a window, which all ranks have to call.
    Window { communicator: u32 },
    /// All who are not in a collective call, down to this number. No place: it saves edges.
    Behind { communicator: u32, number: u64 },
    /// A rank's part of a communicator that is over, while its process may go on.
    Gone { communicator: u32, member: u32 },
    /// Ranks of which nobody tells.
    Unseen { communicator: u32 },
}

/// A rank in a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter<'s> {
    pub(super) process: u32,
    pub(super) rank: u32,
    /// Since when, by its host's clock, and by ours.
    pub(super) since: Timestamp,
    pub(super) since_ours: Timestamp,
    pub(super) head: Option<Head<'s>>,
}

impl Place {
    pub(super) fn communicator(self) -> u32 {
        match self {
            Self::Collective { communicator, .. }
            | Self::Pair { communicator, .. }
            | Self::Init { communicator }
            | Self::Split { parent: communicator }
            | Self::Teardown { communicator }
            | Self::Abort { communicator, .. }
            | Self::Window { communicator }
            | Self::Behind { communicator, .. }
            | Self::Gone { communicator, .. }
            | Self::Unseen { communicator } => communicator,
        }
    }

    /// Number of a collective call.
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Self::Collective { number, .. } => Some(number),
            _ => None,
        }
    }

    /// Tells places of one communicator apart.
    pub(super) fn key(self) -> String {
        match self {
            Self::Collective { number, .. } => format!("call/{number}"),
            Self::Pair { from, to, .. } => format!("pair/{from}-{to}"),
            Self::Init { .. } => "init".to_owned(),
            Self::Split { .. } => "split".to_owned(),
            Self::Teardown { .. } => "teardown".to_owned(),
            Self::Abort { rank, .. } => format!("abort/{rank}"),
            Self::Window { .. } => "window".to_owned(),
            Self::Behind { .. } | Self::Gone { .. } | Self::Unseen { .. } => String::new(),
        }
    }

    /// Whether ranks wait in it.
    pub(super) fn is_real(self) -> bool {
        !matches!(self, Self::Behind { .. } | Self::Gone { .. } | Self::Unseen { .. })
    }
}

/// Who waits where. Only waits that are proven for as long as `sure_after`.
pub(super) fn waits<'s>(sight: &Sight<'s, '_>, heads: &[Vec<Head<'s>>]) -> HashMap<Place, Vec<Waiter<'s>>> {
    let mut places: HashMap<Place, Vec<Waiter<'s>>> = HashMap::new();
    let ended = newest_ended(sight);
    for (process, heads) in (0_u32..).zip(heads) {
        let it = sight.process(process);
        if !can_wait(sight, it) {
            continue;
        }
        let mut add = |place: Place, rank: u32, since: Timestamp, head: Option<Head<'s>>| {
            if sight.proven(it, since) >= sight.settings.sure_after {
                let since_ours = it.ours(since);
                places.entry(place).or_default().push(Waiter { process, rank, since, since_ours, head });
            }
        };
        for head in heads.iter().filter(|head| !is_outdated(sight, &ended, it, head)) {
            let rank = sight.member(head.communicator, head.member).rank;
            if let Some(place) = place_of(head, rank) {
                add(place, rank, head.since, Some(*head));
            }
        }
        for (place, rank, since) in called(sight, process) {
            add(place, rank, since, None);
        }
    }
    places
}

/// Whether a process can wait for others: one that is gone, stopped or unheard of is itself waited for.
pub(super) fn can_wait(sight: &Sight<'_, '_>, process: &Process<'_>) -> bool {
    matches!(process.life, Life::Running | Life::Imported)
        && words::stopped(process).is_none()
        && !sight.is_unheard(process)
}

/// Of communicators that are known from files, the highest number of a call that has ended, and the newest end.
fn newest_ended(sight: &Sight<'_, '_>) -> HashMap<u32, (u64, Timestamp)> {
    let mut newest: HashMap<u32, (u64, Timestamp)> = HashMap::new();
    for (of, index) in sight.scene.communicators.iter().zip(0_u32..) {
        let mut members = of.members.iter();
        if !members.any(|member| sight.process(member.process).life == Life::Imported) {
            continue;
        }
        for last in of.members.iter().filter_map(|member| member.last_completed) {
            let known = newest.entry(index).or_default();
            known.0 = known.0.max(last.number.unwrap_or_default());
            known.1 = known.1.max(last.completed_at.unwrap_or_default());
        }
    }
    newest
}

/// Whether others show that a call has ended since, which was open when the files of this process ended.
fn is_outdated(
    sight: &Sight<'_, '_>,
    ended: &HashMap<u32, (u64, Timestamp)>,
    process: &Process<'_>,
    head: &Head<'_>,
) -> bool {
    let Some(number) = head.operation.number.filter(|_| process.life == Life::Imported) else { return false };
    // Where nobody has come so far there is no need to look at all.
    if ended.get(&head.communicator).is_none_or(|(newest, at)| *newest < number || *at < process.heard_at) {
        return false;
    }
    sight.communicator(head.communicator).members.iter().any(|other| {
        other.last_completed.is_some_and(|last| {
            last.number.is_some_and(|ended| ended >= number)
                && last.completed_at.is_some_and(|at| at >= process.heard_at)
        })
    })
}

fn place_of(head: &Head<'_>, rank: u32) -> Option<Place> {
    let communicator = head.communicator;
    match (head.operation.number, head.operation.signature.primitive, head.operation.signature.peer) {
        (Some(number), ..) => Some(Place::Collective { communicator, number }),
        (None, Primitive::Send, Some(to)) => Some(Place::Pair { communicator, from: rank, to }),
        (None, Primitive::Recv, Some(from)) => Some(Place::Pair { communicator, from, to: rank }),
        _ => None,
    }
}

/// Functions that a process is in and that need others, with its rank there.
fn called(sight: &Sight<'_, '_>, process: u32) -> Vec<(Place, u32, Timestamp)> {
    let it = sight.process(process);
    let mut places = Vec::new();
    for open in it.open_calls.iter() {
        let Some(communicator) = open.communicator else { continue };
        let rank_in = |communicator: u32| {
            let parts = sight.parts(process).iter();
            let part = parts.clone().find(|(known, _)| *known == communicator);
            part.map_or(0, |(known, place)| sight.member(*known, *place).rank)
        };
        if let Some(place) = of_function(&open.function, communicator, rank_in(communicator)) {
            places.push((place, rank_in(communicator), open.entered_at));
        }
    }
    for forming in it.forming.iter() {
        if let Some(parent) = forming.parent {
            let part = sight.parts(process).iter().find(|(known, _)| *known == parent);
            let rank = part.map_or(0, |(known, place)| sight.member(*known, *place).rank);
            let place = Place::Split { parent };
            if !places.iter().any(|(known, ..)| *known == place) {
                places.push((place, rank, forming.since));
            }
        }
    }
    for (communicator, place) in sight.parts(process) {
        let member = sight.member(*communicator, *place);
        let init = Place::Init { communicator: *communicator };
        let told = places.iter().any(|(known, ..)| *known == init || matches!(known, Place::Split { .. }));
        if member.state == MemberState::Forming && !told {
            // A log has no times: when its init began is not known.
            let is_file = it.life == Life::Imported;
            let since = if is_file { Timestamp(0) } else { member.created_at };
            places.push((init, member.rank, since));
        }
    }
    places
}

fn of_function(function: &str, communicator: u32, rank: u32) -> Option<Place> {
    let name = function.strip_prefix('p').filter(|name| name.starts_with("nccl")).unwrap_or(function);
    if name.starts_with("ncclCommInit") {
        return Some(Place::Init { communicator });
    }
    match name {
        "ncclCommSplit" | "ncclCommShrink" | "ncclCommGrow" => Some(Place::Split { parent: communicator }),
        "ncclCommDestroy" | "ncclCommFinalize" => Some(Place::Teardown { communicator }),
        "ncclCommAbort" | "ncclCommRevoke" => Some(Place::Abort { communicator, rank }),
        "ncclCommWindowRegister" | "ncclCommWindowDeregister" => Some(Place::Window { communicator }),
        _ => None,
    }
}

/// Whether a function splits a communicator, or makes another one of it.
pub(super) fn is_split(function: &str) -> bool {
    matches!(of_function(function, 0, 0), Some(Place::Split { .. }))
}

/// Whether a process aborts a communicator.
pub(super) fn aborts(process: &Process<'_>, communicator: u32) -> bool {
    process.open_calls.iter().any(|open| {
        let place = of_function(&open.function, communicator, 0);
        open.communicator == Some(communicator) && matches!(place, Some(Place::Abort { .. }))
    })
}

/// The function in which a process takes leave of a communicator, and since when.
pub(super) fn leaving<'p>(process: &'p Process<'_>, communicator: u32) -> Option<(&'p str, Timestamp)> {
    let open = process.open_calls.iter().find(|open| {
        open.communicator == Some(communicator)
            && matches!(
                of_function(&open.function, communicator, 0),
                Some(Place::Teardown { .. } | Place::Abort { .. })
            )
    })?;
    Some((&open.function, open.entered_at))
}
