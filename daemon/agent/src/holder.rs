//! Which process of this machine a segment belongs to, by the number that this agent knows it by: the one that holds the
//! lock of the file, as the kernel says. So a process in a container is found from outside, and one that has only got
//! the number of another is not taken for it.

use std::fs::File;
use std::io::Read as _;

use super::beneath::FileId;
use super::procfs::{Pid, Status};

/// A machine may have some thousand locks; a line has less than a hundred bytes.
const MAX_BYTES: u64 = 4 << 20;
/// A process may make its segment in the same second in which it started.
const SLACK_NS: u64 = 2_000_000_000;

/// The locks of this machine, as they were at one moment. Source: proc(5), `/proc/locks`.
#[derive(Default)]
pub(super) struct Locks(String);

impl Locks {
    pub(super) fn read() -> Self {
        let mut bytes = Vec::new();
        // Without them nobody is found.
        let _ = File::open("/proc/locks").and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
        Self(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Who holds the lock of a segment: `own_pid` as the process knows itself, that started at `start_ns`.
    pub(super) fn holder(&self, segment: FileId, own_pid: u32, start_ns: u64) -> Option<Pid> {
        self.pids(segment).into_iter().find_map(|number| {
            let pid = Pid::of(number)?;
            let is_it = Status::read(number)?.own_pid == own_pid
                && pid.stat()?.start_ns()? <= start_ns.saturating_add(SLACK_NS);
            is_it.then_some(pid)
        })
    }

    /// Whether the lock of a file is shared, as agents do theirs; who only asks for it has it alone. `None`: nobody is listed
    /// with it. He may be outside this container, or the list names the file's device otherwise than its metadata, as on btrfs.
    pub(super) fn is_shared(&self, file: FileId) -> Option<bool> {
        let held = self.held(file);
        (!held.is_empty()).then(|| held.iter().any(|(kind, _)| *kind == "READ"))
    }

    /// Holders of whole-file locks of this file.
    fn pids(&self, file: FileId) -> Vec<u32> {
        self.held(file).into_iter().filter_map(|(_, holder)| holder.parse().ok()).collect()
    }

    /// Whole-file locks of this file: READ or WRITE, and who holds it.
    fn held(&self, FileId { device, inode, .. }: FileId) -> Vec<(&str, &str)> {
        let file = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
        let held = |line| {
            let mut words = str::split_ascii_whitespace(line);
            // `1: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF`; one that waits has `->` after the number.
            let (lock, kind, holder) = (words.nth(1)?, words.nth(1)?, words.next()?);
            (lock == "FLOCK" && words.next()? == file).then_some((kind, holder))
        };
        self.0.lines().filter_map(held).collect()
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn who_holds_the_lock_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let id = FileId::of(&file.as_file().metadata().unwrap());
        let own = std::process::id();
        let now = ringscope_api::clock::now().0;
        assert_eq!(Locks::read().holder(id, own, now), None, "nobody holds it");
        flock(file.as_file(), FlockOperation::LockExclusive).unwrap();
        let locks = Locks::read();
        assert_eq!(locks.is_shared(id), Some(false), "it has it alone");
        assert_eq!(locks.holder(id, own, now), Pid::of(own));
        assert_eq!(locks.holder(id, own + 1, now), None, "the segment names another");
        let long_ago = 1_000_000_000;
        assert_eq!(locks.holder(id, own, long_ago), None, "the number is of a process that came later");
        assert_eq!(locks.holder(FileId { inode: id.inode + 1, ..id }, own, now), None);
    }

    #[test]
    fn lines_of_other_locks_are_passed_over() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let id = FileId::of(&file.path().metadata().unwrap());
        let (major, minor) = (rustix::fs::major(id.device), rustix::fs::minor(id.device));
        let name = format!("{major:02x}:{minor:02x}:{}", id.inode);
        let text = format!(
            "1: POSIX  ADVISORY  WRITE 1 {name} 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 2 {name} 0 EOF\n\
             2: FLOCK  ADVISORY  WRITE 3 00:00:1 0 EOF\n3: FLOCK  ADVISORY  WRITE 4 {name} 0 EOF\n\
             4: FLOCK\n5: FLOCK  ADVISORY  READ -1 {name} 0 EOF\n"
        );
        let locks = Locks(text);
        assert_eq!(locks.pids(id), [4]);
        assert_eq!(locks.is_shared(id), Some(true));
        assert_eq!(locks.is_shared(FileId { inode: id.inode + 1, ..id }), None, "nobody is listed with it");
    }
}
