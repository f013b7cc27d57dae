//! Whether the folder of segments has room for one more process, which processes have found none ([`Refused`]), and which of
//! those that have ended must make room.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringscope_api::clock::Timestamp;
use ringscope_api::words::size;

use super::lacks;
use super::refused::{self, Reason, Refused};

/// What a process with few communicators takes.
const NEEDED_BYTES: u64 = 512 << 10;
/// The part of the file system that the files of ended processes may take: collectors take no more than a quarter.
const ENDED_SHARE: u64 = 16;
/// Unit of `st_blocks`.
pub(super) const BLOCK_BYTES: u64 = 512;
/// Time between two looks at the folder: batches may follow each other faster.
const INTERVAL: Duration = Duration::from_secs(1);

/// How the folder is, as it was seen last.
#[derive(Debug, Default)]
pub(super) struct Room {
    looked: Option<Instant>,
    refused: Refused,
    /// Why no process that starts now can be watched. Empty: the folder has room, or nothing can be said.
    pub(super) lack: String,
    /// Processes that run and are not watched, and why. Empty: none is known.
    pub(super) not_watched: String,
}

impl Room {
    /// Looks at the folder, unless it did so lately.
    pub(super) fn look(&mut self, dir: &Path, now: Instant, wall: Timestamp) {
        if self.looked.is_none_or(|at| now.saturating_duration_since(at) >= INTERVAL) {
            self.looked = Some(now);
            self.lack = lacks(dir).unwrap_or_default();
            let refused = self.refused.look(dir, now, wall);
            let lacks = [refused, owner_lack(dir)].into_iter().flatten().collect::<Vec<_>>();
            self.not_watched = lacks.join("; ");
        }
    }
}

/// What may go unseen because of whose folder it is.
fn owner_lack(dir: &Path) -> Option<String> {
    let folder = dir.metadata().ok()?;
    // Where nobody else writes nobody else has anything.
    let is_shared = folder.mode() & 0o022 != 0;
    let agent = rustix::process::geteuid().as_raw();
    is_shared.then(|| lacks::of_owner(dir, folder.uid(), agent)).flatten()
}

/// Bytes that the files of ended processes may take in this folder, of `bytes` at most.
pub(super) fn for_ended(dir: &Path, bytes: u64) -> u64 {
    let size = rustix::fs::statvfs(dir).map_or(0, |stat| stat.f_blocks.saturating_mul(stat.f_frsize));
    // A file system without a limit says zero.
    if size == 0 { bytes } else { bytes.min(size / ENDED_SHARE) }
}

/// Those of the `ended` processes whose files have no room in so many bytes, the first that ended. Each with when that was,
/// its segment, and the bytes of its files.
pub(super) fn beyond(mut ended: Vec<(Instant, &Path, u64)>, bytes: u64) -> BTreeSet<PathBuf> {
    ended.sort_unstable_by(|one, other| other.cmp(one));
    let mut taken = 0_u64;
    let has_no_room = |&(_, _, more): &(Instant, &Path, u64)| {
        taken = taken.saturating_add(more);
        taken > bytes
    };
    ended.into_iter().filter(has_no_room).map(|(_, path, _)| path.to_owned()).collect()
}

/// Bytes that a file takes.
pub(super) fn taken(file: io::Result<Metadata>) -> u64 {
    file.map_or(0, |metadata| metadata.blocks().saturating_mul(BLOCK_BYTES))
}

/// Why no process that starts now can be watched, and what to do, as of "because"; `None`: the folder has room, or nothing can
/// be said.
pub fn lacks(dir: &Path) -> Option<String> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // File systems without a limit of files say that they have none.
    let is_out_of_files = stat.f_files > 0 && stat.f_favail == 0;
    if !refused::is_memory(dir) {
        return Some(Reason::OnDisk.words(dir, refused::file_system_bytes(dir)));
    }
    lack(free, is_out_of_files).map(|lack| format!("{} {lack}", dir.display()))
}

fn lack(free: u64, is_out_of_files: bool) -> Option<String> {
    let why = match free < NEEDED_BYTES {
        true => format!("{} free, a process needs {}", size(free), size(NEEDED_BYTES)),
        false if is_out_of_files => "its file system can hold no more files".to_owned(),
        false => return None,
    };
    Some(format!(
        "is full ({why}): make room there, or give it a bigger file system (--shm-size of the container)"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_is_full_without_room_for_one_segment_or_one_file() {
        assert_eq!(lack(NEEDED_BYTES, false), None);
        assert!(lack(NEEDED_BYTES - 1, false).unwrap().starts_with("is full ("));
        assert!(lack(NEEDED_BYTES, true).unwrap().contains("no more files"));
        assert_eq!(lacks(Path::new("/nowhere")), None);
        assert!(lacks(Path::new("/proc")).unwrap().starts_with("/proc lies on a disk"), "no tmpfs");
    }

    #[test]
    fn the_first_that_ended_make_room() {
        let now = ringscope_api::clock::monotonic();
        let ended = |after: u64, name, bytes| (now + Duration::from_secs(after), Path::new(name), bytes);
        let all = vec![ended(2, "c", 10), ended(0, "a", 1), ended(3, "d", 10), ended(1, "b", 10)];
        let gone = |bytes| {
            beyond(all.clone(), bytes).into_iter().map(|path| path.display().to_string()).collect::<String>()
        };
        assert_eq!(
            ["abcd", "abcd", "abc", "ab", "a", ""],
            [0, 9, 19, 20, 30, 31].map(gone).each_ref().map(String::as_str)
        );
        let shm = Path::new("/dev/shm");
        assert!((0..=10).contains(&for_ended(shm, 10)));
        assert!(for_ended(shm, u64::MAX) < u64::MAX, "a part of the file system");
    }

    #[test]
    fn a_folder_of_another_users_is_said_until_it_is_roots() {
        let dir = tempfile::tempdir().unwrap();
        let (now, wall) = (ringscope_api::clock::monotonic(), ringscope_api::clock::now());
        let mut room = Room::default();
        // Only root gives a folder away.
        if std::os::unix::fs::chown(dir.path(), Some(4711), None).is_ok() {
            room.look(dir.path(), now, wall);
            assert_eq!(room.not_watched, "", "one that is his alone");
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
            room.look(dir.path(), now + INTERVAL, wall);
            assert!(room.not_watched.contains("belongs to the user 4711"), "{}", room.not_watched);
            std::os::unix::fs::chown(dir.path(), Some(0), None).unwrap();
        }
        room.look(dir.path(), now + 2 * INTERVAL, wall);
        assert_eq!(room.not_watched, "");
    }

    #[test]
    fn the_folder_is_looked_at_once_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let start_ns = crate::procfs::own_start_ns().unwrap();
        let own = dir.path().join(format!(".refused-on-disk-{}-{start_ns}", std::process::id()));
        std::fs::write(&own, "").unwrap();
        let (now, wall) = (ringscope_api::clock::monotonic(), ringscope_api::clock::now());
        let mut room = Room::default();
        room.look(dir.path(), now, wall);
        assert!(room.not_watched.starts_with("1 process is not watched"), "{}", room.not_watched);
        std::fs::remove_file(own).unwrap();
        room.look(dir.path(), now + INTERVAL / 2, wall);
        assert!(!room.not_watched.is_empty());
        room.look(dir.path(), now + INTERVAL, wall);
        assert_eq!(room.not_watched, "");
    }
}
