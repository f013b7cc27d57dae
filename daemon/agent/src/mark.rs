//! Says in the folder that an agent reads what lies there, so that nobody removes what it has still to read
//! ([`super::sweep`]): a file `.agent-<user>`, locked for as long as the agent lives. It is also touched, for an agent that is
//! started again is away for a while. Its first line is where the agent sends to.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use ringscope_api::clock::Timestamp;
use rustix::fs::{Dir, FlockOperation, OFlags, Timespec, Timestamps, UTIME_NOW, flock, futimens};

use super::beneath::{FileId, own_folder};
use super::holder::Locks;
use super::regular;

/// Time between two tries to lock the file: somebody who asks whether it is locked holds it for a moment.
const INTERVAL: Duration = Duration::from_secs(1);
/// An agent that was there so short a time ago may come back: it is being started again, or brought up to date.
pub const AWAY: Duration = Duration::from_secs(600);
/// The user that the kernel shows in place of one that has no number here: a container may see root as this one.
const OVERFLOW_USER: u32 = 65_534;
const ROOT: u32 = 0;
const ROOT_GROUP: u32 = 0;
/// What is made in the folder gets its group. Source: `linux/stat.h`, `S_ISGID`.
const SET_GROUP: u32 = 0o2000;
/// Marks that are looked at: any user can leave some.
const MAX_MARKS: usize = 256;
/// Of a mark's first line: addresses of some daemons.
const MAX_LINE_BYTES: u64 = 4 << 10;
/// Looks at a lock that nobody is listed with, before it counts as an agent's.
const LOOKS: usize = 3;
/// Between two of them: who asks holds it for some microseconds.
const LOOKED_AT: Duration = Duration::from_millis(1);

/// The mark of an agent that lives.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    is_locked: bool,
    renewed: Option<Instant>,
}

impl Mark {
    /// Leaves it in the folder, for an agent that sends to `daemons`.
    pub(super) fn leave(dir: &Path, daemons: &str) -> io::Result<Self> {
        let user = rustix::process::geteuid().as_raw();
        let path = dir.join(name(user));
        // Not with `create`: the kernel may refuse to open a file for creation in a folder that is everybody's.
        let is_own = |metadata: &Metadata| {
            if metadata.uid() == user { Ok(()) } else { Err(io::Error::other("it is another user's")) }
        };
        let file = match regular::open_in(own_folder(dir)?, name(user), is_own) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(&path)?,
            Err(_) => {
                // Somebody else's. Where it cannot be removed, there is no mark.
                std::fs::remove_file(&path)?;
                create(&path)?
            }
        };
        // Where it cannot be written, nobody knows where this one sends to.
        let _ = write_line(&path, user, daemons);
        Ok(Self { file, is_locked: false, renewed: None })
    }

    /// Says that the agent goes on.
    pub(super) fn renew(&mut self, now: Instant) {
        if self.renewed.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            return;
        }
        self.renewed = Some(now);
        let at = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let _ = futimens(&self.file, &Timestamps { last_access: at, last_modification: at });
        if !self.is_locked {
            self.is_locked = flock(&self.file, FlockOperation::NonBlockingLockShared).is_ok();
        }
    }
}

fn name(user: u32) -> String {
    format!(".agent-{user}")
}

/// Writes the first line of a mark. What is behind it says nothing, and is not cut.
fn write_line(path: &Path, user: u32, line: &str) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    // Under another name it may be anything of this user's.
    if !metadata.is_file() || metadata.uid() != user || metadata.nlink() != 1 {
        return Err(io::Error::other("it is not the mark alone"));
    }
    file.write_all_at(format!("{line}\n").as_bytes(), 0)
}

fn create(path: &Path) -> io::Result<File> {
    // Others read it, to ask for its lock.
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(path)
}

/// Whether an agent reads this user's segments in the folder, or did a short while ago: his own, root's, or one of the group
/// that root has given the folder to.
pub(super) fn is_served(dir: BorrowedFd<'_>, user: u32, now: Timestamp) -> bool {
    is_marked(dir, user, |mark| {
        is_locked(mark) || mark.metadata().is_ok_and(|metadata| is_fresh(&metadata, now))
    })
}

/// Whether one of them reads them now.
pub(super) fn is_read(dir: BorrowedFd<'_>, user: u32) -> bool {
    is_marked(dir, user, |mark| is_locked(mark) && !is_askers(mark, &Locks::read()))
}

/// Whether somebody holds a lock there, be it one of them or, for a moment, somebody else who asks.
pub(super) fn is_held(dir: BorrowedFd<'_>, user: u32) -> bool {
    is_marked(dir, user, is_locked)
}

/// Where those send to that read this user's segments now; `None` where they do not say it.
pub(super) fn sends_to(dir: BorrowedFd<'_>, user: u32) -> Option<String> {
    let told = RefCell::new(None);
    is_marked(dir, user, |mark| {
        if is_locked(mark) {
            told.replace(first_line(mark));
        }
        told.borrow().is_some()
    });
    told.into_inner()
}

fn first_line(mark: &File) -> Option<String> {
    let mut bytes = Vec::new();
    mark.take(MAX_LINE_BYTES).read_to_end(&mut bytes).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = String::from_utf8(bytes[..end].to_vec()).ok()?;
    (!line.is_empty() && !line.chars().any(|c| c.is_control() || c.is_whitespace())).then_some(line)
}

/// Whether a lock is that of somebody else who asks: he holds it for a moment, and alone.
fn is_askers(mark: &File, locks: &Locks) -> bool {
    let is_shared = mark.metadata().ok().and_then(|metadata| locks.is_shared(FileId::of(&metadata)));
    let is_free = |_| {
        std::thread::sleep(LOOKED_AT);
        !is_locked(mark)
    };
    // Where nobody is listed: an agent's stays.
    is_shared.map_or_else(|| (0..LOOKS).any(is_free), |is_shared| !is_shared)
}

fn is_marked(dir: BorrowedFd<'_>, user: u32, says_so: impl Fn(&File) -> bool) -> bool {
    [user, ROOT].into_iter().any(|of| {
        // Nobody can say so for another user.
        let is_his = |metadata: &Metadata| {
            let is_his = metadata.uid() == of || of == ROOT && metadata.uid() == OVERFLOW_USER;
            if is_his { Ok(()) } else { Err(io::Error::other("it is another user's")) }
        };
        let Ok(file) = regular::open_in(dir, name(of), is_his) else { return false };
        says_so(&file)
    }) || agents_group(dir).is_some_and(|group| is_marked_by(dir, group, &says_so))
}

/// The group whose agents read all users' files here: the folder is root's and that group's, and what others make in it does
/// not get the group.
fn agents_group(dir: BorrowedFd<'_>) -> Option<u32> {
    let folder = rustix::fs::fstat(dir).ok()?;
    let is_given = folder.st_uid == ROOT && folder.st_gid != ROOT_GROUP && folder.st_mode & SET_GROUP == 0;
    is_given.then_some(folder.st_gid)
}

fn is_marked_by(dir: BorrowedFd<'_>, group: u32, says_so: impl Fn(&File) -> bool) -> bool {
    let is_its = |metadata: &Metadata| {
        if metadata.gid() == group { Ok(()) } else { Err(io::Error::other("it is another group's")) }
    };
    let entries = Dir::read_from(dir).into_iter().flatten().flatten();
    let marks = entries.filter(|entry| entry.file_name().to_bytes().starts_with(b".agent-")).take(MAX_MARKS);
    let mut marks = marks.filter_map(|mark| {
        let name = OsStr::from_bytes(mark.file_name().to_bytes());
        regular::open_in(dir, name, is_its).ok()
    });
    marks.any(|mark| says_so(&mark))
}

fn is_locked(file: &File) -> bool {
    // What is taken goes with the file.
    flock(file, FlockOperation::NonBlockingLockExclusive).is_err()
}

fn is_fresh(metadata: &Metadata, now: Timestamp) -> bool {
    let nanoseconds = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    // Clocks are set: what lies in the future counts as long as it is near.
    (i128::from(now.0) - nanoseconds).unsigned_abs() < AWAY.as_nanos()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn who_asks_whether_an_agent_reads_is_taken_for_none_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name(rustix::process::geteuid().as_raw()));
        let mark = create(&path).unwrap();
        let is_read =
            || is_read(own_folder(dir.path()).unwrap().as_fd(), rustix::process::geteuid().as_raw());
        assert!(!is_read(), "it was touched just now, and nobody has it");
        flock(&mark, FlockOperation::LockShared).unwrap();
        assert!(is_read());
        flock(&mark, FlockOperation::LockExclusive).unwrap();
        assert!(!is_read(), "who has it alone only asks");
    }

    #[test]
    fn a_lock_that_is_not_listed_is_an_agents_if_it_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mark");
        let (agents, mark) = (create(&path).unwrap(), File::open(&path).unwrap());
        flock(&agents, FlockOperation::LockShared).unwrap();
        let nowhere = Locks::default();
        assert!(!is_askers(&mark, &nowhere));
        flock(&agents, FlockOperation::Unlock).unwrap();
        assert!(is_askers(&mark, &nowhere), "nobody has it any more");
    }

    #[test]
    fn a_living_agent_says_where_it_sends_to() {
        let dir = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let sends_to = || sends_to(own_folder(dir.path()).unwrap().as_fd(), user);
        let mut mark = Mark::leave(dir.path(), "http://a-long-name:9440,http://b:1").unwrap();
        assert_eq!(sends_to(), None, "nobody holds it");
        mark.renew(ringscope_api::clock::monotonic());
        assert_eq!(sends_to().as_deref(), Some("http://a-long-name:9440,http://b:1"));
        let mut next = Mark::leave(dir.path(), "http://c:1").unwrap();
        next.renew(ringscope_api::clock::monotonic());
        assert_eq!(sends_to().as_deref(), Some("http://c:1"));
        let path = dir.path().join(name(user));
        for nothing in ["", "no line", "a b\n", "\u{1b}[2J\n"] {
            std::fs::write(&path, nothing).unwrap();
            assert_eq!(sends_to(), None, "{nothing:?}");
        }
    }

    #[test]
    fn who_only_asks_holds_the_lock_too() {
        let dir = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let mark = create(&dir.path().join(name(user))).unwrap();
        let is_held = || is_held(own_folder(dir.path()).unwrap().as_fd(), user);
        assert!(!is_held(), "nobody has it");
        for operation in [FlockOperation::LockShared, FlockOperation::LockExclusive] {
            flock(&mark, operation).unwrap();
            assert!(is_held());
        }
    }

    #[test]
    fn an_agent_of_the_folders_group_serves_everybody_and_nobody_else_says_so() {
        const GROUP: u32 = 4711;
        let dir = tempfile::tempdir().unwrap();
        if chown(dir.path(), Some(ROOT), Some(GROUP)).is_err() {
            println!("not root: nothing can be given to another user, so this is not tried");
            return;
        }
        let mark = dir.path().join(".agent-998");
        File::create(&mark).unwrap();
        let is_served =
            || is_served(own_folder(dir.path()).unwrap().as_fd(), 1000, ringscope_api::clock::now());
        for (user, group, expected) in [(998, 100, false), (998, GROUP, true)] {
            chown(&mark, Some(user), Some(group)).unwrap();
            assert_eq!(is_served(), expected, "group {group}");
        }
        chown(dir.path(), Some(1001), Some(GROUP)).unwrap();
        assert!(!is_served(), "root has not given it to the group");
    }
}
