//! Processes of which only the private log is known: the collector never got into them, or its segment cannot be read.
//!
//! Never a second account of a process that has a segment: a log counts only once it names a communicator and no segment
//! of its run and process id has come for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringscope_logs::nccl_log::{CommunicatorFacts, End};
use ringscope_wire::batch;

use super::account::Account;
use super::awaited_end::{Awaited, Said};
use super::beneath::FileId;
use super::claims::Keys;
use super::liveness::{Life, is_silent, look};
use super::log_file::Reached;
use super::log_folder;
use super::log_tail::LogTail;
use super::loss::{Loss, Losses};
use super::process::Now;
use super::run_file::{Log, LogName, RunFile};
use super::tell::of_log;

/// Logs followed at once; a host has some hundred ranks.
const MAX_LOGS: usize = 4096;

/// User, run and process id: what one user says of a run is not said of another's.
pub(super) type RunProcess = (u32, String, u32);

/// Logs without room that are remembered.
const MAX_PASSED: usize = 65_536;

/// What is known of the processes that have segments.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    pub(super) by_segment: BTreeSet<RunProcess>,
    /// Their keys.
    pub(super) keys: BTreeSet<String>,
    /// Job by user and run.
    pub(super) jobs: BTreeMap<(u32, String), String>,
}

/// All such processes, by the path of the log.
#[derive(Debug)]
pub(super) struct LogOnly {
    dir: PathBuf,
    grace: Duration,
    pub(super) processes: BTreeMap<PathBuf, Logged>,
    /// Those that there is no room for.
    passed: BTreeSet<PathBuf>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Logged {
    name: LogName,
    owner: u32,
    /// The host that it counts to.
    told_host: String,
    other_hosts: bool,
    tail: LogTail,
    pub(super) account: Account,
    /// When a communicator was first seen in it.
    named_at: Option<Instant>,
    is_told: bool,
    pub(super) is_final: bool,
    /// It had ended long ago when this agent started.
    is_stale: bool,
    /// Local ids by pointer and occurrence, in the order of appearance.
    ids: BTreeMap<(u64, u32), u64>,
    last_id: u64,
    revision: Option<u64>,
    start_ns: u64,
    run: RunFile,
    ending: Awaited,
    too_long: u64,
}

impl LogOnly {
    pub(super) fn new(dir: PathBuf, grace: Duration) -> Self {
        Self { dir, grace, processes: BTreeMap::new(), passed: BTreeSet::new() }
    }

    /// Follows the logs that belong to no segment.
    pub(super) fn poll(
        &mut self,
        logs: &BTreeMap<PathBuf, Log>,
        claimed: &Claimed,
        keys: &mut Keys,
        now: Now<'_>,
        losses: &mut Losses,
    ) {
        for (path, log) in logs {
            let name = &log.name;
            let is_claimed = claimed.by_segment.contains(&(log.owner, name.run_id.clone(), name.pid));
            let has_room = self.processes.len() < MAX_LOGS;
            match self.processes.get_mut(path) {
                // Its segment came late: from now on that is the account of the process.
                // One whose note says who it is goes on under the same key.
                Some(logged)
                    if is_claimed && (!logged.is_told || claimed.keys.contains(logged.account.key())) =>
                {
                    drop(self.processes.remove(path));
                }
                Some(logged) if is_claimed => {
                    logged.account.end(batch::ProcessState::Exited, now.wall.0);
                    logged.is_final = true;
                }
                None if !is_claimed && !self.passed.contains(path) => {
                    if has_room && now.budgets.add_log(log.owner) {
                        self.processes.insert(path.clone(), Logged::new(&self.dir, path, log, keys, now));
                    } else if self.passed.len() < MAX_PASSED {
                        self.passed.insert(path.clone());
                        losses.add(Loss::LogOverBudget, 1);
                    }
                }
                _ => {}
            }
        }
        self.passed.retain(|path| logs.contains_key(path) && !now.budgets.is_retry());
        for (path, logged) in &mut self.processes {
            if !logs.contains_key(path) && !logged.is_final {
                logged.account.end(batch::ProcessState::Exited, now.wall.0);
                logged.is_final = true;
            }
            if !logged.is_final {
                logged.read((&self.dir, path), claimed, now, self.grace, losses);
            }
        }
    }

    /// The processes that are told of, by run and number.
    pub(super) fn told(&self) -> BTreeSet<RunProcess> {
        let told = self.processes.values().filter(|logged| logged.is_told);
        told.map(|logged| (logged.owner, logged.name.run_id.clone(), logged.name.pid)).collect()
    }

    /// The logs that are followed.
    pub(super) fn logs(&self) -> impl Iterator<Item = (PathBuf, Log)> {
        let log = |logged: &Logged| Log { name: logged.name.clone(), owner: logged.owner };
        self.processes.iter().map(move |(path, logged)| (path.clone(), log(logged)))
    }

    /// What is held of each user.
    pub(super) fn held(&self) -> impl Iterator<Item = (u32, usize)> {
        self.processes.values().map(|logged| (logged.owner, logged.tail.held_bytes()))
    }

    /// Runs whose logs are still followed.
    pub(super) fn runs(&self) -> impl Iterator<Item = &str> {
        self.processes.values().map(|logged| logged.name.run_id.as_str())
    }

    /// Forgets the processes whose end the daemon has had for long enough, and those that never said anything. Returns
    /// their logs, to be removed, and which files were read as such.
    pub(super) fn clean(
        &mut self,
        monotonic: Instant,
        keep: Duration,
        claimed: &Claimed,
    ) -> Vec<(PathBuf, FileId)> {
        let is_done = |logged: &Logged| {
            let heard = logged.account.end_acknowledged.filter(|_| logged.is_final && logged.is_told);
            heard.is_some_and(|heard| logged.is_stale || monotonic.saturating_duration_since(heard) >= keep)
                || logged.is_final && !logged.is_told && logged.is_stale
        };
        let gone = self.processes.extract_if(.., |_, logged| is_done(logged));
        // The log of a process that got a segment goes with that.
        let is_free = |logged: &Logged| {
            let Logged { owner, name, .. } = logged;
            !claimed.by_segment.contains(&(*owner, name.run_id.clone(), name.pid))
        };
        let gone = gone.filter(|(_, logged)| is_free(logged));
        gone.filter_map(|(path, logged)| Some((path, logged.tail.file()?.1))).collect()
    }
}

impl Logged {
    fn new(dir: &Path, path: &Path, log: &Log, keys: &mut Keys, now: Now<'_>) -> Self {
        let Log { name, owner } = log;
        // A machine's name may be longer than NCCL writes it.
        let is_here = now.machine.split('.').next() == Some(name.host.as_str());
        let host = if is_here { now.machine } else { &name.host };
        let told_host = if now.other_hosts { host } else { now.machine };
        let run = RunFile::read_of(dir, &name.run_id, *owner).of(name.pid);
        let key = match run.identity(told_host, now.other_hosts) {
            Some(identity) => format!("{}/{}/{}", identity.host, identity.pid, identity.start_time_ns),
            None => format!("{told_host}/{}/{}", name.pid, name.run_id),
        };
        Self {
            account: Account::new(keys.own(key, *owner)),
            told_host: told_host.to_owned(),
            other_hosts: now.other_hosts,
            name: LogName { host: host.to_owned(), ..name.clone() },
            owner: *owner,
            tail: LogTail::at(dir, path.to_owned(), *owner),
            named_at: None,
            is_told: false,
            is_final: false,
            is_stale: false,
            ids: BTreeMap::new(),
            last_id: 0,
            revision: None,
            start_ns: 0,
            run,
            ending: Awaited::default(),
            too_long: 0,
        }
    }

    fn read(
        &mut self,
        (dir, path): (&Path, &Path),
        claimed: &Claimed,
        now: Now<'_>,
        grace: Duration,
        losses: &mut Losses,
    ) {
        // First whether it is gone, then what it has written: what a process that is gone has written is all.
        let (written_ns, made_ns) = times(dir, path);
        let life = if self.name.host == now.machine {
            look(self.name.pid, self.owner, written_ns)
        } else {
            Life::Unknown
        };
        let reached = self.tail.poll(now.readers, now.budgets, dir).unwrap_or_else(|error| {
            tracing::debug!(log = %path.display(), %error, "cannot read a log that has no segment");
            Reached::Missing
        });
        let too_long = self.tail.log.too_long();
        losses.add(Loss::LogLineTooLong, too_long.saturating_sub(self.too_long));
        self.too_long = too_long;
        self.tell_communicators();
        if !self.account.communicators().is_empty() {
            self.named_at.get_or_insert(now.monotonic);
        }
        let ended = match life {
            Life::Lives(start_ns) => {
                self.start_ns = start_ns;
                false
            }
            Life::Gone => true,
            Life::Unknown => self.says_ended() || is_silent(written_ns, now.wall.0),
        };
        if self.start_ns == 0 {
            self.start_ns = self.run.started_at.map_or(made_ns, |started| started.0);
        }
        let waited = self.named_at.is_some_and(|at| now.monotonic.saturating_duration_since(at) >= grace);
        if waited && reached != Reached::Middle {
            self.tell(claimed);
        }
        if ended && reached != Reached::Middle {
            let run = (self.name.run_id.as_str(), self.owner);
            let said = match self.account.ended() {
                Some(_) => Said::Nothing,
                None => self.ending.ask_run(dir, run, self.name.pid, now.monotonic),
            };
            match said {
                Said::NotYet => return,
                Said::Ends(ending) => ending.tell(&mut self.account, batch::ProcessState::Exited, now.wall.0),
                Said::Nothing if self.account.ended().is_some() => {}
                // Nobody knows how: a process that ends in order need not destroy its communicators.
                Said::Nothing => self.account.end(batch::ProcessState::Exited, written_ns),
            }
            self.is_stale = is_silent(written_ns, now.wall.0);
            // One that never named a communicator is nobody's concern, and is read on until it is old.
            self.is_final = self.is_told || self.named_at.is_none() && self.is_stale;
        }
    }

    /// All its communicators have ended, by its own word.
    fn says_ended(&self) -> bool {
        let all = self.account.communicators();
        !all.is_empty() && all.iter().all(|one| super::tell::has_ended(one.state))
    }

    fn tell_communicators(&mut self) {
        let log = &self.tail.log;
        let unfinished = log.unfinished();
        let revision = log.revision().wrapping_mul(2).wrapping_add(unfinished.len() as u64);
        if self.revision.replace(revision) == Some(revision) {
            return;
        }
        let all: Vec<&CommunicatorFacts> =
            log.communicators().chain(&unfinished).filter(|facts| facts.pid == self.name.pid).collect();
        let mut told = Vec::with_capacity(all.len());
        for facts in all {
            let next = self.last_id + 1;
            let id = *self.ids.entry((facts.comm_pointer, facts.occurrence)).or_insert(next);
            self.last_id = self.last_id.max(id);
            let state = match facts.end {
                Some(End::Destroyed) => batch::CommunicatorState::Destroyed,
                Some(End::Aborted) => batch::CommunicatorState::Aborted,
                None if facts.complete => batch::CommunicatorState::Active,
                None => batch::CommunicatorState::Forming,
            };
            told.push(batch::Communicator {
                local_id: id,
                state: state.into(),
                created_at_ns: self.start_ns,
                ..of_log(facts, self.tail.path())
            });
        }
        let present: BTreeSet<u64> = told.iter().map(|one| one.local_id).collect();
        self.ids.retain(|_, id| present.contains(id));
        self.account.set_communicators(told);
    }

    fn tell(&mut self, claimed: &Claimed) {
        self.is_told = true;
        let (LogName { run_id, pid, .. }, host) = (&self.name, &self.told_host);
        let job = self.run.job.clone();
        let job = job.or_else(|| claimed.jobs.get(&(self.owner, run_id.clone())).cloned());
        let version = self.tail.log.version().and_then(version_number);
        let key = std::mem::take(&mut self.account.now.key);
        let identity = self.run.identity(host, self.other_hosts).unwrap_or_else(|| batch::Identity {
            host: host.clone(),
            pid: *pid,
            start_time_ns: self.start_ns,
            executable: self.run.executable.clone().unwrap_or_default(),
            ..batch::Identity::default()
        });
        self.account.now = batch::Process {
            key,
            identity: Some(batch::Identity {
                job: job.unwrap_or_else(|| format!("pid-{pid}@{host}")),
                library_version: version.unwrap_or_default(),
                user: Some(self.owner),
                ..identity
            }),
            state: batch::ProcessState::Running.into(),
            log_lacks: self.tail.log.lacks(),
            ..batch::Process::default()
        };
    }
}

/// When a file was written last and when it was made, nanoseconds since the Unix epoch; 0 where that is not known.
fn times(dir: &Path, path: &Path) -> (u64, u64) {
    let Ok(metadata) = log_folder::metadata(dir, path) else { return (0, 0) };
    let seconds = u64::try_from(metadata.mtime()).unwrap_or_default();
    let written =
        seconds.saturating_mul(1_000_000_000) + u64::try_from(metadata.mtime_nsec()).unwrap_or_default();
    let made = metadata.created().ok().and_then(|made| made.duration_since(std::time::UNIX_EPOCH).ok());
    (written, made.and_then(|made| u64::try_from(made.as_nanos()).ok()).unwrap_or(written))
}

/// `2.27.3+cuda12.9` as `ncclGetVersion` numbers it from 2.9 on.
fn version_number(version: &str) -> Option<u32> {
    let mut parts = version.split(['.', '+', '-', 'a', 'b', 'r']).map(str::parse::<u32>);
    let (major, minor, patch) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let (major, minor) = (major.checked_mul(10_000)?, minor.checked_mul(100)?);
    major.checked_add(minor)?.checked_add(patch)
}

#[cfg(test)]
mod tests {
    use super::version_number;

    #[test]
    fn versions_are_numbered_as_by_the_library() {
        assert_eq!(version_number("2.27.3+cuda12.9"), Some(22_703));
        assert_eq!(version_number("2.18.3"), Some(21_803));
        assert_eq!(version_number("2.x"), None);
        assert_eq!(version_number("4294967295.9.9"), None);
    }
}
