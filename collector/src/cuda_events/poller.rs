//! The one thread of ours: how it is started, put to sleep and kept out of the driver when the process ends. What it does
//! is [`crate::cuda_events`]'s business. Nobody ever waits for it while it is in the driver, which may hold it for as long
//! as a kernel hangs.

#![expect(unsafe_code, reason = "waits on a futex, blocks signals, registers a handler")]

use std::ffi::c_int;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use crate::cuda_events::alone;
use crate::segment::forks::between_forks;
use crate::segment::{guard, own, unsignalled};

/// What the thread does, one of the three constants below.
static STATE: AtomicU32 = AtomicU32::new(AWAKE);
const AWAKE: u32 = 0;
/// It waits for the next look, and only who is in a hurry wakes it.
const PAUSED: u32 = 1;
/// It waits until there is something to do.
const ASLEEP: u32 = 2;

/// The next pause is skipped.
static HURRY: AtomicBool = AtomicBool::new(false);
static IS_STARTED: AtomicBool = AtomicBool::new(false);
/// 1 once it has.
static HAS_EXIT_HANDLER: AtomicU32 = AtomicU32::new(0);
/// The process is ending: there is one more look.
static IS_LEAVING: AtomicBool = AtomicBool::new(false);
/// The process is ending: the driver must not be called any more.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Counts where a call of the driver begins and where it ends: odd inside.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// Looks begun, and ended; they wrap.
static BEGUN: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicU32 = AtomicU32::new(0);

/// Enough for a query; the driver's own need is small.
const STACK_BYTES: usize = 256 << 10;
/// How long it is waited for until its function of the exit is registered, which takes about 0.1 ms.
const LONGEST_START: Duration = Duration::from_millis(50);
/// How long it sleeps before it looks whether anybody is left who could wake it.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);
/// How long the end of the process waits for the last look, if that is not held up in the driver: that many times ...
const MAX_WAITS: u32 = 20;
/// ... so long. A call of the driver takes about 1 us, and one that takes longer than this is held up.
const WAIT: Duration = Duration::from_millis(1);

/// Starts the thread if there is none; false if it cannot be.
pub(crate) fn start(work: fn()) -> bool {
    if IS_STARTED.load(Acquire) || IS_STARTED.swap(true, AcqRel) {
        return true;
    }
    let thread = std::thread::Builder::new().name("ringscope".into()).stack_size(STACK_BYTES);
    let started = unsignalled(|| {
        thread.spawn(move || {
            if will_leave_driver() && guard(work).is_some() {
                IS_STARTED.store(false, Relaxed);
            }
        })
    });
    if started.is_err() {
        IS_STARTED.store(false, Relaxed);
    } else if HAS_EXIT_HANDLER.load(Acquire) == 0 {
        // Or there is no last look where the process exits at once. Once, and not for long: in a forked child the C library's
        // lock of exit functions may be held for good, by a thread that was the parent's.
        wait(&HAS_EXIT_HANDLER, 0, LONGEST_START);
    }
    started.is_ok()
}

/// On the thread: has [`leave_driver`] called at exit; false if it cannot be.
fn will_leave_driver() -> bool {
    if HAS_EXIT_HANDLER.load(Acquire) != 0 {
        return true;
    }
    // Registered after the driver's own, so that it runs before. A child that is forked meanwhile would have the lock of exit
    // functions held for good.
    // SAFETY: the handler is a function of an object that is never unloaded (-z nodelete).
    let is_registered = between_forks(|| unsafe { libc::atexit(leave_driver) }) == 0;
    HAS_EXIT_HANDLER.store(is_registered.into(), Release);
    wake_all(&HAS_EXIT_HANDLER);
    is_registered
}

/// Whether a look is still to come.
pub(crate) fn can_look() -> bool {
    IS_STARTED.load(Relaxed) && !IS_LEAVING.load(SeqCst)
}

pub(crate) fn is_leaving() -> bool {
    IS_LEAVING.load(SeqCst)
}

pub(crate) fn is_ending() -> bool {
    IS_ENDING.load(SeqCst)
}

/// On the thread: calls the driver, unless the process is ending.
pub(crate) fn unless_ending<R>(f: impl FnOnce() -> R) -> Option<R> {
    CALLS.fetch_add(1, SeqCst);
    let result = (!IS_ENDING.load(SeqCst)).then(f);
    CALLS.fetch_add(1, SeqCst);
    result
}

/// The number of the look to come.
pub(crate) fn look() -> u32 {
    BEGUN.load(Relaxed)
}

/// On the thread: looks once.
pub(crate) fn look_once<R>(f: impl FnOnce() -> R) -> R {
    BEGUN.fetch_add(1, SeqCst);
    let result = f();
    ENDED.fetch_add(1, SeqCst);
    if is_leaving() {
        wake_all(&ENDED);
    }
    result
}

/// On the thread: waits for so long, or (`None`) until [`wake`]; not if somebody is in a [`hurry`], or `has_work` where
/// nobody would wake it, or it is [`alone::is_alone`].
pub(crate) fn pause(limit: Option<Duration>, has_work: impl FnOnce() -> bool) {
    let state = if limit.is_some() { PAUSED } else { ASLEEP };
    STATE.store(state, SeqCst);
    if !HURRY.swap(false, SeqCst) && (limit.is_some() || !has_work()) {
        wait(&STATE, state, limit.unwrap_or(LONGEST_SLEEP));
        while STATE.load(SeqCst) == ASLEEP && !alone::is_alone() {
            wait(&STATE, ASLEEP, LONGEST_SLEEP);
        }
    }
    STATE.store(AWAKE, SeqCst);
}

/// Wakes the thread if it sleeps. The work must have been made visible before, in sequential consistency.
#[inline(always)]
pub(crate) fn wake() {
    if STATE.load(SeqCst) == ASLEEP {
        wake_now();
    }
}

/// Has the thread look at once. A system call that waits for nobody.
#[cold]
pub(crate) fn hurry() {
    HURRY.store(true, SeqCst);
    wake_now();
}

#[cold]
fn wake_now() {
    if STATE.swap(AWAKE, SeqCst) != AWAKE {
        wake_all(&STATE);
    }
}

/// Waits while the word has this value, and no longer than `limit`. It may return early.
fn wait(word: &AtomicU32, value: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or_default(),
        tv_nsec: limit.subsec_nanos().into(),
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a word of ours, and a time that lives until the call returns.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, &raw const limit) };
}

fn wake_all(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a word of ours, which the kernel only takes as an address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, c_int::MAX) };
}

/// At exit: the thread looks once more at what has completed, then the driver is left alone, which is about to end too.
extern "C" fn leave_driver() {
    // The thread of a child that has not called is its parent's.
    if !own::is_ours() {
        return;
    }
    IS_LEAVING.store(true, SeqCst);
    if IS_STARTED.load(Relaxed) {
        let begun = BEGUN.load(SeqCst);
        hurry();
        // A look that begins from now on.
        wait_while(|| ENDED.load(SeqCst).wrapping_sub(begun).cast_signed() <= 0);
        IS_ENDING.store(true, SeqCst);
        wait_while(|| CALLS.load(SeqCst) % 2 == 1);
    }
    IS_ENDING.store(true, SeqCst);
}

/// Waits while `f`, within limits, and not for a thread that is held up in the driver.
fn wait_while(f: impl Fn() -> bool) {
    for _ in 0..MAX_WAITS {
        let (calls, ended) = (CALLS.load(SeqCst), ENDED.load(SeqCst));
        if !f() {
            return;
        }
        wait(&ENDED, ended, WAIT);
        if calls % 2 == 1 && CALLS.load(SeqCst) == calls {
            return;
        }
    }
}

/// In a forked child: the thread is the parent's.
pub(crate) fn forget() {
    IS_STARTED.store(false, Relaxed);
    for word in [&CALLS, &BEGUN, &ENDED, &STATE] {
        word.store(0, Relaxed);
    }
    for flag in [&HURRY, &IS_LEAVING, &IS_ENDING] {
        flag.store(false, Relaxed);
    }
}
