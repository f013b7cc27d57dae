//! Removes what processes without an agent have left in the folder: nobody will read it, and the folder lies in memory.
//!
//! Only what is this user's own, by its name, its owner and its head; no link is followed. Never while an agent reads the
//! folder, or did a short while ago ([`mark`]): it has to read how each process ended. That a process lives is known by
//! its segment's lock, which it has before the segment has its name.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, statat, unlinkat};

use super::beneath::{Access, Found};
use super::connections::Owner;
use super::log_folder::{self, Folder};
pub use super::mark::AWAY;
use ringscope_api::clock::Timestamp;

use super::procfs::Pid;
use super::refused::Marker;
use super::run_file::{LogName, RunFile, log_name, run_id};
use super::segment_file::SegmentFile;
use super::{mark, room};

/// Files of the folder that are looked at: a command is about to begin.
const MAX_FILES: usize = 16_384;
/// A log that was written to so short a time ago stays: who copies it for the user may not be done.
const LOG_RESTS: Duration = Duration::from_secs(2);
/// What nothing else tells the age of stays for so long: its process may live in another container.
const KEPT: Duration = Duration::from_secs(600);
/// Start times are right to a second against another boot time.
const SLACK_NS: u64 = 2_000_000_000;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Whose files are removed.
#[derive(Clone, Debug, Default)]
pub struct Whose {
    /// Of this user.
    pub user: u32,
    /// Only of processes of this job and its steps, by the word of their segments. `None`: of all.
    pub job: Option<String>,
    /// Remove nothing, and count.
    pub is_dry: bool,
}

/// Removes what this user's processes have left in the folder, unless an agent reads it.
pub fn sweep(dir: &Path, now: Timestamp) -> Swept {
    let whose = Whose { user: rustix::process::geteuid().as_raw(), ..Whose::default() };
    sweep_of(dir, whose, now).ok().flatten().unwrap_or_default()
}

/// Removes what processes have left in the folder. `None`: an agent reads it, which does so itself.
///
/// # Errors
/// Those of opening the folder.
pub fn sweep_of(dir: &Path, whose: Whose, now: Timestamp) -> io::Result<Option<Swept>> {
    let open = opened(dir)?;
    let Whose { user, job, is_dry } = whose;
    let mut sweep = Sweep { path: dir, dir: open, user, job, is_dry, now, swept: Swept::default() };
    if sweep.is_served() {
        return Ok(None);
    }
    sweep.all();
    Ok(Some(sweep.swept))
}

/// Whether an agent reads this user's files in the folder, or did a short while ago.
pub fn is_served(dir: &Path, now: Timestamp) -> bool {
    opened(dir).is_ok_and(|dir| mark::is_served(dir.as_fd(), rustix::process::geteuid().as_raw(), now))
}

/// Whether an agent reads this user's files in the folder now, and frees what it has read.
pub fn is_read(dir: &Path) -> bool {
    opened(dir).is_ok_and(|dir| mark::is_read(dir.as_fd(), rustix::process::geteuid().as_raw()))
}

/// Whether the lock is held by which an agent says so. For who has seen one read and looks again: of those who only ask, which
/// [`is_read`] tells from agents, one may hold it for a moment, but the next look finds it free.
pub fn is_held(dir: &Path) -> bool {
    opened(dir).is_ok_and(|dir| mark::is_held(dir.as_fd(), rustix::process::geteuid().as_raw()))
}

/// Where the agent sends to that reads this user's files in the folder; `None` where it does not say so, as agents of earlier
/// releases.
pub fn sends_to(dir: &Path) -> Option<String> {
    mark::sends_to(opened(dir).ok()?.as_fd(), rustix::process::geteuid().as_raw())
}

fn opened(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, flags, Mode::empty())?)
}

struct Sweep<'a> {
    path: &'a Path,
    dir: OwnedFd,
    user: u32,
    job: Option<String>,
    is_dry: bool,
    now: Timestamp,
    swept: Swept,
}

/// What is known of the runs whose files lie in the folder.
#[derive(Default)]
struct Runs {
    /// Processes with a segment that is left, by run and number.
    living: BTreeSet<(String, u32)>,
    /// Those whose segment has been removed now.
    ended: BTreeSet<(String, u32)>,
    /// Runs of which something is left.
    left: BTreeSet<String>,
    /// Processes with a segment that is left, by number and start time.
    segments: Vec<(u32, u64)>,
}

impl Sweep<'_> {
    fn is_served(&self) -> bool {
        mark::is_served(self.dir.as_fd(), self.user, self.now)
    }

    fn all(&mut self) {
        let names = self.names().unwrap_or_default();
        let mut runs = Runs::default();
        for name in &names {
            self.segment(name, &mut runs);
        }
        for name in &names {
            if let Some(log) = log_name(Path::new(name)) {
                self.log(None, name, log, &mut runs);
            } else if log_folder::is_named(name.as_ref()) {
                self.logs(name, &mut runs);
            }
        }
        for name in &names {
            if let Some(run) = run_id(Path::new(name)) {
                self.note(name, run, &runs);
            } else if let Some(owner) = Owner::of(name.as_ref()) {
                self.connections(name, owner, &runs);
            } else if let Some(pid) = unfinished(name).or_else(|| Marker::of(name).map(|marker| marker.pid)) {
                self.remnant(name, pid);
            }
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = Dir::read_from(&self.dir)?.flatten();
        Ok(names.filter_map(|entry| text(entry.file_name())).take(MAX_FILES).collect())
    }

    /// A segment whose process is gone.
    fn segment(&mut self, name: &str, runs: &mut Runs) {
        let Some((pid, start_time_ns)) = segment_name(name) else { return };
        let Some((file, metadata)) = self.own(name) else { return };
        let mut segment = SegmentFile::of(file, &metadata);
        let Ok(head) = segment.head() else { return };
        if (head.pid, head.start_time_ns, head.segment_bytes) != (pid, start_time_ns, metadata.len()) {
            return;
        }
        let process = (head.run_id.clone(), pid);
        if self.is_meant(&head.job) && segment.is_dead() && self.remove(name, &metadata) {
            runs.ended.insert(process);
        } else {
            runs.living.insert(process);
            runs.segments.push((pid, start_time_ns));
            runs.left.insert(head.run_id);
        }
    }

    /// Whether it is of the job that is asked for.
    fn is_meant(&self, job: &str) -> bool {
        let Some(wanted) = &self.job else { return true };
        job.strip_prefix(wanted.as_str()).is_some_and(|step| step.is_empty() || step.starts_with('.'))
    }

    /// Whether what nothing tells the job of is old enough, and all jobs are meant.
    fn is_forgotten(&self, age: Duration) -> bool {
        self.job.is_none() && age > KEPT
    }

    /// Those in this user's folder of logs. The folder stays: runs that begin now have found it.
    fn logs(&mut self, folder: &str, runs: &mut Runs) {
        let Ok(folder) = Folder::open(self.path, folder.as_ref()) else { return };
        if folder.owner != self.user {
            return;
        }
        for name in folder.names().unwrap_or_default() {
            if let (Some(log), Some(name)) = (log_name(Path::new(&name)), name.to_str()) {
                self.log(Some(folder.fd()), name, log, runs);
            }
        }
    }

    /// The log of a process that had a segment, or of one that never had. `folder`: where it lies, if not among segments.
    fn log(&mut self, folder: Option<&OwnedFd>, name: &str, log: LogName, runs: &mut Runs) {
        let Some((_, metadata)) = own(folder.unwrap_or(&self.dir), self.user, name) else { return };
        let age = age(&metadata, self.now);
        let process = (log.run_id, log.pid);
        let is_over = match (runs.living.contains(&process), runs.ended.contains(&process)) {
            (true, _) => false,
            (false, true) => age > LOG_RESTS,
            (false, false) => self.is_forgotten(age) && !is_here(log.pid, None),
        };
        if !is_over || !self.remove_from(folder, name, &metadata) {
            runs.left.insert(process.0);
        }
    }

    /// The note of a run of which nothing is left.
    fn note(&mut self, name: &str, run: &str, runs: &Runs) {
        let Some((_, metadata)) = self.own(name) else { return };
        let has_ended = runs.ended.iter().any(|(ended, _)| ended == run);
        if runs.left.contains(run) || !has_ended && !self.is_forgotten(age(&metadata, self.now)) {
            return;
        }
        let note = RunFile::read_of(self.path, run, self.user);
        if note.pid.is_none_or(|pid| !is_here(pid, note.start_time_ns)) {
            self.remove(name, &metadata);
        }
    }

    /// The RDMA connections of a process that is gone. Whose segment was removed now is.
    fn connections(&mut self, name: &str, owner: Owner, runs: &Runs) {
        let is_left = runs.segments.iter().any(|(pid, start_ns)| owner.is(*pid, *start_ns));
        let Some((_, metadata)) = self.own(name).filter(|_| !is_left) else { return };
        if self.is_forgotten(age(&metadata, self.now)) && !is_here(owner.pid, owner.start_ns()) {
            self.remove(name, &metadata);
        }
    }

    /// What a process without a segment has left.
    fn remnant(&mut self, name: &str, pid: u32) {
        let Some((_, metadata)) = self.own(name) else { return };
        if self.is_forgotten(age(&metadata, self.now)) && !is_here(pid, None) {
            self.remove(name, &metadata);
        }
    }

    /// A regular file of this user's.
    fn own(&self, name: &str) -> Option<(File, Metadata)> {
        own(&self.dir, self.user, name)
    }

    /// Removes the file, unless the name is another's by now, or an agent has begun: what ended before that it need not read.
    fn remove(&mut self, name: &str, metadata: &Metadata) -> bool {
        self.remove_from(None, name, metadata)
    }

    fn remove_from(&mut self, folder: Option<&OwnedFd>, name: &str, metadata: &Metadata) -> bool {
        let folder = folder.unwrap_or(&self.dir);
        let is_same = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (metadata.dev(), metadata.ino()));
        if !is_same || self.is_served() || !self.is_dry && unlinkat(folder, name, AtFlags::empty()).is_err() {
            return false;
        }
        self.swept.files += 1;
        self.swept.bytes += metadata.blocks() * room::BLOCK_BYTES;
        true
    }
}

fn own(folder: &OwnedFd, user: u32, name: &str) -> Option<(File, Metadata)> {
    let found = Found::beneath(folder, name).ok()?;
    let metadata = found.metadata().clone();
    if metadata.uid() != user {
        return None;
    }
    Some((found.open(Access::Read).ok()?, metadata))
}

fn text(name: &CStr) -> Option<String> {
    name.to_str().ok().map(str::to_owned)
}

/// Whose segment it is: `<pid>-<start time>.seg`.
pub(super) fn segment_name(name: &str) -> Option<(u32, u64)> {
    let (pid, start_time_ns) = name.strip_suffix(".seg")?.split_once('-')?;
    Some((pid.parse().ok()?, start_time_ns.parse().ok()?))
}

/// The process of a segment that never got its name: `.<pid>-<ticks>.new`.
fn unfinished(name: &str) -> Option<u32> {
    let (pid, ticks) = name.strip_prefix('.')?.strip_suffix(".new")?.split_once('-')?;
    ticks.parse::<u64>().ok()?;
    pid.parse().ok()
}

/// Time since the file was last written to.
fn age(metadata: &Metadata, now: Timestamp) -> Duration {
    let seconds = u64::try_from(metadata.mtime()).unwrap_or_default();
    let part = u64::try_from(metadata.mtime_nsec()).unwrap_or_default();
    now.since(Timestamp(seconds.saturating_mul(1_000_000_000).saturating_add(part)))
}

/// Whether a process with this number is here, and has not got it from another.
pub(super) fn is_here(pid: u32, start_time_ns: Option<u64>) -> bool {
    let Some(stat) = Pid::of(pid).and_then(Pid::stat) else { return false };
    match (stat.start_ns(), start_time_ns) {
        (Some(found), Some(expected)) => found.abs_diff(expected) <= SLACK_NS,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
