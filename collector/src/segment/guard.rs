//! Where our own code ends: no panic of it may reach the library or the program, and no cancellation of the program's may
//! end a thread in it.

#![expect(unsafe_code, reason = "asks the C library to hold back cancellations")]

use std::ffi::c_int;

use crate::segment::switch;

/// Runs code of ours so that no panic leaves it: a panic switches the collector off and is counted.
#[inline(always)]
pub(crate) fn guard<R>(f: impl FnOnce() -> R) -> Option<R> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).map_err(|_| switch::fault()).ok()
}

/// Runs code of ours that makes system calls, at which a thread may be cancelled: the cancellation waits until it is
/// done. Not for the record path, which makes none.
pub(crate) fn uncancelled<R>(f: impl FnOnce() -> R) -> R {
    /// What was asked for before, put back also where a panic passes.
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

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Of `pthread.h`, in glibc and musl.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_stays_inside() {
        assert_eq!(super::guard(|| 1), Some(1));
        assert_eq!(super::guard::<()>(|| panic!("expected by the test")), None);
    }
}
