//! What a launch changes of its own process and no other is to see: how many files it may open, and which signals are blocked.
//! Whoever started it may have set both for what he starts, so the job gets them as they were.

#![expect(unsafe_code, reason = "nothing safe blocks signals, or changes a child before it is its program")]

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::signals::HEEDED;

/// As this process was started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inherited {
    files: Rlimit,
    blocked: libc::sigset_t,
}

impl Inherited {
    /// Lets this process open as many files as it may, and hear the signals that a launch heeds. Before other threads are there:
    /// signals are blocked in each by itself.
    pub(super) fn take_over() -> Self {
        let files = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
        Self { files, blocked: unblock() }
    }

    /// Gives it back to a command.
    pub(super) fn hand_on(self, command: &mut Command) {
        let Self { files, blocked } = self;
        let restore = move || {
            let _ = setrlimit(Resource::Nofile, files);
            // SAFETY: the set is one that the kernel has given.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: two system calls, which may be made between fork and exec; nothing is allocated or locked.
        unsafe { command.pre_exec(restore) };
    }
}

/// The signals that were blocked before.
fn unblock() -> libc::sigset_t {
    let (mut heeded, mut before) = (no_signals(), no_signals());
    for signal in HEEDED {
        // SAFETY: the set is this function's own.
        unsafe { libc::sigaddset(&raw mut heeded, signal) };
    }
    // SAFETY: both sets are this function's own.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const heeded, &raw mut before) };
    before
}

fn no_signals() -> libc::sigset_t {
    let mut none = std::mem::MaybeUninit::uninit();
    // SAFETY: the place is large enough for what is written there.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the call above has written all of it, as it does for every address that is one.
    unsafe { none.assume_init() }
}
