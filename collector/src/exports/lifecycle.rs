//! The functions of `nccl.h` that end communicators and tell how they are.

#![expect(unsafe_code, reason = "exports C functions and calls the real ones")]

use std::ffi::c_int;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{COMMUNICATOR_ABORTED, COMMUNICATOR_DESTROYED};

use crate::abi::nccl::{Comm, IN_PROGRESS, SUCCESS};
use crate::calls::resolve::{Function, library_of};
use crate::calls::{ending, resolve};
use crate::cuda_events::{abort, fit, follow};
use crate::exports::forward::{inside, note_error, quietly, slot_of, track, wrap};
use crate::exports::nonblocking;
use crate::segment::counts::is_taken;
use crate::segment::local::Local;
use crate::segment::{communicators, guard, segment};

wrap!(ncclCommDestroy(comm: Comm), |local, library = library_of(local, comm), real| {
    // SAFETY: the caller's own argument.
    finish(local, comm, COMMUNICATOR_DESTROYED, || unsafe { real(comm) })
});

wrap!(ncclCommAbort(comm: Comm), |local, library = library_of(local, comm), real| {
    // SAFETY: the caller's own argument.
    finish(local, comm, COMMUNICATOR_ABORTED, || unsafe { real(comm) })
});

wrap!(ncclCommRevoke(comm: Comm, flags: c_int), |local, library = library_of(local, comm), real| {
    let slot = slot_of(local, comm);
    if let Some(slot) = slot {
        guard(|| abort::begin(slot));
    }
    // SAFETY: the caller's own arguments.
    let result = inside(local, comm, || unsafe { real(comm, flags) });
    if let Some(slot) = slot {
        guard(|| match segment() {
            Some(segment) if is_taken(result) => {
                abort::done(slot);
                communicators::revoke(segment, slot);
            }
            _ => abort::refused(slot),
        });
    }
    result
});

wrap!(ncclCommFinalize(comm: Comm), |local, library = library_of(local, comm), real| {
    // SAFETY: the caller's own argument.
    inside(local, comm, || unsafe { real(comm) })
});

wrap!(
    ncclCommGetAsyncError(comm: Comm, error: *mut c_int),
    |local, library = library_of(local, comm), real| {
        // SAFETY: the caller's own arguments.
        let result = quietly(local, || unsafe { real(comm, error) });
        // SAFETY: with this result the library has written the answer.
        let said = if result == SUCCESS { unsafe { error.read() } } else { result };
        if !is_taken(said) {
            note_error(local, comm, said);
        }
        if result == SUCCESS {
            guard(|| {
                let segment = segment()?;
                let slot = communicators::find(segment, local, comm as u64)?;
                // What was in progress is on its stream once the library says so.
                follow::progressed(segment, slot, || {
                    let mut state = IN_PROGRESS;
                    // SAFETY: the communicator that was just asked about, and a valid place for the answer.
                    let result = quietly(local, || unsafe { real(comm, &raw mut state) });
                    result == SUCCESS && state == SUCCESS
                });
                Some(())
            });
        }
        if result == SUCCESS && !nonblocking::is_idle() {
            guard(|| segment().map(|segment| nonblocking::heard(segment, local, comm, said)));
        }
        result
    }
);

/// Forwards a destroy or abort. Before the library has it, nothing waits and nobody asks the driver: behind a hung kernel
/// that may hold whoever asks until the abort has come through.
fn finish(local: &Local, comm: Comm, state: u32, forward: impl FnOnce() -> c_int) -> c_int {
    let slot = slot_of(local, comm);
    if let Some(slot) = slot {
        guard(|| {
            communicators::detach(slot);
            if state == COMMUNICATOR_ABORTED {
                abort::begin(slot);
            }
        });
    }
    let inside = track(local, slot);
    let result = forward();
    drop(inside);
    if let Some((slot, segment)) = slot.zip(segment()) {
        guard(|| {
            if is_taken(result) {
                finished(segment, slot, state);
            } else {
                abort::refused(slot);
                communicators::reattach(slot, comm as u64);
                communicators::note_error(segment, slot, local.function.get(), result);
            }
        });
    }
    if slot.is_none() && is_taken(result) && !nonblocking::is_idle() {
        guard(|| segment().map(nonblocking::ended_unknown));
    }
    result
}

/// The end is marked after the call: it waits for operations, whose events come during it.
fn finished(segment: &Segment, slot: usize, state: u32) {
    if !nonblocking::is_idle() {
        nonblocking::abandon(segment, slot);
    }
    fit::ended(segment, slot);
    if state == COMMUNICATOR_ABORTED {
        abort::done(slot);
    } else if follow::end_later(slot) {
        return;
    }
    ending::end(segment, slot, state);
}
