//! What all segments of the folder may take together, and whether this process's may take more: `RINGSCOPE_BUDGET_MIB`, and never
//! more than a quarter of the file system, for the rest is the job's.
//!
//! A segment that grows asks on the job's own threads. It may take three quarters of the budget: the last one is for processes that are
//! yet to come, and for what several were allowed at the same moment. Most of the time the file system itself says that
//! little is in use; only where it is not so is the folder looked through ([`taken`]). Each answer holds for a while, the shorter the
//! less is left. Nothing here allocates or locks, and no call is one at which a thread may be cancelled.

#![expect(unsafe_code, reason = "asks the system about a folder, a file system and a limit")]

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::config::Config;
use super::taken::{self, Taken};

/// The share of a file system that segments may take: what else lies in it is the job's.
const MAX_SHARE: u64 = 4;
/// The least that is allowed at once: a page.
const MIN_CREDIT_BYTES: u64 = 4096;
/// The most: a segment that comes to its full length has asked some 60 times.
const MAX_CREDIT_BYTES: u64 = 256 << 10;
/// Where only the file system is asked, nobody knows among how many processes the rest is shared: among so many.
const MANY_PROCESSES: u64 = 1024;

/// Where the segments lie and what all of them may take, as the settings say it.
pub(super) struct Budget {
    dir: CString,
    bytes: u64,
}

/// What a file system has.
#[derive(Clone, Copy)]
pub(super) struct FileSystem {
    /// `f_type`.
    pub(super) kind: u32,
    /// Without a limit where it has none.
    pub(super) size_bytes: u64,
    /// By whomever.
    pub(super) used_bytes: u64,
}

/// This process's, once it has begun to make a segment.
static OURS: AtomicPtr<Budget> = AtomicPtr::new(null_mut());

impl Budget {
    /// Of a folder; `None` if its name cannot be one.
    pub(super) fn new(dir: &Path, bytes: u64) -> Option<Self> {
        let dir = std::path::absolute(dir).ok()?;
        Some(Self { dir: CString::new(dir.as_os_str().as_bytes()).ok()?, bytes })
    }

    /// The one that the folder lies on.
    pub(super) fn file_system(&self) -> Option<FileSystem> {
        FileSystem::of(&self.dir)
    }

    /// Bytes that all segments may take.
    pub(super) fn bytes(&self, system: FileSystem) -> u64 {
        self.bytes.min(system.size_bytes / MAX_SHARE)
    }

    /// What the folder's segments take, counted no further than that.
    pub(super) fn taken(&self, limit_bytes: u64) -> Taken {
        taken::in_folder(&self.dir, limit_bytes)
    }

    /// How many more bytes one segment may take now.
    fn grant(&self) -> u64 {
        let Some(system) = self.file_system() else { return 0 };
        let limit_bytes = self.bytes(system) / 4 * 3;
        if system.used_bytes < limit_bytes {
            return credit(limit_bytes - system.used_bytes, MANY_PROCESSES);
        }
        let taken = self.taken(limit_bytes);
        credit(limit_bytes.saturating_sub(taken.bytes), taken.n_segments + 1)
    }

    /// Whether the segments take more than they may. What one that is being made takes counts too, so of those that are made at the
    /// same moment only as many stay as there is room for.
    pub(super) fn is_exceeded(&self) -> bool {
        let Some(system) = self.file_system() else { return false };
        let bytes = self.bytes(system);
        system.used_bytes > bytes && self.taken(bytes.saturating_add(1)).bytes > bytes
    }
}

/// What one of so many processes may take of what is left: even if each has been told so by now, a quarter of it.
fn credit(left_bytes: u64, n_processes: u64) -> u64 {
    if left_bytes < MIN_CREDIT_BYTES {
        return 0;
    }
    (left_bytes / n_processes.max(1) / 4).clamp(MIN_CREDIT_BYTES, MAX_CREDIT_BYTES)
}

/// From now on the process's segment grows within these settings. They are kept for good: a thread may be asking by older ones.
pub(super) fn set(config: &Config) {
    let Some(budget) = Budget::new(&config.dir, config.budget_bytes) else { return };
    let is_known = ours().is_some_and(|ours| ours.dir == budget.dir && ours.bytes == budget.bytes);
    if !is_known {
        OURS.store(Box::into_raw(Box::new(budget)), Release);
    }
}

fn ours() -> Option<&'static Budget> {
    // SAFETY: null, or a box that is never freed nor changed.
    unsafe { OURS.load(Acquire).as_ref() }
}

/// A [`crate::segment::room::Grant`].
pub(super) fn grant() -> u64 {
    ours().map_or(MAX_CREDIT_BYTES, Budget::grant)
}

impl FileSystem {
    /// The one that this folder lies on.
    fn of(dir: &CStr) -> Option<Self> {
        let mut stat = MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: a terminated path and a valid place for the answer.
        if unsafe { libc::statfs(dir.as_ptr(), stat.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: filled by the call that succeeded.
        let stat = unsafe { stat.assume_init() };
        // The fields are of another width and sign on each architecture; the numbers of kinds have 32 bits.
        let kind = u32::try_from(stat.f_type & 0xffff_ffff).ok()?;
        let block_bytes = u64::try_from(stat.f_bsize).unwrap_or_default();
        let bytes = |blocks: u64| blocks.saturating_mul(block_bytes);
        let used_bytes = bytes(stat.f_blocks.saturating_sub(stat.f_bfree));
        let size_bytes = if stat.f_blocks == 0 { u64::MAX } else { bytes(stat.f_blocks) };
        Some(Self { kind, size_bytes, used_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_at_once_is_a_part_of_what_is_left() {
        let mib = 1 << 20;
        for (left, n_processes) in [(12 * mib, 8), (12 * mib, 200), (mib, 60), (192 * mib, 512)] {
            let all = credit(left, n_processes) * n_processes;
            assert!(all <= (left / 4).max(n_processes * MIN_CREDIT_BYTES), "{left} {n_processes}: {all}");
        }
        assert_eq!(credit(MIN_CREDIT_BYTES - 1, 1), 0);
        assert_eq!(credit(MIN_CREDIT_BYTES, 99), MIN_CREDIT_BYTES);
        assert_eq!(credit(u64::MAX, 1), MAX_CREDIT_BYTES);
    }
}
