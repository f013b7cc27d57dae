//! What holds for all communicators of a process, and the table of processes, which is bounded: a log names as many as
//! it likes.

use std::collections::{BTreeMap, HashMap};

use super::bracket::{Bracket, Nics};
use super::facts::{Evidence, Hop};

/// Small things (connections, lines kept, names) held for all processes together, at about a hundred bytes each.
const MAX_HELD: usize = 200_000;
/// What a process takes when nothing is known of it.
const HELD_BY_PROCESS: usize = 12;
/// Threads of a process that are remembered, to tell a torn host name from another one.
const MAX_TIDS: usize = 64;
/// Names that a process is known by besides its own.
const MAX_TORN_NAMES: usize = 8;
/// Lines after which a name that could be what remained of another one is a host's own: no line is torn at the same
/// place more often.
const TORN_LINES: u64 = 3;

/// One process.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// The name that most of its lines have.
    pub(super) host: String,
    /// Lines that have it.
    n_lines: u64,
    /// What lines have that were torn in the name, and how many.
    torn_names: Vec<(String, u64)>,
    pub(super) pid: u32,
    pub(super) nics: Nics,
    pub(super) network: Option<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) environment_lines: Vec<Evidence>,
    /// Inits by thread.
    pub(super) brackets: HashMap<u32, Bracket>,
    /// "Init START" has been seen: outside of a bracket nothing belongs to an init (from 2.18 on).
    pub(super) has_starts: bool,
    /// Complete inits by pointer.
    pub(super) uses: HashMap<u64, u32>,
    /// Communicators that are complete and have not ended, by their number in the log.
    pub(super) live: Vec<u64>,
    /// Connections that fit more than one communicator, by (channel, from, to): how many there were, all alike.
    pub(super) ambiguous: HashMap<(u32, u32, u32), Ambiguous>,
    /// A line of it said something, so that it is not the torn name of another one.
    pub(super) heard: bool,
    tids: Vec<u32>,
    held: usize,
    last_line: u64,
}

/// Connections that fit more than one communicator.
#[derive(Debug)]
pub(super) struct Ambiguous {
    pub(super) hop: Hop,
    pub(super) count: usize,
    pub(super) alike: bool,
}

/// The processes of a log.
#[derive(Debug, Default)]
pub(super) struct Processes {
    slab: Vec<Process>,
    by_host: HashMap<String, HashMap<u32, usize>>,
    by_pid: HashMap<u32, Vec<usize>>,
    last: usize,
    held: usize,
    evicted: u64,
}

impl Processes {
    /// Lines are missing: nobody knows which inits go on, and which communicators live.
    pub(super) fn gap(&mut self) {
        for process in &mut self.slab {
            process.brackets.clear();
            process.live.clear();
            process.ambiguous.clear();
        }
    }

    /// The process that wrote a line, new if it is not known.
    pub(super) fn of(&mut self, host: &str, pid: u32, tid: u32, line: u64) -> &mut Process {
        let at = self.find(host, pid, tid, line);
        self.last = at;
        let process = &mut self.slab[at];
        // A line is asked for more than once.
        if std::mem::replace(&mut process.last_line, line) != line {
            process.note_name(host);
        }
        if process.tids.last() != Some(&tid) && process.tids.len() < MAX_TIDS && !process.tids.contains(&tid)
        {
            process.tids.push(tid);
        }
        process
    }

    /// Says that the process last asked for holds more.
    pub(super) fn holds(&mut self, more: usize) {
        self.held += more;
        if let Some(process) = self.slab.get_mut(self.last) {
            process.held += more;
        }
        if self.held > MAX_HELD {
            self.shrink();
        }
    }

    /// Says that the process last asked for holds less.
    pub(super) fn released(&mut self, less: usize) {
        let Some(process) = self.slab.get_mut(self.last) else { return };
        let less = less.min(process.held);
        process.held -= less;
        self.held = self.held.saturating_sub(less);
    }

    pub(super) fn knows(&self, host: &str) -> bool {
        self.by_host.contains_key(host)
    }

    /// What the host of a process is called that lines name so: torn ones have only a part of it.
    pub(super) fn name_of(&self, host: &str, pid: u32) -> Option<&str> {
        let at = self.by_host.get(host)?.get(&pid)?;
        self.slab.get(*at).map(|process| process.host.as_str())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Process> {
        self.slab.iter()
    }

    /// Processes forgotten because there were too many.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    fn find(&mut self, host: &str, pid: u32, tid: u32, line: u64) -> usize {
        if self.slab.get(self.last).is_some_and(|last| last.pid == pid && last.host == host) {
            return self.last;
        }
        let known = self.by_host.get(host).and_then(|pids| pids.get(&pid)).copied();
        if let Some(at) =
            known.filter(|at| self.slab[*at].last_line == line || !self.slab[*at].lost_name(host))
        {
            return at;
        }
        let torn = if known.is_none() { self.torn(host, pid, tid) } else { None };
        let at = torn.unwrap_or_else(|| {
            self.by_pid.entry(pid).or_default().push(self.slab.len());
            self.slab.push(Process {
                host: host.to_owned(),
                pid,
                held: HELD_BY_PROCESS,
                ..Process::default()
            });
            self.slab.len() - 1
        });
        self.by_host.entry(host.to_owned()).or_default().insert(pid, at);
        self.last = at;
        self.holds(HELD_BY_PROCESS);
        self.last
    }

    /// The process with the same pid and thread that this can be the name of, torn or whole.
    fn torn(&mut self, host: &str, pid: u32, tid: u32) -> Option<usize> {
        let of_pid = self.by_pid.get(&pid)?;
        let alike = |process: &Process| {
            process.pid == pid
                && process.tids.contains(&tid)
                && process.torn_names.len() < MAX_TORN_NAMES
                && (is_end(host, &process.host) || common_end(host, &process.host).is_some())
        };
        let at = of_pid.iter().copied().find(|at| alike(&self.slab[*at]))?;
        let process = &mut self.slab[at];
        // Of two names with different remains in front neither is the host's: what both have may be.
        if let Some(name) = common_end(host, &process.host).filter(|name| *name != host)
            && process.n_lines <= 1
            && name != process.host
        {
            let before = std::mem::replace(&mut process.host, name.to_owned());
            process.torn_names.push((before, process.n_lines));
            process.n_lines = 0;
        }
        process.torn_names.push((host.to_owned(), 0));
        Some(at)
    }

    /// Forgets the half of the processes that has been silent longest; if there is only one, what it holds for inits.
    fn shrink(&mut self) {
        let newest = self.slab.get(self.last).map_or(0, |process| process.last_line);
        if self.slab.len() == 1 {
            for process in &mut self.slab {
                process.brackets.clear();
                process.ambiguous.clear();
                process.environment_lines.clear();
                process.held = HELD_BY_PROCESS + process.uses.len();
            }
        } else {
            let mut lines: Vec<u64> = self.slab.iter().map(|process| process.last_line).collect();
            let middle = lines.len() / 2;
            let (_, median, _) = lines.select_nth_unstable(middle);
            let keep = (*median).min(newest);
            let before = self.slab.len();
            let last = self.slab.swap_remove(self.last);
            self.slab.retain(|process| process.last_line > keep);
            self.last = self.slab.len();
            self.slab.push(last);
            self.evicted += (before - self.slab.len()) as u64;
            self.by_host.clear();
            self.by_pid.clear();
            for (at, process) in self.slab.iter().enumerate() {
                self.by_host.entry(process.host.clone()).or_default().insert(process.pid, at);
                self.by_pid.entry(process.pid).or_default().push(at);
            }
        }
        self.held = self.slab.iter().map(|process| process.held).sum();
    }
}

impl Process {
    /// Counts a line by the name in it. The name that most lines have is the host's.
    fn note_name(&mut self, host: &str) {
        if self.host == host {
            self.n_lines += 1;
        } else if let Some((name, n)) = self.torn_names.iter_mut().find(|(name, _)| name == host) {
            *n += 1;
            if *n > self.n_lines {
                std::mem::swap(name, &mut self.host);
                std::mem::swap(n, &mut self.n_lines);
            }
        }
    }

    /// Whether what was taken for its name, torn, is the name of another host after all: it comes again and again. A name
    /// that has nothing but remains before the end of this one's stays one: several writers may tear all lines alike.
    fn lost_name(&mut self, host: &str) -> bool {
        let Some(at) = self.torn_names.iter().position(|(name, _)| name == host) else { return false };
        let (name, n) = &self.torn_names[at];
        let is_lost = *n >= TORN_LINES && common_end(name, &self.host).is_none();
        if is_lost {
            self.torn_names.swap_remove(at);
        }
        is_lost
    }
}

/// Whether one is the end of the other: what is left of a name whose front was cut off.
fn is_end(one: &str, other: &str) -> bool {
    one.ends_with(other) || other.ends_with(one)
}

/// The end that two names have in common, if it is long enough to be a name and nothing that parts names is before it.
fn common_end<'h>(one: &'h str, other: &str) -> Option<&'h str> {
    let same = one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    let remains = |name: &str| !name.as_bytes()[..name.len() - same].iter().any(|byte| b"-._".contains(byte));
    (same >= MIN_HOST_BYTES && remains(one) && remains(other)).then(|| one.get(one.len() - same..)).flatten()
}

/// Shortest end of a name that is taken for the whole of it.
const MIN_HOST_BYTES: usize = 4;
