//! Whether one more segment may lie in the folder, and what is left there where it may not.
//!
//! A segment is written as memory is. So its file must be in memory: on a disk a write waits for the disk, and where that
//! is frozen the job's own thread would wait with it. So it would for a file server that is gone, whatever is asked of it:
//! [`mounts`] tells what must not even be asked.

#![expect(unsafe_code, reason = "asks the system about a limit")]

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::Fixed;

use super::budget::Budget;
use super::config::{Config, DEFAULT_DIR};
use super::{file, mounts};
use crate::segment::room;

/// `f_type` of the file system that is memory. Source: `linux/magic.h`. On hugetlbfs files have the length of whole huge pages,
/// and each process would take some of the few.
const TMPFS: u32 = 0x0102_1994;

/// Why a segment was refused. Its word is part of the marker's name, which the agent reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The folder lies on no tmpfs.
    OnDisk,
    /// The process may not have files of that length (`RLIMIT_FSIZE`): to try would end it.
    FileSize,
    /// The segments of the folder have the memory that they may have.
    Budget,
    /// The file system of the folder has no page for one more.
    Full,
}

impl Refusal {
    const fn word(self) -> &'static str {
        match self {
            Self::OnDisk => "on-disk",
            Self::FileSize => "file-size",
            Self::Budget => "budget",
            Self::Full => "full",
        }
    }
}

/// Makes the folder, unless it is there, for a segment that may be made in it. What is refused is told to the agent.
pub(super) fn make(config: &Config, fixed: &Fixed) -> io::Result<()> {
    if !mounts::may_be_memory(&config.dir) {
        // Nothing can be left in the folder itself. Where an agent has made the usual one, it is told there.
        let usual = Path::new(DEFAULT_DIR);
        if mounts::may_be_memory(usual) {
            leave_marker(usual, Refusal::OnDisk, fixed);
        }
        return Err(Refusal::OnDisk.into());
    }
    file::make_shared(&config.dir)?;
    check(&config.dir, config.budget_bytes).map_err(|refusal| {
        leave_marker(&config.dir, refusal, fixed);
        refusal.into()
    })
}

/// Tells the agent why no segment could be made, if the file system has no room: an empty file takes no page.
pub(super) fn tell_if_full(dir: &Path, error: &io::Error, fixed: &Fixed) {
    if error.kind() == io::ErrorKind::StorageFull {
        leave_marker(dir, Refusal::Full, fixed);
    }
}

/// The same once the segment is made: others may have been made at the same time.
pub(super) fn check_made(config: &Config, fixed: &Fixed) -> io::Result<()> {
    if Budget::new(&config.dir, config.budget_bytes).is_some_and(|budget| budget.is_exceeded()) {
        leave_marker(&config.dir, Refusal::Budget, fixed);
        return Err(Refusal::Budget.into());
    }
    Ok(())
}

/// Whether a segment may be made in the folder, which exists; `budget_bytes` is what all of it may take.
fn check(dir: &Path, budget_bytes: u64) -> Result<(), Refusal> {
    let budget = Budget::new(dir, budget_bytes).ok_or(Refusal::OnDisk)?;
    let system = budget.file_system().filter(|system| system.kind == TMPFS).ok_or(Refusal::OnDisk)?;
    if file_size_limit() < size_of::<Segment>() as u64 {
        return Err(Refusal::FileSize);
    }
    let budget_bytes = budget.bytes(system);
    let with_it = budget.taken(budget_bytes).bytes.saturating_add(room::FLOOR_BYTES);
    if with_it > budget_bytes { Err(Refusal::Budget) } else { Ok(()) }
}

/// Leaves word for the agent: `.refused-<why>-<pid>-<start time>`. Where that cannot be, nothing is said.
fn leave_marker(dir: &Path, refusal: Refusal, fixed: &Fixed) {
    let name = format!(".refused-{}-{}-{}", refusal.word(), fixed.pid, fixed.start_time_ns);
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(name));
}

fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid place for the answer.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::other(refusal.word())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::process::taken::MAX_ENTRIES;

    #[test]
    fn a_folder_of_too_many_entries_has_no_room() {
        let dir = std::path::PathBuf::from(format!("/dev/shm/ringscope-test-folder-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let before = check(&dir, u64::MAX);
        (0..=MAX_ENTRIES).for_each(|number| drop(fs::File::create(dir.join(number.to_string())).unwrap()));
        let after = check(&dir, u64::MAX);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!((before, after), (Ok(()), Err(Refusal::Budget)));
    }
}
