//! Forks of other threads: what this thread asks of the dynamic linker, no child gets half of.
//!
//! A child has the linker's tables and locks as they stood when it was made, and where another thread was changing them they
//! stay so: the child's own `dlopen` then waits for ever, or ends it. So a fork waits until we have asked, and asking waits
//! until a fork is over. Both wait only so long: who forks may hold what the linker wants. A child counts from nothing
//! ([`Forks`](super::own::Forks)).

#![expect(unsafe_code, reason = "registers handlers, reads what the linker says of itself")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32};
use std::time::Duration;

use crate::segment::busy::wait_while;
use crate::segment::own::{forks, settle};

/// How long the others are waited for.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// Forks that one who asks lets go first. A program that forks without a pause gets no more.
const MAX_TRIES: u32 = 4;

/// From now on forks are seen, and wait.
pub(crate) fn watch() {
    // SAFETY: the handlers are functions of an object that is never unloaded (-z nodelete).
    unsafe { libc::pthread_atfork(Some(begin), Some(end), None) };
}

/// Asks the dynamic linker, not in the middle of a fork. Not for the record path.
pub(crate) fn between_forks<R>(ask: impl FnOnce() -> R) -> R {
    /// Also where a panic passes.
    struct Asking;
    impl Drop for Asking {
        fn drop(&mut self) {
            // A child that was made meanwhile counts from nothing.
            let _ = forks().asking.fetch_update(SeqCst, SeqCst, |asking| asking.checked_sub(1));
        }
    }
    // It has forks watched.
    settle();
    for _ in 0..MAX_TRIES {
        forks().asking.fetch_add(1, SeqCst);
        let asking = Asking;
        if forks().begun.load(SeqCst) == 0 {
            return ask();
        }
        // The fork goes first.
        drop(asking);
        wait_for(&forks().begun);
    }
    ask()
}

/// Until there is none of them, or for so long.
pub(crate) fn wait_for(others: &AtomicU32) {
    wait_while(MAX_WAIT, || others.load(SeqCst) != 0);
}

/// What the linker says of itself. Source: `link.h`, `struct r_debug`.
#[repr(C)]
struct Debug {
    version: c_int,
    map: *const c_void,
    brk: usize,
    /// 0 while it changes nothing.
    state: AtomicI32,
    /// Where the linker is loaded.
    linker: *mut c_void,
}

/// Whether the linker is in the middle of something for good: this is a child that was made while another thread mapped an
/// object, and whatever it opens ends it, also what is loaded. Where it is another thread of ours, `dladdr` waits until it
/// is done: for a lock that such a thread holds and a fork makes anew. A program may have a copy of what the linker says, which
/// stays as it was at the start. As `is_stuck` in `preload.c`.
pub(crate) fn is_linker_stuck() -> bool {
    /// Another one may begin at once.
    const MAX_LOOKS: u32 = 8;
    if IS_HALF.load(Relaxed) {
        return true;
    }
    let Some(debug) = debug() else { return false };
    for _ in 0..MAX_LOOKS {
        if debug.state.load(Acquire) == 0 {
            return false;
        }
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: a valid place for the answer; any address may be asked for.
        let found = unsafe { libc::dladdr(ptr::from_ref(debug).cast(), info.as_mut_ptr()) };
        // SAFETY: all zero is a valid Dl_info.
        let info = unsafe { info.assume_init() };
        if found == 0 || info.dli_fbase != debug.linker {
            return false;
        }
    }
    true
}

/// This child has let the linker go on with half of its tables.
static IS_HALF: AtomicBool = AtomicBool::new(false);

/// Lets a child that is stuck ask for what is loaded: nobody is left who would bring to an end what the linker is in the
/// middle of, and the child's own `dlopen` of something new would write the same. It stays [stuck](is_linker_stuck) for whatever
/// need not be asked.
pub(crate) fn unstick_linker() {
    if let Some(debug) = debug()
        && is_linker_stuck()
    {
        IS_HALF.store(true, Relaxed);
        debug.state.store(0, Release);
    }
}

fn debug() -> Option<&'static Debug> {
    static PLACE: AtomicPtr<Debug> = AtomicPtr::new(ptr::null_mut());
    let mut place = PLACE.load(Acquire);
    if place.is_null() {
        // SAFETY: a pseudo-handle and a terminated name.
        place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) }.cast();
        PLACE.store(place, Release);
    }
    // SAFETY: NULL or the linker's, which stays; of what is read here only `state` changes, and is atomic.
    unsafe { place.as_ref() }
}

extern "C" fn begin() {
    forks().begun.fetch_add(1, SeqCst);
    wait_for(&forks().asking);
}

extern "C" fn end() {
    // The fork may have begun before it was watched.
    let _ = forks().begun.fetch_update(SeqCst, SeqCst, |forking| forking.checked_sub(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_and_who_forks_take_turns() {
        assert_eq!(between_forks(|| forks().asking.load(SeqCst)), 1);
        begin();
        // Neither waits for ever.
        assert_eq!(between_forks(|| forks().begun.load(SeqCst)), 1);
        end();
        assert_eq!((forks().begun.load(SeqCst), forks().asking.load(SeqCst)), (0, 0));
        end();
        assert_eq!(forks().begun.load(SeqCst), 0);
    }

    #[test]
    fn the_linker_of_a_process_that_was_started_is_never_stuck() {
        assert!(debug().is_some());
        assert!(!is_linker_stuck());
    }
}
