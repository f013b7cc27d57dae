//! Files whose names others have chosen, found without a step that could lead anywhere else.
//!
//! A file is found first (`O_PATH`: nothing is opened by that, no device does anything), looked at, and then opened by its
//! descriptor: what is opened is what was looked at, whatever has its name by then. What lies in a folder is found by
//! `openat2` beneath that folder; where the kernel has no `openat2`, or a filter of system calls refuses it, component by
//! component without following a link.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// Tries while others rename folders within the path.
const MAX_TRIES: usize = 8;
/// Nothing is opened: it is only known which file it is.
const FOUND: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A file that blocks, or a terminal that becomes the agent's own, is none of a user's business.
const OPENED: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// What is to be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Which file it is, and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) owner: u32,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino(), owner: metadata.uid() }
    }
}

/// A file that was found.
#[derive(Debug)]
pub(super) struct Found {
    fd: OwnedFd,
    metadata: Metadata,
}

impl Found {
    /// The file of this name in a folder. No link is followed, and nothing outside the folder, or on another file system, is
    /// reached.
    pub(super) fn beneath(folder: impl AsFd, name: impl AsRef<Path>) -> io::Result<Self> {
        let found = Self::of(find(folder.as_fd(), name.as_ref(), FOUND)?)?;
        // With `O_PATH` a link is found itself.
        if found.metadata.is_symlink() { Err(Errno::LOOP.into()) } else { Ok(found) }
    }

    /// The file at a path that leads anywhere. Only links that lie in file systems are followed, and not the last one.
    pub(super) fn anywhere(path: &Path) -> io::Result<Self> {
        let found = again(|| openat2(CWD, path, FOUND, Mode::empty(), ResolveFlags::NO_MAGICLINKS));
        match found {
            Err(error) if is_missing(error) => Self::of(openat(CWD, path, FOUND, Mode::empty())?),
            found => Self::of(found?),
        }
    }

    /// The same of a path of ours into what a process sees (`/proc/PID/root`).
    pub(super) fn of_process(path: &Path) -> io::Result<Self> {
        Self::of(openat(CWD, path, FOUND, Mode::empty())?)
    }

    fn of(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let metadata = file.metadata()?;
        Ok(Self { fd: file.into(), metadata })
    }

    /// What is known of it.
    pub(super) const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Opens this file, which must be a regular one.
    pub(super) fn open(self, access: Access) -> io::Result<File> {
        if !self.metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let access = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::WRONLY,
        };
        // The one link that may be followed: the kernel's own, to what this descriptor stands for.
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        match openat(CWD, path, OPENED | access, Mode::empty()) {
            Ok(file) => Ok(file.into()),
            Err(Errno::NOENT) => Err(io::Error::other("/proc is not mounted here: mount it for the agent")),
            Err(error) => Err(error.into()),
        }
    }
}

/// What is known of the file at a path that lies in `dir`.
pub(super) fn metadata(dir: &Path, path: &Path) -> io::Result<Metadata> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(Found::beneath(own_folder(dir)?, name)?.metadata().clone())
}

/// A folder in a folder. A link is none.
pub(super) fn folder(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    find(parent.as_fd(), name.as_ref(), flags)
}

/// The folder at a path that is the agent's own word.
pub(super) fn own_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

fn find(folder: BorrowedFd<'_>, name: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    // A user may mount a file system of his own (FUSE) on what is his, and let it answer whenever he likes.
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    match again(|| openat2(folder, name, flags, Mode::empty(), resolve)) {
        Err(error) if is_missing(error) => walk(folder, name, flags),
        found => Ok(found?),
    }
}

fn again(open: impl Fn() -> rustix::io::Result<OwnedFd>) -> rustix::io::Result<OwnedFd> {
    let is_over = |found: &rustix::io::Result<OwnedFd>| !matches!(found, Err(Errno::AGAIN | Errno::INTR));
    (1..MAX_TRIES).map(|_| open()).find(is_over).unwrap_or_else(open)
}

/// Whether the system call itself is not there: the kernel is older than 5.6, or a filter of an older container runtime
/// refuses what it does not know.
const fn is_missing(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::PERM)
}

/// The same without `openat2`: each component is opened in the one before it, and none of them may be a link.
fn walk(folder: BorrowedFd<'_>, name: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut names = Vec::new();
    for component in name.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return Err(Errno::XDEV.into()),
        }
    }
    let Some((last, parents)) = names.split_last() else { return Err(Errno::INVAL.into()) };
    let mut within: Option<OwnedFd> = None;
    for name in parents {
        let at = within.as_ref().map_or(folder, AsFd::as_fd);
        within = Some(openat(at, *name, FOUND | OFlags::DIRECTORY, Mode::empty())?);
    }
    let at = within.as_ref().map_or(folder, AsFd::as_fd);
    Ok(openat(at, *last, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    type Way = fn(BorrowedFd<'_>, &Path, OFlags) -> io::Result<OwnedFd>;

    #[test]
    fn nothing_but_what_lies_in_the_folder_is_found_with_and_without_openat2() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("dir");
        std::fs::create_dir_all(dir.join("sub")).unwrap();
        std::fs::write(dir.join("sub/file"), "x").unwrap();
        std::fs::write(root.path().join("other"), "x").unwrap();
        symlink(dir.join("sub/file"), dir.join("link")).unwrap();
        symlink(dir.join("sub"), dir.join("linked")).unwrap();
        let folder = own_folder(&dir).unwrap();
        for way in [find as Way, walk] {
            let is_found = |name: &str| {
                let found = way(folder.as_fd(), Path::new(name), FOUND).and_then(Found::of);
                found.is_ok_and(|found| !found.metadata().is_symlink())
            };
            assert!(is_found("sub/file"));
            for name in ["link", "linked/file", "../other", "/etc/passwd", "none", "sub/../../other", ""] {
                assert!(!is_found(name), "{name}");
            }
        }
        assert!(Found::beneath(&folder, "link").is_err() && Found::beneath(&folder, "sub/file").is_ok());
    }

    #[test]
    fn what_was_looked_at_is_opened_whatever_has_its_name_by_then() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "one").unwrap();
        let found = Found::anywhere(&path).unwrap();
        std::fs::write(dir.path().join("new"), "another").unwrap();
        std::fs::rename(dir.path().join("new"), &path).unwrap();
        let mut text = String::new();
        found.open(Access::Read).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one");
    }

    #[test]
    fn devices_and_pipes_are_never_opened() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [&pipe, Path::new("/dev/null"), Path::new("/dev/ptmx"), dir.path()] {
            for access in [Access::Read, Access::Write] {
                let error = Found::anywhere(path).unwrap().open(access).unwrap_err();
                assert_eq!(error.to_string(), "it is no regular file", "{}", path.display());
            }
        }
    }

    #[test]
    fn no_link_of_the_kernel_is_followed_on_the_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().strip_prefix("/").unwrap();
        let through_root = Path::new("/proc/self/root").join(name);
        assert!(Found::of_process(&through_root).is_ok());
        assert!(Found::anywhere(&through_root).is_err(), "nor out of another's container");
    }
}
