//! Forks of other threads: what this thread asks of the dynamic linker, no child gets half of.
//!
//! A child has the linker's tables and locks as they stood when it was made, and where another thread was changing them they
//! stay so: the child's own `dlopen` then waits for ever, or ends it. So a fork waits until we have asked, and asking waits
//! until a fork is over. Both wait only so long: who forks may hold what the linker wants.

#![expect(unsafe_code, reason = "registers handlers")]

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

/// Forks that are under way.
static FORKING: AtomicU32 = AtomicU32::new(0);
/// Threads that are asking the linker.
static ASKING: AtomicU32 = AtomicU32::new(0);

/// How often the others are looked at, with a turn of the processor for them in between: some ten milliseconds.
const MAX_LOOKS: u32 = 10_000;

/// Forks that one who asks lets go first. A program that forks without a pause gets no more.
const MAX_TRIES: u32 = 4;

/// From now on forks are seen, and wait.
pub(crate) fn watch() {
    // SAFETY: the handlers are functions of an object that is never unloaded (-z nodelete).
    unsafe { libc::pthread_atfork(Some(begin), Some(end), Some(begin_anew)) };
}

/// Asks the dynamic linker, not in the middle of a fork. Not for the record path.
pub(crate) fn between_forks<R>(ask: impl FnOnce() -> R) -> R {
    /// Also where a panic passes.
    struct Asking;
    impl Drop for Asking {
        fn drop(&mut self) {
            // A child that was made meanwhile counts from nothing.
            let _ = ASKING.fetch_update(SeqCst, SeqCst, |asking| asking.checked_sub(1));
        }
    }
    for _ in 0..MAX_TRIES {
        ASKING.fetch_add(1, SeqCst);
        let asking = Asking;
        if FORKING.load(SeqCst) == 0 {
            return ask();
        }
        // The fork goes first.
        drop(asking);
        wait_for(&FORKING);
    }
    ask()
}

fn wait_for(others: &AtomicU32) {
    for _ in 0..MAX_LOOKS {
        if others.load(SeqCst) == 0 {
            break;
        }
        std::thread::yield_now();
    }
}

extern "C" fn begin() {
    FORKING.fetch_add(1, SeqCst);
    wait_for(&ASKING);
}

extern "C" fn end() {
    // The fork may have begun before it was watched.
    let _ = FORKING.fetch_update(SeqCst, SeqCst, |forking| forking.checked_sub(1));
}

extern "C" fn begin_anew() {
    FORKING.store(0, SeqCst);
    ASKING.store(0, SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_and_who_forks_take_turns() {
        assert_eq!(between_forks(|| ASKING.load(SeqCst)), 1);
        begin();
        // Neither waits for ever.
        assert_eq!(between_forks(|| FORKING.load(SeqCst)), 1);
        end();
        assert_eq!((FORKING.load(SeqCst), ASKING.load(SeqCst)), (0, 0));
        end();
        assert_eq!(FORKING.load(SeqCst), 0);
    }
}
