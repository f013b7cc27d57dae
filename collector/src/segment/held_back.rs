//! What is held back from a thread while it runs code of ours that must come to its end: cancellation, and the program's signal
//! handlers. Not for the record path.

#![expect(unsafe_code, reason = "asks the C library to hold back cancellations and signals")]

use std::ffi::c_int;
use std::mem::zeroed;

/// Runs code of ours that makes system calls, at which a thread may be cancelled: the cancellation waits until it is
/// done. Not for the record path, which makes none.
pub(crate) fn uncancelled<R>(f: impl FnOnce() -> R) -> R {
    /// What the program had asked for, put back also where a panic passes.
    struct Before(c_int);
    impl Drop for Before {
        fn drop(&mut self) {
            let mut ours = 0;
            // SAFETY: a state that it gave, and a valid place for the answer.
            unsafe { pthread_setcancelstate(self.0, &raw mut ours) };
        }
    }
    let mut before = Before(0);
    // SAFETY: a valid place for the answer.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before.0) };
    f()
}

/// Runs code of ours in which no signal handler of the program's may interrupt this thread: a handler that calls would wait
/// for what its own thread is at. What has no handler comes through, so that who hangs here can be ended; so do faults. Not for
/// the record path.
pub(crate) fn uninterrupted<R>(f: impl FnOnce() -> R) -> R {
    blocking(&signals(|signal| has_handler(signal) && !FAULTS.contains(&signal)), f)
}

/// The same for code that starts a thread of ours, which inherits the mask: the job's signals belong to its own threads.
pub(crate) fn unsignalled<R>(f: impl FnOnce() -> R) -> R {
    blocking(&signals(|signal| !FAULTS.contains(&signal)), f)
}

fn blocking<R>(signals: &libc::sigset_t, f: impl FnOnce() -> R) -> R {
    /// The mask that was, put back also where a panic passes.
    struct Before(libc::sigset_t);
    impl Drop for Before {
        fn drop(&mut self) {
            // SAFETY: a mask that it gave.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        }
    }
    // SAFETY: zeros are an empty set.
    let mut before = Before(unsafe { zeroed() });
    // SAFETY: a set, and a valid place for the one before.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, signals, &raw mut before.0) };
    f()
}

fn signals(is_in: impl Fn(c_int) -> bool) -> libc::sigset_t {
    // SAFETY: zeros are an empty set.
    let mut set: libc::sigset_t = unsafe { zeroed() };
    for signal in (1..=LAST_SIGNAL).filter(|signal| is_in(*signal)) {
        // SAFETY: a set, and a signal's number.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

fn has_handler(signal: c_int) -> bool {
    // SAFETY: zeros are an action.
    let mut action: libc::sigaction = unsafe { zeroed() };
    // SAFETY: a valid place for the answer.
    let is_known = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } == 0;
    is_known && ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction)
}

/// The highest of Linux.
const LAST_SIGNAL: c_int = 64;

/// What a thread gets for what it does itself. Held back, such a signal ends the process without asking any handler:
/// neither ours, where the segment was cut, nor the program's own.
const FAULTS: [c_int; 6] =
    [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGSYS, libc::SIGTRAP];

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Of `pthread.h`, in glibc and musl.
const PTHREAD_CANCEL_DISABLE: c_int = 1;
