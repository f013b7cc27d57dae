//! What the operating system says that the processes do: their state and processor time, at most once a second. A
//! process is known by the lock of its segment, and by when it started ever after.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringscope_wire::batch::Activity;

use super::holder::Locks;
use super::procfs::Pid;

/// Soon enough that a stopped process is known within a second and an interval of the agent, seldom enough to cost
/// nothing: a reading is one file of a line.
const INTERVAL: Duration = Duration::from_millis(750);
/// One that was not found is looked for again then: what it waits for is seldom.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);

/// A process to watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) segment: &'a Path,
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
}

impl Activities {
    /// What those of `wanted` do now, by their place in it; empty while it is too soon. The others are forgotten.
    pub(super) fn poll(&mut self, wanted: &[Wanted<'_>], now: Instant) -> Vec<(usize, Activity)> {
        if self.read_at.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            return Vec::new();
        }
        self.read_at = Some(now);
        self.search(wanted, now);
        let read_at_ns = crate::clock::now().0;
        let read = |(index, wanted): (usize, &Wanted<'_>)| {
            let stat = self.pid(wanted.segment)?.stat()?;
            let activity = Activity { state: stat.state.to_string(), cpu_ns: stat.cpu_ns, read_at_ns };
            Some((index, activity))
        };
        wanted.iter().enumerate().filter_map(read).collect()
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
        self.known.retain(|path, _| wanted.iter().any(|wanted| wanted.segment == path));
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
            let pid = locks.holder(wanted.segment, wanted.own_pid, wanted.start_ns);
            self.known.insert(wanted.segment.to_owned(), Watched { pid, searched_at: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use rustix::fs::{FlockOperation, flock};
    use rustix::process::{Pid as RawPid, Signal, kill_process};

    use super::*;
    use crate::agent::procfs::Stat;

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
        let start_ns = crate::clock::now().0;
        let wanted = [Wanted { segment: file.path(), own_pid, start_ns, is_final: false }];
        let now = crate::clock::monotonic();
        let mut activities = Activities::default();
        let first = activities.poll(&wanted, now);
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
        let start = crate::clock::monotonic();
        activities.known.insert(segment.clone(), Watched { pid: Some(pid), searched_at: start });
        let wanted = [Wanted { segment: &segment, own_pid: child.id(), start_ns: 0, is_final: false }];
        let seen = activities.poll(&wanted, start);
        assert_eq!(seen[0].1.state, "T");
        assert!(INTERVAL + Duration::from_millis(250) <= Duration::from_secs(1));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(activities.poll(&wanted, start + Duration::from_secs(2)).is_empty(), "gone");
        assert!(Stat::read(child.id()).is_none());
    }

    #[test]
    fn a_lock_that_a_helper_took_names_the_helper() {
        // `flock 9` is a program of its own: the kernel names it, not the shell, and it is gone. So nobody is found.
        let file = tempfile::NamedTempFile::new().unwrap();
        let child = holder(file.path());
        let wanted = [Wanted {
            segment: file.path(),
            own_pid: child.id(),
            start_ns: crate::clock::now().0,
            is_final: false,
        }];
        let mut activities = Activities::default();
        assert!(activities.poll(&wanted, crate::clock::monotonic()).is_empty());
        end(child);
    }
}
