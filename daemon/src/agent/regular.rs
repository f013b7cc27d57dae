//! Files whose paths others have named: a process's log, the objects in its memory. Such a path may lead to anything.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file that is as `check` wants it, to be read. A link is none.
pub(super) fn open(path: &Path, check: impl Fn(&Metadata) -> io::Result<()>) -> io::Result<File> {
    let check = |metadata: &Metadata| {
        if metadata.is_file() { check(metadata) } else { Err(io::Error::other("it is no regular file")) }
    };
    // First what it is: opening a device or a pipe can do anything.
    check(&path.symlink_metadata()?)?;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // Another file may have its name by now.
    check(&file.metadata()?)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, pipe) = (dir.path().join("file"), dir.path().join("link"), dir.path().join("pipe"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(open(&file, |_| Ok(())).is_ok());
        for other in [link.as_path(), &pipe, Path::new("/dev/null"), dir.path()] {
            let error = open(other, |_| Ok(())).unwrap_err();
            assert_eq!(error.to_string(), "it is no regular file", "{}", other.display());
        }
        let refused = open(&file, |_| Err(io::Error::other("not this one")));
        assert_eq!(refused.unwrap_err().to_string(), "not this one");
        assert_eq!(open(&dir.path().join("none"), |_| Ok(())).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
