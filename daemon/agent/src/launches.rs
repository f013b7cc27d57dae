//! Processes that `ringscope run` has started and that have not called the library so far, by the notes that it left. Once
//! one of them has a segment, or a log that names a communicator, that is the account of it, under the same key.
//!
//! A launcher under `ringscope run` (torchrun, a script) never calls the library itself: it counts as nothing once a
//! process of its run, or one that descends from it, does.
//!
//! The folder is everybody's: a note counts only for a process of the user whose file it is, on this boot.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringscope_wire::batch::{self, Activity};

use super::account::Account;
use super::activity::Pace;
use super::awaited_end::{Awaited, Said};
use super::beneath::FileId;
use super::claims::Keys;
use super::log_only::{Claimed, RunProcess};
use super::process::Now;
use super::procfs::{Pid, Stat, Status, all, boot_id};
use super::run_file::{RunFile, run_id};

/// Notes that are remembered.
const MAX_NOTES: usize = 16_384;
/// Processes that are told at once: a host has some hundred ranks.
const MAX_LAUNCHED: usize = 1024;
/// Those of one user.
const MAX_LAUNCHED_PER_USER: usize = 256;
/// New notes that are read at once; the others wait.
const MAX_NEW: usize = 64;
/// A process that lives no longer is nobody's concern, unless a launch has started it.
const GRACE: Duration = Duration::from_secs(1);
/// Time between two readings of what they do.
const INTERVAL: Duration = Duration::from_millis(750);
/// Generations above a process that are looked through for launchers.
const MAX_GENERATIONS: usize = 24;
/// Processes of the machine that are looked through for one in a container.
const MAX_PROCESSES: usize = 65_536;
/// What ended longer ago before it was seen is told by nobody.
const RECENT_NS: u64 = 30_000_000_000;
/// Of a process that had ended before anybody looked: no process has this number.
const GONE: Pid = Pid { number: 0, start_ticks: 0 };
/// Start times are right to a second against another boot time.
const SLACK_NS: u64 = 2_000_000_000;

/// All such processes, by their run.
#[derive(Debug, Default)]
pub(super) struct Launches {
    dir: PathBuf,
    /// Notes that say nothing, or nothing more.
    passed: BTreeSet<String>,
    living: BTreeMap<String, Launched>,
    read_at: Option<Instant>,
}

#[derive(Debug)]
struct Launched {
    /// Its note.
    file: FileId,
    /// As this agent knows it.
    pid: Pid,
    /// As it knows itself.
    own_pid: u32,
    identity: batch::Identity,
    account: Account,
    seen_at: Instant,
    pace: Pace,
    ending: Awaited,
    /// Its end is known, or it is none of those that could call.
    is_final: bool,
    is_gone: bool,
}

impl Launches {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, ..Self::default() }
    }

    /// Looks at new notes and at what became of the processes of the others. `logged` are the processes, by run and their
    /// own number, of which a log tells; `pids` those with a segment.
    pub(super) fn poll(
        &mut self,
        notes: &[PathBuf],
        claimed: &Claimed,
        logged: &BTreeSet<RunProcess>,
        pids: &[Pid],
        keys: &mut Keys,
        now: Now<'_>,
    ) {
        if self.read_at.is_some_and(|at| now.monotonic.saturating_duration_since(at) < INTERVAL) {
            return;
        }
        self.read_at = Some(now.monotonic);
        let runs: BTreeSet<&str> = notes.iter().filter_map(|path| run_id(path)).collect();
        self.passed.retain(|run| runs.contains(run.as_str()));
        self.take_new(&runs, keys, now);
        self.hand_over(claimed, logged, now);
        self.pass_launchers(claimed, logged, pids, now);
        for (run, launched) in self.living.iter_mut().filter(|(_, launched)| !launched.is_final) {
            launched.read(run, now);
        }
    }

    /// Lets the next look be one, however short ago the last was.
    pub(super) fn look_at_once(&mut self) {
        self.read_at = None;
    }

    fn take_new(&mut self, runs: &BTreeSet<&str>, keys: &mut Keys, now: Now<'_>) {
        if self.passed.len() >= MAX_NOTES {
            // Somebody leaves them by the thousand: all are looked at anew, so that the others' have their turn.
            self.passed.clear();
        }
        let room = MAX_NOTES.saturating_sub(self.passed.len() + self.living.len());
        let new: Vec<&str> = (runs.iter().copied())
            .filter(|run| !self.passed.contains(*run) && !self.living.contains_key(*run))
            .take(MAX_NEW.min(room))
            .collect();
        let mut lost = Vec::new();
        for run in new {
            let note = RunFile::read(&self.dir, run);
            let identity = note
                .identity(now.machine, now.other_hosts)
                .filter(|_| note.boot_id.as_deref() == Some(boot_id()));
            let Some(identity) = identity.filter(|_| self.living.len() < MAX_LAUNCHED) else {
                self.passed.insert(run.to_owned());
                continue;
            };
            match direct(&identity) {
                Some(pid) => self.add(run, Some(pid), (&note, identity), keys, now),
                // It ended before anybody looked.
                None if note.ending.is_some_and(|ending| is_recent(ending.at_ns, now)) => {
                    self.add(run, None, (&note, identity), keys, now);
                }
                None => lost.push((run, note, identity)),
            }
        }
        if lost.is_empty() {
            return;
        }
        // Those in containers know themselves by another number.
        let processes: Vec<(Pid, u64)> = (all(MAX_PROCESSES).into_iter())
            .filter_map(|number| {
                let stat = Stat::read(number)?;
                Some((Pid { number, start_ticks: stat.start_ticks }, stat.start_ns()?))
            })
            .collect();
        for (run, note, identity) in lost {
            let found = processes.iter().find(|(pid, start_ns)| {
                start_ns.abs_diff(identity.start_time_ns) <= SLACK_NS
                    && Status::read(pid.number).is_some_and(|status| status.own_pid == identity.pid)
            });
            match found {
                Some((pid, _)) => self.add(run, Some(*pid), (&note, identity), keys, now),
                // How it ended is written down in a moment.
                None if note.ending.is_none() && note.is_reaped && is_recent(identity.start_time_ns, now) => {
                    self.add(run, None, (&note, identity), keys, now);
                }
                None => drop(self.passed.insert(run.to_owned())),
            }
        }
    }

    /// `pid`: the process; `None`: it is gone, and nobody but the note's owner says whose it was.
    fn add(
        &mut self,
        run: &str,
        pid: Option<Pid>,
        (note, identity): (&RunFile, batch::Identity),
        keys: &mut Keys,
        now: Now<'_>,
    ) {
        let status = pid.map(|pid| Status::read(pid.number));
        let is_of = |owner: u32| match status {
            None => true,
            Some(status) => status.is_some_and(|status| status.is_of(owner)),
        };
        let file = note.file.filter(|file| is_of(file.owner));
        let of_user =
            |file: FileId| self.living.values().filter(|launched| launched.file.owner == file.owner).count();
        let Some(file) = file.filter(|file| of_user(*file) < MAX_LAUNCHED_PER_USER) else {
            tracing::debug!(run, pid = identity.pid, "a note of another user's process is passed over");
            self.passed.insert(run.to_owned());
            return;
        };
        let key = format!("{}/{}/{}", identity.host, identity.pid, identity.start_time_ns);
        let key = keys.own(key, file.owner);
        let launched = Launched {
            file,
            pid: pid.unwrap_or(GONE),
            own_pid: identity.pid,
            identity,
            account: Account::new(key),
            seen_at: now.monotonic,
            pace: Pace::default(),
            ending: Awaited::default(),
            is_final: false,
            is_gone: false,
        };
        self.living.insert(run.to_owned(), launched);
    }

    /// Lets go of those that have a segment, or a log, by now: that account goes on under the same key.
    fn hand_over(&mut self, claimed: &Claimed, logged: &BTreeSet<RunProcess>, now: Now<'_>) {
        let mut passed = Vec::new();
        for (run, launched) in self.living.iter_mut().filter(|(_, launched)| !launched.is_final) {
            let one = (launched.file.owner, run.clone(), launched.own_pid);
            let has_segment = claimed.by_segment.contains(&one);
            if logged.contains(&one) || has_segment && claimed.keys.contains(launched.account.key()) {
                passed.push(one.1);
            } else if has_segment {
                // The clock was set between: both say another start.
                launched.account.end(batch::ProcessState::Exited, now.wall.0);
                launched.is_final = true;
            }
        }
        for run in passed {
            self.living.remove(&run);
            self.passed.insert(run);
        }
    }

    /// Lets go of launchers: others of their run call the library, or their descendants do or were started so themselves.
    fn pass_launchers(
        &mut self,
        claimed: &Claimed,
        logged: &BTreeSet<RunProcess>,
        pids: &[Pid],
        now: Now<'_>,
    ) {
        if self.living.values().all(|launched| launched.is_final) {
            return;
        }
        let below = pids.iter().copied().chain(self.living.values().map(|launched| launched.pid));
        let ancestors = ancestors(below);
        let runs: BTreeSet<(u32, &str)> =
            claimed.by_segment.iter().chain(logged).map(|(user, run, _)| (*user, run.as_str())).collect();
        let mut untold = Vec::new();
        for (run, launched) in self.living.iter_mut().filter(|(_, launched)| !launched.is_final) {
            if !runs.contains(&(launched.file.owner, run.as_str()))
                && !ancestors.contains(&launched.pid.number)
            {
                continue;
            }
            if launched.account.now.identity.is_none() {
                untold.push(run.clone());
                continue;
            }
            launched.account.end(batch::ProcessState::Exited, now.wall.0);
            launched.is_final = true;
        }
        for run in untold {
            self.living.remove(&run);
            self.passed.insert(run);
        }
    }

    /// Forgets those whose end the daemon has. Returns the notes of those that are gone, to be removed.
    pub(super) fn clean(&mut self) -> Vec<(PathBuf, FileId)> {
        let is_done = |launched: &Launched| launched.is_final && launched.account.end_acknowledged.is_some();
        let is_untold = |launched: &Launched| launched.is_final && launched.account.now.identity.is_none();
        let done: Vec<(String, Launched)> =
            self.living.extract_if(.., |_, launched| is_done(launched) || is_untold(launched)).collect();
        let mut gone = Vec::new();
        for (run, launched) in done {
            if launched.is_gone && launched.account.end_acknowledged.is_some() {
                gone.push((self.dir.join(format!("run-{run}.json")), launched.file));
            }
            self.passed.insert(run);
        }
        gone
    }

    /// The accounts of all of them.
    pub(super) fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.living.values().map(|launched| &launched.account)
    }

    /// The same, to be written to.
    pub(super) fn accounts_mut(&mut self) -> impl Iterator<Item = &mut Account> {
        self.living.values_mut().map(|launched| &mut launched.account)
    }

    /// The daemon has all batches up to `seq`.
    pub(super) fn acknowledged(&mut self, seq: u64, monotonic: Instant) {
        for launched in self.living.values_mut() {
            launched.account.acknowledged(seq, launched.is_final, monotonic);
        }
    }

    /// Whether the process of this run's note lives.
    pub(super) fn knows(&self, run: &str) -> bool {
        self.living.get(run).is_some_and(|launched| !launched.is_gone)
    }

    /// The process with this key, as this agent knows it.
    pub(super) fn pid(&self, key: &str) -> Option<Pid> {
        let launched = self.living.values().find(|launched| launched.account.key() == key)?;
        (!launched.is_final).then_some(launched.pid)
    }
}

impl Launched {
    fn read(&mut self, run: &str, now: Now<'_>) {
        let stat = self.pid.stat().filter(|stat| !stat.has_ended());
        let is_due = now.monotonic.saturating_duration_since(self.seen_at) >= GRACE;
        if stat.is_some() && is_due {
            self.introduce();
        }
        match stat {
            Some(stat) if self.account.now.identity.is_some() => {
                if !self.pace.is_due(stat.state, now.monotonic) {
                    return;
                }
                self.account.now.activity = Some(Activity {
                    state: stat.state.to_string(),
                    cpu_ns: stat.cpu_ns,
                    read_at_ns: now.wall.0,
                });
            }
            Some(_) => {}
            None => self.end(run, now),
        }
    }

    /// From now on the daemon is told of it.
    fn introduce(&mut self) {
        if self.account.now.identity.is_none() {
            self.account.now.identity = Some(self.identity.clone());
            self.account.now.launched = true;
            self.account.now.state = batch::ProcessState::Running.into();
        }
    }

    fn end(&mut self, run: &str, now: Now<'_>) {
        let note = RunFile::read_of(now.dir, run, self.file.owner);
        match self.ending.ask(&note, self.own_pid, now.monotonic) {
            Said::NotYet => return,
            Said::Nothing => self.account.end(batch::ProcessState::Exited, now.wall.0),
            Said::Ends(ending) => {
                // It was written anew.
                self.file = note.file.unwrap_or(self.file);
                // A launch is a job, however short.
                self.introduce();
                ending.tell(&mut self.account, batch::ProcessState::Exited, now.wall.0);
            }
        }
        (self.is_final, self.is_gone) = (true, true);
    }
}

/// Whether that was so short a time ago that somebody may wait for news of it.
fn is_recent(at_ns: u64, now: Now<'_>) -> bool {
    at_ns.abs_diff(now.wall.0) <= RECENT_NS
}

/// The process of a note, where it and this agent know it by the same number.
fn direct(identity: &batch::Identity) -> Option<Pid> {
    let stat = Stat::read(identity.pid).filter(|stat| !stat.has_ended())?;
    let is_it = stat.start_ns()?.abs_diff(identity.start_time_ns) <= SLACK_NS
        && Status::read(identity.pid)?.own_pid == identity.pid;
    is_it.then_some(Pid { number: identity.pid, start_ticks: stat.start_ticks })
}

/// All processes that these descend from.
fn ancestors(pids: impl Iterator<Item = Pid>) -> BTreeSet<u32> {
    let mut ancestors = BTreeSet::new();
    for pid in pids {
        let mut parent = pid.stat().map(|stat| stat.parent);
        for _ in 0..MAX_GENERATIONS {
            match parent {
                // What is above it is known.
                Some(number) if number > 1 && ancestors.insert(number) => {
                    parent = Stat::read(number).map(|stat| stat.parent);
                }
                _ => break,
            }
        }
    }
    ancestors
}

#[cfg(test)]
mod tests;
