//! What goes wrong, in the words of the verbs and of the system.

use std::io;

/// A call of libibverbs that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no libibverbs on this machine, or not all of it.
    #[error("libibverbs is not installed (Debian: libibverbs1, ibverbs-providers)")]
    NoLibrary,
    /// The kernel has no RDMA: its modules are not loaded, or it was built without.
    #[error("the kernel has no RDMA (no /dev/infiniband: are ib_uverbs and the device's driver loaded?)")]
    NoKernel,
    /// No device of this name.
    #[error("there is no RDMA device {0}")]
    NoDevice(String),
    /// A call failed: what was tried, and the system's error.
    #[error("{what}: {error}")]
    Call {
        /// What was tried: "register 4096 bytes".
        what: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// What was asked for lies outside of the region.
    #[error("bytes {offset} to {end} of a region of {len} bytes")]
    OutOfRegion {
        /// The first byte.
        offset: usize,
        /// After the last.
        end: usize,
        /// The region's length.
        len: usize,
    },
}

/// What a call gives.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Of the last call, by `errno`.
    pub(crate) fn last(what: impl Into<String>) -> Self {
        Self::of(what, io::Error::last_os_error())
    }

    /// Of a call that returned `code`: verbs return `errno` itself, some of them negative.
    pub(crate) fn code(what: impl Into<String>, code: i32) -> Self {
        Self::of(what, io::Error::from_raw_os_error(code.saturating_abs()))
    }

    fn of(what: impl Into<String>, error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) if !crate::library::is_there() => Self::NoLibrary,
            _ => Self::Call { what: what.into(), error },
        }
    }

    /// The system's number for it.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { error, .. } => error.raw_os_error(),
            _ => None,
        }
    }
}

/// `Ok` where a call returned 0.
pub(crate) fn check(code: i32, what: impl FnOnce() -> String) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::code(what(), code)) }
}
