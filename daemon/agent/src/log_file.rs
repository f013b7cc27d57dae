//! The file of a log: finding it, and reading what was added.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::beneath::FileId;
use super::log_folder;

const CHUNK_BYTES: usize = 64 * 1024;
/// Of what was read last, that much is held to know whether the file still says it.
const HELD_BYTES: usize = 4096;

/// A file that grows.
#[derive(Debug, Default)]
pub(super) struct LogFile {
    /// The folder of segments.
    dir: PathBuf,
    /// Where it may lie, best guess first; empty if the process has none.
    candidates: Vec<PathBuf>,
    /// Whose it must be.
    owner: u32,
    open: Option<(PathBuf, FileId)>,
    offset: u64,
    /// The bytes before `offset`, the last of them.
    last: Vec<u8>,
    /// When it was written last, as it was known before it was read: seconds, nanoseconds.
    written: (i64, i64),
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
    /// Not known: its file system does not answer.
    Silent,
}

/// What was added.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) reached: Reached,
    pub(super) bytes: Vec<u8>,
    /// Where in `bytes` a part of the file is missing, that held zeros: it was freed ([`super::log_hole`]), or written past.
    pub(super) gap: Option<usize>,
    /// The file was replaced or cut: all that was read before is void.
    pub(super) restarted: bool,
    /// The file. `None`: the same as before.
    pub(super) file: Option<(PathBuf, FileId)>,
}

impl LogFile {
    pub(super) fn new(dir: PathBuf, candidates: Vec<PathBuf>, owner: u32) -> Self {
        Self { dir, candidates, owner, ..Self::default() }
    }

    /// The best guess where it lies.
    pub(super) fn wanted(&self) -> Option<&Path> {
        self.candidates.first().map(PathBuf::as_path)
    }

    /// Whose it must be.
    pub(super) const fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether it can lie nowhere but in the folder of segments, or in one of logs there: these are in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.candidates.iter().all(|path| self.is_in_folder(path))
    }

    fn is_in_folder(&self, path: &Path) -> bool {
        let parent = path.parent();
        parent == Some(&self.dir)
            || parent.is_some_and(|folder| {
                folder.parent() == Some(&self.dir) && folder.file_name().is_some_and(log_folder::is_named)
            })
    }

    /// Reads what was added, at most so many bytes.
    pub(super) fn read(&mut self, max_bytes: u64) -> io::Result<Read> {
        let mut read =
            Read { reached: Reached::End, bytes: Vec::new(), gap: None, restarted: false, file: None };
        if self.is_unchanged() {
            return Ok(read);
        }
        let Some((path, file)) = self.find()? else { return Ok(Read { reached: Reached::Missing, ..read }) };
        let metadata = file.metadata()?;
        let id = FileId::of(&metadata);
        let same = self.open.as_ref().is_some_and(|(before, old)| *before == path && *old == id);
        if self.open.is_some() && (!same || metadata.len() < self.offset || self.is_another_text(&file)) {
            (self.offset, read.restarted) = (0, true);
            self.last.clear();
        }
        self.written = written(&metadata);
        read.file = Some((path.clone(), id));
        self.open = Some((path, id));
        read.reached = match self.read_into(&file, max_bytes, &mut read) {
            // That it begins anew is not to be lost.
            Err(_) if read.restarted => Reached::Middle,
            reached => reached?,
        };
        Ok(read)
    }

    /// Whether somebody has written the file anew, and it is as long by now: so does the next process of the same number, as
    /// the first of a container that starts again. A part that was freed holds zeros instead.
    fn is_another_text(&self, file: &File) -> bool {
        let mut now = vec![0; self.last.len()];
        let read = file.read_exact_at(&mut now, self.offset - self.last.len() as u64);
        read.is_ok() && self.last.iter().zip(&now).any(|(before, now)| *now != 0 && now != before)
    }

    /// Whether the file is still the best candidate and nobody has written to it: most logs say nothing for hours.
    fn is_unchanged(&self) -> bool {
        let Some((path, id)) = &self.open else { return false };
        self.candidates.first() == Some(path)
            && self.metadata(path).is_ok_and(|metadata| {
                FileId::of(&metadata) == *id
                    && metadata.len() == self.offset
                    && written(&metadata) == self.written
            })
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        if self.is_in_folder(path) { log_folder::metadata(&self.dir, path) } else { path.symlink_metadata() }
    }

    fn find(&self) -> io::Result<Option<(PathBuf, File)>> {
        for path in &self.candidates {
            match log_folder::open_log(&self.dir, path, |metadata| self.check(metadata)) {
                Ok(file) => return Ok(Some((path.clone(), file))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // What lies where the user himself may not look is not told to him by this agent.
                Err(error) if !self.is_in_folder(path) && tells_of_others(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn check(&self, metadata: &Metadata) -> io::Result<()> {
        let (found, owner) = (metadata.uid(), self.owner);
        if found == owner {
            return Ok(());
        }
        Err(io::Error::other(format!("it is user {found}'s, and the process is user {owner}'s")))
    }

    fn read_into(&mut self, file: &File, max_bytes: u64, into: &mut Read) -> io::Result<Reached> {
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut left = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        while left > 0 {
            let piece = CHUNK_BYTES.min(left);
            left -= piece;
            let read = match file.read_at(&mut buffer[..piece], self.offset) {
                Ok(0) => return Ok(Reached::End),
                Ok(read) => read,
                Err(error) if into.bytes.is_empty() => return Err(error),
                // What was read counts; the next reading meets the error again.
                Err(_) => return Ok(Reached::Middle),
            };
            let piece = &buffer[..read];
            let Some(at) = memchr::memchr(0, piece) else {
                into.bytes.extend_from_slice(piece);
                self.hold(piece);
                self.offset += read as u64;
                continue;
            };
            self.last.clear();
            into.bytes.extend_from_slice(&piece[..at]);
            into.gap = Some(into.bytes.len());
            match piece[at..].iter().position(|byte| *byte != 0) {
                Some(zeros) => self.offset += (at + zeros) as u64,
                None => self.offset = next_data(file, self.offset + read as u64),
            }
        }
        Ok(Reached::Middle)
    }

    fn hold(&mut self, piece: &[u8]) {
        self.last.extend_from_slice(piece);
        self.last.drain(..self.last.len().saturating_sub(HELD_BYTES));
    }

    /// How far the file has been read, and where it lies.
    pub(super) fn read_up_to(&self) -> Option<(&Path, u64)> {
        self.open.as_ref().map(|(path, _)| (path.as_path(), self.offset))
    }
}

fn written(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

/// Whether an error says what lies at a path: that there is something, or of which kind.
fn tells_of_others(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    let codes = [Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG].map(Errno::raw_os_error);
    code.is_none_or(|code| codes.contains(&code))
}

/// Where after a hole something is written: at the end of the file if nothing is.
fn next_data(file: &File, offset: u64) -> u64 {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(at) => at.max(offset),
        Err(Errno::NXIO) => file.metadata().map_or(offset, |metadata| metadata.len().max(offset)),
        Err(_) => offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    #[test]
    fn only_a_file_of_the_processs_user_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (log, link) = (dir.path().join("nccl.log"), dir.path().join("link"));
        std::fs::write(&log, "node1:42:42 [0] NCCL INFO NET/Socket : Using [0]eth0\n").unwrap();
        std::os::unix::fs::symlink(&log, &link).unwrap();
        let own = log.metadata().unwrap().uid();
        let read_in = |folder: &Path, path: &Path, owner: u32| {
            LogFile::new(folder.to_owned(), vec![path.to_owned()], owner).read(ALL)
        };
        let read = |path: &Path, owner: u32| read_in(dir.path(), path, owner);
        assert_eq!(read(&log, own).unwrap().reached, Reached::End);
        let another = read(&log, own + 1).unwrap_err().to_string();
        assert_eq!(another, format!("it is user {own}'s, and the process is user {}'s", own + 1));
        assert_eq!(read(&link, own).unwrap_err().to_string(), "it is no regular file");
        for (other, owner) in [(link.as_path(), own), (&log, own + 1), (Path::new("/dev/null"), own)] {
            let elsewhere = read_in(Path::new("/elsewhere"), other, owner).unwrap();
            assert_eq!(elsewhere.reached, Reached::Missing, "he is not told that there is something");
        }
        assert_eq!(read(&dir.path().join("none"), own).unwrap().reached, Reached::Missing);
    }

    #[test]
    fn a_part_that_was_freed_is_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("nccl.log");
        let own = dir.path().metadata().unwrap().uid();
        let check = |text: &[u8], expected: (&[u8], Option<usize>)| {
            std::fs::write(&log, text).unwrap();
            let read = LogFile::new(dir.path().to_owned(), vec![log.clone()], own).read(ALL).unwrap();
            assert_eq!(
                (read.bytes.as_slice(), read.gap, read.reached),
                (expected.0, expected.1, Reached::End)
            );
        };
        check(b"one\ntwo\n", (b"one\ntwo\n", None));
        check(b"one\ntw\0\0\0ree\nfour\n", (b"one\ntwree\nfour\n", Some(6)));
        check(b"one\0\0", (b"one", Some(3)));
        let big = [b"one\n".to_vec(), vec![0; 1 << 20], b"two\n".to_vec()].concat();
        check(&big, (b"one\ntwo\n", Some(4)));
        let sparse = File::create(&log).unwrap();
        sparse.set_len(1 << 40).unwrap();
        sparse.write_all_at(b"end\n", 1 << 40).unwrap();
        let read = LogFile::new(dir.path().to_owned(), vec![log], own).read(ALL).unwrap();
        assert_eq!(
            (read.bytes.as_slice(), read.reached),
            (&b"end\n"[..], Reached::End),
            "not terabytes of zeros"
        );
    }

    #[test]
    fn what_was_cut_is_read_anew() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("nccl.log");
        std::fs::write(&log, "one two").unwrap();
        let own = log.metadata().unwrap().uid();
        let mut file = LogFile::new(dir.path().to_owned(), vec![log.clone()], own);
        let mut next = || file.read(ALL).map(|read| (read.bytes, read.restarted)).unwrap();
        assert_eq!(next(), (b"one two".to_vec(), false));
        assert_eq!(next(), (Vec::new(), false));
        std::fs::write(&log, "three").unwrap();
        assert_eq!(next(), (b"three".to_vec(), true));
        assert_eq!(next(), (Vec::new(), false));
        // As long as before, or longer, by the time that it is looked at.
        let mut rewrite = |text: &str| {
            let before = log.metadata().unwrap().modified().unwrap();
            std::fs::write(&log, text).unwrap();
            let later = before + std::time::Duration::from_millis(10);
            File::options().write(true).open(&log).unwrap().set_modified(later).unwrap();
            next()
        };
        assert_eq!(rewrite("seven"), (b"seven".to_vec(), true));
        assert_eq!(rewrite("eleven"), (b"eleven".to_vec(), true));
        assert_eq!(rewrite("eleven and one"), (b" and one".to_vec(), false));
        assert_eq!(rewrite("\0\0even and one"), (Vec::new(), false), "its begin was freed");
    }
}
