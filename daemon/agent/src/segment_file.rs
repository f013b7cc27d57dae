//! A segment on disk: its bytes by `pread`, and whether its process lives.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ringscope_wire::segment::read::{
    Head, Source, control_offset, head, read_generation_offset, snapshot, wanted_places_offset,
};
use ringscope_wire::segment::{Segment, SegmentError, Snapshot};
use rustix::fs::{FlockOperation, flock};

use super::beneath::{Access, FileId, Found, own_folder};
use super::claims::Refusal;

/// Why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// An open segment. Kept open for one reading only: a host may have more segments than a process may have files.
pub(super) struct SegmentFile {
    file: File,
    bytes: u64,
    id: FileId,
}

impl SegmentFile {
    /// The segment at a path of the folder that is given, or of the one that the path names.
    pub(super) fn open(folder: Option<&impl AsFd>, path: &Path) -> io::Result<Self> {
        let found = find(folder, path)?;
        let metadata = found.metadata().clone();
        Ok(Self::of(found.open(Access::Read)?, &metadata))
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
        let now = std::time::Duration::from_nanos(ringscope_api::clock::now().0);
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

/// A segment that is written to: the file that was read, and no other that has its name by now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) path: &'a Path,
    /// `None`: whichever file has the name.
    pub(super) is: Option<FileId>,
}

impl Target<'_> {
    /// Tells the collector that the ended communicator in this slot has been read to its end: it may use the slot again.
    pub(super) fn release(self, slot: u16, generation: u32) -> io::Result<()> {
        self.write_word(generation, read_generation_offset(slot))
    }

    /// Tells the collector to keep so many records, for newer ones come faster than they are read.
    pub(super) fn want_places(self, n_places: u32) -> io::Result<()> {
        self.write_word(n_places, wanted_places_offset())
    }

    /// Tells the collector what to ask for: one of `layout::CONTROL_*`.
    pub(super) fn control(self, control: u32) -> io::Result<()> {
        self.write_word(control, control_offset())
    }

    fn write_word(self, word: u32, offset: u64) -> io::Result<()> {
        let found = find(None::<&File>, self.path)?;
        if self.is.is_some_and(|is| is != FileId::of(found.metadata())) {
            return Err(io::Error::other("another file has its name by now"));
        }
        found.open(Access::Write)?.write_all_at(&word.to_le_bytes(), offset)
    }
}

/// The folder is open to all users of the machine: no link is followed out of it.
fn find(folder: Option<&impl AsFd>, path: &Path) -> io::Result<Found> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match folder {
        Some(folder) => Found::beneath(folder, name),
        None => Found::beneath(own_folder(parent)?, name),
    }
}
