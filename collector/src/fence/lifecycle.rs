//! Communicators and groups: the functions of `nccl.h` that make, end and bracket.
//!
//! Communicators are followed also while the collector is switched off, so that their calls count once it is on.

#![expect(
    unsafe_code,
    reason = "exports C functions, calls the real ones, reads what they leave behind pointers"
)]

use std::ffi::{c_int, c_void};

use ringscope_wire::comm_hash;
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, COMMUNICATOR_DESTROYED, DropReason, MADE_BY_INIT, MADE_BY_SPLIT, MAX_COMMUNICATORS,
};

use super::nccl::{
    COMM_NAME_SINCE, CONFIG_MAGIC, Comm, Config, ConfigHead, IN_PROGRESS, SUCCESS, SYSTEM_ERROR, UniqueId,
};
use super::profiler::text;
use super::resolve::{self, Function};
use super::segment_map::segment_or_create;
use super::{guard, segment};
use crate::communicators::{self, Birth, Name};
use crate::issue::{is_taken, settle_group};
use crate::local::{self, Local, Pending};
use crate::{completion, switch};

/// Defines an exported function: `$local` is the thread's memory, `$real` the library's function. Calls from inside
/// the library go straight through.
macro_rules! wrap {
    ($name:ident($($arg:ident: $type:ty),*), |$local:ident, $real:ident| $body:expr) => {
        #[doc = concat!("`", stringify!($name), "` of nccl.h.")]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            let real = resolve::real(Function::$name);
            if real.is_null() {
                return SYSTEM_ERROR;
            }
            // SAFETY: the library's function of this name has the signature that nccl.h gives it.
            let $real: unsafe extern "C-unwind" fn($($type),*) -> c_int = unsafe { std::mem::transmute(real) };
            local::with(|$local| {
                if $local.is_inside() {
                    // SAFETY: the caller's own arguments.
                    return unsafe { $real($($arg),*) };
                }
                $body
            })
        }
    };
}

wrap!(ncclCommInitRank(comm: *mut Comm, n_ranks: c_int, id: UniqueId, rank: c_int), |local, real| {
    let forming = form(|_| birth_of_init(&id, rank, n_ranks, Name::default()));
    // SAFETY: the caller's own arguments.
    make(local, forming, comm, || unsafe { real(comm, n_ranks, id, rank) })
});

wrap!(
    ncclCommInitRankConfig(comm: *mut Comm, n_ranks: c_int, id: UniqueId, rank: c_int, config: *mut c_void),
    |local, real| {
        // SAFETY: NULL or a configuration that the caller made.
        let name = unsafe { name_of(config) };
        let forming = form(|_| birth_of_init(&id, rank, n_ranks, name));
        // SAFETY: the caller's own arguments.
        make(local, forming, comm, || unsafe { real(comm, n_ranks, id, rank, config) })
    }
);

wrap!(
    ncclCommSplit(parent: Comm, colour: c_int, key: c_int, comm: *mut Comm, config: *mut c_void),
    |local, real| {
        // SAFETY: NULL or a configuration that the caller made.
        let name = unsafe { name_of(config) };
        let forming = form_split(local, parent, colour, name);
        // SAFETY: the caller's own arguments.
        make(local, forming, comm, || unsafe { real(parent, colour, key, comm, config) })
    }
);

wrap!(ncclCommInitAll(comms: *mut Comm, n_devices: c_int, devices: *const c_int), |local, real| {
    let mut slots = [None; MAX_COMMUNICATORS];
    let n_used = usize::try_from(n_devices).unwrap_or(0).min(MAX_COMMUNICATORS);
    for (slot, rank) in slots[..n_used].iter_mut().zip(0..) {
        *slot = form(|_| Birth { comm_hash: 0, ..birth(rank, n_devices, Name::default()) });
    }
    let inside = local.enter(0);
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(comms, n_devices, devices) };
    drop(inside);
    for (index, slot) in slots[..n_used].iter().enumerate() {
        if let Some(slot) = *slot {
            // SAFETY: the caller's array has `n_devices` entries.
            guard(|| conclude(slot, unsafe { comms.add(index) }, result));
        }
    }
    result
});

wrap!(ncclCommDestroy(comm: Comm), |local, real| {
    // SAFETY: the caller's own argument.
    finish(local, comm, COMMUNICATOR_DESTROYED, || unsafe { real(comm) })
});

wrap!(ncclCommAbort(comm: Comm), |local, real| {
    // SAFETY: the caller's own argument.
    finish(local, comm, COMMUNICATOR_ABORTED, || unsafe { real(comm) })
});

wrap!(ncclCommFinalize(comm: Comm), |local, real| {
    let _inside = local.enter(0);
    // SAFETY: the caller's own argument.
    unsafe { real(comm) }
});

wrap!(ncclCommGetAsyncError(comm: Comm, state: *mut c_int), |local, real| {
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(comm, state) };
    if result == SUCCESS {
        guard(|| follow_progress(local, comm, || {
            let mut state = IN_PROGRESS;
            // SAFETY: the communicator that was just asked about, and a valid place for the answer.
            let result = unsafe { real(comm, &raw mut state) };
            result == SUCCESS && state == SUCCESS
        }));
    }
    result
});

wrap!(ncclGroupStart(), |local, real| {
    let inside = local.enter(0);
    // SAFETY: no arguments.
    let result = unsafe { real() };
    drop(inside);
    if result == SUCCESS {
        local.group_depth.set(local.group_depth.get().saturating_add(1));
    }
    result
});

wrap!(ncclGroupEnd(), |local, real| {
    let inside = local.enter(0);
    // SAFETY: no arguments.
    let result = unsafe { real() };
    drop(inside);
    let depth = local.group_depth.get().saturating_sub(1);
    local.group_depth.set(depth);
    if depth == 0 {
        guard(|| end_group(local, result));
    }
    result
});

/// A program asks about a communicator until what it called is no longer in progress; only now is it on the stream.
fn follow_progress(local: &Local, comm: Comm, is_done: impl Fn() -> bool) {
    if let Some(segment) = segment()
        && let Some(slot) = communicators::find(segment, local, comm as u64)
    {
        completion::progressed(slot, is_done);
    }
}

/// The outermost group has ended: its calls are issued, its communicators made.
fn end_group(local: &Local, result: c_int) {
    if let Some(segment) = segment() {
        settle_group(segment, local, result);
    }
    for pending in local.take_pending() {
        conclude(pending.slot, std::ptr::with_exposed_provenance_mut(pending.comm_address), result);
    }
}

/// Takes a slot for a communicator about to be made, in a segment that is made if need be.
fn form(birth: impl FnOnce(&Segment) -> Birth) -> Option<usize> {
    guard(|| {
        let Some(segment) = segment_or_create() else {
            switch::no_segment();
            return None;
        };
        if switch::is_faulty(segment) {
            return None;
        }
        communicators::form(segment, &birth(segment))
    })
    .flatten()
}

fn birth(rank: c_int, n_ranks: c_int, name: Name) -> Birth {
    Birth { made_by: MADE_BY_INIT, rank, n_ranks, comm_hash: 0, parent_hash: 0, name }
}

fn birth_of_init(id: &UniqueId, rank: c_int, n_ranks: c_int, name: Name) -> Birth {
    Birth { comm_hash: comm_hash::of_unique_id(&id.internal), ..birth(rank, n_ranks, name) }
}

/// A slot for the child that this rank gets from a split; none if it gets none, which still counts as a child.
fn form_split(local: &Local, parent: Comm, colour: c_int, name: Name) -> Option<usize> {
    let segment = segment()?;
    let parent_slot = guard(|| communicators::find(segment, local, parent as u64)).flatten()?;
    let child = communicators::next_child(parent_slot);
    // NCCL_SPLIT_NOCOLOR is -1.
    if colour < 0 {
        return None;
    }
    let parent_hash =
        communicators::at(segment, parent_slot).comm_hash.load(std::sync::atomic::Ordering::Relaxed);
    form(|_| Birth {
        made_by: MADE_BY_SPLIT,
        rank: -1,
        n_ranks: 0,
        comm_hash: comm_hash::of_split(parent_hash, child, colour),
        parent_hash,
        name,
    })
}

/// Forwards an init or split and follows what becomes of it.
fn make(local: &Local, slot: Option<usize>, comm: *mut Comm, forward: impl FnOnce() -> c_int) -> c_int {
    local.forming.set(slot.map_or(0, |slot| slot + 1));
    let inside = local.enter(0);
    let result = forward();
    drop(inside);
    local.forming.set(0);
    if let Some(slot) = slot {
        guard(|| {
            if local.group_depth.get() > 0 && is_taken(result) {
                defer(local, slot, comm);
            } else {
                conclude(slot, comm, result);
            }
        });
    }
    result
}

/// In a group the pointer is there when the group has ended.
fn defer(local: &Local, slot: usize, comm: *mut Comm) {
    if !local.defer(Pending { comm_address: comm.expose_provenance(), slot })
        && let Some(segment) = segment()
    {
        communicators::release(segment, slot);
        switch::dropped(segment, DropReason::CommunicatorTableFull, 1);
    }
}

/// The library has made the communicator, or not.
fn conclude(slot: usize, comm: *mut Comm, result: c_int) {
    let Some(segment) = segment() else { return };
    if !is_taken(result) || comm.is_null() {
        return communicators::fail(segment, slot);
    }
    // SAFETY: the caller gave a place for the pointer, and the library has filled it.
    let pointer = unsafe { comm.read() };
    if pointer.is_null() {
        return communicators::release(segment, slot);
    }
    // A communicator still being made must not be asked: the library would log a warning.
    if result == SUCCESS {
        describe(segment, slot, pointer);
    }
    completion::begin_communicator(segment, slot);
    communicators::activate(segment, slot, pointer as u64);
}

/// Asks the library for what the call did not say.
fn describe(segment: &Segment, slot: usize, comm: Comm) {
    use std::sync::atomic::Ordering::Relaxed;
    let communicator = communicators::at(segment, slot);
    for (function, place) in [
        (Function::ncclCommUserRank, &communicator.rank),
        (Function::ncclCommCount, &communicator.n_ranks),
        (Function::ncclCommCuDevice, &communicator.device),
    ] {
        if let Some(value) = ask(function, comm) {
            place.store(value, Relaxed);
        }
    }
}

fn ask(function: Function, comm: Comm) -> Option<c_int> {
    let real = resolve::real(function);
    if real.is_null() {
        return None;
    }
    // SAFETY: the three functions asked here have this signature.
    let real: unsafe extern "C-unwind" fn(Comm, *mut c_int) -> c_int = unsafe { std::mem::transmute(real) };
    let mut value = 0;
    // SAFETY: a communicator that the library has just made, and a valid place for the answer.
    let result = unsafe { real(comm, &raw mut value) };
    (result == SUCCESS).then_some(value)
}

/// Forwards a destroy or abort. The end is marked after it: it waits for operations, whose events come during it.
fn finish(local: &Local, comm: Comm, state: u32, forward: impl FnOnce() -> c_int) -> c_int {
    let slot = guard(|| {
        let segment = segment()?;
        let slot = communicators::find(segment, local, comm as u64)?;
        communicators::detach(slot);
        if state == COMMUNICATOR_ABORTED {
            completion::give_up(slot);
        }
        Some((segment, slot))
    });
    let inside = local.enter(0);
    let result = forward();
    drop(inside);
    if let Some((segment, slot)) = slot.flatten() {
        guard(|| {
            if is_taken(result) {
                completion::look_once();
                communicators::end(segment, slot, state);
            } else {
                communicators::reattach(slot, comm as u64);
            }
        });
    }
    result
}

/// `ncclConfig_t.commName`, if the configuration is one and new enough to have it.
///
/// # Safety
/// NULL or a `ncclConfig_t` as its own `size` says.
unsafe fn name_of(config: *const c_void) -> Name {
    let config = config.cast::<Config>();
    if config.is_null() {
        return Name::default();
    }
    // SAFETY: every version begins with these three.
    let head = unsafe { config.cast::<ConfigHead>().read() };
    if head.magic != CONFIG_MAGIC || head.size < size_of::<Config>() || head.version < COMM_NAME_SINCE {
        return Name::default();
    }
    // SAFETY: `size` says that the field is there.
    let name = unsafe { (*config).comm_name };
    // SAFETY: NULL or a terminated text, says nccl.h.
    unsafe { text(name) }
}
