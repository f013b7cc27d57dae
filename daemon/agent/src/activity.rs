//! What the operating system says that the processes do: their state and processor time, at most twice a second. A
//! process is known by the lock of its segment, and by when it started ever after.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringscope_wire::batch::Activity;

use super::beneath::FileId;
use super::holder::Locks;
use super::procfs::Pid;

/// Soon enough that a stopped process is known within a second, seldom enough to cost nothing: a reading is one file of
/// a line.
const INTERVAL: Duration = Duration::from_millis(500);
/// One that was not found is looked for again then: what it waits for is seldom.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);

/// What has not changed is told again then: each telling carries all operations of the process that are in flight.
const REPEAT: Duration = Duration::from_secs(5);

/// When what a process does is worth telling.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    told: Option<(bool, Instant)>,
}

impl Pace {
    /// Whether to tell now that it is in this state: at once if it was stopped or goes on or has ended, else now and then.
    /// Running, asleep and waiting for a disk go one into another all the time.
    pub(super) fn is_due(&mut self, state: char, now: Instant) -> bool {
        let is_usual = matches!(state, 'R' | 'S' | 'D');
        let is_due = self.told.is_none_or(|(was_usual, at)| {
            was_usual != is_usual || now.saturating_duration_since(at) >= REPEAT
        });
        if is_due {
            self.told = Some((is_usual, now));
        }
        is_due
    }
}

/// A process to watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) segment: &'a Path,
    pub(super) file: FileId,
    /// As the process knows itself.
    pub(super) own_pid: u32,
    pub(super) start_ns: u64,
    /// It has ended: it is no longer looked for, but still known by its number.
    pub(super) is_final: bool,
}

/// The processes that are watched, by the paths of their segments.
#[derive(Debug, Default)]
pub(super) struct Activities {
    known: BTreeMap<PathBuf, Watched>,
    read_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    pid: Option<Pid>,
    searched_at: Instant,
    pace: Pace,
}

impl Activities {
    /// What those of `wanted` do now, by their place in it, as far as it is worth telling; empty while it is too soon. The
    /// others are forgotten.
    pub(super) fn poll(&mut self, wanted: &[Wanted<'_>], now: Instant) -> Vec<(usize, Activity)> {
        if self.read_at.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            return Vec::new();
        }
        self.read_at = Some(now);
        self.search(wanted, now);
        let read_at_ns = ringscope_api::clock::now().0;
        let mut told = Vec::new();
        for (index, wanted) in wanted.iter().enumerate() {
            let Some(watched) = self.known.get_mut(wanted.segment) else { continue };
            let Some(stat) = watched.pid.and_then(Pid::stat) else { continue };
            if watched.pace.is_due(stat.state, now) {
                let state = stat.state.to_string();
                told.push((index, Activity { state, cpu_ns: stat.cpu_ns, read_at_ns }));
            }
        }
        told
    }

    /// The process of a segment, as this agent knows it; `None` if it was not found.
    pub(super) fn pid(&self, segment: &Path) -> Option<Pid> {
        self.known.get(segment)?.pid
    }

    /// The segment of the process with this number.
    pub(super) fn segment(&self, number: u32) -> Option<&Path> {
        let found =
            self.known.iter().find(|(_, watched)| watched.pid.is_some_and(|pid| pid.number == number));
        found.map(|(segment, _)| segment.as_path())
    }

    /// All that were found.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.known.values().filter_map(|watched| watched.pid)
    }

    /// Looks for those that are not known yet, all of them in one reading of the kernel's locks.
    fn search(&mut self, wanted: &[Wanted<'_>], now: Instant) {
        let segments: BTreeSet<&Path> = wanted.iter().map(|wanted| wanted.segment).collect();
        self.known.retain(|path, _| segments.contains(path.as_path()));
        let is_due = |wanted: &&Wanted<'_>| {
            self.known.get(wanted.segment).is_none_or(|watched| {
                let waited = now.saturating_duration_since(watched.searched_at);
                watched.pid.is_none() && waited >= SEARCH_INTERVAL
            })
        };
        let due: Vec<&Wanted<'_>> = wanted.iter().filter(|wanted| !wanted.is_final).filter(is_due).collect();
        if due.is_empty() {
            return;
        }
        let locks = Locks::read();
        for wanted in due {
            let pid = locks.holder(wanted.file, wanted.own_pid, wanted.start_ns);
            self.known
                .insert(wanted.segment.to_owned(), Watched { pid, searched_at: now, pace: Pace::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use rustix::fs::{FlockOperation, flock};
    use rustix::process::{Pid as RawPid, Signal, kill_process};

    use super::*;
    use crate::procfs::Stat;

    fn id(path: &Path) -> FileId {
        FileId::of(&path.metadata().unwrap())
    }

    /// A child that holds the lock of a file, which it has inherited; this process lets go of it.
    fn holder(path: &Path) -> Child {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        // `flock` with a descriptor: the shell itself takes the lock, so it is the holder.
        let script = "exec 9<>\"$0\"; flock 9; echo locked; read line";
        drop(file);
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
            .unwrap();
        assert_eq!(line, "locked\n");
        child
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_is_stopped_is_said_to_be() {
        let file = tempfile::NamedTempFile::new().unwrap();
        flock(file.as_file(), FlockOperation::LockExclusive).unwrap();
        let own_pid = std::process::id();
        let start_ns = ringscope_api::clock::now().0;
        let wanted =
            [Wanted { segment: file.path(), file: id(file.path()), own_pid, start_ns, is_final: false }];
        let mut now = ringscope_api::clock::monotonic();
        let mut activities = Activities::default();
        let mut first = activities.poll(&wanted, now);
        // While others take and leave locks the kernel's list may lack one.
        for _ in 0..100 {
            if first.is_empty() {
                now += SEARCH_INTERVAL;
                first = activities.poll(&wanted, now);
            }
        }
        assert_eq!(first.len(), 1, "this process holds the lock");
        assert!(["R", "S", "D"].contains(&first[0].1.state.as_str()), "{first:?}");
        assert!(activities.poll(&wanted, now + Duration::from_millis(200)).is_empty(), "too soon");
        // Another with the same number is another.
        activities.known.values_mut().for_each(|watched| {
            watched.pid = watched.pid.map(|pid| Pid { start_ticks: pid.start_ticks + 1, ..pid });
        });
        assert!(activities.poll(&wanted, now + Duration::from_secs(2)).is_empty());
        assert_eq!(activities.segment(own_pid), Some(file.path()));
        assert!(activities.poll(&[], now + Duration::from_secs(4)).is_empty());
        assert_eq!(activities.pids().count(), 0, "forgotten");
    }

    #[test]
    fn stopped_is_known_within_a_second() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let raw = RawPid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(raw, Signal::STOP).unwrap();
        // The signal is on its way.
        let pid = Pid::of(child.id()).unwrap();
        while pid.stat().unwrap().state != 'T' {
            std::thread::yield_now();
        }
        let segment = PathBuf::from("/x/1-1.seg");
        let mut activities = Activities::default();
        let start = ringscope_api::clock::monotonic();
        activities
            .known
            .insert(segment.clone(), Watched { pid: Some(pid), searched_at: start, pace: Pace::default() });
        let wanted = [Wanted {
            segment: &segment,
            file: id(Path::new("/")),
            own_pid: child.id(),
            start_ns: 0,
            is_final: false,
        }];
        let seen = activities.poll(&wanted, start);
        assert_eq!(seen[0].1.state, "T");
        assert!(INTERVAL + Duration::from_millis(250) <= Duration::from_secs(1));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(activities.poll(&wanted, start + Duration::from_secs(2)).is_empty(), "gone");
        assert!(Stat::read(child.id()).is_none());
    }

    #[test]
    fn what_does_not_change_is_told_now_and_then() {
        let mut pace = Pace::default();
        let start = ringscope_api::clock::monotonic();
        let mut is_due = |state: char, ms: u64| pace.is_due(state, start + Duration::from_millis(ms));
        let told =
            [('S', 0, true), ('R', 750, false), ('D', 1500, false), ('T', 2250, true), ('T', 3000, false)];
        for (state, ms, expected) in told.into_iter().chain([('T', 7250, true), ('S', 8000, true)]) {
            assert_eq!(is_due(state, ms), expected, "{state} {ms}");
        }
    }

    #[test]
    fn a_lock_that_a_helper_took_names_the_helper() {
        // `flock 9` is a program of its own: the kernel names it, not the shell, and it is gone. So nobody is found.
        let file = tempfile::NamedTempFile::new().unwrap();
        let child = holder(file.path());
        let wanted = [Wanted {
            segment: file.path(),
            file: id(file.path()),
            own_pid: child.id(),
            start_ns: ringscope_api::clock::now().0,
            is_final: false,
        }];
        let mut activities = Activities::default();
        assert!(activities.poll(&wanted, ringscope_api::clock::monotonic()).is_empty());
        end(child);
    }
}
