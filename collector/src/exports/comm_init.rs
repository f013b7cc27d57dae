//! The functions of `nccl.h` that make communicators.
//!
//! Communicators are followed also while the collector is switched off, so that their calls count once it is on.

#![expect(
    unsafe_code,
    reason = "exports C functions, calls the real ones, reads what they leave behind pointers"
)]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{DropReason, LIVE_CALLED, MADE_BY_SHRINK, SOURCE_CALLS};

use crate::abi::nccl::{Comm, SHRINK_ABORT, SPLIT_NOCOLOR, SUCCESS, UniqueId};
use crate::calls::resolve;
use crate::calls::resolve::{Function, library_of, library_of_outside};
use crate::exports::called::wrap_called;
use crate::exports::describe::describe;
use crate::exports::forward::{track, wrap};
use crate::exports::making::{Making, read_config};
use crate::exports::nonblocking;
use crate::segment::communicators::Birth;
use crate::segment::counts::is_taken;
use crate::segment::lineage::Descent;
use crate::segment::local::{Local, Pending, Pointer};
use crate::segment::maker::segment_or_create;
use crate::segment::{communicators, guard, lineage, segment, switch};

wrap_called!(
    ncclCommInitRank(comm: *mut Comm, n_ranks: c_int, id: UniqueId, rank: c_int),
    |local, library = library_of_outside(), real| {
        let forming = form(library, |_| Making::init(library, Some(&id), rank, n_ranks, None));
        // SAFETY: the caller's own arguments.
        make(local, forming, comm, || unsafe { real(comm, n_ranks, id, rank) })
    }
);

wrap_called!(
    ncclCommInitRankConfig(comm: *mut Comm, n_ranks: c_int, id: UniqueId, rank: c_int, config: *mut c_void),
    |local, library = library_of_outside(), real| {
        // SAFETY: NULL or a configuration that the caller made.
        let given = unsafe { read_config(config) };
        let forming = form(library, |_| Making::init(library, Some(&id), rank, n_ranks, given));
        // SAFETY: the caller's own arguments.
        make(local, forming, comm, || unsafe { real(comm, n_ranks, id, rank, config) })
    }
);

wrap_called!(
    ncclCommInitRankScalable(
        comm: *mut Comm,
        n_ranks: c_int,
        rank: c_int,
        n_ids: c_int,
        ids: *mut UniqueId,
        config: *mut c_void
    ),
    |local, library = library_of_outside(), real| {
        // SAFETY: NULL or a configuration that the caller made.
        let given = unsafe { read_config(config) };
        // SAFETY: NULL or as many ids as the caller says. The first one names the communicator.
        let id = if n_ids > 0 { unsafe { ids.as_ref() } } else { None };
        let forming = form(library, |_| Making::init(library, id, rank, n_ranks, given));
        // SAFETY: the caller's own arguments.
        make(local, forming, comm, || unsafe { real(comm, n_ranks, rank, n_ids, ids, config) })
    }
);

/// Communicators of one `ncclCommInitAll` that are followed: it makes one per device.
const MAX_INIT_ALL: usize = 128;

wrap_called!(
    ncclCommInitAll(comms: *mut Comm, n_devices: c_int, devices: *const c_int),
    |local, library = library_of_outside(), real| {
        let mut slots = [None; MAX_INIT_ALL];
        let n_used = usize::try_from(n_devices).unwrap_or(0).min(MAX_INIT_ALL);
        for (slot, rank) in slots[..n_used].iter_mut().zip(0..) {
            // The id is the library's own.
            let forming = form(library, |_| Making::init(library, None, rank, n_devices, None));
            *slot = forming.map(|forming| forming.slot);
        }
        lineage::make_together(slots.iter().flatten().copied());
        let inside = track(local, slots[0]);
        // SAFETY: the caller's own arguments.
        let result = unsafe { real(comms, n_devices, devices) };
        drop(inside);
        // NULL may have been given, which the library has refused.
        let is_made = is_taken(result) && !comms.is_null();
        let made = |index| if is_made { read(comms.wrapping_add(index)) } else { null_mut() };
        for (index, slot) in slots[..n_used].iter().enumerate() {
            if let Some(slot) = *slot {
                guard(|| conclude(local, Forming { slot, parent: None }, made(index), result));
            }
        }
        result
    }
);

wrap!(
    ncclCommSplit(parent: Comm, colour: c_int, key: c_int, comm: *mut Comm, config: *mut c_void),
    |local, library = library_of(local, parent), real| {
        // SAFETY: NULL or a configuration that the caller made.
        let given = unsafe { read_config(config) };
        let forming = parent_of(local, parent).and_then(|parent| {
            let child = lineage::next_child(parent);
            // A rank that gets no communicator still counts as a child.
            if colour == SPLIT_NOCOLOR {
                return None;
            }
            let descent = Descent::Split;
            form_child(library, parent, |segment| {
                Making::split(segment, library, parent, (child, colour), given).with_descent(segment, descent)
            })
        });
        // SAFETY: the caller's own arguments.
        make(local, forming, comm, || unsafe { real(parent, colour, key, comm, config) })
    }
);

wrap!(
    ncclCommShrink(
        parent: Comm,
        excluded: *mut c_int,
        n_excluded: c_int,
        comm: *mut Comm,
        config: *mut c_void,
        flags: c_int
    ),
    |local, library = library_of(local, parent), real| {
        // SAFETY: NULL or a configuration that the caller made.
        let given = unsafe { read_config(config) };
        let forming = parent_of(local, parent).and_then(|parent| {
            // Without a list the library makes a split of it, and counts it.
            let child = if excluded.is_null() { lineage::next_child(parent) } else { 0 };
            let descent = Descent::Shrink { is_abort: flags & SHRINK_ABORT != 0 };
            form_child(library, parent, |segment| {
                let making = Making::split(segment, library, parent, (child, 0), given);
                let n_ranks = communicators::at(segment, parent).n_ranks.load(Relaxed);
                let birth = Birth {
                    made_by: MADE_BY_SHRINK,
                    n_ranks: n_ranks.saturating_sub(n_excluded).max(0),
                    ..making.birth
                };
                Making { birth, ..making }.with_descent(segment, descent)
            })
        });
        // SAFETY: the caller's own arguments.
        make(local, forming, comm, || unsafe { real(parent, excluded, n_excluded, comm, config, flags) })
    }
);

wrap_called!(
    ncclCommGrow(
        parent: Comm,
        n_ranks: c_int,
        id: *const UniqueId,
        rank: c_int,
        comm: *mut Comm,
        config: *mut c_void
    ),
    |local, library = if parent.is_null() { library_of_outside() } else { library_of(local, parent) }, real| {
        // SAFETY: NULL or a configuration that the caller made.
        let given = unsafe { read_config(config) };
        // SAFETY: NULL or an id that the caller has.
        let id = unsafe { id.as_ref() };
        let forming = match parent_of(local, parent) {
            Some(parent) => {
                let child = lineage::next_child(parent);
                form_child(library, parent, |segment| {
                    Making::grow(id, n_ranks, given).of_parent(segment, parent, child, given.is_none())
                })
            }
            // A rank that joins has no parent, and its own number.
            None => form(library, |_| {
                let making = Making::grow(id, n_ranks, given);
                Making { birth: Birth { rank, ..making.birth }, ..making }
            }),
        };
        // SAFETY: the caller's own arguments.
        make(local, forming, comm, || unsafe { real(parent, n_ranks, id.map_or(std::ptr::null(), |id| id), rank, comm, config) })
    }
);

/// A slot whose communicator is being made.
#[derive(Clone, Copy)]
struct Forming {
    slot: usize,
    parent: Option<usize>,
}

/// Takes a slot for a communicator about to be made, in a segment that is made if need be.
fn form(library: usize, making: impl FnOnce(&Segment) -> Making) -> Option<Forming> {
    guard(|| {
        let Some(segment) = segment_or_create() else {
            switch::no_segment();
            return None;
        };
        segment.live.flags.fetch_or(LIVE_CALLED, Relaxed);
        if switch::is_faulty(segment) {
            return None;
        }
        let making = making(segment);
        let slot = communicators::form(segment, &making.birth)?;
        let communicator = communicators::at(segment, slot);
        communicator.sources.fetch_or(SOURCE_CALLS, Relaxed);
        communicator.library.store(u32::try_from(library).unwrap_or_default(), Relaxed);
        communicator.shares_resources.store(making.shares, Relaxed);
        lineage::set_magic(slot, making.magic);
        lineage::set_settings(segment, slot, making.settings);
        Some(Forming { slot, parent: making.parent })
    })
    .flatten()
}

/// The same for a child of a communicator that is followed.
fn form_child(library: usize, parent: usize, making: impl FnOnce(&Segment) -> Making) -> Option<Forming> {
    form(library, making).map(|forming| Forming { parent: Some(parent), ..forming })
}

fn parent_of(local: &Local, parent: Comm) -> Option<usize> {
    guard(|| {
        if !nonblocking::is_idle() {
            nonblocking::meet(local, parent);
        }
        communicators::find(segment()?, local, parent as u64)
    })
    .flatten()
}

/// Forwards the call and follows what becomes of the communicator.
fn make(local: &Local, forming: Option<Forming>, comm: *mut Comm, forward: impl FnOnce() -> c_int) -> c_int {
    local.forming.set(forming.map_or(0, |forming| forming.slot + 1));
    let is_grouped = local.group_depth.get() > 0;
    let before = if is_grouped { read(comm) } else { null_mut() };
    let inside = track(local, forming.map(|forming| forming.slot));
    let result = forward();
    drop(inside);
    local.forming.set(0);
    if let Some(forming) = forming {
        guard(|| {
            let made = if is_taken(result) { read(comm) } else { null_mut() };
            if is_grouped && is_taken(result) {
                let is_given = !made.is_null() && made != before;
                let place = Pointer::At(comm.expose_provenance());
                defer(local, forming, if is_given { Pointer::Given(made as u64) } else { place });
            } else {
                conclude(local, forming, made, result);
            }
        });
    }
    result
}

/// What lies in a caller's place for the pointer.
fn read(comm: *mut Comm) -> Comm {
    if comm.is_null() {
        return null_mut();
    }
    // SAFETY: the caller gave a place, and the call, or the end of its group, has not returned to him yet. What lies there
    // before the library has filled it is only compared.
    unsafe { comm.read_volatile() }
}

/// In a group the communicator is there when the group has ended.
fn defer(local: &Local, forming: Forming, pointer: Pointer) {
    let Forming { slot, parent } = forming;
    if !local.defer(Pending { pointer, slot, parent })
        && let Some(segment) = segment()
    {
        communicators::release(segment, slot);
        switch::dropped(segment, DropReason::CommunicatorTableFull, 1);
    }
}

/// The group in which communicators were to be made has ended.
pub(crate) fn conclude_pending(local: &Local, result: c_int) {
    for Pending { pointer, slot, parent } in local.take_pending() {
        let made = match pointer {
            Pointer::Given(pointer) => pointer as Comm,
            // The library writes here too, until the group has ended.
            Pointer::At(address) if is_taken(result) => read(std::ptr::with_exposed_provenance_mut(address)),
            Pointer::At(_) => null_mut(),
        };
        conclude(local, Forming { slot, parent }, made, result);
    }
}

/// The library has made the communicator, or not, or goes on making it.
fn conclude(local: &Local, Forming { slot, parent }: Forming, pointer: Comm, result: c_int) {
    let Some(segment) = segment() else { return };
    if !is_taken(result) {
        communicators::note_error(segment, slot, local.function.get(), result);
        return communicators::fail(segment, slot);
    }
    match (pointer.is_null(), result == SUCCESS, parent) {
        (false, true, _) => describe(segment, local, slot, pointer),
        (false, false, _) => {
            // A communicator still being made must not be asked: the library would log a warning. Awaited first, for another
            // thread may hear of it as soon as its pointer is known.
            nonblocking::await_ready(slot);
            return communicators::attach(segment, slot, pointer as u64);
        }
        (true, false, Some(parent)) => return nonblocking::await_child(slot, parent),
        (true, _, _) => return communicators::release(segment, slot),
    }
    communicators::activate(segment, slot, pointer as u64);
}
