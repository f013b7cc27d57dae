//! `ringscope collector`: the collector as files, for those who start jobs otherwise than by `ringscope run`.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ringscope_agent::shared_dir;
use rustix::fs::OFlags;

use crate::embedded::{self, Library, LibraryError};

/// Arguments of `ringscope collector`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope collector install /opt/ringscope     the libraries, to be named in LD_PRELOAD and NCCL_PROFILER_PLUGIN
  ringscope collector folder /dev/shm/ringscope  the folder that agent and jobs share

Exit status: 0 done, 1 not done, 64 wrong usage")]
pub struct CollectorArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Put the libraries into a folder, for all users to load
    Install {
        /// The folder; made if it is not there
        dir: PathBuf,
        /// Exit with 0 also where it fails, and say why: what comes after starts unwatched
        #[arg(long)]
        go_on: bool,
    },
    /// Make the folder in which processes of all users leave their segments, and let all write into it, as /tmp
    Folder {
        /// The folder. One that is there must be yours, or open to all already
        dir: PathBuf,
        /// Exit with 0 also where it fails, and say why
        #[arg(long)]
        go_on: bool,
    },
}

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// A library could not be had.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// It could not be written.
    #[error(
        "cannot write {path}: {source}; name a folder that this user may write to, with room for some MiB"
    )]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The folder cannot be shared.
    #[error("cannot let all users write into {dir}: {source}; let root make it: mkdir -m 1777 {dir}")]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The terminal.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Does what the arguments say.
///
/// # Errors
/// [`CollectorError`].
pub fn run(args: &CollectorArgs, out: &mut impl Write) -> Result<(), CollectorError> {
    match &args.what {
        What::Install { dir, go_on } => match install(dir) {
            Ok(()) => Ok(writeln!(out, "the collector is in {}", dir.display())?),
            Err(error) if *go_on => {
                tracing::error!("{error}. What starts now is not watched");
                Ok(())
            }
            Err(error) => Err(error),
        },
        What::Folder { dir, go_on } => match share(dir) {
            Ok(()) => Ok(writeln!(out, "{} is open to all", dir.display())?),
            Err(source) => {
                let error = CollectorError::Folder { dir: dir.clone(), source };
                if !*go_on {
                    return Err(error);
                }
                tracing::error!("{error}");
                Ok(())
            }
        },
    }
}

/// The preloaded one last: where it is, all that it opens is.
fn install(dir: &Path) -> Result<(), CollectorError> {
    make(dir)?;
    for library in [Library::Watcher, Library::Collector] {
        put(dir, library.file_name(), &embedded::bytes_of(library)?)?;
    }
    let python = dir.join("python");
    make(&python)?;
    for (file, bytes) in embedded::PYTHON_HOOK {
        put(&python, file, bytes)?;
    }
    put(dir, Library::Preload.file_name(), &embedded::bytes_of(Library::Preload)?)
}

/// A folder that all may read; one that is there keeps its mode.
fn make(dir: &Path) -> Result<(), CollectorError> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
    made.map_err(|source| CollectorError::Write { path: dir.to_owned(), source })
}

/// Under another name first: no process ever loads half of it, and one that has the older keeps that.
fn put(dir: &Path, file: &str, bytes: &[u8]) -> Result<(), CollectorError> {
    let (path, new) = (dir.join(file), dir.join(format!(".{file}.{}", std::process::id())));
    let written = write(&new, bytes).and_then(|()| fs::rename(&new, &path));
    written.map_err(|source| {
        let _ = fs::remove_file(&new);
        CollectorError::Write { path, source }
    })
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(path)?;
    file.write_all(bytes)?;
    // What `open` is given is cut by the umask.
    file.set_permissions(Permissions::from_mode(0o755))
}

/// Opens a folder to all: one that a container's runtime or kubelet made is its owner's alone.
fn share(dir: &Path) -> io::Result<()> {
    shared_dir::create(dir)?;
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed();
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(dir)?;
    if folder.metadata()?.mode() & 0o7777 == OPEN {
        return Ok(());
    }
    folder.set_permissions(Permissions::from_mode(OPEN))
}

/// As `/tmp`: all write into it, and nobody removes what another left.
const OPEN: u32 = 0o1777;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_all_may_read_and_replaces_what_was_there() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("a/b");
        make(&dir).unwrap();
        put(&dir, "one.so", b"older and longer").unwrap();
        put(&dir, "one.so", b"newer").unwrap();
        let file = dir.join("one.so");
        assert_eq!(fs::read(&file).unwrap(), b"newer");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing else is left");
        let error = put(Path::new("/dev/null"), "one.so", b"x").unwrap_err().to_string();
        assert!(error.contains("/dev/null/one.so"), "{error}");
    }

    #[test]
    fn a_folder_of_ones_own_is_opened_to_all() {
        let parent = tempfile::tempdir().unwrap();
        for made_before in [false, true] {
            let dir = parent.path().join(made_before.to_string());
            if made_before {
                DirBuilder::new().mode(0o755).create(&dir).unwrap();
            }
            share(&dir).unwrap();
            assert_eq!(dir.metadata().unwrap().mode() & 0o7777, OPEN);
            share(&dir).unwrap();
        }
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).unwrap();
        share(&link).unwrap_err();
    }
}
