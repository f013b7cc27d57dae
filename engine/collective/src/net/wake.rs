//! Waking a thread that sleeps in `poll`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, Timespec, eventfd, poll};

use crate::error::{Error, Result};

/// An event that a poll can wait for. Clones are one event.
#[derive(Clone, Debug)]
pub struct Wake(Arc<OwnedFd>);

impl Wake {
    /// A new event, not set.
    pub fn new() -> Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        fd.map(Self::from).map_err(|error| Error::system("eventfd", &error.into()))
    }

    /// Sets it. Cannot block: a full counter is set already.
    pub fn set(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Whether both are one event.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Resets it.
    pub fn reset(&self) {
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl From<OwnedFd> for Wake {
    fn from(event: OwnedFd) -> Self {
        Self(Arc::new(event))
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until one of `fds` is ready or `wait` is over. An interrupted sleep counts as over.
pub fn sleep(fds: &mut [PollFd<'_>], wait: Duration) -> Result<()> {
    // Rounded up, so that a wait of less than a nanosecond's grain does not become a spin.
    let wait = Timespec::try_from(wait + Duration::from_micros(1)).ok();
    match poll(fds, wait.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Error::system("poll", &error.into())),
    }
}
