//! Regular files whose paths others have named: a process's log, the objects in its memory, a note. Such a path may lead to
//! anything. What is to be known of the file is checked before it is opened, and it is that file which is opened
//! ([`super::beneath`]).

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use super::beneath::{Access, Found};

/// Opens a file of a folder, to be read, if it is as `check` wants it. A link is none.
pub(super) fn open_in(
    folder: impl AsFd,
    name: impl AsRef<Path>,
    check: impl Fn(&Metadata) -> io::Result<()>,
) -> io::Result<File> {
    open_found(linkless(Found::beneath(folder, name))?, check)
}

/// The same of a file at any path.
pub(super) fn open(path: &Path, check: impl Fn(&Metadata) -> io::Result<()>) -> io::Result<File> {
    open_found(Found::anywhere(path)?, check)
}

/// The same of a path into what a process sees (`/proc/PID/root`).
pub(super) fn open_of_process(path: &Path, check: impl Fn(&Metadata) -> io::Result<()>) -> io::Result<File> {
    open_found(Found::of_process(path)?, check)
}

fn open_found(found: Found, check: impl Fn(&Metadata) -> io::Result<()>) -> io::Result<File> {
    if found.metadata().is_file() {
        check(found.metadata())?;
    }
    found.open(Access::Read)
}

/// That a link lies there is said as of all that is no regular file.
fn linkless(found: io::Result<Found>) -> io::Result<Found> {
    let is_link = |error: &io::Error| error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    found.map_err(|error| if is_link(&error) { io::Error::other("it is no regular file") } else { error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beneath::own_folder;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, pipe) = (dir.path().join("file"), dir.path().join("link"), dir.path().join("pipe"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let folder = own_folder(dir.path()).unwrap();
        assert!(open(&file, |_| Ok(())).is_ok() && open_in(&folder, "file", |_| Ok(())).is_ok());
        for other in [link.as_path(), &pipe, Path::new("/dev/null"), dir.path()] {
            let error = open(other, |_| Ok(())).unwrap_err();
            assert_eq!(error.to_string(), "it is no regular file", "{}", other.display());
        }
        for other in ["link", "pipe"] {
            let error = open_in(&folder, other, |_| Ok(())).unwrap_err();
            assert_eq!(error.to_string(), "it is no regular file", "{other}");
        }
        let refused = open(&file, |_| Err(io::Error::other("not this one")));
        assert_eq!(refused.unwrap_err().to_string(), "not this one");
        assert_eq!(open(&dir.path().join("none"), |_| Ok(())).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
