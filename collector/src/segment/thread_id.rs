//! Ids of threads, as the system knows them.

#![expect(unsafe_code, reason = "asks the system")]

/// The id of this thread.
pub(crate) fn own() -> u32 {
    // SAFETY: no arguments, and it cannot fail.
    u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or_default()
}

/// Whether this process has a thread of this id.
pub(crate) fn is_alive(thread: u32) -> bool {
    let process = std::process::id();
    // SAFETY: signal 0 is sent to nobody.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) };
    answer == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}
