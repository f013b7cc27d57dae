//! Names of jobs: one launch of a name at a time, on each machine.
//!
//! A claim is a locked file in a folder that is this user's alone, so nobody else can hold a name, put a link or a pipe in its
//! place, or make an opening wait. It ends with the process that holds it, however that ends.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringscope_agent::{DEFAULT_DIR, log_folder, shared_dir};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use sha2::{Digest as _, Sha256};

/// A name that is held for as long as this lives.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    /// Its lock goes with it, after the name.
    _file: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Still locked: who waits for it finds that it is not there any more, and makes another.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Why a name could not be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    /// Another launch has it.
    #[error(
        "a job of the name {job:?} runs already on {host}: {first}; give this one another name with --job, or wait until that one \
         has ended"
    )]
    Taken {
        /// The name.
        job: String,
        /// This machine.
        host: String,
        /// What is known of the first.
        first: String,
    },
    /// The launch itself has it: its launching side is on this machine too.
    #[error("the launch has its name itself")]
    Own,
    /// The folder or the file cannot be used.
    #[error(
        "the job's name {job:?} cannot be claimed in {}: {source}; the job is started all the same, and another of that name would be",
        place.display()
    )]
    Io {
        /// The name.
        job: String,
        /// Where.
        place: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Claim {
    /// Takes a name on this machine.
    pub(super) fn take(job: &str, launch: &str) -> Result<Self, ClaimError> {
        let failed = |place: &Path| {
            let (job, place) = (job.to_owned(), place.to_owned());
            move |source| ClaimError::Io { job, place, source }
        };
        // Whatever this session's settings are: another one's launch has to find it.
        let dir = Path::new(DEFAULT_DIR);
        let folder = folder(dir).map_err(failed(dir))?;
        Self::take_in(&folder, job, launch)
    }

    fn take_in(folder: &Path, job: &str, launch: &str) -> Result<Self, ClaimError> {
        sweep(folder);
        let path = folder.join(file_name(job));
        let failed = |source| ClaimError::Io { job: job.to_owned(), place: path.clone(), source };
        for _ in 0..TRIES {
            let mut file = open(&path).map_err(failed)?;
            if !is_locked(&file, || std::thread::sleep(LOOKED_AT)) {
                let first = who(&mut file);
                if first.contains(launch) {
                    return Err(ClaimError::Own);
                }
                return Err(ClaimError::Taken { job: job.to_owned(), host: super::node_name(), first });
            }
            // Who had it before may have removed the file between.
            if is_still(&path, &file) {
                let since = ringscope_api::words::clock(ringscope_api::clock::now());
                let text = format!("pid {} since {since} ({launch})", std::process::id());
                let _ = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
                return Ok(Self { path, _file: file });
            }
        }
        Err(failed(io::Error::other("it is removed again and again")))
    }
}

/// Locks it. Who looks whether a claim is left over holds its lock for a moment, which is no claim: so it is tried some times.
fn is_locked(file: &File, mut pause: impl FnMut()) -> bool {
    let lock = || flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
    lock()
        || (0..LOCKS).any(|_| {
            pause();
            lock()
        })
}

/// Removes the claims of launches that were killed.
fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().take(SWEPT) {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let Ok(file) = open_there(&path, OFlags::empty()) else { continue };
        // Who has opened it and not yet locked it finds that it is gone, and makes another.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_still(&path, &file) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Whether that file still has this name.
fn is_still(path: &Path, file: &File) -> bool {
    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    path.symlink_metadata().is_ok_and(|there| file.metadata().is_ok_and(|held| place(held) == place(there)))
}

/// No link is followed, nothing that is no file is waited for.
fn open(path: &Path) -> io::Result<File> {
    open_there(path, OFlags::CREATE)
}

fn open_there(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | more;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it is no file of this user's: remove it"));
    }
    Ok(file)
}

fn who(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(MAX_BYTES).read_to_string(&mut text));
    if read.is_ok() && !text.is_empty() { text } else { "it is just starting".to_owned() }
}

/// One in memory that only this user may enter, the same in all of his sessions: of ssh, of cron, of Slurm.
fn folder(dir: &Path) -> io::Result<PathBuf> {
    shared_dir::create(dir)?;
    log_folder::own(dir, PREFIX)
}

/// A name may hold anything.
fn file_name(job: &str) -> String {
    let hash = Sha256::digest(job.as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>() + "." + EXTENSION
}

const PREFIX: &str = "jobs-";
const EXTENSION: &str = "job";
const TRIES: usize = 8;
/// How often a lock is tried again, and how long after: 40 ms in all, and who looks holds it for some microseconds.
const LOCKS: usize = 8;
const LOOKED_AT: Duration = Duration::from_millis(5);
/// Claims that are looked at.
const SWEPT: usize = 256;
const MAX_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_name_is_had_once_and_again_after_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let first = Claim::take_in(dir.path(), "../a", "one").unwrap();
        let error = Claim::take_in(dir.path(), "../a", "two").unwrap_err().to_string();
        for part in ["\"../a\"", &std::process::id().to_string(), "(one)", "--job"] {
            assert!(error.contains(part), "{part} in {error}");
        }
        assert!(matches!(Claim::take_in(dir.path(), "../a", "one"), Err(ClaimError::Own)));
        let other = Claim::take_in(dir.path(), "b", "three").unwrap();
        drop((first, other));
        Claim::take_in(dir.path(), "../a", "two").unwrap();
    }

    #[test]
    fn what_a_killed_launch_has_left_goes_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(file_name("old")), "pid 1").unwrap();
        let held = Claim::take_in(dir.path(), "held", "x").unwrap();
        let _other = Claim::take_in(dir.path(), "other", "y").unwrap();
        assert!(!dir.path().join(file_name("old")).exists() && held.path.exists());
    }

    #[test]
    fn who_only_looks_at_a_claim_takes_nobodys_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file_name("old"));
        let mut looker = Some(open(&path).unwrap());
        assert!(looker.as_ref().is_some_and(|file| is_locked(file, || unreachable!("it is free"))));
        let file = open(&path).unwrap();
        let mut pauses = 0;
        assert!(!is_locked(&file, || pauses += 1));
        assert_eq!(pauses, LOCKS);
        assert!(is_locked(&file, || drop(looker.take())));
    }

    #[test]
    fn neither_a_link_nor_a_pipe_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        symlink(&victim, dir.path().join(file_name("linked"))).unwrap();
        assert!(Claim::take_in(dir.path(), "linked", "x").is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        let pipe = dir.path().join(file_name("piped"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(Claim::take_in(dir.path(), "piped", "x").is_err());
    }
}
