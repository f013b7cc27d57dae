//! The one thread of ours: how it is started, put to sleep and kept out of the driver when the process ends. What it does
//! is [`crate::cuda_events`]'s business.

#![expect(unsafe_code, reason = "waits on a futex, blocks signals, registers a handler")]

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};

use crate::segment::guard;

/// 1 while the thread waits to be woken.
static ASLEEP: AtomicU32 = AtomicU32::new(0);
static IS_STARTED: AtomicBool = AtomicBool::new(false);
static HAS_EXIT_HANDLER: AtomicBool = AtomicBool::new(false);
/// The process is ending: the driver must not be called any more.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Threads that are asking an event, or counting what it confirmed.
static N_INSIDE: AtomicU32 = AtomicU32::new(0);

/// Enough for a query; the driver's own need is small.
const STACK_BYTES: usize = 256 << 10;
/// Times that a caller looks whether nobody asks an event any more, giving up its turn in between. One that stays away
/// longer sits in a driver that does not answer.
const MAX_TRIES: u32 = 10_000;

/// Starts the thread if there is none; false if it cannot be.
pub(crate) fn start(work: fn()) -> bool {
    if IS_STARTED.load(Acquire) || IS_STARTED.swap(true, AcqRel) {
        return true;
    }
    if !HAS_EXIT_HANDLER.swap(true, Relaxed) {
        // Registered after the driver's own, so that it runs before.
        // SAFETY: the handler is a function of an object that is never unloaded (-z nodelete).
        unsafe { libc::atexit(leave_driver) };
    }
    // The job's signals belong to its own threads: a new thread inherits a mask that lets none in.
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: a valid place for a set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: filled above; `before` is a valid place for the old mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let thread = std::thread::Builder::new().name("ringscope".into()).stack_size(STACK_BYTES);
    let started = thread.spawn(move || {
        guard(work);
    });
    // SAFETY: the mask that was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    if started.is_err() {
        IS_STARTED.store(false, Relaxed);
    }
    started.is_ok()
}

/// Asks an event and counts what it confirms, unless the process is ending.
pub(crate) fn unless_ending<R>(f: impl FnOnce() -> R) -> Option<R> {
    N_INSIDE.fetch_add(1, SeqCst);
    let result = (!IS_ENDING.load(SeqCst)).then(f);
    N_INSIDE.fetch_sub(1, SeqCst);
    result
}

pub(crate) fn is_started() -> bool {
    IS_STARTED.load(Relaxed)
}

pub(crate) fn is_ending() -> bool {
    IS_ENDING.load(Relaxed)
}

/// Waits until [`wake`], unless `has_work` says that there is something to do.
pub(crate) fn sleep_until_woken(has_work: impl FnOnce() -> bool) {
    ASLEEP.store(1, SeqCst);
    if !has_work() {
        // SAFETY: waits while the word is 1. An early return is harmless: the caller looks again.
        unsafe {
            libc::syscall(libc::SYS_futex, &raw const ASLEEP, FUTEX_WAIT, 1, null_mut::<libc::timespec>())
        };
    }
    ASLEEP.store(0, SeqCst);
}

/// Wakes the thread if it waits. The work must have been made visible before, in sequential consistency.
#[inline(always)]
pub(crate) fn wake() {
    if ASLEEP.load(SeqCst) != 0 {
        wake_now();
    }
}

#[cold]
fn wake_now() {
    if ASLEEP.swap(0, SeqCst) != 0 {
        // SAFETY: only an address of ours is named.
        unsafe { libc::syscall(libc::SYS_futex, &raw const ASLEEP, FUTEX_WAKE, 1) };
    }
}

/// `FUTEX_WAIT_PRIVATE` and `FUTEX_WAKE_PRIVATE`.
const FUTEX_WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const FUTEX_WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

/// At exit: a last look at what has completed, then the driver is left alone, which is about to end too.
extern "C" fn leave_driver() {
    guard(crate::cuda_events::look_once);
    IS_ENDING.store(true, SeqCst);
    wait_until_outside();
}

/// Waits until nobody is asking an event, within limits. Not on the record path.
pub(crate) fn wait_until_outside() {
    for _ in 0..MAX_TRIES {
        if N_INSIDE.load(SeqCst) == 0 {
            return;
        }
        std::thread::yield_now();
    }
}

/// In a forked child: the thread is the parent's.
pub(crate) fn forget() {
    IS_STARTED.store(false, Relaxed);
    N_INSIDE.store(0, Relaxed);
    ASLEEP.store(0, Relaxed);
}
