use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{Fixed, MAGIC, VERSION};
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_OMIT, flock, futimens};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::*;
use crate::mark::Mark;

const RUN: &str = "0f3a";
/// Above what the kernel gives.
const NOBODY: u32 = 4_200_000;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> File {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(self.0.path().join(name));
        let file = file.unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    /// A segment of the run, whose process is gone.
    fn segment(&self, pid: u32, run: &str, version: u32) -> File {
        let mut fixed = Fixed::new_zeroed();
        (fixed.magic, fixed.version, fixed.pid, fixed.start_time_ns) = (MAGIC, version, pid, 77);
        fixed.segment_bytes = size_of::<Segment>() as u64;
        fixed.run_id[..run.len()].copy_from_slice(run.as_bytes());
        let file = self.write(&format!("{pid}-77.seg"), fixed.as_bytes());
        file.set_len(fixed.segment_bytes).unwrap();
        file
    }

    /// The folder's files after a sweep at this time, and how many it removed.
    fn swept(&self, now: Timestamp) -> (Vec<String>, usize) {
        let swept = sweep(self.0.path(), now);
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut left: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        (left, swept.files)
    }
}

fn later(seconds: u64) -> Timestamp {
    Timestamp(ringscope_api::clock::now().0 + seconds * 1_000_000_000)
}

#[test]
fn what_the_dead_left_goes_and_what_the_living_have_stays() {
    let folder = Folder::new();
    folder.segment(NOBODY, RUN, VERSION);
    folder.write(&format!("nccl-{RUN}-node-{NOBODY}.log"), b"lines");
    folder.write(&format!("run-{RUN}.json"), b"{}");
    // Another version's.
    folder.segment(NOBODY + 1, "", VERSION + 1);
    let living = folder.segment(NOBODY + 2, "beef", VERSION);
    flock(&living, FlockOperation::LockExclusive).unwrap();
    folder.write(&format!("nccl-beef-node-{}.log", NOBODY + 2), b"lines");
    folder.write("run-beef.json", b"{}");
    let beef = [format!("{}-77.seg", NOBODY + 2), format!("nccl-beef-node-{}.log", NOBODY + 2)];
    let beef = [&beef[..], &["run-beef.json".to_owned()]].concat();
    // Both runs' logs may lie in the user's folder.
    std::fs::create_dir(folder.0.path().join("logs-1")).unwrap();
    folder.write(&format!("logs-1/nccl-{RUN}-node-{NOBODY}.log"), b"lines");
    let log = format!("logs-1/nccl-beef-node-{}.log", NOBODY + 2);
    folder.write(&log, b"lines");
    let beef = [&beef[..1], &["logs-1".to_owned()], &beef[1..]].concat();
    assert_eq!(folder.swept(later(3)), (beef.clone(), 5));
    assert_eq!(folder.swept(later(100_000)), (beef, 0), "however old");
    assert!(folder.0.path().join(&log).exists());
    drop(living);
    assert_eq!(folder.swept(later(3)), (vec!["logs-1".to_owned()], 4));
    assert!(!folder.0.path().join(&log).exists());
}

#[test]
fn a_log_that_was_just_written_stays_for_who_copies_it() {
    let folder = Folder::new();
    folder.segment(NOBODY, RUN, VERSION);
    let log = format!("nccl-{RUN}-node-{NOBODY}.log");
    folder.write(&log, b"lines");
    folder.write(&format!("run-{RUN}.json"), b"{}");
    let left = vec![log, format!("run-{RUN}.json")];
    assert_eq!(folder.swept(later(0)), (left.clone(), 1));
    // It has no segment any more, and its process may be in another container.
    assert_eq!(folder.swept(later(60)), (left, 0));
    assert_eq!(folder.swept(later(700)), (vec![], 2));
}

#[test]
fn what_is_not_a_segment_by_name_and_head_and_owner_stays() {
    let folder = Folder::new();
    let elsewhere = Folder::new();
    elsewhere.segment(NOBODY, RUN, VERSION);
    symlink(
        elsewhere.0.path().join(format!("{NOBODY}-77.seg")),
        folder.0.path().join(format!("{NOBODY}-77.seg")),
    )
    .unwrap();
    std::fs::create_dir(folder.0.path().join("7-7.seg")).unwrap();
    folder.write("8-7.seg", b"");
    folder.write("notes.txt", b"mine");
    // The name is another process's, and one has not its length.
    folder.segment(NOBODY + 1, RUN, VERSION);
    let path = |pid: u32| folder.0.path().join(format!("{pid}-77.seg"));
    std::fs::rename(path(NOBODY + 1), path(NOBODY + 2)).unwrap();
    folder.segment(NOBODY + 3, RUN, VERSION).set_len(4096).unwrap();
    std::fs::set_permissions(folder.0.path(), Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(folder.swept(later(100_000)).1, 0);
    assert!(elsewhere.0.path().join(format!("{NOBODY}-77.seg")).exists());
}

#[test]
fn while_an_agent_reads_and_a_while_longer_nothing_goes() {
    let folder = Folder::new();
    folder.segment(NOBODY, RUN, VERSION);
    let mut mark = Mark::leave(folder.0.path(), "http://d:1").unwrap();
    mark.renew(ringscope_api::clock::monotonic());
    assert_eq!(folder.swept(later(3)).1, 0);
    assert_eq!(folder.swept(later(100_000)).1, 0, "also one that was stopped for a day");
    drop(mark);
    assert_eq!(folder.swept(later(300)).1, 0, "it is being started again");
    assert_eq!(
        folder.swept(later(700)),
        (vec![format!(".agent-{}", rustix::process::geteuid().as_raw())], 1)
    );
    // The next one finds the mark of the one before.
    Mark::leave(folder.0.path(), "http://d:1").unwrap();
}

#[test]
fn what_processes_without_a_segment_left_goes_when_it_is_old_and_they_are_gone() {
    let folder = Folder::new();
    let own = std::process::id();
    for pid in [own, NOBODY] {
        folder.write(&format!(".refused-budget-{pid}-7"), b"");
        folder.write(&format!(".{pid}-7.new"), b"");
        folder.write(&format!("nccl-{pid:x}-node-{pid}.log"), b"");
        folder.write(&format!("run-{pid:x}.json"), format!("{{\"pid\":{pid}}}").as_bytes());
    }
    assert_eq!(folder.swept(later(60)).1, 0);
    assert_eq!(folder.swept(later(700)).1, 4);
    let (left, removed) = folder.swept(later(700));
    assert_eq!((left.len(), removed), (4, 0), "{left:?}");
}

#[test]
fn a_clock_that_was_set_keeps_nothing_for_ever() {
    let folder = Folder::new();
    folder.segment(NOBODY, RUN, VERSION);
    let mark = folder.write(&format!(".agent-{}", rustix::process::geteuid().as_raw()), b"");
    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let future = Timespec { tv_sec: i64::try_from(later(100_000).0 / 1_000_000_000).unwrap(), tv_nsec: 0 };
    futimens(&mark, &Timestamps { last_access: omitted, last_modification: future }).unwrap();
    assert_eq!(folder.swept(later(0)).1, 1);
}

/// What is left of the folder after a sweep as root's epilog asks for it.
fn swept_of(folder: &Folder, whose: Whose) -> (Vec<String>, usize) {
    let swept = sweep_of(folder.0.path(), whose, later(100_000)).unwrap().unwrap();
    let entries = std::fs::read_dir(folder.0.path()).unwrap();
    let mut left: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    (left, swept.files)
}

#[test]
fn of_one_job_only_what_says_that_it_is_its_goes() {
    let folder = Folder::new();
    let user = rustix::process::geteuid().as_raw();
    for (number, job) in [(0, "slurm-7"), (1, "slurm-7.1"), (2, "slurm-70"), (3, "slurm-7_1"), (4, "")] {
        let run = format!("{number}");
        folder.segment(NOBODY + number, &run, VERSION).write_all_at(job.as_bytes(), JOB_OFFSET).unwrap();
        folder.write(&format!("nccl-{run}-node-{}.log", NOBODY + number), b"lines");
        folder.write(&format!("run-{run}.json"), b"{}");
    }
    // Of nobody knows which job.
    folder.write(&format!("nccl-9-node-{}.log", NOBODY + 9), b"lines");
    folder.write("run-9.json", b"{}");
    let whose = |is_dry| Whose { user, job: Some("slurm-7".to_owned()), is_dry };
    assert_eq!(swept_of(&folder, whose(true)).1, 6);
    let (left, files) = swept_of(&folder, whose(false));
    assert_eq!((left.len(), files), (3 * 3 + 2, 6), "{left:?}");
    assert!(!left.iter().any(|name| name.contains("-0") || name.contains("-1.") || name.contains("-1-")));
    assert_eq!(swept_of(&folder, Whose { user, ..Whose::default() }), (Vec::new(), 11));
}

#[test]
fn files_of_another_user_are_not_this_ones() {
    let folder = Folder::new();
    folder.segment(NOBODY, RUN, VERSION);
    let other = rustix::process::geteuid().as_raw() + 1;
    let (left, files) = swept_of(&folder, Whose { user: other, ..Whose::default() });
    assert_eq!((left.len(), files), (1, 0));
}

#[test]
fn what_root_removes_of_a_user_is_that_users_and_nothing_behind_a_link() {
    let folder = Folder::new();
    let user = 65_534;
    let chown = |path: &Path| std::os::unix::fs::lchown(path, Some(user), Some(user)).is_ok();
    let path = |name: &str| folder.0.path().join(name);
    folder.segment(NOBODY, RUN, VERSION);
    if !chown(&path(&format!("{NOBODY}-77.seg"))) {
        eprintln!("not root: nothing can be given to another user, so this is not tried");
        return;
    }
    // Root's own, and names of the user's that lead to it.
    folder.segment(NOBODY + 1, "root", VERSION);
    let of_root = path(&format!("{}-77.seg", NOBODY + 1));
    symlink(&of_root, path(&format!("{}-77.seg", NOBODY + 2))).unwrap();
    std::fs::hard_link(&of_root, path(&format!("{}-77.seg", NOBODY + 3))).unwrap();
    assert!(chown(&path(&format!("{}-77.seg", NOBODY + 2))));
    let elsewhere = tempfile::tempdir().unwrap();
    let beyond = elsewhere.path().join(format!("nccl-{RUN}-node-{NOBODY}.log"));
    std::fs::write(&beyond, b"lines").unwrap();
    assert!(chown(&beyond) && chown(elsewhere.path()));
    symlink(elsewhere.path(), path("logs-65534")).unwrap();
    assert!(chown(&path("logs-65534")));
    let (left, files) = swept_of(&folder, Whose { user, ..Whose::default() });
    assert_eq!((left.len(), files), (4, 1), "{left:?}");
    assert!(of_root.exists() && beyond.exists());
}

/// Where a segment says its job.
const JOB_OFFSET: u64 = std::mem::offset_of!(Fixed, job) as u64;
