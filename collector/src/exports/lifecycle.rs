//! Communicators and groups: the functions of `nccl.h` that end and bracket, and those that tell of registered memory.

#![expect(unsafe_code, reason = "exports C functions and calls the real ones")]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{COMMUNICATOR_ABORTED, COMMUNICATOR_DESTROYED};

use crate::abi::nccl::{Comm, IN_PROGRESS, SUCCESS, Stream};
use crate::calls::complete::close;
use crate::calls::resolve::{Function, library_of, library_of_caller, library_of_outside};
use crate::calls::{group, resolve};
use crate::cuda_events;
use crate::cuda_events::abort;
use crate::exports::{comm_init, nonblocking};
use crate::profiler::adopt;
use crate::segment::counts::is_taken;
use crate::segment::local::{Inside, Local};
use crate::segment::{communicators, guard, local, segment, threads};

/// Defines an exported function: `$local` is the thread's memory, `$library` the copy of the library that `$which` finds,
/// `$real` its function. Calls from inside the library go straight back to it.
macro_rules! wrap {
    ($name:ident($($arg:ident: $type:ty),*), |$local:ident, $library:ident = $which:expr, $real:ident| $body:expr) => {
        #[doc = concat!("`", stringify!($name), "` of nccl.h.")]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            crate::segment::local::with(|$local| {
                let is_inside = $local.is_inside();
                let library = if is_inside { Some($local.library.get()) } else { $which };
                let real = library.map_or(std::ptr::null_mut(), |library| {
                    resolve::real(Function::$name, library)
                });
                let Some($library) = library.filter(|_| !real.is_null()) else {
                    return resolve::lacks();
                };
                // SAFETY: the library's function of this name has the signature that nccl.h gives it.
                let $real: unsafe extern "C-unwind" fn($($type),*) -> c_int = unsafe { std::mem::transmute(real) };
                if is_inside {
                    // SAFETY: the caller's own arguments.
                    return unsafe { $real($($arg),*) };
                }
                $local.library.set($library);
                $local.function.set(Function::$name.number());
                $body
            })
        }
    };
}
pub(crate) use wrap;

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
                cuda_events::progressed(slot, || {
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

wrap!(
    ncclCommRegister(comm: Comm, buffer: *mut c_void, size: usize, handle: *mut *mut c_void),
    |local, library = library_of(local, comm), real| {
        // SAFETY: the caller's own arguments.
        register(local, comm, || unsafe { real(comm, buffer, size, handle) })
    }
);

wrap!(
    ncclCommWindowRegister(comm: Comm, buffer: *mut c_void, size: usize, window: *mut *mut c_void, flags: c_int),
    |local, library = library_of(local, comm), real| {
        // SAFETY: the caller's own arguments.
        register(local, comm, || unsafe { real(comm, buffer, size, window, flags) })
    }
);

wrap!(
    ncclMemAlloc(place: *mut *mut c_void, size: usize),
    |local, library = library_of_outside(), real| {
        // SAFETY: the caller's own arguments.
        register(local, null_mut(), || unsafe { real(place, size) })
    }
);

wrap!(ncclCommDeregister(comm: Comm, handle: *mut c_void), |local, library = library_of(local, comm), real| {
    // SAFETY: the caller's own arguments.
    inside(local, comm, || unsafe { real(comm, handle) })
});

wrap!(ncclCommWindowDeregister(comm: Comm, window: *mut c_void), |local, library = library_of(local, comm), real| {
    // SAFETY: the caller's own arguments.
    inside(local, comm, || unsafe { real(comm, window) })
});

// No primitive fits these two: they move no payload. What the library calls for them is still its own.
wrap!(
    ncclSignal(peer: c_int, signal: c_int, context: c_int, flags: c_uint, comm: Comm, stream: Stream),
    |local, library = library_of(local, comm), real| {
        // SAFETY: the caller's own arguments.
        inside(local, comm, || unsafe { real(peer, signal, context, flags, comm, stream) })
    }
);

wrap!(
    ncclWaitSignal(n: c_int, signals: *mut c_void, comm: Comm, stream: Stream),
    |local, library = library_of(local, comm), real| {
        // SAFETY: the caller's own arguments.
        inside(local, comm, || unsafe { real(n, signals, comm, stream) })
    }
);

/// Defines an exported function that hands on its arguments and, behind them, the address to which it returns: whose
/// group it is only the caller's place in memory tells, and groups are too frequent to unwind the stack for it.
macro_rules! hand_on_with_caller {
    ($name:ident($($arg:ident: $type:ty),*), $x86_64:literal, $aarch64:literal, $to:ident) => {
        #[doc = concat!("`", stringify!($name), "` of nccl.h.")]
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(concat!("mov ", $x86_64, ", [rsp]"), "jmp {to}", to = sym $to);
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(concat!("mov ", $aarch64, ", x30"), "b {to}", to = sym $to);
        }

        #[doc = concat!("`", stringify!($name), "` of nccl.h.")]
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            let caller = crate::calls::linker_scope::caller();
            // SAFETY: the caller's own arguments.
            unsafe { $to($($arg,)* caller) }
        }
    };
}

hand_on_with_caller!(ncclGroupStart(), "rdi", "x0", group_start);
hand_on_with_caller!(ncclGroupEnd(), "rdi", "x0", group_end);
hand_on_with_caller!(ncclGroupSimulateEnd(info: *mut c_void), "rsi", "x1", group_simulate_end);

unsafe extern "C-unwind" fn group_start(caller: usize) -> c_int {
    local::with(|local| {
        let Some((real, is_inside)) = group_function(local, Function::ncclGroupStart, caller) else {
            return resolve::lacks();
        };
        // SAFETY: the signature since 2.0.
        let real: unsafe extern "C-unwind" fn() -> c_int = unsafe { std::mem::transmute(real) };
        if is_inside {
            // SAFETY: no arguments.
            return unsafe { real() };
        }
        // SAFETY: no arguments.
        let result = quietly(local, || unsafe { real() });
        if result == SUCCESS {
            local.group_depth.set(local.group_depth.get().saturating_add(1));
        }
        result
    })
}

unsafe extern "C-unwind" fn group_end(caller: usize) -> c_int {
    local::with(|local| {
        let Some((real, is_inside)) = group_function(local, Function::ncclGroupEnd, caller) else {
            return resolve::lacks();
        };
        // SAFETY: the signature since 2.0.
        let real: unsafe extern "C-unwind" fn() -> c_int = unsafe { std::mem::transmute(real) };
        if is_inside {
            // SAFETY: no arguments.
            return unsafe { real() };
        }
        // SAFETY: no arguments.
        let result = inside(local, null_mut(), || unsafe { real() });
        if leave_group(local) {
            guard(|| {
                if let Some(segment) = segment() {
                    group::settle(segment, local, local.function.get(), result);
                }
                comm_init::conclude_pending(local, result);
            });
        }
        result
    })
}

/// Ends the group and launches none of its operations; communicators are made all the same.
unsafe extern "C-unwind" fn group_simulate_end(info: *mut c_void, caller: usize) -> c_int {
    local::with(|local| {
        let Some((real, is_inside)) = group_function(local, Function::ncclGroupSimulateEnd, caller) else {
            return resolve::lacks();
        };
        // SAFETY: the signature since 2.22.
        let real: unsafe extern "C-unwind" fn(*mut c_void) -> c_int = unsafe { std::mem::transmute(real) };
        if is_inside {
            // SAFETY: the caller's own argument.
            return unsafe { real(info) };
        }
        // SAFETY: the caller's own argument.
        let result = inside(local, null_mut(), || unsafe { real(info) });
        if leave_group(local) {
            guard(|| {
                if let Some(segment) = segment() {
                    group::drop(segment, local);
                }
                comm_init::conclude_pending(local, result);
            });
        }
        result
    })
}

/// The real function for a caller at this address, and whether that is the library itself.
#[inline(always)]
fn group_function(local: &Local, function: Function, caller: usize) -> Option<(*mut c_void, bool)> {
    let is_inside = local.is_inside();
    let library = if is_inside { local.library.get() } else { library_of_caller(caller)? };
    let real = resolve::real(function, library);
    if real.is_null() {
        return None;
    }
    if !is_inside {
        local.library.set(library);
        local.function.set(function.number());
    }
    Some((real, is_inside))
}

/// Counts down the open groups; true if the outermost has ended.
fn leave_group(local: &Local) -> bool {
    let depth = local.group_depth.get().saturating_sub(1);
    local.group_depth.set(depth);
    depth == 0
}

/// Forwards a call that returns at once and of which nothing is recorded.
fn quietly(local: &Local, forward: impl FnOnce() -> c_int) -> c_int {
    let _inside = local.enter(0, None);
    forward()
}

/// Forwards a call that may take long; on a communicator, or NULL. An error that it returns is noted.
fn inside(local: &Local, comm: Comm, forward: impl FnOnce() -> c_int) -> c_int {
    let inside = track(local, slot_of(local, comm));
    let result = forward();
    drop(inside);
    if !is_taken(result) {
        note_error(local, comm, result);
    }
    result
}

/// Marks the thread as inside the library, with the function that is being forwarded and a communicator's slot.
pub(crate) fn track(local: &Local, slot: Option<usize>) -> Inside<'_> {
    guard(|| threads::enter_slow(local, local.function.get(), slot)).unwrap_or_else(|| local.enter(0, None))
}

fn slot_of(local: &Local, comm: Comm) -> Option<usize> {
    if comm.is_null() {
        return None;
    }
    guard(|| communicators::find(segment()?, local, comm as u64)).flatten()
}

/// The function that is being forwarded has told an error of the communicator.
fn note_error(local: &Local, comm: Comm, result: c_int) {
    if let Some(slot) = slot_of(local, comm)
        && let Some(segment) = segment()
    {
        communicators::note_error(segment, slot, local.function.get(), result);
    }
}

/// Forwards a call that registers memory, and counts it.
fn register(local: &Local, comm: Comm, forward: impl FnOnce() -> c_int) -> c_int {
    let result = inside(local, comm, forward);
    if result == SUCCESS
        && let Some(segment) = segment()
    {
        segment.live.registrations.fetch_add(1, Relaxed);
    }
    result
}

/// Asks the library for what the call did not say.
pub(crate) fn describe(segment: &Segment, slot: usize, comm: Comm) {
    let communicator = communicators::at(segment, slot);
    let library = communicator.library.load(Relaxed) as usize;
    for (function, place) in [
        (Function::ncclCommUserRank, &communicator.rank),
        (Function::ncclCommCount, &communicator.n_ranks),
        (Function::ncclCommCuDevice, &communicator.device),
    ] {
        if let Some(value) = ask(function, library, comm) {
            place.store(value, Relaxed);
        }
    }
    adopt::look_again(segment);
    cuda_events::begin_communicator(segment, slot);
}

/// What one of the functions that tell a number of a communicator says.
pub(crate) fn ask(function: Function, library: usize, comm: Comm) -> Option<c_int> {
    let real = resolve::real(function, library);
    if real.is_null() {
        return None;
    }
    // SAFETY: the three functions asked here have this signature.
    let real: unsafe extern "C-unwind" fn(Comm, *mut c_int) -> c_int = unsafe { std::mem::transmute(real) };
    let mut value = 0;
    // SAFETY: a communicator that the library has made, and a valid place for the answer.
    let result = unsafe { real(comm, &raw mut value) };
    (result == SUCCESS).then_some(value)
}

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
    if state == COMMUNICATOR_ABORTED {
        abort::done(slot);
    } else if cuda_events::end_later(slot) {
        return;
    }
    communicators::end(segment, slot, state, close);
}
