//! The extension `rsccl_virtual.h`: processes that stand for several ranks each.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_int, c_void};

use crate::api::collectives::{Args, enqueue};
use crate::api::fence::guard;
use crate::collective::primitive::Primitive;
use crate::error::{Error, Result};

/// Virtual ranks of one process at most.
const MAX_VIRTUAL: usize = 64 * 1024;

/// All-reduce of the contributions of all virtual ranks, in their order.
///
/// # Safety
/// `send` has `n_virtual` times `count` elements, `recv` has `count`, until the operation has completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rscclAllReduceVirtual(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    n_virtual: c_int,
    data_type: c_int,
    op: c_int,
    comm: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    guard(|| {
        let n_virtual = checked(n_virtual)?;
        let args = Args { send, recv, count, n_virtual, data_type, op, comm, stream };
        // SAFETY: the caller's buffers.
        unsafe { enqueue(&args, |_| Ok(Primitive::AllReduce)) }
    })
}

fn checked(n_virtual: c_int) -> Result<usize> {
    let checked = usize::try_from(n_virtual).ok().filter(|n| (1..=MAX_VIRTUAL).contains(n));
    let text = || format!("n_virtual {n_virtual}: a process stands for 1 to {MAX_VIRTUAL} virtual ranks");
    checked.ok_or_else(|| Error::InvalidArgument(text()))
}
