//! A segment on disk: its bytes by `pread`, and whether its process lives.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use ringscope_wire::segment::read::{
    Head, Source, control_offset, head, read_generation_offset, snapshot, wanted_places_offset,
};
use ringscope_wire::segment::{Segment, SegmentError, Snapshot};
use rustix::fs::{FlockOperation, OFlags, flock};

use super::folder_file::FileId;

/// Why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// An open segment. Kept open for one reading only: a host may have more segments than a process may have files.
pub(super) struct SegmentFile {
    file: File,
    bytes: u64,
    id: FileId,
}

impl SegmentFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(open_flags()).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(Self::of(file, &metadata))
    }

    /// An open file that may be a segment.
    pub(super) fn of(file: File, metadata: &Metadata) -> Self {
        Self { file, bytes: metadata.len(), id: FileId::of(metadata) }
    }

    /// Which file it is; its owner is the user whose process it is.
    pub(super) const fn id(&self) -> FileId {
        self.id
    }

    /// What a segment of any version says of itself.
    pub(super) fn head(&mut self) -> Result<Head, ReadError> {
        head(self)
    }

    /// All but the records of a segment that is as long as it must be, whatever part of it is in use.
    pub(super) fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        let snapshot = snapshot(self)?;
        let needed = size_of::<Segment>() as u64;
        if self.bytes < needed {
            return Err(SegmentError::Truncated { found: self.bytes, needed }.into());
        }
        Ok(snapshot)
    }

    /// Whether the process that holds the segment's lock is gone. The kernel releases the lock with the process, however
    /// it ends.
    pub(super) fn is_dead(&self) -> bool {
        let free = flock(&self.file, FlockOperation::NonBlockingLockShared).is_ok();
        if free {
            // The lock goes with the file anyway.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
        free
    }

    /// Time since the file was last written by `write`, as far as the system knows.
    pub(super) fn age(&self) -> std::time::Duration {
        let modified = self.file.metadata().and_then(|metadata| metadata.modified()).ok();
        let since_epoch = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let now = std::time::Duration::from_nanos(crate::clock::now().0);
        since_epoch.map_or(std::time::Duration::ZERO, |modified| now.saturating_sub(modified))
    }
}

impl Source for SegmentFile {
    type Error = ReadError;

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        match self.file.read_exact_at(buffer, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let needed = offset.saturating_add(buffer.len() as u64);
                Err(SegmentError::Truncated { found: self.file.metadata()?.len(), needed }.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Tells the collector that the ended communicator in this slot has been read to its end: it may use the slot again.
pub(super) fn release(path: &Path, slot: u16, generation: u32) -> io::Result<()> {
    write_word(path, generation, read_generation_offset(slot))
}

/// Tells the collector to keep so many records, for newer ones come faster than they are read.
pub(super) fn want_places(path: &Path, n_places: u32) -> io::Result<()> {
    write_word(path, n_places, wanted_places_offset())
}

/// Tells the collector what to ask for: one of `layout::CONTROL_*`.
pub(super) fn control(path: &Path, control: u32) -> io::Result<()> {
    write_word(path, control, control_offset())
}

fn write_word(path: &Path, word: u32, offset: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(open_flags()).open(path)?;
    file.write_all_at(&word.to_le_bytes(), offset)
}

/// The folder is open to all users of the machine: no link is followed out of it, and no pipe blocks the agent.
fn open_flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed()
}
