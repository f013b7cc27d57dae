//! Whether the folder of segments has room for one more process. A collector that finds none leaves its job alone, and a
//! marker in the folder, `.refused-<why>-<pid>-<start time>`: nothing else would tell of that process.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::words::size;

/// What a process with few communicators takes.
const NEEDED_BYTES: u64 = 512 << 10;
/// Markers looked at each time.
const MAX_MARKERS: usize = 1000;
/// Time between two looks at the folder: batches may follow each other faster.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the folder lacks, as it was seen last.
#[derive(Debug, Default)]
pub(super) struct Room {
    looked: Option<Instant>,
    lack: Option<String>,
}

impl Room {
    /// Why no process that starts now can be watched. `None`: the folder has room, or nothing can be said.
    pub(super) fn lacks(&mut self, dir: &Path, now: Instant) -> Option<&str> {
        if self.looked.is_none_or(|at| now.saturating_duration_since(at) >= INTERVAL) {
            (self.looked, self.lack) = (Some(now), lacks(dir));
        }
        self.lack.as_deref()
    }
}

fn lacks(dir: &Path) -> Option<String> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // File systems without a limit of files say that they have none.
    let is_out_of_files = stat.f_files > 0 && stat.f_favail == 0;
    lack(free, is_out_of_files).or_else(|| refused(dir)).map(|lack| format!("{} {lack}", dir.display()))
}

/// Why collectors refused, by the word in the marker's name.
const REASONS: [(&str, &str); 3] = [
    (
        "budget",
        "has as many bytes of segments as it may have: remove those of dead processes, or raise RINGSCOPE_BUDGET_MIB",
    ),
    (
        "file-size",
        "was not used by processes that may not have files of its segments' length: raise ulimit -f",
    ),
    ("on-disk", "lies on a disk, which could hold up the job: set RINGSCOPE_DIR to a folder on tmpfs"),
];

/// What the markers of processes that are still there say. The others are removed.
fn refused(dir: &Path) -> Option<String> {
    let mut counts = BTreeMap::new();
    for entry in std::fs::read_dir(dir).ok()?.flatten().take(MAX_MARKERS) {
        let name = entry.file_name();
        let Some((reason, pid)) = name.to_str().and_then(marker) else { continue };
        if Path::new("/proc").join(pid.to_string()).exists() {
            *counts.entry(reason).or_insert(0_usize) += 1;
        } else {
            // Another user's stays, until he looks.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let (reason, n) = counts.into_iter().max_by_key(|(_, n)| *n)?;
    let (_, words) = REASONS.iter().find(|(word, _)| *word == reason)?;
    let processes = if n == 1 { "process is" } else { "processes are" };
    Some(format!("{words}; {n} {processes} not watched"))
}

/// The reason and the process in a marker's name.
pub(super) fn marker(name: &str) -> Option<(&'static str, u32)> {
    let rest = name.strip_prefix(".refused-")?;
    let (reason, rest) =
        REASONS.iter().find_map(|(word, _)| Some((*word, rest.strip_prefix(word)?.strip_prefix('-')?)))?;
    let (pid, start) = rest.split_once('-')?;
    start.parse::<u64>().ok()?;
    Some((reason, pid.parse().ok()?))
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
    fn markers_of_living_processes_are_told_and_others_removed() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join(format!(".refused-on-disk-{}-7", std::process::id()));
        let gone = dir.path().join(format!(".refused-budget-{}-7", u32::MAX));
        let foreign = dir.path().join(".refused-by-me");
        for path in [&own, &gone, &foreign] {
            std::fs::write(path, "").unwrap();
        }
        let told = refused(dir.path()).unwrap();
        assert!(told.starts_with("lies on a disk") && told.ends_with("; 1 process is not watched"), "{told}");
        assert_eq!((own.exists(), gone.exists(), foreign.exists()), (true, false, true));
        let now = crate::clock::monotonic();
        let mut room = Room::default();
        assert!(room.lacks(dir.path(), now).is_some());
        std::fs::remove_file(own).unwrap();
        assert_eq!(refused(dir.path()), None);
        assert!(room.lacks(dir.path(), now + INTERVAL / 2).is_some(), "looked at once a second");
        assert_eq!(room.lacks(dir.path(), now + INTERVAL), None);
    }
}
