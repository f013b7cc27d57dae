//! Says in the folder that an agent reads what lies there, so that nobody removes what it has still to read
//! ([`super::sweep`]): a file `.agent-<user>`, locked for as long as the agent lives. It is also touched, for an agent that is
//! started again is away for a while.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, flock, futimens, openat};

use crate::clock::Timestamp;

/// Time between two tries to lock the file: somebody who asks whether it is locked holds it for a moment.
const INTERVAL: Duration = Duration::from_secs(1);
/// An agent that was there so short a time ago may come back: it is being started again, or brought up to date.
pub(crate) const AWAY: Duration = Duration::from_secs(600);
/// The user that the kernel shows in place of one that has no number here: a container may see root as this one.
const OVERFLOW_USER: u32 = 65_534;
const ROOT: u32 = 0;

/// The mark of an agent that lives.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    is_locked: bool,
    renewed: Option<Instant>,
}

impl Mark {
    /// Leaves it in the folder.
    pub(super) fn leave(dir: &Path) -> io::Result<Self> {
        let user = rustix::process::geteuid().as_raw();
        let path = dir.join(name(user));
        // Not with `create`: the kernel may refuse to open a file for creation in a folder that is everybody's.
        let file = match open(&path) {
            Ok(file) if file.metadata()?.uid() == user => file,
            Ok(_) => {
                // Somebody else's. Where it cannot be removed, there is no mark.
                std::fs::remove_file(&path)?;
                create(&path)?
            }
            Err(_) => create(&path)?,
        };
        Ok(Self { file, is_locked: false, renewed: None })
    }

    /// Says that the agent goes on.
    pub(super) fn renew(&mut self, now: Instant) {
        if self.renewed.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            return;
        }
        self.renewed = Some(now);
        let at = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let _ = futimens(&self.file, &Timestamps { last_access: at, last_modification: at });
        if !self.is_locked {
            self.is_locked = flock(&self.file, FlockOperation::NonBlockingLockShared).is_ok();
        }
    }
}

fn name(user: u32) -> String {
    format!(".agent-{user}")
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(FLAGS.bits().cast_signed()).open(path)
}

fn create(path: &Path) -> io::Result<File> {
    // Others read it, to ask for its lock.
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(path)
}

const FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Whether an agent reads this user's segments in the folder, or did a short while ago: his own, or root's.
pub(super) fn is_served(dir: BorrowedFd<'_>, user: u32, now: Timestamp) -> bool {
    [user, ROOT].into_iter().any(|of| {
        let Ok(file) = openat(dir, name(of), FLAGS, Mode::empty()).map(File::from) else { return false };
        let Ok(metadata) = file.metadata() else { return false };
        // Nobody can say so for another user.
        let is_his = metadata.uid() == of || of == ROOT && metadata.uid() == OVERFLOW_USER;
        is_his && (is_locked(&file) || is_fresh(&metadata, now))
    })
}

fn is_locked(file: &File) -> bool {
    // What is taken goes with the file.
    flock(file, FlockOperation::NonBlockingLockExclusive).is_err()
}

fn is_fresh(metadata: &std::fs::Metadata, now: Timestamp) -> bool {
    let nanoseconds = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    // Clocks are set: what lies in the future counts as long as it is near.
    (i128::from(now.0) - nanoseconds).unsigned_abs() < AWAY.as_nanos()
}
