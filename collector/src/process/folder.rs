//! Whether one more segment may lie in the folder, and what is left there where it may not.
//!
//! A segment is written as memory is. So its file must be in memory: on a disk a write waits for the disk, and where that
//! is frozen the job's own thread would wait with it. So it would for a file server that is gone, whatever is asked of it:
//! [`mounts`] tells what must not even be asked.

#![expect(unsafe_code, reason = "asks the system about limits and file systems")]

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::Fixed;

use super::config::{Config, DEFAULT_DIR};
use super::{file, mounts};

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

/// Whether a segment may be made in the folder, which exists; `budget_bytes` is what all of it may take.
fn check(dir: &Path, budget_bytes: u64) -> Result<(), Refusal> {
    if !is_memory(dir) {
        return Err(Refusal::OnDisk);
    }
    if file_size_limit() < size_of::<Segment>() as u64 {
        return Err(Refusal::FileSize);
    }
    let budget = budget_bytes.min(size(dir) / MAX_SHARE);
    if taken(dir, budget) >= budget { Err(Refusal::Budget) } else { Ok(()) }
}

/// The share of a file system that segments may take: what else lies in it is the job's.
const MAX_SHARE: u64 = 4;

/// Leaves word for the agent: `.refused-<why>-<pid>-<start time>`. Where that cannot be, nothing is said.
fn leave_marker(dir: &Path, refusal: Refusal, fixed: &Fixed) {
    let name = format!(".refused-{}-{}-{}", refusal.word(), fixed.pid, fixed.start_time_ns);
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(name));
}

fn is_memory(dir: &Path) -> bool {
    let Ok(path) = CString::new(dir.as_os_str().as_bytes()) else { return false };
    let mut stat = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: a terminated path and a valid place for the answer.
    if unsafe { libc::statfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: filled by the call that succeeded.
    let kind = unsafe { stat.assume_init() }.f_type;
    // The field is of another width and sign on each architecture; the numbers have 32 bits.
    matches!(u32::try_from(kind & 0xffff_ffff), Ok(TMPFS))
}

/// Bytes of the file system; without a limit where it has none.
fn size(dir: &Path) -> u64 {
    let Ok(path) = CString::new(dir.as_os_str().as_bytes()) else { return u64::MAX };
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a terminated path and a valid place for the answer.
    if unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return u64::MAX;
    }
    // SAFETY: filled by the call that succeeded.
    let stat = unsafe { stat.assume_init() };
    match stat.f_blocks.saturating_mul(stat.f_frsize) {
        0 => u64::MAX,
        bytes => bytes,
    }
}

/// Entries of the folder that are looked at: more than the budget has segments. Everybody may leave something there, and who
/// leaves more takes the room of others, but not their time.
const MAX_ENTRIES: usize = 16_384;

/// Bytes that the folder's segments take, counted no further than to the limit, which a folder of too many entries has passed.
fn taken(dir: &Path, limit: u64) -> u64 {
    let mut bytes = 0_u64;
    for (index, entry) in fs::read_dir(dir).into_iter().flatten().flatten().enumerate() {
        if index == MAX_ENTRIES {
            return limit;
        }
        if !entry.file_name().as_bytes().ends_with(b".seg") {
            continue;
        }
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(BLOCK_BYTES));
        }
        if bytes >= limit {
            break;
        }
    }
    bytes
}

/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

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
    use super::*;

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
