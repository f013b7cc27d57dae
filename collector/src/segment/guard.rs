//! Where our own code ends: no panic of it may reach the library or the program.

use crate::segment::switch;

/// Runs code of ours so that no panic leaves it: a panic switches the collector off and is counted.
#[inline(always)]
pub(crate) fn guard<R>(f: impl FnOnce() -> R) -> Option<R> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).map_err(|_| switch::fault()).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_stays_inside() {
        assert_eq!(super::guard(|| 1), Some(1));
        assert_eq!(super::guard::<()>(|| panic!("expected by the test")), None);
    }
}
