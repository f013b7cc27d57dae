//! What a process that goes on beside the job must not keep open: a launcher may wait until nobody has the other end.

#![expect(unsafe_code, reason = "nothing safe marks all descriptors at once")]

/// Leaves only the standard streams to what this process starts. Before Linux 5.11 nothing is left out.
pub(super) fn keep_to_oneself() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: marks descriptors, closes none and touches no memory.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}
