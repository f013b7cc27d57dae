//! Memory that ranks of the same host read in place.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_int, c_void};

use crate::api::fence::{export, guard};
use crate::api::place::Out;
use crate::transport::shm::region;

export! {
    /// Host memory, aligned to a cache line at least; of no bytes, too. Other ranks of the host read large allocations
    /// where they are, without a copy. It is shared with children after a fork.
    fn ncclMemAlloc / pncclMemAlloc(address: *mut *mut c_void, size: usize) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(address, "ptr") }?;
            place.set(region::allocate(size)?);
            Ok(())
        })
    }

    /// Frees what `ncclMemAlloc` gave, and refuses anything else; NULL is fine. No operation may use it any more.
    fn ncclMemFree / pncclMemFree(address: *mut c_void) -> c_int {
        // SAFETY: not used any more, as the caller of NCCL's API promises.
        guard(|| unsafe { region::free(address) })
    }
}
