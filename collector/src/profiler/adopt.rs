//! Which slot the profiler's `init` speaks of, and what it tells about the communicator.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMMUNICATOR_FORMING, Communicator, MADE_BY_GROW, MADE_BY_SHRINK, MADE_BY_SPLIT,
    MADE_BY_UNSEEN, MAX_COMMUNICATORS, SOURCE_PLUGIN, Segment,
};

use crate::segment::communicators;
use crate::segment::communicators::{Birth, Name, at, set_name};

/// What the library says of a communicator when it initialises the plugin for it, or (before version 4) with its
/// first task.
pub(crate) struct Announcement {
    /// 0 if not said.
    pub(crate) comm_hash: u64,
    /// 0 if not said.
    pub(crate) n_nodes: i32,
    /// 0 if not said.
    pub(crate) n_ranks: i32,
    /// -1 if not said.
    pub(crate) rank: i32,
    pub(crate) name: Name,
}

/// Finds the slot and completes it. `forming` is the slot whose init this thread is forwarding: certain. Inits in a
/// group run on threads of the library's own, there the identity decides: hash, else rank and size, else a split of
/// which nothing is known yet.
pub(crate) fn adopt(segment: &Segment, forming: Option<usize>, announced: &Announcement) -> Option<usize> {
    let tests: [fn(&Communicator, &Announcement) -> bool; 3] = [has_hash, has_place, is_blank_split];
    let slot = forming
        .filter(|slot| claim(at(segment, *slot)))
        .or_else(|| tests.iter().find_map(|test| first(segment, announced, *test)))?;
    let communicator = at(segment, slot);
    if announced.comm_hash != 0 {
        communicator.comm_hash.store(announced.comm_hash, Relaxed);
    }
    if announced.n_nodes > 0 {
        communicator.n_nodes.store(announced.n_nodes, Relaxed);
    }
    if announced.n_ranks > 0 {
        communicator.rank.store(announced.rank, Relaxed);
        communicator.n_ranks.store(announced.n_ranks, Relaxed);
    }
    if announced.name[0] != 0 {
        set_name(communicator, &announced.name);
    }
    Some(slot)
}

/// A slot for a communicator whose init did not pass the collector.
pub(crate) fn take_unseen(segment: &Segment, announced: &Announcement) -> Option<usize> {
    let slot = communicators::form(
        segment,
        &Birth {
            made_by: MADE_BY_UNSEEN,
            rank: announced.rank,
            n_ranks: announced.n_ranks,
            comm_hash: announced.comm_hash,
            parent_hash: 0,
            name: announced.name,
        },
    )?;
    let communicator = at(segment, slot);
    communicator.n_nodes.store(announced.n_nodes.max(0), Relaxed);
    communicator.sources.fetch_or(SOURCE_PLUGIN, Relaxed);
    // The profiler does not say its pointer.
    communicators::activate(segment, slot, 0);
    Some(slot)
}

fn first(
    segment: &Segment,
    announced: &Announcement,
    test: fn(&Communicator, &Announcement) -> bool,
) -> Option<usize> {
    let used = (segment.live.n_communicators.load(Acquire) as usize).min(MAX_COMMUNICATORS);
    (0..used).find(|slot| {
        let communicator = at(segment, *slot);
        test(communicator, announced) && claim(communicator)
    })
}

/// Takes a communicator that no other `init` has spoken of.
fn claim(communicator: &Communicator) -> bool {
    matches!(communicator.state.load(Acquire), COMMUNICATOR_FORMING | COMMUNICATOR_ACTIVE)
        && communicator.sources.fetch_or(SOURCE_PLUGIN, AcqRel) & SOURCE_PLUGIN == 0
}

fn has_hash(communicator: &Communicator, announced: &Announcement) -> bool {
    let rank = communicator.rank.load(Relaxed);
    announced.comm_hash != 0
        && communicator.comm_hash.load(Relaxed) == announced.comm_hash
        && (rank == announced.rank || rank < 0)
}

fn has_place(communicator: &Communicator, announced: &Announcement) -> bool {
    announced.n_ranks > 0
        && communicator.rank.load(Relaxed) == announced.rank
        && communicator.n_ranks.load(Relaxed) == announced.n_ranks
}

fn is_blank_split(communicator: &Communicator, announced: &Announcement) -> bool {
    let is_child =
        matches!(communicator.made_by.load(Relaxed), MADE_BY_SPLIT | MADE_BY_SHRINK | MADE_BY_GROW);
    is_child && announced.n_ranks > 0 && communicator.rank.load(Relaxed) < 0
}
