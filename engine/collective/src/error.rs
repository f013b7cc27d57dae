//! What can go wrong, the NCCL result code each of it becomes, and how far a call has come that did not.

use std::ffi::c_int;
use std::io;

/// `ncclSuccess`.
pub const SUCCESS: c_int = 0;
/// `ncclInProgress`: a stream still has work.
pub const IN_PROGRESS: c_int = 7;

/// How far a call has come when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All is done that the function promises.
    Done,
    /// The rest is done in the background: see `ncclCommGetAsyncError`.
    Started,
}

impl From<()> for Progress {
    fn from((): ()) -> Self {
        Self::Done
    }
}

/// An error, one variant per NCCL result code that a caller can act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `ncclSystemError`: the operating system refused something.
    #[error("{0}")]
    System(String),
    /// `ncclInternalError`: a broken invariant of the engine.
    #[error("{0}")]
    Internal(String),
    /// `ncclInvalidArgument`: an argument that can never be right.
    #[error("{0}")]
    InvalidArgument(String),
    /// `ncclInvalidUsage`: arguments or settings that do not fit each other, or not the peers'.
    #[error("{0}")]
    InvalidUsage(String),
    /// `ncclRemoteError`: a peer died, left, or stopped answering.
    #[error("{0}")]
    Remote(String),
}

impl Error {
    /// An operating system error with what was being done and, where the user can do something about it, what.
    pub fn system(what: impl std::fmt::Display, error: &io::Error) -> Self {
        Self::System(format!("{what}: {error}{}", advice(error)))
    }

    /// A thread that cannot be had, with what needs it and what to do.
    pub(crate) fn no_thread(what: impl std::fmt::Display, error: &io::Error) -> Self {
        Self::System(format!(
            "cannot start {what}: {error}: raise the limit of threads (ulimit -u, the cgroup's pids.max) or of \
             memory (ulimit -v), or destroy communicators that are done"
        ))
    }

    /// A call to a peer that failed: the peer's fault, unless this process can open no more files.
    pub(crate) fn calling(what: impl std::fmt::Display, error: &io::Error) -> Self {
        if advice(error).is_empty() {
            return Self::Remote(format!("{what}: {error}"));
        }
        Self::system(what, error)
    }

    /// The `ncclResult_t` value.
    pub fn code(&self) -> c_int {
        match self {
            Self::System(_) => 2,
            Self::Internal(_) => 3,
            Self::InvalidArgument(_) => 4,
            Self::InvalidUsage(_) => 5,
            Self::Remote(_) => 6,
        }
    }

    /// The error that a peer's code and text stand for.
    pub(crate) fn from_code(code: c_int, text: String) -> Self {
        match code {
            2 => Self::System(text),
            4 => Self::InvalidArgument(text),
            5 => Self::InvalidUsage(text),
            6 => Self::Remote(text),
            _ => Self::Internal(text),
        }
    }
}

/// What to do where no more files can be opened.
pub(crate) fn advice(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
            let limit = limit.map_or_else(String::new, |limit| format!(" its {limit}"));
            format!(
                ": this process has used up{limit} descriptors; raise the hard limit (ulimit -Hn), or destroy \
                 communicators that are done"
            )
        }
        Some(libc::ENFILE) => ": the machine has no more (sysctl fs.file-max)".to_owned(),
        _ => String::new(),
    }
}

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

/// NCCL's text for a result code.
pub(crate) fn describe(code: c_int) -> &'static std::ffi::CStr {
    match code {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_no_peers_fault_and_says_what_to_do() {
        let full = io::Error::from_raw_os_error(libc::EMFILE);
        let Error::System(text) = Error::calling("calling rank 3", &full) else { panic!("blames the peer") };
        let starts = "calling rank 3: Too many open files (os error 24): this process has used up its ";
        assert!(text.starts_with(starts) && text.contains("ulimit -Hn"), "{text}");
        let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        assert!(matches!(Error::calling("calling rank 3", &refused), Error::Remote(_)));
    }
}
