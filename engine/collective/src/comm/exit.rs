//! Fence: a process that ends by `exit` without destroying its communicators takes leave of its peers.
//!
//! Peers may still be finishing an operation that this rank has done with; without the farewell they would take the end
//! of its connections for its death. A process that is killed says nothing, and is found out.

#![expect(unsafe_code, reason = "atexit takes a C function")]

use std::sync::OnceLock;

use crate::comm::registry;

/// The process that registered: a forked child that exits runs the handler too, but has none of the threads.
static REGISTERED_IN: OnceLock<u32> = OnceLock::new();

/// Registers the farewell, once per process.
pub(crate) fn register() {
    REGISTERED_IN.get_or_init(|| {
        // SAFETY: the library is never unmapped (-z nodelete), so the handler exists at exit.
        unsafe { libc::atexit(farewell) };
        std::process::id()
    });
}

extern "C" fn farewell() {
    if REGISTERED_IN.get() == Some(&std::process::id()) {
        // A panic must not cross into C; there is nobody left to tell.
        let _ = std::panic::catch_unwind(|| registry::all().iter().for_each(|comm| comm.farewell()));
    }
}
