//! What only one thread may be at. Another waits for it, a bounded time, asleep: beside a thread that computes, a turn of the
//! processor may take milliseconds, so that what is counted in turns has no length.
//!
//! Not for the record path.

#![expect(unsafe_code, reason = "sleeps by a system call")]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::time::Duration;

use crate::segment::ticks::monotonic_ns;

/// Some thread is at it, or none.
pub(crate) struct Busy(AtomicBool);

/// While it lives, no other thread is at it. Ends also where a panic passes.
#[must_use]
pub(crate) struct Held<'a>(&'a Busy);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, SeqCst);
    }
}

impl Busy {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Not while another thread is at it.
    pub(crate) fn take(&self) -> Option<Held<'_>> {
        // Not `then_some`: what is made and dropped would let go for whoever is busy.
        (!self.0.swap(true, SeqCst)).then(|| Held(self))
    }

    /// The same, as soon as the other thread is done. `None` if that takes longer than `limit`.
    pub(crate) fn take_within(&self, limit: Duration) -> Option<Held<'_>> {
        let mut held = self.take();
        if held.is_none() {
            wait_while(limit, || {
                held = self.take();
                held.is_none()
            });
        }
        held
    }

    /// In a forked child: the thread that was at it is its parent's.
    pub(crate) fn forget(&self) {
        // A child takes no page of its parent's that it need not change.
        if self.0.load(Acquire) {
            self.0.store(false, Release);
        }
    }
}

/// Waits while this is so, and no longer than `limit`.
pub(crate) fn wait_while(limit: Duration, mut is_so: impl FnMut() -> bool) {
    /// At first as long as what is waited for mostly takes, then longer.
    const SLEEPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let (begun_ns, mut length) = (monotonic_ns(), SLEEPS.0);
    while is_so() && monotonic_ns().saturating_sub(begun_ns) < limit_ns {
        sleep(length);
        length = (length * 2).min(SLEEPS.1);
    }
}

/// Not by the C library's function, at which a thread may be cancelled.
fn sleep(length: Duration) {
    let length = libc::timespec { tv_sec: 0, tv_nsec: length.subsec_nanos().into() };
    // SAFETY: a time that lives until the call returns, and no place for the rest.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const length, std::ptr::null_mut::<libc::timespec>()) };
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn one_at_a_time() {
        let busy = Busy::new();
        let held = busy.take();
        assert!(held.is_some() && busy.take().is_none());
        drop(held);
        assert!(busy.take().is_some() && busy.take().is_some());
        let _held = busy.take();
        busy.forget();
        assert!(busy.take().is_some());
    }

    #[test]
    fn who_is_waited_for_is_waited_for_no_longer() {
        let busy = Busy::new();
        std::thread::scope(|scope| {
            let held = busy.take();
            let waits = scope.spawn(|| busy.take_within(Duration::from_secs(60)).is_some());
            drop(held);
            assert!(waits.join().unwrap());
        });
    }

    #[test]
    fn a_wait_has_its_length_beside_a_thread_that_computes() {
        let (busy, is_over) = (Busy::new(), AtomicBool::new(false));
        let _held = busy.take();
        let waited_ns = std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                stay_on_one_processor();
                let computes = scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                let begun_ns = monotonic_ns();
                assert!(busy.take_within(Duration::from_millis(50)).is_none());
                let waited_ns = monotonic_ns() - begun_ns;
                is_over.store(true, Relaxed);
                computes.join().unwrap();
                waited_ns
            });
            waits.join().unwrap()
        });
        assert!((50_000_000..2_000_000_000).contains(&waited_ns), "{waited_ns} ns");
    }

    /// This thread, and those that it starts.
    fn stay_on_one_processor() {
        // SAFETY: zeros are an empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: no preconditions.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap();
        // SAFETY: a number of a processor fits in the set.
        unsafe { libc::CPU_SET(here, &mut set) };
        // SAFETY: a set, for this thread.
        assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }, 0);
    }
}
