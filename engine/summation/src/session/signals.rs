//! Fence: SIGTERM and SIGINT end a server cleanly.

#![expect(unsafe_code, reason = "sigset_t and sigwait are C's")]

use std::mem::MaybeUninit;

use super::server::{Failed, Stopper};

/// Lets a thread of its own wait for the signals, which all threads that are started from now on leave to it.
///
/// # Errors
/// The thread cannot be started.
pub fn stop_on_signals(stopper: Stopper) -> Result<(), Failed> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is a valid place, which this initialises.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: initialised above.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: initialised above.
    let set = unsafe { set.assume_init() };
    // SAFETY: a valid set, and no place for the old one.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    let thread = std::thread::Builder::new().name("sumd-signals".to_owned());
    let thread = thread.spawn(move || {
        let mut signal = 0;
        // SAFETY: a valid set and a valid place.
        if unsafe { libc::sigwait(&raw const set, &raw mut signal) } == 0 {
            stopper.stop();
        }
    });
    thread.map(drop).map_err(|error| Failed::new(format!("starting the signals' thread: {error}")))
}
