//! Whether the folder of segments has room for one more process, and which processes have found none ([`Refused`]).

use std::path::Path;
use std::time::{Duration, Instant};

use super::refused::Refused;
use crate::clock::Timestamp;
use crate::words::size;

/// What a process with few communicators takes.
const NEEDED_BYTES: u64 = 512 << 10;
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
            self.not_watched = self.refused.look(dir, now, wall).unwrap_or_default();
        }
    }
}

fn lacks(dir: &Path) -> Option<String> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // File systems without a limit of files say that they have none.
    let is_out_of_files = stat.f_files > 0 && stat.f_favail == 0;
    lack(free, is_out_of_files).map(|lack| format!("{} {lack}", dir.display()))
}

fn lack(free: u64, is_out_of_files: bool) -> Option<String> {
    match free < NEEDED_BYTES {
        true => Some(format!("is full: {} free, a process needs {}", size(free), size(NEEDED_BYTES))),
        false => is_out_of_files.then(|| "is full: its file system can hold no more files".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_full_without_room_for_one_segment_or_one_file() {
        assert_eq!(lack(NEEDED_BYTES, false), None);
        assert!(lack(NEEDED_BYTES - 1, false).unwrap().starts_with("is full: "));
        assert!(lack(NEEDED_BYTES, true).unwrap().contains("no more files"));
        assert_eq!(lacks(Path::new("/nowhere")), None);
    }

    #[test]
    fn the_folder_is_looked_at_once_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let start_ns = crate::agent::procfs::own_start_ns().unwrap();
        let own = dir.path().join(format!(".refused-on-disk-{}-{start_ns}", std::process::id()));
        std::fs::write(&own, "").unwrap();
        let (now, wall) = (crate::clock::monotonic(), crate::clock::now());
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
