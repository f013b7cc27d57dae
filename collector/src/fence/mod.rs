//! The only unsafe code of the collector, behind safe functions.
//!
//! * [`exports`]: the operations that stand in front of the library's
//! * [`births`] and [`lifecycle`]: the same for communicators, groups and registered memory
//! * [`profiler_v5`]: the profiler plugin, in the structures of [`profiler_abi`]
//! * [`later`]: communicators whose init goes on after its call has returned
//! * [`resolve`]: the library's own functions, found through [`scope`]
//! * [`segment_map`]: the segment as memory, and what happens to it at fork and exit
//! * `ticks`: clocks

mod births;
mod exports;
mod later;
mod lifecycle;
mod nccl;
mod profiler_abi;
mod profiler_v5;
mod resolve;
mod scope;
mod segment_map;
pub(crate) mod ticks;

pub(crate) use profiler_v5::set_mask as set_profiler_mask;
pub(crate) use segment_map::segment;

/// Runs code of ours so that no panic leaves it: a panic switches the collector off and is counted.
#[inline(always)]
pub(crate) fn guard<R>(f: impl FnOnce() -> R) -> Option<R> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).map_err(|_| crate::switch::fault()).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_stays_inside() {
        assert_eq!(super::guard(|| 1), Some(1));
        assert_eq!(super::guard::<()>(|| panic!("expected by the test")), None);
    }
}
