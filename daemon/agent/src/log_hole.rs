//! Frees the middle of a private log that has been read. It lies in memory, and a job that makes communicators for ever writes
//! for ever. The library opens its log once, not to append, and writes on where it was: a hole before that it never meets.
//!
//! Both ends stay: the rings of the first communicators, and what was said last. Who reads later meets zeros
//! ([`super::log_file`] passes over them).

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};

use super::beneath::{Access, Found};
use super::log_folder::Folder;

/// A log that is no longer stays whole.
const WHOLE_BYTES: u64 = 1 << 20;
/// What stays at either end.
pub const KEPT_BYTES: u64 = 256 << 10;
/// Less is not worth a system call.
const STEP_BYTES: u64 = 256 << 10;
const PAGE_BYTES: u64 = 4096;

/// How far a log has been freed.
#[derive(Debug, Default)]
pub struct Freed(u64);

impl Freed {
    /// Up to where it may be freed now, having been read up to `read` of `len`; `None`: it is not worth it.
    fn next(&self, read: u64, len: u64) -> Option<u64> {
        let end = read.min(len.saturating_sub(KEPT_BYTES)) / PAGE_BYTES * PAGE_BYTES;
        (len > WHOLE_BYTES && end >= self.0.max(KEPT_BYTES) + STEP_BYTES).then_some(end)
    }

    /// Frees what was read of a log that is open to be written.
    pub fn free(&mut self, log: &File, read: u64) -> io::Result<()> {
        if let Some(end) = self.next(read, log.metadata()?.len()) {
            let start = self.0.max(KEPT_BYTES);
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(log, flags, start, end - start)?;
            self.0 = end;
        }
        Ok(())
    }

    /// The same of a log in a folder of logs of `dir`, unless somebody copies it for the user, who frees it himself.
    pub(super) fn free_in(&mut self, dir: &Path, log: &Path, read: u64) -> io::Result<()> {
        // The file may be longer, but what has been read decides.
        if self.next(read, read).is_none() {
            return Ok(());
        }
        let (Some(folder), Some(name)) = (Folder::of(dir, log), log.file_name()) else { return Ok(()) };
        let folder = folder?;
        let found = Found::beneath(folder.fd(), name)?;
        if found.metadata().uid() != folder.owner || found.metadata().nlink() != 1 {
            return Ok(());
        }
        let log = match found.open(Access::Write) {
            // Another user's, and this agent may only read: that will not change.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.0 = u64::MAX - STEP_BYTES;
                return Ok(());
            }
            log => log?,
        };
        if flock(&log, FlockOperation::NonBlockingLockExclusive).is_ok() {
            self.free(&log, read)?;
        }
        Ok(())
    }
}

/// A log of this user's own, to be read and freed by this process alone.
pub fn hold(log: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = File::options().read(true).write(true).custom_flags(flags).open(log)?;
    // Nobody has it for longer than he takes to free a part.
    flock(&file, FlockOperation::LockShared)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A log in a folder of logs of a folder in memory.
    fn log(dir: &Path, bytes: u64) -> std::path::PathBuf {
        let path = dir.join("logs-7/nccl-0f3a-node-7.log");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let line = [b"l".repeat(63), b"\n".to_vec()].concat();
        let n_lines = usize::try_from(bytes).unwrap() / line.len();
        File::create(&path).unwrap().write_all(&line.repeat(n_lines)).unwrap();
        path
    }

    fn taken(path: &Path) -> u64 {
        path.metadata().unwrap().blocks() * 512
    }

    #[test]
    fn what_was_read_goes_but_for_both_ends() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = log(dir.path(), 4 << 20);
        let mut freed = Freed::default();
        freed.free_in(dir.path(), &path, 1 << 20).unwrap();
        freed.free_in(dir.path(), &path, 2 << 20).unwrap();
        assert_eq!(path.metadata().unwrap().len(), 4 << 20);
        assert_eq!(taken(&path), (2 << 20) + KEPT_BYTES, "what nobody has read stays");
        freed.free_in(dir.path(), &path, 4 << 20).unwrap();
        assert_eq!(taken(&path), 2 * KEPT_BYTES);
        let short = log(&dir.path().join("b"), WHOLE_BYTES);
        Freed::default().free_in(&dir.path().join("b"), &short, WHOLE_BYTES).unwrap();
        assert_eq!(taken(&short), WHOLE_BYTES);
    }

    #[test]
    fn who_copies_a_log_frees_it_himself() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = log(dir.path(), 4 << 20);
        let copied = hold(&path).unwrap();
        Freed::default().free_in(dir.path(), &path, 4 << 20).unwrap();
        assert_eq!(taken(&path), 4 << 20);
        Freed::default().free(&copied, 4 << 20).unwrap();
        assert_eq!(taken(&path), 2 * KEPT_BYTES);
    }
}
