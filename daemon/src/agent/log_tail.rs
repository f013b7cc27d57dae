//! Follows the NCCL log of one process.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use ringscope_wire::segment::read::Identity;

use super::regular;
use crate::nccl_log::NcclLog;

/// Bytes read per interval and log: a big log is caught up with in some intervals, not in one long one.
const MAX_READ_BYTES: usize = 4 << 20;
const CHUNK_BYTES: usize = 64 * 1024;

/// A log being followed.
#[derive(Debug, Default)]
pub(super) struct LogTail {
    /// Where it may lie, best guess first; empty if the process has none.
    candidates: Vec<PathBuf>,
    /// Whose it must be; `None`: anybody's.
    owner: Option<u32>,
    open: Option<(PathBuf, u64)>,
    offset: u64,
    pub(super) log: NcclLog,
    /// The file was replaced or cut: inits before that are not in `log`.
    pub(super) restarted: bool,
}

/// How far the log has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// To its end.
    End,
    /// Not to its end: read on next time.
    Middle,
    /// There is no such file.
    Missing,
}

impl LogTail {
    /// The log of a process of the user `owner`: it is that user's too, for the library in the process writes it. No
    /// other's is read, whatever a segment names. `%h` in its name is the process's host or the machine's, in NCCL cut at
    /// the first dot.
    pub(super) fn new(identity: &Identity, owner: u32, machine: &str) -> Self {
        let mut candidates = Vec::new();
        for host in [identity.host.as_str(), machine] {
            for host in [host, host.split('.').next().unwrap_or(host)] {
                let path = PathBuf::from(expand(&identity.log_file, host, identity.pid));
                if !identity.log_file.is_empty() && !candidates.contains(&path) {
                    candidates.push(path);
                }
            }
        }
        Self { candidates, owner: Some(owner), ..Self::default() }
    }

    /// The log at a path that is known.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { candidates: vec![path], ..Self::default() }
    }

    /// Reads what was added.
    pub(super) fn poll(&mut self) -> io::Result<Reached> {
        if self.is_unchanged() {
            return Ok(Reached::End);
        }
        let Some((path, file)) = self.find()? else { return Ok(Reached::Missing) };
        let metadata = file.metadata()?;
        let same =
            self.open.as_ref().is_some_and(|(before, inode)| *before == path && *inode == metadata.ino());
        if self.open.is_some() && (!same || metadata.len() < self.offset) {
            (self.offset, self.log, self.restarted) = (0, NcclLog::new(), true);
        }
        self.open = Some((path, metadata.ino()));
        self.read(&file)
    }

    /// The file that is read.
    pub(super) fn path(&self) -> Option<&Path> {
        self.open.as_ref().map(|(path, _)| path.as_path())
    }

    /// What was looked for, to tell the user.
    pub(super) fn wanted(&self) -> Option<&Path> {
        self.candidates.first().map(PathBuf::as_path)
    }

    /// Whether the file is still the best candidate and as long as it was: most logs say nothing for hours.
    fn is_unchanged(&self) -> bool {
        let Some((path, inode)) = &self.open else { return false };
        self.candidates.first() == Some(path)
            && path
                .symlink_metadata()
                .is_ok_and(|metadata| metadata.ino() == *inode && metadata.len() == self.offset)
    }

    fn find(&self) -> io::Result<Option<(PathBuf, File)>> {
        for path in &self.candidates {
            match regular::open(path, |metadata| self.check(metadata)) {
                Ok(file) => return Ok(Some((path.clone(), file))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn check(&self, metadata: &Metadata) -> io::Result<()> {
        match self.owner {
            Some(owner) if owner != metadata.uid() => {
                let found = metadata.uid();
                Err(io::Error::other(format!("it is user {found}'s, and the process is user {owner}'s")))
            }
            _ => Ok(()),
        }
    }

    fn read(&mut self, file: &File) -> io::Result<Reached> {
        let mut buffer = vec![0; CHUNK_BYTES];
        for _ in 0..MAX_READ_BYTES / CHUNK_BYTES {
            let read = file.read_at(&mut buffer, self.offset)?;
            if read == 0 {
                return Ok(Reached::End);
            }
            self.log.feed(&buffer[..read]);
            self.offset += read as u64;
        }
        Ok(Reached::Middle)
    }
}

/// `NCCL_DEBUG_FILE` as NCCL reads it: `%h`, `%p` and `%%`. Source: `src/debug.cc`, `ncclDebugInit`.
fn expand(name: &str, host: &str, pid: u32) -> String {
    let mut expanded = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            expanded.push(c);
            continue;
        }
        match chars.next() {
            Some('h') => expanded.push_str(host),
            Some('p') => expanded.push_str(&pid.to_string()),
            Some('%') | None => expanded.push('%'),
            Some(other) => expanded.extend(['%', other]),
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_the_processs_user_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (log, link) = (dir.path().join("nccl.log"), dir.path().join("link"));
        std::fs::write(&log, "node1:42:42 [0] NCCL INFO NET/Socket : Using [0]eth0\n").unwrap();
        std::os::unix::fs::symlink(&log, &link).unwrap();
        let own = log.metadata().unwrap().uid();
        let tail = |path: &Path, owner: u32| LogTail { owner: Some(owner), ..LogTail::at(path.to_owned()) };
        assert_eq!(tail(&log, own).poll().unwrap(), Reached::End);
        let another = tail(&log, own + 1).poll().unwrap_err().to_string();
        assert_eq!(another, format!("it is user {own}'s, and the process is user {}'s", own + 1));
        for other in [link.as_path(), Path::new("/dev/null")] {
            assert_eq!(tail(other, own).poll().unwrap_err().to_string(), "it is no regular file");
        }
        assert_eq!(tail(&dir.path().join("none"), own).poll().unwrap(), Reached::Missing);
    }

    #[test]
    fn names_are_expanded_as_nccl_does() {
        let check = |name, expected| assert_eq!(expand(name, "node1", 42), expected);
        check("/tmp/nccl.%h.%p", "/tmp/nccl.node1.42");
        check("/tmp/100%%.%x%", "/tmp/100%.%x%");
    }
}
