//! For whom a place waits: those who would have to be in it, and are not.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;

use super::building::Building;
use super::comers::{self, Lacking};
use super::places::{self, Place};
use super::scene::{Life, Member, MemberState, OPEN_TOLD, Pair, Process};
use super::sight::{Head, Sight, is_over, lives};
use super::words;

/// Adds the edges from places to those they wait for.
pub(super) fn connect<'s>(sight: &Sight<'s, '_>, heads: &[Vec<Head<'s>>], building: &mut Building<'s>) {
    let mut lacking = Vec::new();
    let mut at = 0;
    let n_real = building.nodes.len();
    let n_running = sight.scene.processes.iter().filter(|process| process.life == Life::Running).count();
    while at < n_real {
        let place = building.nodes[at].place;
        match place {
            Place::Collective { communicator, .. } => {
                let mut numbers = Vec::new();
                // Places are in order: all numbers of one communicator follow each other.
                while let Some(Place::Collective { communicator: next, number }) =
                    building.nodes.get(at).map(|node| node.place)
                    && next == communicator
                    && at < n_real
                {
                    numbers.push(number);
                    at += 1;
                }
                collective(sight, heads, building, communicator, &numbers);
                continue;
            }
            Place::Pair { .. } => pair(sight, heads, building, at),
            Place::Init { communicator } => lacking.extend(init(sight, building, communicator, n_running)),
            Place::Split { parent } => split(sight, heads, building, at, parent),
            Place::Teardown { communicator } => teardown(sight, building, communicator),
            Place::Window { communicator } => window(sight, building, at, communicator),
            _ => {}
        }
        at += 1;
    }
    comers::connect(sight, building, &lacking);
}

/// How far a rank truly is: it is waited for in every call from this number on.
fn reached(
    sight: &Sight<'_, '_>,
    heads: &[Vec<Head<'_>>],
    communicator: u32,
    place: u32,
    member: &Member<'_>,
) -> u64 {
    let Some(made) = sight.calls_made(member) else { return 0 };
    let process = sight.process(member.process);
    let oldest = member.open.iter().find(|operation| operation.number.is_some());
    let Some((number, operation)) = oldest.and_then(|operation| Some((operation.number?, operation))) else {
        return made;
    };
    if !member.completion_known {
        return made;
    }
    let is_head = heads[member.process as usize].iter().any(|head| {
        head.communicator == communicator && head.member == place && std::ptr::eq(head.operation, operation)
    });
    let takes_part = is_head && words::stopped(process).is_none() && lives(process.life);
    if takes_part { number + 1 } else { number }
}

/// The calls of one communicator: `numbers` ascending.
fn collective<'s>(
    sight: &Sight<'s, '_>,
    heads: &[Vec<Head<'s>>],
    building: &mut Building<'s>,
    communicator: u32,
    numbers: &[u64],
) {
    let of = sight.communicator(communicator);
    // Who is waited for from which of the numbers on.
    let mut late: Vec<Vec<u32>> = vec![Vec::new(); numbers.len()];
    for (member, place) in of.members.iter().zip(0_u32..) {
        let reached = reached(sight, heads, communicator, place, member);
        if let Some(late) = late.get_mut(numbers.partition_point(|number| *number < reached)) {
            late.push(place);
        }
    }
    let mut lower = None;
    let mut unseen = of.members.len() < of.n_ranks as usize;
    for (number, late) in numbers.iter().zip(late) {
        if !late.is_empty() || unseen {
            let node = building.place(Place::Behind { communicator, number: *number });
            if let Some(lower) = lower {
                building.wait(node, lower);
            }
            for place in late {
                let to = awaited(sight, building, communicator, place);
                building.wait(node, to);
            }
            if std::mem::take(&mut unseen) {
                let to = building.place(Place::Unseen { communicator });
                building.wait(node, to);
            }
            lower = Some(node);
        }
        if let Some(lower) = lower {
            let call = building.place(Place::Collective { communicator, number: *number });
            building.wait(call, lower);
        }
    }
}

/// The node of a rank that is waited for: its process, or its part alone where that is over.
fn awaited(sight: &Sight<'_, '_>, building: &mut Building<'_>, communicator: u32, place: u32) -> u32 {
    let member = sight.member(communicator, place);
    let process = sight.process(member.process);
    let goes = is_over(member.state) || places::leaving(process, communicator).is_some();
    if goes && lives(process.life) && words::stopped(process).is_none() {
        building.place(Place::Gone { communicator, member: place })
    } else {
        member.process
    }
}

/// A send or receive: each side waits for the other, unless that is in it too, or has ended its part: then nobody is waited
/// for.
fn pair(sight: &Sight<'_, '_>, heads: &[Vec<Head<'_>>], building: &mut Building<'_>, at: usize) {
    let Place::Pair { communicator, from, to } = building.nodes[at].place else { return };
    let sides = [(from, to, Primitive::Send), (to, from, Primitive::Recv)];
    for (rank, peer, primitive) in sides {
        let place = building.place(Place::Pair { communicator, from, to });
        let Some(member) = sight.by_rank(communicator, rank) else {
            let unseen = building.place(Place::Unseen { communicator });
            building.wait(place, unseen);
            continue;
        };
        let part = sight.member(communicator, member);
        let process = part.process;
        let is_in = heads[process as usize].iter().any(|head| {
            let signature = &head.operation.signature;
            head.communicator == communicator
                && signature.primitive == primitive
                && signature.peer == Some(peer)
        });
        let does_its_part = is_in || has_ended(sight, (communicator, from, to), part, (primitive, peer));
        if !does_its_part || !places::can_wait(sight, sight.process(process)) {
            let node = awaited(sight, building, communicator, member);
            building.wait(place, node);
        }
    }
}

/// Whether one side of a transfer has ended its part: both have made as many calls, of the same sizes, and it has none open.
/// A send may end long before its receive.
fn has_ended(
    sight: &Sight<'_, '_>,
    (communicator, from, to): (u32, u32, u32),
    member: &Member<'_>,
    (primitive, peer): (Primitive, u32),
) -> bool {
    let has_open = member.open.iter().any(|operation| {
        operation.signature.primitive == primitive && operation.signature.peer == Some(peer)
    });
    let knows = member.completion_known && member.open.len() < OPEN_TOLD && sight.queued(member).is_none();
    let is_even = |(sent, received): (Pair, Pair)| sent.calls == received.calls && sent.hash == received.hash;
    knows && !has_open && sight.both_sides(communicator, from, to).is_some_and(is_even)
}

/// An init waits for the ranks that have not come, and for those that cannot go on. Returns it where nobody knows which
/// processes the former are.
fn init(
    sight: &Sight<'_, '_>,
    building: &mut Building<'_>,
    communicator: u32,
    n_running: usize,
) -> Option<Lacking> {
    let of = sight.communicator(communicator);
    let place = building.place(Place::Init { communicator });
    for (member, index) in of.members.iter().zip(0_u32..) {
        let process = sight.process(member.process);
        // In files it is known that the init failed; of a torn one nobody knows whether it has ended.
        let over = member.state == MemberState::Failed || member.state == MemberState::Aborted;
        let failed = over && process.life != Life::Imported;
        let cannot = !lives(process.life) || words::stopped(process).is_some() || sight.is_unheard(process);
        let forming = member.state == MemberState::Forming;
        if failed || forming && cannot {
            let node = awaited(sight, building, communicator, index);
            building.wait(place, node);
        }
    }
    let missing = (of.n_ranks as usize).saturating_sub(of.members.len());
    if missing == 0 || !siblings(sight, communicator).is_empty() {
        return None;
    }
    let Some(candidates) = candidates(sight, communicator, missing, n_running) else {
        return Some(Lacking { communicator, node: place, ranks: missing });
    };
    candidates.into_iter().for_each(|process| building.wait(place, process));
    None
}

/// Communicators with the same hash: the same init with another number of ranks.
pub(super) fn siblings(sight: &Sight<'_, '_>, communicator: u32) -> Vec<u32> {
    let of = sight.communicator(communicator);
    if of.hash == 0 {
        return Vec::new();
    }
    let same = sight.of_hash(of.hash).iter().copied();
    same.filter(|index| *index != communicator && sight.communicator(*index).n_ranks != of.n_ranks).collect()
}

/// The processes that may be the ranks that have not come: those of the same numbers where ranks here are the job's
/// ranks, else all others of the job. Absent: there are not as many as have not come.
fn candidates(
    sight: &Sight<'_, '_>,
    communicator: u32,
    missing: usize,
    n_running: usize,
) -> Option<Vec<u32>> {
    let of = sight.communicator(communicator);
    let is_world = of.members.iter().all(|member| {
        let process = sight.process(member.process);
        process.global_rank == Some(member.rank) && process.world_size.is_none_or(|size| size == of.n_ranks)
    });
    let mut inside: Vec<u32> = of.members.iter().map(|member| member.process).collect();
    inside.sort_unstable();
    inside.dedup();
    let is_running = |process: &&u32| sight.process(**process).life == Life::Running;
    if !is_world && n_running - inside.iter().filter(is_running).count() != missing {
        return None;
    }
    let mut is_in = vec![false; sight.scene.processes.len()];
    inside.iter().for_each(|process| is_in[*process as usize] = true);
    let others = (0_u32..).zip(&sight.scene.processes).filter(|(index, _)| !is_in[*index as usize]);
    let mut latest: Vec<(u32, u32)> = Vec::new();
    let mut unnumbered = Vec::new();
    for (index, process) in others {
        match process.global_rank.filter(|_| is_world) {
            Some(rank) if rank < of.n_ranks && sight.by_rank(communicator, rank).is_none() => {
                latest.push((rank, index));
            }
            None if process.life == Life::Running => unnumbered.push(index),
            _ => {}
        }
    }
    if latest.is_empty() {
        return Some(unnumbered).filter(|all| all.len() == missing);
    }
    // Of restarted processes of one rank the newest counts.
    latest.sort_by_key(|(rank, index)| (*rank, std::cmp::Reverse(sight.process(*index).started_at)));
    latest.dedup_by_key(|(rank, _)| *rank);
    (latest.len() == missing).then(|| latest.into_iter().map(|(_, index)| index).collect())
}

/// A split waits for the ranks of the parent that have not called it, and have not come out of it. Who may have come out is
/// not waited for.
fn split(
    sight: &Sight<'_, '_>,
    heads: &[Vec<Head<'_>>],
    building: &mut Building<'_>,
    at: usize,
    parent: u32,
) {
    let place = building.place(Place::Split { parent });
    let waiters = &building.nodes[at].waiters;
    let came = || waiters.iter().map(|waiter| waiter.since_ours);
    let (Some(first), Some(newest)) = (came().min(), came().max()) else { return };
    let is_in: Vec<u32> = waiters.iter().map(|waiter| waiter.process).collect();
    let hash = sight.communicator(parent).hash;
    let mut came_out = vec![false; sight.scene.processes.len()];
    for child in sight.scene.communicators.iter().filter(|child| child.parent_hash == Some(hash)) {
        for member in &child.members {
            let created = sight.process(member.process).ours(member.created_at);
            came_out[member.process as usize] |= created >= first;
        }
    }
    let mut late: Vec<(u32, &Member<'_>)> = Vec::new();
    for (member, index) in sight.communicator(parent).members.iter().zip(0_u32..) {
        let process = sight.process(member.process);
        let knows = is_in.binary_search(&member.process).is_ok() && lives(process.life);
        if !knows && !came_out[member.process as usize] {
            late.push((index, member));
        }
    }
    if let Some(left_out) = left_out(sight, parent, &is_in) {
        // Whom a shrink leaves out it does not wait for; as a rule these are gone.
        let is_there =
            |member: &Member<'_>| !is_over(member.state) && lives(sight.process(member.process).life);
        let gone = late.iter().filter(|(_, member)| !is_there(member)).count();
        if late.len() == left_out {
            late.clear();
        } else if gone == left_out {
            late.retain(|(_, member)| is_there(member));
        }
    }
    late.retain(|(_, member)| {
        let process = member.process;
        is_splitting(sight.process(process), parent)
            || !may_be_through(sight, process, !heads[process as usize].is_empty(), newest)
    });
    for (index, _) in late {
        let node = awaited(sight, building, parent, index);
        building.wait(place, node);
    }
}

/// Whether a process may have come out of a split that others are in; one that gets no communicator leaves no other trace.
/// Nobody comes out before all have come, so who has returned from no call since another one came has not. Who is in another
/// call would be taken for part of a circle, and a call that does not block may return sooner: there it takes longer.
fn may_be_through(sight: &Sight<'_, '_>, process: u32, has_head: bool, newest: Timestamp) -> bool {
    let it = sight.process(process);
    // Of who is gone, stopped or not watched others speak.
    if it.life != Life::Running || words::stopped(it).is_some() || sight.blind(it).is_some() {
        return false;
    }
    let is_elsewhere = has_head || !it.open_calls.is_empty();
    let before = if is_elsewhere { RETURNED_BEFORE } else { Duration::ZERO };
    it.last_returned_at.is_none_or(|returned| newest.since(it.ours(returned)) <= before)
}

/// Whether a process is in a split of this communicator.
fn is_splitting(process: &Process<'_>, parent: u32) -> bool {
    process.forming.iter().any(|one| one.parent == Some(parent))
        || process
            .open_calls
            .iter()
            .any(|open| open.communicator == Some(parent) && places::is_split(&open.function))
}

/// How many ranks those who shrink a communicator leave out. `None`: it is not shrunk, or nobody says it.
fn left_out(sight: &Sight<'_, '_>, parent: u32, is_in: &[u32]) -> Option<usize> {
    let mut forming = is_in.iter().flat_map(|process| sight.process(*process).forming.iter());
    let shrink =
        forming.find(|one| one.parent == Some(parent) && one.function.ends_with("ncclCommShrink"))?;
    sight.communicator(parent).n_ranks.checked_sub(shrink.n_ranks?).map(|ranks| ranks as usize)
}

/// A destroy waits for the ranks that still use the communicator.
fn teardown(sight: &Sight<'_, '_>, building: &mut Building<'_>, communicator: u32) {
    let place = building.place(Place::Teardown { communicator });
    for member in &sight.communicator(communicator).members {
        let process = sight.process(member.process);
        let uses = !is_over(member.state) && places::leaving(process, communicator).is_none();
        let cannot = !is_over(member.state) && (!lives(process.life) || words::stopped(process).is_some());
        if uses || cannot {
            building.wait(place, member.process);
        }
    }
}

/// The registration of a window waits for those who are not in it.
fn window(sight: &Sight<'_, '_>, building: &mut Building<'_>, at: usize, communicator: u32) {
    let place = building.place(Place::Window { communicator });
    let is_in: Vec<u32> = building.nodes[at].waiters.iter().map(|waiter| waiter.process).collect();
    for (member, index) in sight.communicator(communicator).members.iter().zip(0_u32..) {
        if is_in.binary_search(&member.process).is_err() {
            let node = awaited(sight, building, communicator, index);
            building.wait(place, node);
        }
    }
}

/// How long before the others came a rank that is in another call may have come out of a split that does not block.
const RETURNED_BEFORE: Duration = Duration::from_secs(5);
