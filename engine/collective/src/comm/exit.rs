//! Fence: a process that ends by `exit` without destroying its communicators takes leave of its peers.
//!
//! Peers may still be finishing an operation that this rank has done with; without the farewell they would take the end
//! of its connections for its death. A process that is killed says nothing, and is found out.

#![expect(unsafe_code, reason = "atexit takes a C function")]

use std::sync::OnceLock;

/// The process that registered, and its farewell: a forked child that exits runs the handler too, but has none of the
/// threads.
static REGISTERED: OnceLock<(u32, fn())> = OnceLock::new();

/// Registers what takes leave, once per process.
pub(crate) fn register(take_leave: fn()) {
    REGISTERED.get_or_init(|| {
        // SAFETY: the library is never unmapped (-z nodelete), so the handler exists at exit.
        unsafe { libc::atexit(farewell) };
        (std::process::id(), take_leave)
    });
}

extern "C" fn farewell() {
    if let Some((process, take_leave)) = REGISTERED.get()
        && *process == std::process::id()
    {
        // A panic must not cross into C; there is nobody left to tell.
        let _ = std::panic::catch_unwind(take_leave);
    }
}
