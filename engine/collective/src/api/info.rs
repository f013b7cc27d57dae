//! Version, error texts.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_char, c_int, c_void};

use crate::api::fence::{export, guard, show};
use crate::api::place::Out;
use crate::comm::registry;
use crate::config;
use crate::error::describe;
use crate::run::group;

export! {
    /// NCCL's version that this library behaves as: 22809 unless `RSCCL_FAITHFUL` names another.
    fn ncclGetVersion / pncclGetVersion(version: *mut c_int) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            unsafe { Out::new(version, "version") }?.set(config::nccl_version().code());
            Ok(())
        })
    }

    /// The text of a result code; static.
    fn ncclGetErrorString / pncclGetErrorString(result: c_int) -> *const c_char {
        describe(result).as_ptr()
    }

    /// The text of the communicator's first error, or of the process's last one; valid until this thread's next call.
    fn ncclGetLastError / pncclGetLastError(comm: *mut c_void) -> *const c_char {
        show(registry::last_error(comm.addr()))
    }

    /// Begins a group.
    fn ncclGroupStart / pncclGroupStart() -> c_int {
        guard(|| { group::start(); Ok(()) })
    }

    /// Ends a group; the outermost one submits.
    fn ncclGroupEnd / pncclGroupEnd() -> c_int {
        guard(group::end)
    }
}
