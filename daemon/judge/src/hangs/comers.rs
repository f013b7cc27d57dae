//! Inits that lack ranks of which nobody knows which processes they are: whether anybody is left who may come.
//!
//! An init waits for so many of the processes that are not in it, whichever. As long as enough of them may go on, somebody
//! may come. Where too few may, it cannot end; then those who are in other inits that cannot end are waited for, since
//! an init is where they stand instead. In doubt somebody may come.

use super::building::Building;
use super::places::Place;
use super::scene::Life;
use super::sight::Sight;

/// An init that lacks ranks.
pub(super) struct Lacking {
    pub(super) communicator: u32,
    /// Its node.
    pub(super) node: u32,
    /// How many have not come.
    pub(super) ranks: usize,
}

/// Adds edges from each of these inits to those who are waited for there, or to nobody known.
pub(super) fn connect(sight: &Sight<'_, '_>, building: &mut Building<'_>, lacking: &[Lacking]) {
    let stuck =
        if lacking.len() > 1 && all_are_seen(sight) { stuck(sight, building, lacking) } else { Vec::new() };
    let mut edges = Vec::new();
    for init in lacking {
        let others = stuck.iter().filter(|other| other.node != init.node);
        let mut comers: Vec<u32> = others.flat_map(|other| waiters(building, other)).collect();
        comers.sort_unstable();
        comers.dedup();
        comers.retain(|process| is_outside(sight, *process, init.communicator));
        if stuck.iter().any(|known| known.node == init.node) && comers.len() >= init.ranks {
            edges.extend(comers.into_iter().map(|process| (init.node, process)));
        } else {
            edges.push((init.node, building.place(Place::Unseen { communicator: init.communicator })));
        }
    }
    edges.into_iter().for_each(|(from, to)| building.wait(from, to));
}

/// Whether every process of the job is in the scene, as far as its own words go.
fn all_are_seen(sight: &Sight<'_, '_>) -> bool {
    let running = sight.scene.processes.iter().filter(|process| process.life == Life::Running).count();
    let told = sight.scene.processes.iter().filter_map(|process| process.world_size);
    let made = sight.scene.communicators.iter().map(|communicator| communicator.n_ranks);
    told.chain(made).max().is_some_and(|most| running >= most as usize)
}

/// The inits to which too few may still come.
fn stuck<'l>(sight: &Sight<'_, '_>, building: &Building<'_>, lacking: &'l [Lacking]) -> Vec<&'l Lacking> {
    let n_processes = sight.scene.processes.len();
    let mut goes: Vec<bool> =
        (0_u32..).zip(&sight.scene.processes).map(|(at, _)| has_more(sight, at)).collect();
    let inits = building.nodes.iter().filter(|node| matches!(node.place, Place::Init { .. }));
    for waiter in inits.flat_map(|node| &node.waiters) {
        // An init that does not block lets its thread go on.
        goes[waiter.process as usize] |= sight.process(waiter.process).open_calls.is_empty();
    }
    goes.resize(n_processes + building.nodes.len(), false);
    let edges = building.edges();
    // Each round finds some who may go on because others do.
    for _ in 0..ROUNDS {
        let before = goes.clone();
        let mut waits = vec![false; goes.len()];
        let mut may = vec![false; n_processes];
        let mut all = vec![true; goes.len()];
        for (from, to) in edges {
            let (from, to) = (*from as usize, *to as usize);
            waits[from] = true;
            all[from] &= goes[to];
            if from < n_processes {
                may[from] |= goes[to];
            }
        }
        for node in 0..goes.len() {
            goes[node] |= match may.get(node) {
                Some(may) => *may || !waits[node],
                None => all[node],
            };
        }
        for init in lacking {
            let node = init.node as usize;
            let may_come = (0_u32..).zip(&goes[..n_processes]).filter(|(process, goes)| {
                **goes
                    && sight.process(*process).life == Life::Running
                    && is_outside(sight, *process, init.communicator)
            });
            goes[node] = before[node]
                || !is_old(sight, building, init)
                || all[node] && may_come.take(init.ranks).count() == init.ranks;
        }
        if goes == before {
            return lacking.iter().filter(|init| !goes[init.node as usize]).collect();
        }
    }
    Vec::new()
}

/// Whether a process drives several ranks of one communicator, each with a thread of its own: another one may come.
fn has_more(sight: &Sight<'_, '_>, process: u32) -> bool {
    sight.parts(process).windows(2).any(|parts| parts[0].0 == parts[1].0)
}

/// Whether all who are in it have been for long: a thread whose device waits may still come.
fn is_old(sight: &Sight<'_, '_>, building: &Building<'_>, init: &Lacking) -> bool {
    let mut waiters = building.node(init.node).into_iter().flat_map(|node| &node.waiters);
    waiters.all(|waiter| {
        sight.proven(sight.process(waiter.process), waiter.since) >= sight.settings.stalled_after
    })
}

fn waiters(building: &Building<'_>, init: &Lacking) -> Vec<u32> {
    let node = building.node(init.node);
    node.into_iter().flat_map(|node| &node.waiters).map(|waiter| waiter.process).collect()
}

fn is_outside(sight: &Sight<'_, '_>, process: u32, communicator: u32) -> bool {
    sight.parts(process).iter().all(|(known, _)| *known != communicator)
}

/// Rounds until it is known who may go on: longer chains of those who wait for each other are left alone.
const ROUNDS: usize = 64;
