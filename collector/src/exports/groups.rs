//! Groups: the functions of `nccl.h` that bracket calls.

#![expect(unsafe_code, reason = "exports C functions and calls the real ones")]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::abi::nccl::SUCCESS;
use crate::calls::resolve::{Function, library_of_caller};
use crate::calls::{group, resolve};
use crate::cuda_events::follow::CudaEvents;
use crate::exports::comm_init;
use crate::exports::forward::{inside, quietly};
use crate::segment::local::Local;
use crate::segment::{guard, local, segment};

/// Defines an exported function that hands on its arguments and, behind them, the address to which it returns: whose
/// group it is only the caller's place in memory tells, and groups are too frequent to unwind the stack for it.
macro_rules! hand_on_with_caller {
    ($name:ident($($arg:ident: $type:ty),*), $x86_64:literal, $aarch64:literal, $to:ident) => {
        #[doc = concat!("`", stringify!($name), "` of nccl.h.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(concat!("mov ", $x86_64, ", [rsp]"), "jmp {to}", to = sym $to);
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(concat!("mov ", $aarch64, ", x30"), "b {to}", to = sym $to);
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
        if local.group_depth.get() == 1
            && let Some(segment) = segment()
        {
            guard(|| group::launch::<CudaEvents>(segment, local));
        }
        // SAFETY: no arguments.
        let result = inside(local, null_mut(), || unsafe { real() });
        if leave_group(local) {
            guard(|| {
                if let Some(segment) = segment() {
                    group::settle::<CudaEvents>(segment, local, local.function.get(), result);
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
                    group::drop::<CudaEvents>(segment, local);
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
