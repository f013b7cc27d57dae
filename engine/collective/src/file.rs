//! Files that the user names: none of them holds up a job, whatever there is at the path.
//!
//! To be read, it must be a regular file, and not too long. What is written may also go to a terminal or a pipe, but who opens
//! it does not wait until somebody reads there.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Bytes of a file that is read at most: the description of a machine has some tens of thousands.
const MAX_BYTES: u64 = 16 << 20;

/// All of a regular file.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let text = format!("it is longer than {} MiB", MAX_BYTES >> 20);
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}

/// All of a regular file, which is text.
pub(crate) fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// A file to be written from its start; a named pipe only if somebody reads it.
pub(crate) fn create(path: impl AsRef<Path>) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path.as_ref())
}

/// A file to be written at its end; a named pipe only if somebody reads it.
pub(crate) fn append(path: impl AsRef<Path>) -> io::Result<File> {
    open(OpenOptions::new().append(true).create(true), path.as_ref())
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    // Only the opening must not wait: lines would be lost where a reader is a little behind.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("rsccl-file-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn fifo(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    #[test]
    fn only_a_regular_file_of_some_length_is_read() {
        let folder = folder("read");
        let (text, long) = (folder.join("text"), folder.join("long"));
        std::fs::write(&text, "text").unwrap();
        File::create(&long).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert_eq!(read_text(&text).unwrap(), "text");
        assert_eq!(read_text(&long).unwrap_err().to_string(), "it is longer than 16 MiB");
        for path in [fifo(&folder), "/dev/zero".into(), "/dev/full".into(), folder.clone()] {
            assert_eq!(read(&path).unwrap_err().to_string(), "it is not a regular file", "{path:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for() {
        let folder = folder("write");
        let path = fifo(&folder);
        assert!(create(&path).is_err() && append(&path).is_err());
        let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        create(&path).unwrap().write_all(b"one").unwrap();
        append(&path).unwrap().write_all(b"two").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "onetwo");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
