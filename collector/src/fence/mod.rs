//! The only unsafe code of the collector, behind safe functions.
//!
//! * [`driver`]: the CUDA driver's functions, as far as events need them
//! * [`exports`]: the operations that stand in front of the library's
//! * [`births`] and [`lifecycle`]: the same for communicators, groups and registered memory
//! * [`poller`]: the thread that asks events
//! * [`profiler`]: the profiler plugin in all its versions, and the one that the program had before
//! * [`later`]: communicators whose init goes on after its call has returned
//! * [`resolve`]: the library's own functions, found through [`scope`]
//! * [`summation`]: the summation service's calls, and what its engine tells
//! * [`segment_map`]: the segment as memory, and what happens to it at fork and exit
//! * `thread_id`: ids of threads
//! * `ticks`: clocks

mod births;
pub(crate) mod driver;
mod exports;
mod later;
mod lifecycle;
mod nccl;
pub(crate) mod poller;
mod profiler;
mod resolve;
mod scope;
mod segment_map;
mod summation;
pub(crate) mod thread_id;
pub(crate) mod ticks;

pub(crate) use profiler::event;
pub(crate) use profiler::layout as kinds;
pub(crate) use profiler::set_mask as set_profiler_mask;
pub(crate) use resolve::version as library_version_of;
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
