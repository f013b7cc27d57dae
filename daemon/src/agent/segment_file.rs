//! A segment on disk: its bytes by `pread`, and whether its process lives.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use ringscope_wire::segment::SegmentError;
use ringscope_wire::segment::read::{Source, read_generation_offset};
use rustix::fs::{FlockOperation, OFlags, flock};

/// Why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// An open segment. Kept open for one reading only: a host may have more segments than a process may have files.
pub(super) struct SegmentFile(File);

impl SegmentFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(open_flags()).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(Self(file))
    }

    /// Whether the process that holds the segment's lock is gone. The kernel releases the lock with the process, however
    /// it ends.
    pub(super) fn is_dead(&self) -> bool {
        let free = flock(&self.0, FlockOperation::NonBlockingLockShared).is_ok();
        if free {
            // The lock goes with the file anyway.
            let _ = flock(&self.0, FlockOperation::Unlock);
        }
        free
    }

    /// Time since the file was last written by `write`, as far as the system knows.
    pub(super) fn age(&self) -> std::time::Duration {
        let modified = self.0.metadata().and_then(|metadata| metadata.modified()).ok();
        let since_epoch = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let now = std::time::Duration::from_nanos(crate::clock::now().0);
        since_epoch.map_or(std::time::Duration::ZERO, |modified| now.saturating_sub(modified))
    }
}

impl Source for SegmentFile {
    type Error = ReadError;

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        match self.0.read_exact_at(buffer, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let needed = offset.saturating_add(buffer.len() as u64);
                Err(SegmentError::Truncated { found: self.0.metadata()?.len(), needed }.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Tells the collector that the ended communicator in this slot has been read to its end: it may use the slot again.
pub(super) fn release(path: &Path, slot: u16, generation: u32) -> io::Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(open_flags()).open(path)?;
    file.write_all_at(&generation.to_le_bytes(), read_generation_offset(slot))
}

/// The folder is open to all users of the machine: no link is followed out of it, and no pipe blocks the agent.
fn open_flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed()
}
