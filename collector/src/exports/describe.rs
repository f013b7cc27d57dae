//! What the library itself says of a communicator.

#![expect(unsafe_code, reason = "calls functions of the library")]

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::Segment;

use crate::abi::nccl::{Comm, SUCCESS};
use crate::calls::resolve;
use crate::calls::resolve::Function;
use crate::cuda_events::fit;
use crate::profiler::adopt;
use crate::segment::local::Local;
use crate::segment::{communicators, uncancelled};

/// Asks the library for what the call did not say. Not from within it.
pub(crate) fn describe(segment: &Segment, local: &Local, slot: usize, comm: Comm) {
    let communicator = communicators::at(segment, slot);
    let library = communicator.library.load(Relaxed) as usize;
    for (function, place) in [
        (Function::ncclCommUserRank, &communicator.rank),
        (Function::ncclCommCount, &communicator.n_ranks),
        (Function::ncclCommCuDevice, &communicator.device),
    ] {
        if let Some(value) = ask(local, function, library, comm) {
            place.store(value, Relaxed);
        }
    }
    adopt::look_again(segment);
    fit::begin_communicator(segment, slot);
}

/// What one of the functions that tell a number of a communicator, or its state, says. Not from within the library: on its way to the
/// answer it calls itself by its exported names, and such a call is not the program's.
pub(crate) fn ask(local: &Local, function: Function, library: usize, comm: Comm) -> Option<c_int> {
    let real = resolve::real(function, library);
    if real.is_null() {
        return None;
    }
    // SAFETY: the functions asked here have this signature.
    let real: unsafe extern "C-unwind" fn(Comm, *mut c_int) -> c_int = unsafe { std::mem::transmute(real) };
    local.library.set(library);
    let _inside = local.enter(0, None);
    let mut value = 0;
    let place = &raw mut value;
    // SAFETY: a communicator that the library has made, and a valid place for the answer. The program has not made this call:
    // it is not cancelled in it.
    let result = uncancelled(|| unsafe { real(comm, place) });
    (result == SUCCESS).then_some(value)
}
