//! Which slot the profiler's `init` speaks of, and what it tells about the communicator.
//!
//! A communicator made outside of a group is announced on the thread that makes it. Those of a group are announced on
//! threads of the library's own: there hash and rank decide, as far as both sides know them. Where several communicators of
//! the process fit, nobody guesses: the rank becomes known when the group has ended, and at the latest the first event
//! inside a call on the communicator tells which it is.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMMUNICATOR_FORMING, COMPLETION_NONE, COMPLETION_PROFILER, Communicator,
    MADE_BY_UNSEEN, SOURCE_PLUGIN, Segment,
};

use crate::profiler::contexts::{Announcement, Surety};
use crate::profiler::{asked, contexts};
use crate::segment::busy::Busy;
use crate::segment::communicators::{Birth, at, set_name};
use crate::segment::{communicators, lineage, local, table};

/// Some thread binds contexts to slots, which takes some microseconds: none does while the `Held` lives.
static BINDING: Busy = Busy::new();

/// How long who makes a communicator waits for another thread that binds. A context that could not be bound then is unknown.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The same for the first events of a communicator, which say which it is.
const MAX_WAIT_OF_EVENT: Duration = Duration::from_millis(10);

/// How well a communicator fits what was announced, the best last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It is another one.
    Not,
    /// By its place; its hash, as far as the collector can know it, is another.
    OddHash,
    /// Nothing speaks against it.
    Place,
    /// By its hash; its rank is not known.
    Hash,
    HashAndRank,
}

fn fit(communicator: &Communicator, announced: &Announcement) -> Fit {
    let is_made = matches!(communicator.state.load(Acquire), COMMUNICATOR_FORMING | COMMUNICATOR_ACTIVE);
    let (rank, n_ranks) = (communicator.rank.load(Relaxed), communicator.n_ranks.load(Relaxed));
    let is_rank_known = rank >= 0 && announced.rank >= 0;
    let differs = is_rank_known && rank != announced.rank
        || n_ranks > 0 && announced.n_ranks > 0 && n_ranks != announced.n_ranks;
    if !is_made || differs || communicator.made_by.load(Relaxed) == MADE_BY_UNSEEN {
        return Fit::Not;
    }
    match (communicator.comm_hash.load(Relaxed), announced.comm_hash) {
        (0, _) | (_, 0) => Fit::Place,
        (known, said) if known != said => Fit::OddHash,
        _ if is_rank_known => Fit::HashAndRank,
        _ => Fit::Hash,
    }
}

fn is_claimed(communicator: &Communicator) -> bool {
    communicator.sources.load(Acquire) & SOURCE_PLUGIN != 0
}

/// The library has announced a communicator under the context's number.
pub(super) fn introduce(segment: &Segment, number: usize, announced: &Announcement) {
    let forming = local::with(|local| local.forming.get().checked_sub(1));
    let Some(_binding) = BINDING.take_within(MAX_WAIT) else { return };
    // Only now: whoever binds must not find half of it. What was settled late of the one that had the number before is void.
    contexts::unsettle(number);
    contexts::announce(number, announced);
    if let Some(slot) = forming.filter(|slot| is_free_and_fits(at(segment, *slot), announced)) {
        return bind(segment, number, slot, announced, Surety::Sure);
    }
    settle_unknown(segment);
    // Inside one of our functions that takes no slot: the table of communicators is full.
    let is_unfollowed = forming.is_none() && local::with(local::Local::is_inside);
    let is_unknown = contexts::slot(segment, number).is_none();
    let is_said = announced.n_ranks > 0;
    if is_unknown && is_said && !is_unfollowed && free_and_fitting(segment, announced).next().is_none() {
        take_unseen(segment, number, announced);
    }
}

/// More has become known of the process's communicators.
pub(crate) fn look_again(segment: &Segment) {
    if contexts::unknown().next().is_some()
        && let Some(_binding) = BINDING.take_within(MAX_WAIT)
    {
        settle_unknown(segment);
    }
}

/// Binds the contexts that only one communicator fits, as often as that makes others certain.
fn settle_unknown(segment: &Segment) {
    loop {
        // Behind a full table there may be thousands of contexts: each looks at the few slots that are free, and not at all.
        let mut few = [0; MAX_FEW];
        let n = few.iter_mut().zip(free(segment)).map(|(kept, slot)| *kept = slot).count();
        let few = (n < MAX_FEW).then_some(&few[..n]);
        if n == 0 || !contexts::unknown().any(|number| settle_one(segment, number, few)) {
            return;
        }
    }
}

/// Free slots that are worth a list.
const MAX_FEW: usize = 64;

/// `few` are the slots that are free, if they are few.
fn settle_one(segment: &Segment, number: usize, few: Option<&[usize]>) -> bool {
    let said = || contexts::announced(number).filter(|announced| announced.n_ranks > 0);
    let Some(announced) = said() else { return false };
    let best = match few {
        Some(few) => best(fitting(segment, few.iter().copied(), &announced)),
        None => best(free_and_fitting(segment, &announced)),
    };
    let Best::One(slot, fit) = best else { return false };
    // One that is closed by now may have had a slot that has ended by now, and this is another's.
    if said().is_none() {
        return false;
    }
    bind(segment, number, slot, &announced, surety(fit));
    true
}

/// Of several communicators the one that fits best.
enum Best {
    None,
    One(usize, Fit),
    /// No one of them fits better than the others.
    Several,
}

fn best(slots: impl Iterator<Item = (usize, Fit)>) -> Best {
    let best = slots.fold(None, |best, (slot, fit)| match best {
        Some((_, known, _)) if fit < known => best,
        Some((first, known, n)) if fit == known => Some((first, known, n + 1)),
        _ => Some((slot, fit, 1)),
    });
    match best {
        None => Best::None,
        Some((slot, fit, 1)) => Best::One(slot, fit),
        Some(_) => Best::Several,
    }
}

fn surety(fit: Fit) -> Surety {
    if fit >= Fit::Hash { Surety::Sure } else { Surety::Likely }
}

/// The slots that no context has yet.
fn free(segment: &Segment) -> impl Iterator<Item = usize> {
    (0..table::n_used(segment)).filter(|slot| !is_claimed(at(segment, *slot)))
}

/// The same, and how well they fit.
fn free_and_fitting(segment: &Segment, announced: &Announcement) -> impl Iterator<Item = (usize, Fit)> {
    fitting(segment, free(segment), announced)
}

/// Those that fit.
fn fitting(
    segment: &Segment,
    slots: impl Iterator<Item = usize>,
    announced: &Announcement,
) -> impl Iterator<Item = (usize, Fit)> {
    slots.map(|slot| (slot, fit(at(segment, slot), announced))).filter(|(_, fit)| *fit != Fit::Not)
}

fn is_free_and_fits(communicator: &Communicator, announced: &Announcement) -> bool {
    !is_claimed(communicator) && fit(communicator, announced) != Fit::Not
}

/// An event of the context's has come inside a call on the communicator in `slot`. False if the event is of another one: a
/// call that the library makes for itself.
#[cold]
pub(super) fn confirm(segment: &Segment, number: usize, slot: usize) -> bool {
    let Some(announced) = contexts::announced(number) else {
        // Unfollowed, or no context of ours: the call alone says which it is.
        return true;
    };
    if contexts::is_sure(number) || fit(at(segment, slot), &announced) == Fit::Not {
        return contexts::slot(segment, number) == Some(slot);
    }
    // While another thread binds and does not end, the call alone says which it is.
    let Some(_binding) = BINDING.take_within(MAX_WAIT_OF_EVENT) else { return true };
    if contexts::slot(segment, number) != Some(slot) {
        // Claimed without an owner, it was taken for the communicator of a context that is gone.
        let owner = contexts::of_slot(segment, slot);
        if owner.is_some_and(contexts::is_sure) {
            return false;
        }
        for wrong in [owner, Some(number)].into_iter().flatten() {
            unbind(segment, wrong);
        }
    }
    bind(segment, number, slot, &announced, Surety::Sure);
    settle_unknown(segment);
    true
}

/// A task of the context's has come: before version 5 the first event inside a call or a group of calls, before version 4 also
/// the first to say which communicator it is. `slots` are those of the thread's call or group.
#[cold]
pub(super) fn find_by_task(
    segment: &Segment,
    number: usize,
    told: &Announcement,
    slots: &mut dyn Iterator<Item = usize>,
) -> Option<usize> {
    let known = contexts::announced(number)?;
    let announced = if known.n_ranks > 0 { known } else { *told };
    contexts::announce(number, &announced);
    let bound = contexts::slot(segment, number);
    let Some(_binding) = BINDING.take_within(MAX_WAIT_OF_EVENT) else { return bound };
    let rival = |slot: usize| contexts::of_slot(segment, slot).filter(|other| *other != number);
    let in_call = slots
        .filter(|slot| !rival(*slot).is_some_and(contexts::is_sure))
        .map(|slot| (slot, fit(at(segment, slot), &announced)))
        .filter(|(_, fit)| *fit != Fit::Not);
    match best(in_call) {
        Best::One(slot, _) => {
            for wrong in [rival(slot), bound.map(|_| number)].into_iter().flatten() {
                unbind(segment, wrong);
            }
            bind(segment, number, slot, &announced, Surety::Sure);
            settle_unknown(segment);
            return Some(slot);
        }
        Best::Several => return bound,
        Best::None if bound.is_some() => return bound,
        Best::None => {}
    }
    match best(free_and_fitting(segment, &announced)) {
        Best::One(slot, fit) => bind(segment, number, slot, &announced, surety(fit)),
        Best::None => take_unseen(segment, number, &announced),
        Best::Several => {}
    }
    contexts::slot(segment, number)
}

/// Takes a slot for a communicator whose init did not pass the collector.
fn take_unseen(segment: &Segment, number: usize, announced: &Announcement) {
    let birth = Birth {
        made_by: MADE_BY_UNSEEN,
        rank: announced.rank,
        n_ranks: announced.n_ranks,
        comm_hash: announced.comm_hash,
        parent_hash: 0,
        name: announced.name,
    };
    let Some(slot) = communicators::form(segment, &birth) else { return };
    // The profiler does not say its pointer.
    communicators::activate(segment, slot, 0);
    bind(segment, number, slot, announced, Surety::Sure);
}

/// The context is the slot's communicator, which is as the library says.
fn bind(segment: &Segment, number: usize, slot: usize, announced: &Announcement, surety: Surety) {
    let communicator = at(segment, slot);
    communicator.sources.fetch_or(SOURCE_PLUGIN, AcqRel);
    if announced.comm_hash != 0 {
        communicator.comm_hash.store(announced.comm_hash, Relaxed);
        if surety == Surety::Sure {
            for sibling in lineage::siblings(slot) {
                let _ =
                    at(segment, sibling).comm_hash.compare_exchange(0, announced.comm_hash, Relaxed, Relaxed);
            }
        }
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
    contexts::settle(segment, number, slot, surety);
    asked::note_completion(communicator);
}

/// The context is not the communicator that it was thought to be.
fn unbind(segment: &Segment, number: usize) {
    if let Some(slot) = contexts::slot(segment, number) {
        let communicator = at(segment, slot);
        communicator.sources.fetch_and(!SOURCE_PLUGIN, AcqRel);
        communicator.comm_hash.store(0, Relaxed);
        communicator.n_nodes.store(0, Relaxed);
        let _ =
            communicator.completion.compare_exchange(COMPLETION_PROFILER, COMPLETION_NONE, AcqRel, Relaxed);
    }
    contexts::unsettle(number);
}

/// In a forked child: no other thread binds.
pub(crate) fn forget() {
    BINDING.forget();
}
