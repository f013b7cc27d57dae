//! Processes that run without a segment, for the collector was refused one. It leaves its job alone, and a marker in the
//! folder, `.refused-<why>-<pid>-<start time>`: nothing else would tell of that process.
//!
//! A marker is a claim, and any user may make one. It counts while a process of the marker's owner has that number, in its
//! own pid namespace, and that start. One whose process may be where this agent does not see it counts for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{clock, size};

use super::beneath::{FileId, Found, own_folder};
use super::folder_file::remove_at;
use super::procfs::{self, Pid, Status};

/// Markers looked at each time.
const MAX_MARKERS: usize = 1000;
/// Those of one user.
const MAX_MARKERS_PER_USER: usize = 250;
/// Processes among which those of markers are looked for.
const MAX_PROCESSES: usize = 1 << 16;
/// Time between two searches among all processes.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);
/// For so long a marker counts whose process may be in another container.
const KEPT: Duration = Duration::from_secs(600);
/// Start times are right to a second against another boot time.
const SLACK_NS: u64 = 2_000_000_000;
/// The pid namespace of the machine itself. Source: `linux/proc_ns.h`, `PROC_PID_INIT_INO`.
const ALL_PROCESSES: &str = "pid:[4026531836]";

/// What segments of a folder may take together, unless the job's environment says otherwise: as the collector has it.
const DEFAULT_BUDGET_BYTES: u64 = 256 << 20;
/// The share of a file system that segments may take: as the collector has it.
const MAX_SHARE: u64 = 4;

/// Why a collector was refused a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The folder has as many bytes of segments as it may have.
    Budget,
    /// The process may have no file of that length.
    FileSize,
    /// The file system of the folder had no room.
    Full,
    /// The folder is not in memory.
    OnDisk,
}

impl Reason {
    const ALL: [(Self, &str); 4] = [
        (Self::Budget, "budget"),
        (Self::FileSize, "file-size"),
        (Self::Full, "full"),
        (Self::OnDisk, "on-disk"),
    ];

    /// What is wrong with the folder and what to do, as of "because". `bytes`: the size of its file system.
    pub fn words(self, dir: &Path, bytes: u64) -> String {
        let folder = dir.display();
        match self {
            Self::Budget => budget_words(dir, bytes),
            Self::FileSize => {
                format!(
                    "{folder} needs longer files than their limit allows: raise ulimit -f before they start"
                )
            }
            Self::Full => {
                format!(
                    "{folder} was full when they started: make room there, or give it a bigger file system (--shm-size of \
                     the container)"
                )
            }
            // They have left word in the usual folder.
            Self::OnDisk if is_memory(dir) => {
                "their folder (RINGSCOPE_DIR, --dir) lies on a disk or a file server, which could hold up the job: set it to \
                 one on tmpfs, the same as the agent's"
                    .to_owned()
            }
            Self::OnDisk => {
                format!(
                    "{folder} lies on a disk, which could hold up the job: set RINGSCOPE_DIR (--dir) to a folder on tmpfs"
                )
            }
        }
    }
}

fn budget_words(dir: &Path, file_system_bytes: u64) -> String {
    let (folder, share) = (dir.display(), file_system_bytes / MAX_SHARE);
    if share < DEFAULT_BUDGET_BYTES {
        // There the budget is of no use.
        return format!(
            "the segments in {folder} have the quarter of its file system that they may have, {} of {}: give it a bigger one \
             (--shm-size of the container), or remove segments of processes that have ended",
            size(share),
            size(file_system_bytes)
        );
    }
    format!(
        "the segments in {folder} have as many bytes as they may have: remove those of processes that have ended, or raise \
         RINGSCOPE_BUDGET_MIB in the environment of the job, up to a quarter of the file system ({})",
        size(share)
    )
}

/// Bytes of the file system of a folder; without a limit where it has none.
pub fn file_system_bytes(dir: &Path) -> u64 {
    let stat = rustix::fs::statvfs(dir).ok();
    stat.map(|stat| stat.f_blocks.saturating_mul(stat.f_frsize))
        .filter(|bytes| *bytes > 0)
        .unwrap_or(u64::MAX)
}

/// What the name of a marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) reason: Reason,
    /// As the process knows itself.
    pub(crate) pid: u32,
    pub(crate) start_ns: u64,
}

impl Marker {
    pub(crate) fn of(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(".refused-")?;
        let (reason, rest) = Reason::ALL
            .iter()
            .find_map(|(reason, word)| Some((*reason, rest.strip_prefix(word)?.strip_prefix('-')?)))?;
        let (pid, start_ns) = rest.split_once('-')?;
        Some(Self { reason, pid: pid.parse().ok()?, start_ns: start_ns.parse().ok()? })
    }

    /// Whether it is this process, of this user.
    fn is(self, pid: Pid, status: Status, owner: u32) -> bool {
        let started = pid.stat().filter(|stat| !stat.has_ended()).and_then(|stat| stat.start_ns());
        status.own_pid == self.pid
            && status.user == owner
            && started.is_some_and(|started| started.abs_diff(self.start_ns) <= SLACK_NS)
    }
}

/// Whether a folder is in memory, as segments must be.
pub fn is_memory(dir: &Path) -> bool {
    /// Source: `linux/magic.h`, `TMPFS_MAGIC`.
    const TMPFS: u64 = 0x0102_1994;
    // The field is of another width on each architecture; the numbers have 32 bits.
    rustix::fs::statfs(dir).is_ok_and(|stat| u64::try_from(stat.f_type).is_ok_and(|kind| kind == TMPFS))
}

/// Why the collector of this process was refused a segment in `dir`; `number` as it is seen here.
pub fn reason_of(number: u32, dir: &Path) -> Option<Reason> {
    let (pid, status) = Pid::of(number).zip(Status::read(number))?;
    let claims = claims(dir);
    let own = claims.iter().find(|claim| claim.marker.is(pid, status, claim.id.owner));
    own.map(|claim| claim.marker.reason)
}

/// The markers of a folder.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Those whose process was found.
    found: BTreeMap<OsString, Pid>,
    searched: Option<Instant>,
}

struct Claim {
    name: OsString,
    marker: Marker,
    id: FileId,
    made_ns: u64,
}

impl Refused {
    /// The processes that are not watched, and why, in words. Markers whose process is gone are removed.
    pub(super) fn look(&mut self, dir: &Path, now: Instant, wall: Timestamp) -> Option<String> {
        let claims = claims(dir);
        self.search(&claims, now);
        let sees_all =
            std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == ALL_PROCESSES);
        let (mut counts, mut since_ns) = (BTreeMap::<Reason, usize>::new(), u64::MAX);
        for claim in &claims {
            let lives = self.found.contains_key(&claim.name) || !sees_all && claim.may_be_elsewhere(wall);
            if lives && !claim.has_segment(dir) {
                *counts.entry(claim.marker.reason).or_default() += 1;
                since_ns = since_ns.min(claim.made_ns);
            } else {
                // Another user's stays, until he looks.
                let _ = remove_at(dir, Path::new(&claim.name), claim.id);
            }
        }
        let (reason, _) = counts.iter().max_by_key(|(_, n)| **n)?;
        let processes = match counts.values().sum::<usize>() {
            1 => "1 process is".to_owned(),
            n => format!("{n} processes are"),
        };
        let (since, why) = (clock(Timestamp(since_ns)), reason.words(dir, file_system_bytes(dir)));
        Some(format!("{processes} not watched since {since}, because {why}"))
    }

    /// Finds the processes of markers: by the number itself, and now and then among all, for one in a container has another.
    fn search(&mut self, claims: &[Claim], now: Instant) {
        let names: BTreeSet<&OsString> = claims.iter().map(|claim| &claim.name).collect();
        self.found
            .retain(|name, pid| names.contains(name) && pid.stat().is_some_and(|stat| !stat.has_ended()));
        self.take(claims, claims.iter().map(|claim| claim.marker.pid));
        let is_due = self.searched.is_none_or(|at| now.saturating_duration_since(at) >= SEARCH_INTERVAL);
        if is_due && claims.iter().any(|claim| !self.found.contains_key(&claim.name)) {
            self.searched = Some(now);
            self.take(claims, procfs::all(MAX_PROCESSES).into_iter());
        }
    }

    fn take(&mut self, claims: &[Claim], numbers: impl Iterator<Item = u32>) {
        let open = |found: &BTreeMap<OsString, Pid>| {
            claims.iter().filter(|claim| !found.contains_key(&claim.name)).count()
        };
        for number in numbers {
            if open(&self.found) == 0 {
                return;
            }
            let Some((pid, status)) = Pid::of(number).zip(Status::read(number)) else { continue };
            let its = claims.iter().filter(|claim| claim.marker.is(pid, status, claim.id.owner));
            self.found.extend(its.map(|claim| (claim.name.clone(), pid)));
        }
    }
}

impl Claim {
    /// Whether a later attempt of the process has found room.
    fn has_segment(&self, dir: &Path) -> bool {
        let segment = format!("{}-{}.seg", self.marker.pid, self.marker.start_ns);
        let found = own_folder(dir).and_then(|dir| Found::beneath(dir, segment));
        found.is_ok_and(|found| FileId::of(found.metadata()).owner == self.id.owner)
    }

    /// Whether it is a new one that can be true.
    fn may_be_elsewhere(&self, wall: Timestamp) -> bool {
        let started = self.marker.start_ns.saturating_add(SLACK_NS);
        let can_be = procfs::boot_ns().is_none_or(|boot| started >= boot)
            && self.marker.start_ns <= self.made_ns.saturating_add(SLACK_NS);
        can_be && wall.since(Timestamp(self.made_ns)) < KEPT
    }
}

fn claims(dir: &Path) -> Vec<Claim> {
    let folder = own_folder(dir).ok();
    let mut of_user = BTreeMap::<u32, usize>::new();
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let claims = entries.filter_map(|entry| {
        let name = entry.file_name();
        let marker = Marker::of(name.to_str()?)?;
        let found = Found::beneath(folder.as_ref()?, &name).ok()?;
        let metadata = Some(found.metadata()).filter(|metadata| metadata.is_file())?;
        // Its owner cannot set this time.
        let n = of_user.entry(metadata.uid()).or_default();
        *n += 1;
        if *n > MAX_MARKERS_PER_USER {
            return None;
        }
        let made_ns = u64::try_from(metadata.ctime()).ok()?.saturating_mul(1_000_000_000);
        Some(Claim { marker, id: FileId::of(metadata), made_ns, name })
    });
    claims.take(MAX_MARKERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_start_ns() -> u64 {
        procfs::own_start_ns().unwrap()
    }

    #[test]
    fn only_a_process_of_its_owner_that_started_then_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (own, start) = (std::process::id(), own_start_ns());
        let put = |name: String| {
            let path = dir.path().join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let is_it = put(format!(".refused-on-disk-{own}-{start}"));
        // Any user may make these.
        let invented = put(".refused-budget-1-1".to_owned());
        let later = put(format!(".refused-budget-{own}-{}", start + 3600 * 1_000_000_000));
        let foreign = put(".refused-by-me".to_owned());
        std::os::unix::fs::symlink(&is_it, dir.path().join(format!(".refused-budget-{own}-{start}")))
            .unwrap();
        let mut refused = Refused::default();
        let (now, wall) = (ringscope_api::clock::monotonic(), ringscope_api::clock::now());
        let told = refused.look(dir.path(), now, wall).unwrap();
        assert!(told.starts_with("1 process is not watched since 20"), "{told}");
        assert!(told.contains(&format!(" UTC, because {} lies on a disk", dir.path().display())), "{told}");
        let left = [&is_it, &invented, &later, &foreign].map(|path| path.exists());
        assert_eq!(left, [true, false, false, true]);
        let segment = put(format!("{own}-{start}.seg"));
        assert_eq!(refused.look(dir.path(), now, wall), None, "it has found room since");
        assert!(segment.exists() && !is_it.exists());
    }

    #[test]
    fn a_process_that_is_nowhere_to_be_seen_counts_for_a_while() {
        let wall = ringscope_api::clock::now();
        let marker = Marker { reason: Reason::Budget, pid: 1, start_ns: own_start_ns() };
        let id = FileId::of(&std::fs::metadata("/proc/self").unwrap());
        let claim = |made_ns| Claim { name: OsString::new(), marker, id, made_ns };
        assert!(claim(wall.0).may_be_elsewhere(wall));
        let old = wall.0 - 601 * 1_000_000_000;
        let before = Claim { marker: Marker { start_ns: old, ..marker }, ..claim(old) };
        assert!(!before.may_be_elsewhere(wall));
        assert!(!Claim { marker: Marker { start_ns: 1, ..marker }, ..claim(wall.0) }.may_be_elsewhere(wall));
    }

    #[test]
    fn markers_among_many_files_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for index in 0..=MAX_MARKERS {
            std::fs::write(dir.path().join(format!("{index}.log")), "").unwrap();
        }
        std::fs::write(dir.path().join(".refused-file-size-7-7"), "").unwrap();
        assert_eq!(claims(dir.path()).len(), 1);
    }

    #[test]
    fn what_binds_the_segments_is_told() {
        let elsewhere = Reason::OnDisk.words(Path::new("/dev/shm"), 64 << 30);
        assert!(elsewhere.starts_with("their folder (RINGSCOPE_DIR, --dir) lies on a disk"), "{elsewhere}");
        assert_eq!(Marker::of(".refused-full-7-8").unwrap().reason, Reason::Full);
        let small = budget_words(Path::new("/dev/shm/r"), 64 << 20);
        assert!(small.contains("--shm-size") && !small.contains("RINGSCOPE_BUDGET_MIB"), "{small}");
        let large = budget_words(Path::new("/dev/shm/r"), 64 << 30);
        assert!(large.contains("RINGSCOPE_BUDGET_MIB"), "{large}");
    }
}
