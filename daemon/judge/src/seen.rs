//! What a look at a process has shown, in words, and what to do about it.

use ringscope_api::words::plural;
use ringscope_model::real;
use ringscope_wire::batch::{Look, Thread};

/// What a look has shown, one line for each telling thread. Empty: nothing.
pub(super) fn lines(look: &Look) -> Vec<String> {
    let mut lines = Vec::new();
    for (thread, at) in telling(look) {
        let place = if thread.python.is_empty() && thread.native.is_empty() {
            String::new()
        } else {
            format!("in {at}")
        };
        let blocked = match (non_empty(&thread.syscall), non_empty(&thread.subject)) {
            (Some(syscall), Some(subject)) => match verb(syscall) {
                Some(verb) => format!("blocked {verb} {subject}"),
                None => format!("blocked in {syscall} of {subject}"),
            },
            (Some(syscall), None) => format!("blocked in {syscall}"),
            (None, Some(subject)) => format!("at {subject}"),
            (None, None) => {
                non_empty(&thread.wait_channel).map(|at| format!("waits in {at}")).unwrap_or_default()
            }
        };
        let parts: Vec<String> = [place, blocked].into_iter().filter(|part| !part.is_empty()).collect();
        lines.push(format!("{}: {}", non_empty(&thread.name).unwrap_or("thread"), parts.join(", ")));
    }
    if look.cgroup_oom_kills.is_some_and(|kills| kills > 0) {
        let kills = usize::try_from(look.cgroup_oom_kills.unwrap_or_default()).unwrap_or(usize::MAX);
        lines.push(format!("its cgroup has seen {} for lack of memory", plural(kills, "kill")));
    }
    lines.extend(held_back(look));
    lines.extend(look.lacks.iter().take(LOOK_LACKS).cloned());
    lines
}

/// That its cgroup's limit of processor time holds it back, in words that follow its name. `None`: it does not, or seldom.
pub(super) fn held_back(look: &Look) -> Option<String> {
    let (limit, percent) = (look.cgroup_cpu_limit_milli?, percent_held_back(look)?);
    let limit = format!("{}.{:03}", limit / 1000, limit % 1000);
    let limit = limit.trim_end_matches('0').trim_end_matches('.');
    Some(format!("its cgroup may take {limit} processors and had to wait in {percent} % of all periods"))
}

/// The share of all periods of that limit in which it does, from 0 to 1.
pub(super) fn share_held_back(look: &Look) -> Option<f64> {
    percent_held_back(look).map(|percent| (real(percent) / 100.0).min(1.0))
}

fn percent_held_back(look: &Look) -> Option<u64> {
    look.cgroup_cpu_limit_milli?;
    let periods = look.cgroup_cpu_periods.filter(|all| *all > 0)?;
    let percent = look.cgroup_cpu_throttled_periods?.saturating_mul(100) / periods;
    (percent >= HELD_BACK_PERCENT).then_some(percent)
}

/// The share of the time in which the process is stopped, from 0 to 1, where it was watched. `None`: it was not, or is hardly ever.
pub(super) fn stopped(look: &Look) -> Option<f64> {
    let share = f64::from(look.states_stopped) / f64::from(look.states_read.max(1));
    let can_be = look.states_stopped <= look.states_read;
    (can_be && look.states_read >= FEWEST_STATES && share >= SELDOM).then_some(share)
}

/// The threads that tell something, the most telling first, and where each is.
fn telling(look: &Look) -> impl Iterator<Item = (&Thread, &str)> {
    look.threads.iter().take(LOOK_THREADS).filter_map(|thread| {
        let at = frame(thread).or_else(|| thread.native.first().map(String::as_str));
        Some((thread, at.or_else(|| non_empty(&thread.syscall))?))
    })
}

/// The one line of a look that says most: "in dataloader.py:214 __next__, blocked reading /mnt/nfs/x".
pub(super) fn in_short(told: &Look) -> Option<String> {
    let first = lines(told).into_iter().next()?;
    first.split_once(": ").map(|(_, what)| what.to_owned())
}

/// What to do about a process that waits where a look saw it: about the file, the other end or the line that it names.
/// `host`: where it runs. `None`: the look names none.
pub(super) fn remedy(look: &Look, host: &str, pid: u32) -> Option<String> {
    let (thread, _) = telling(look).next()?;
    let (syscall, subject) = (thread.syscall.as_str(), thread.subject.as_str());
    let line = frame(thread);
    Some(match syscall {
        "flock" | "fcntl" if subject.starts_with('/') => {
            format!("See who holds the lock of {subject} (`lslocks` on {host}).")
        }
        "read" | "select" | "pselect6" | "poll" | "ppoll"
            if subject.starts_with("/dev/pts/") || subject.starts_with("/dev/tty") =>
        {
            format!(
                "It waits for somebody to type at {subject}: look for a breakpoint or a prompt in the program."
            )
        }
        _ if subject.starts_with("/dev/") && !subject.starts_with("/dev/shm/") => {
            format!("See why the device {subject} does not answer: the kernel's log of {host}.")
        }
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "fsync" | "fdatasync" | "sync"
            if subject.starts_with('/') =>
        {
            format!("See why {subject} takes nothing: a full disk, or its file system, as {host} sees it.")
        }
        _ if subject.starts_with('/') => {
            format!("See why {subject} gives nothing: its disk or file system, as {host} sees it.")
        }
        _ if subject.contains("socket ") => format!("See why {} does not answer.", other_end(subject)),
        "wait4" | "waitid" => {
            format!("See what the child of pid {pid} does that it waits for (`pstree -p {pid}` on {host}).")
        }
        "futex" => {
            let at = line.map(|line| format!(" at {line}")).unwrap_or_default();
            format!(
                "It waits for a lock or another thread of its own{at}: `py-spy dump --pid {pid}` on {host} shows who has it."
            )
        }
        _ if subject.contains("pipe") => {
            format!(
                "See what the other end of its pipe does: as a rule a worker process of it, such as a data loader's \
                 (`pstree -p {pid}` on {host})."
            )
        }
        _ => format!("See why it stays at {}: the network between the ranks is not the cause.", line?),
    })
}

/// Who is at the other end of a socket, as far as the look names it: "10.0.0.4:3301".
fn other_end(subject: &str) -> &str {
    let remote = subject.split_once("-> ").and_then(|(_, rest)| rest.split([',', ' ']).next());
    remote.unwrap_or("the other end of its socket")
}

/// Where a thread is in the program: the innermost frame that is not of Python's own library, if there is such a one.
pub(super) fn frame(thread: &Thread) -> Option<&str> {
    let is_own = |frame: &&String| frame.starts_with("python3.") || frame.starts_with("<frozen ");
    let of_program = thread.python.iter().find(|frame| !is_own(frame));
    of_program.or_else(|| thread.python.first()).map(String::as_str)
}

/// What a system call does to what it is about, where people have a word for it.
fn verb(syscall: &str) -> Option<&'static str> {
    Some(match syscall {
        "read" | "pread64" | "readv" | "preadv" | "preadv2" => "reading",
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => "writing",
        "open" | "openat" => "opening",
        "fsync" | "fdatasync" => "syncing",
        "flock" => "locking",
        _ => return None,
    })
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Threads of a look that are told.
const LOOK_THREADS: usize = 8;
/// Reasons why a look saw less that are told.
const LOOK_LACKS: usize = 4;
/// Readings of a state that say how often it is that.
const FEWEST_STATES: u32 = 50;
/// Share of the time below which to be stopped explains nothing.
const SELDOM: f64 = 0.05;
/// Of all periods: to be held back less often than this explains nothing.
const HELD_BACK_PERCENT: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(line: &str, syscall: &str, subject: &str) -> Look {
        let python = if line.is_empty() { Vec::new() } else { vec![line.to_owned()] };
        let thread =
            Thread { python, syscall: syscall.to_owned(), subject: subject.to_owned(), ..Thread::default() };
        Look { threads: vec![Thread::default(), thread], ..Look::default() }
    }

    #[test]
    fn a_limit_of_processor_time_is_told_where_it_holds_back() {
        let look = |throttled| Look {
            cgroup_cpu_limit_milli: Some(250),
            cgroup_cpu_periods: Some(1_000),
            cgroup_cpu_throttled_periods: Some(throttled),
            ..Look::default()
        };
        let words = "its cgroup may take 0.25 processors and had to wait in 84 % of all periods";
        assert_eq!(lines(&look(840)), [words]);
        assert_eq!(held_back(&look(99)), None);
        assert_eq!(held_back(&Look { cgroup_cpu_periods: Some(0), ..look(0) }), None);
        let whole = Look { cgroup_cpu_limit_milli: Some(2_000), ..look(500) };
        assert!(held_back(&whole).is_some_and(|words| words.contains("may take 2 processors")), "{whole:?}");
    }

    #[test]
    fn who_is_stopped_now_and_then_is_told_where_it_was_watched() {
        let look = |states_read, states_stopped| Look { states_read, states_stopped, ..Look::default() };
        assert_eq!(stopped(&look(200, 160)), Some(0.8));
        assert_eq!([look(200, 3), look(20, 16), look(0, 0)].map(|look| stopped(&look)), [None; 3]);
    }

    #[test]
    fn what_to_do_names_what_the_process_waits_for() {
        for (line, syscall, subject, expected) in [
            ("a.py:1 f", "read", "/mnt/nfs/x", "See why /mnt/nfs/x gives nothing"),
            ("", "openat", "/mnt/nfs/x", "See why /mnt/nfs/x gives nothing"),
            ("a.py:1 f", "fsync", "/ckpt/1", "See why /ckpt/1 takes nothing"),
            ("a.py:1 f", "flock", "/tmp/lock", "See who holds the lock of /tmp/lock (`lslocks` on host-3)"),
            ("a.py:1 f", "ioctl", "/dev/nvidia0", "See why the device /dev/nvidia0 does not answer"),
            ("pdb.py:1 f", "read", "/dev/pts/0", "It waits for somebody to type at /dev/pts/0"),
            (
                "a.py:1 f",
                "recvfrom",
                "socket 10.0.0.3:50 -> 10.0.0.4:33",
                "See why 10.0.0.4:33 does not answer.",
            ),
            ("", "epoll_wait", "epoll of socket 10.0.0.3:5 -> 10.0.0.4:3, 2 more", "See why 10.0.0.4:3 does"),
            ("", "read", "Unix socket /run/x", "See why the other end of its socket does not answer."),
            (
                "a.py:1 f",
                "futex",
                "",
                "It waits for a lock or another thread of its own at a.py:1 f: `py-spy dump",
            ),
            ("", "wait4", "process 7", "See what the child of pid 42 does"),
            ("dataloader.py:1 f", "ppoll", "pipe", "See what the other end of its pipe does"),
            ("a.py:1 f", "nanosleep", "", "See why it stays at a.py:1 f"),
            ("a.py:1 f", "", "", "See why it stays at a.py:1 f"),
        ] {
            let told = remedy(&thread(line, syscall, subject), "host-3", 42).unwrap();
            assert!(told.starts_with(expected), "{syscall} {subject}: {told}");
        }
        assert_eq!(remedy(&thread("", "select", ""), "host-3", 42), None);
        assert_eq!(remedy(&Look::default(), "host-3", 42), None);
    }
}
