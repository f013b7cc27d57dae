//! The folder in which batches of a launch's own agent wait. It goes with the launch; one whose launch was killed goes with the next
//! launch of the same user.
//!
//! Launch and agent hold one lock on the folder, which the kernel takes away with the last of the two, however they end.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use tempfile::TempDir;

/// How its name begins.
const PREFIX: &str = "ringscope-launch-agent-";
/// Folders that are looked at.
const SWEPT: usize = 256;
/// Who sweeps may take one before it is locked.
const TRIES: usize = 8;

/// A folder that is held for as long as this lives.
pub(super) struct StateFolder {
    dir: TempDir,
    lock: File,
}

impl StateFolder {
    /// Makes one in `parent`, and removes those that nobody holds.
    pub(super) fn create_in(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let mut why = String::new();
        for _ in 0..TRIES {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            why = match lock(dir.path()) {
                Ok(lock) if dir.path().exists() => return Ok(Self { dir, lock }),
                Ok(_) => "somebody removes it".to_owned(),
                Err(error) => error.to_string(),
            };
        }
        Err(io::Error::other(format!("no folder in {} can be kept for it: {why}", parent.display())))
    }

    /// The lock, as something that a process can inherit and that nobody reads.
    pub(super) fn lock(&self) -> io::Result<Stdio> {
        Ok(self.lock.try_clone()?.into())
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes what launches that were killed have left.
fn sweep(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    for path in ours.take(SWEPT).map(|entry| entry.path()) {
        // Locked until it is gone: who has just made it finds that, and makes another.
        if let Ok(_lock) = lock(&path) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Locks a folder of this user's; no link is followed.
fn lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(open(path, flags, Mode::empty())?);
    if folder.metadata()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it is another user's"));
    }
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_goes_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join(format!("{PREFIX}old"));
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("batch"), "waits").unwrap();
        let others = parent.path().join("others");
        std::fs::create_dir(&others).unwrap();
        std::os::unix::fs::symlink(&others, parent.path().join(format!("{PREFIX}link"))).unwrap();
        let held = StateFolder::create_in(parent.path()).unwrap();
        let second = StateFolder::create_in(parent.path()).unwrap();
        assert!(!left.exists() && others.exists() && held.path().exists() && second.path().exists());
        drop(held);
        drop(second);
        let names = std::fs::read_dir(parent.path()).unwrap().flatten().map(|entry| entry.file_name());
        assert!(names.filter(|name| name != "others").eq([format!("{PREFIX}link").as_str()]));
    }

    #[test]
    fn what_an_agent_still_sends_from_stays_though_its_launch_was_killed() {
        let parent = tempfile::tempdir().unwrap();
        let state = StateFolder::create_in(parent.path()).unwrap();
        let lease = state.lock().unwrap();
        let mut agent = std::process::Command::new("sleep").arg("1000").stdin(lease).spawn().unwrap();
        // As the kernel does: what the launch has open is closed, and nothing is removed.
        let StateFolder { dir, lock } = state;
        let left = dir.keep();
        drop(lock);
        let next = StateFolder::create_in(parent.path());
        let is_kept = left.exists();
        agent.kill().unwrap();
        agent.wait().unwrap();
        assert!(is_kept && next.is_ok());
        // What another test starts at this moment has all that is open here until it is its program.
        let since = ringscope_api::clock::monotonic();
        while left.exists() {
            assert!(since.elapsed() < std::time::Duration::from_secs(60), "nobody holds it any more");
            drop(StateFolder::create_in(parent.path()).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
