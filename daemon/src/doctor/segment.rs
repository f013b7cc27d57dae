//! The segment of one process, read once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ringscope_wire::segment::SegmentError;
use ringscope_wire::segment::read::{Snapshot, Source, snapshot};

struct SegmentFile(File);

impl Source for SegmentFile {
    type Error = ReadError;

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        Ok(self.0.read_exact_at(buffer, offset)?)
    }
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The newest segment of a process in a folder. `pid` is the id that the process itself knows.
pub(super) fn of(pid: u32, dir: &Path) -> Option<Snapshot> {
    let prefix = format!("{pid}-");
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let newest = entries
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension().is_some_and(|extension| extension == "seg")
                && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        })
        // The name ends with the start time.
        .max()?;
    let read = || -> Result<Snapshot, ReadError> { snapshot(&mut SegmentFile(File::open(&newest)?)) };
    match read() {
        Ok(snapshot) => Some(snapshot),
        Err(error) => {
            tracing::warn!(segment = %newest.display(), %error, "cannot read the segment of the process");
            None
        }
    }
}
