//! Whether the folder of segments has room for one more process. A collector that finds none leaves its job alone, so
//! nothing else would tell of that process.

use std::path::Path;

use ringscope_wire::segment::Segment;

use crate::words::size;

/// Why no process that starts now can be watched. `None`: the folder has room, or nothing can be said.
pub(super) fn lacks(dir: &Path) -> Option<String> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // File systems without a limit of files say that they have none.
    let is_out_of_files = stat.f_files > 0 && stat.f_favail == 0;
    lack(free, is_out_of_files).map(|lack| format!("{} {lack}", dir.display()))
}

fn lack(free: u64, is_out_of_files: bool) -> Option<String> {
    let needed = size_of::<Segment>() as u64;
    match free < needed {
        true => Some(format!("is full: {} free, a process needs {}", size(free), size(needed))),
        false => is_out_of_files.then(|| "is full: its file system can hold no more files".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_full_without_room_for_one_segment_or_one_file() {
        let needed = size_of::<Segment>() as u64;
        assert_eq!(lack(needed, false), None);
        assert!(lack(needed - 1, false).unwrap().starts_with("is full: "));
        assert!(lack(needed, true).unwrap().contains("no more files"));
        assert_eq!(lacks(Path::new("/nowhere")), None);
    }
}
