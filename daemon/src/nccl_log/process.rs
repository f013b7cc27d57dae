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

/// One process.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) host: String,
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
    /// The process that wrote a line, new if it is not known.
    pub(super) fn of(&mut self, host: &str, pid: u32, tid: u32, line: u64) -> &mut Process {
        let at = self.find(host, pid, tid);
        self.last = at;
        let process = &mut self.slab[at];
        process.last_line = line;
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

    pub(super) fn all(&self) -> impl Iterator<Item = &Process> {
        self.slab.iter()
    }

    /// Processes forgotten because there were too many.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    fn find(&mut self, host: &str, pid: u32, tid: u32) -> usize {
        if self.slab.get(self.last).is_some_and(|last| last.pid == pid && last.host == host) {
            return self.last;
        }
        if let Some(at) = self.by_host.get(host).and_then(|pids| pids.get(&pid)) {
            return *at;
        }
        let at = self.torn(host, pid, tid).unwrap_or_else(|| {
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

    /// The process with the same pid and thread whose name ends alike, where what stands before that in one of the two
    /// can be what remained of another record. Its name is then what both have.
    fn torn(&mut self, host: &str, pid: u32, tid: u32) -> Option<usize> {
        let alike = |process: &Process| {
            (process.pid == pid && process.tids.contains(&tid))
                .then(|| common_end(host, &process.host))
                .flatten()
        };
        let of_pid = self.by_pid.get(&pid)?;
        let (at, name) = of_pid.iter().find_map(|at| Some((*at, alike(&self.slab[*at])?)))?;
        name.clone_into(&mut self.slab[at].host);
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

/// The end that two names have in common, if it is long enough to be a name and nothing that parts names is before it.
fn common_end<'h>(one: &'h str, other: &str) -> Option<&'h str> {
    let same = one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    let remains = |name: &str| !name.as_bytes()[..name.len() - same].iter().any(|byte| b"-._".contains(byte));
    (same >= MIN_HOST_BYTES && remains(one) && remains(other)).then(|| one.get(one.len() - same..)).flatten()
}

/// Shortest end of a name that is taken for the whole of it.
const MIN_HOST_BYTES: usize = 4;
