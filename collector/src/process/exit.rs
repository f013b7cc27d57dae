//! How the process ends: that it did so in order, and with which status.

#![expect(unsafe_code, reason = "leaves functions for the end of the process")]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::fork;
use super::identity::{field, read};
use crate::segment::forks::between_forks;
use crate::segment::map;

/// From now on its exit status is told. Children inherit that.
///
/// Not in a child that was forked and has not called `exec`: another thread of its parent's may have had the C library's lock of exit
/// functions then, for good, and we would wait for it as long.
pub(super) fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.load(Relaxed) && has_called_exec() && !IS_WATCHED.swap(true, Relaxed) {
        // SAFETY: the handler is a function of an object that is never unloaded (-z nodelete), and takes what it is given.
        between_forks(|| unsafe { on_exit(note_status, ptr::null_mut()) });
    }
}

/// Whether it is its own program, and no copy of its parent. Source: `PF_FORKNOEXEC` of the kernel's `sched.h`, which `fork` sets and
/// `exec` clears; it is in field 9 of `/proc/self/stat`, see proc(5).
fn has_called_exec() -> bool {
    const FORKED_NO_EXEC: u64 = 0x40;
    let flags = read("/proc/self/stat").and_then(|stat| field(&stat, 9));
    flags.is_some_and(|flags| flags & FORKED_NO_EXEC == 0)
}

unsafe extern "C" {
    /// glibc's own: as `atexit`, and tells the status.
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Says with which status the process is ending. Who waits for it gets the low 8 bits.
extern "C" fn note_status(status: c_int, _: *mut c_void) {
    if let Some(segment) = map::existing().filter(|_| fork::is_maker()) {
        segment.live.exit_status.store((status.cast_unsigned() & 0xff) + 1, Relaxed);
    }
}

/// Says that the process ended in order. Runs after the program's own exit handlers.
extern "C" fn mark_exit() {
    if let Some(segment) = map::existing().filter(|_| fork::is_maker()) {
        segment.live.exited.store(1, Relaxed);
    }
}

// SAFETY: the section holds pointers to functions without arguments, and this is one.
#[unsafe(link_section = ".fini_array")]
#[used]
static MARK_EXIT: extern "C" fn() = mark_exit;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_after_a_hostile_command_name() {
        assert_eq!(field("1 (a) b) S 2 3 4 0 -1 4194624 9 9", 9), Some(4_194_624));
        assert_eq!(field("1 (a", 9), None);
    }

    #[test]
    fn a_program_has_called_exec_and_its_copy_has_not() {
        assert!(has_called_exec());
        // SAFETY: the child reads a file and ends without a word.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no preconditions.
            unsafe { libc::_exit(has_called_exec().into()) };
        }
        let mut status = -1;
        // SAFETY: a valid place for the answer.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
    }
}
