//! A process ends with its last thread, which must not be ours: the program's own may all have ended by themselves, with
//! `pthread_exit`, or as the one of a child that was made by `clone`.

#![expect(unsafe_code, reason = "ends the process")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;

/// Links of the folder of a process's threads: itself, its name, and one for each of two threads.
const LINKS_OF_TWO: u64 = 4;

/// On the polling thread: whether the process lives on for it alone, whose first thread has ended without the others. Opens
/// nothing, for a program may count on the number of its next descriptor.
pub(super) fn is_alone() -> bool {
    let is_one_of_two = fs::metadata("/proc/self/task").is_ok_and(|task| task.nlink() == LINKS_OF_TWO);
    // The other is the first one, which stays when it has ended, without a program.
    is_one_of_two && fs::read_link("/proc/self/exe").is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Where nobody else is left: the process ends as it would have without the polling thread. Where the C library counts
/// threads, the return from this one calls `exit`.
pub(super) fn end() {
    let status = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(code) = exit_code(&status).filter(|code| *code != 0) {
        // For the kernel the last thread's code is the process's.
        // SAFETY: only this thread is left.
        unsafe { libc::_exit(code) };
    }
}

/// What the first thread has ended with: the upper byte of the last field. Source: `proc_pid_stat(5)`.
fn exit_code(stat: &str) -> Option<i32> {
    let status: i32 = stat.split_ascii_whitespace().next_back()?.parse().ok()?;
    Some(status >> 8 & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_the_upper_byte_of_the_last_field() {
        assert_eq!(exit_code("7 (a b) Z 1 0 1792\n"), Some(7));
        assert_eq!(exit_code("7 (a b) Z 1 0 0\n"), Some(0));
        assert_eq!(exit_code(""), None);
    }

    #[test]
    fn a_process_with_its_first_thread_is_not_alone() {
        assert!(!is_alone());
    }
}
