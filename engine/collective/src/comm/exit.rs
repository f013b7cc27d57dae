//! Fence: a process that ends by `exit` without destroying its communicators takes leave of its peers.
//!
//! Peers may still be finishing an operation that this rank has done with; without the farewell they would take the end
//! of its connections for its death. A process that is killed says nothing, and is found out.

#![expect(unsafe_code, reason = "atexit takes a C function")]

use std::sync::OnceLock;

/// The process that registered, and what it is to do: a forked child that exits runs the handler too, but has none of the
/// threads.
static REGISTERED: OnceLock<(u32, fn())> = OnceLock::new();

/// Registers `farewell` for the end of the process, once.
pub(crate) fn register(farewell: fn()) {
    REGISTERED.get_or_init(|| {
        // SAFETY: the library is never unmapped (-z nodelete), so the handler exists at exit.
        unsafe { libc::atexit(at_exit) };
        (std::process::id(), farewell)
    });
}

extern "C" fn at_exit() {
    if let Some((process, farewell)) = REGISTERED.get()
        && *process == std::process::id()
    {
        // A panic must not cross into C; there is nobody left to tell.
        let _ = std::panic::catch_unwind(farewell);
    }
}
