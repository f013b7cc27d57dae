//! Which slot the profiler's `init` speaks of, and what it tells about the communicator.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMMUNICATOR_FORMING, Communicator, MADE_BY_SPLIT, MAX_COMMUNICATORS, Segment,
};

use crate::communicators::{Name, at, set_name};

/// What the library says when it initialises the plugin for a communicator.
pub(crate) struct Announcement {
    pub(crate) comm_hash: u64,
    pub(crate) n_nodes: i32,
    pub(crate) n_ranks: i32,
    pub(crate) rank: i32,
    pub(crate) name: Name,
}

/// Finds the slot and completes it. `forming` is the slot whose init this thread is forwarding: certain. Inits in a
/// group run on threads of the library's own, there the identity decides: hash, else rank and size, else a split of
/// which nothing is known yet.
pub(crate) fn adopt(segment: &Segment, forming: Option<usize>, announced: &Announcement) -> Option<usize> {
    let tests: [fn(&Communicator, &Announcement) -> bool; 3] = [has_hash, has_place, is_blank_split];
    let slot = forming
        .filter(|slot| claim(at(segment, *slot), announced))
        .or_else(|| tests.iter().find_map(|test| first(segment, announced, *test)))?;
    let communicator = at(segment, slot);
    communicator.comm_hash.store(announced.comm_hash, Relaxed);
    communicator.rank.store(announced.rank, Relaxed);
    communicator.n_ranks.store(announced.n_ranks, Relaxed);
    if announced.name[0] != 0 {
        set_name(communicator, &announced.name);
    }
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
        test(communicator, announced) && claim(communicator, announced)
    })
}

/// Takes a communicator that no other `init` has spoken of: its `n_nodes` is still 0.
fn claim(communicator: &Communicator, announced: &Announcement) -> bool {
    matches!(communicator.state.load(Acquire), COMMUNICATOR_FORMING | COMMUNICATOR_ACTIVE)
        && communicator.n_nodes.compare_exchange(0, announced.n_nodes.max(1), AcqRel, Relaxed).is_ok()
}

fn has_hash(communicator: &Communicator, announced: &Announcement) -> bool {
    let rank = communicator.rank.load(Relaxed);
    communicator.comm_hash.load(Relaxed) == announced.comm_hash && (rank == announced.rank || rank < 0)
}

fn has_place(communicator: &Communicator, announced: &Announcement) -> bool {
    communicator.rank.load(Relaxed) == announced.rank
        && communicator.n_ranks.load(Relaxed) == announced.n_ranks
}

fn is_blank_split(communicator: &Communicator, _: &Announcement) -> bool {
    communicator.made_by.load(Relaxed) == MADE_BY_SPLIT && communicator.rank.load(Relaxed) < 0
}
