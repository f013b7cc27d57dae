//! The segments of the folder: which there are (`listing`), what changed, and when their files may go (`going`).

mod going;
mod listing;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch;
use ringscope_wire::segment::read::Identity;
use rustix::io::Errno;

use self::listing::Listing;
use super::account::Account;
use super::beneath::{FileId, own_folder};
use super::budget::{Budgets, Held};
use super::claims::{self, Keys, Refusal, is_same_host};
use super::control::raised;
use super::denied::Denied;
use super::foreign::clean;
use super::hardware::QueuePairStates;
use super::lacks;
use super::launches::Launches;
use super::log_file::Reached;
use super::log_only::{Claimed, LogOnly};
use super::log_readers::LogReaders;
use super::loss::{Loss, Losses};
use super::other_version::OtherVersions;
use super::process::{Now, Process, key};
use super::procfs::Pid;
use super::programs::Programs;
use super::rights::Rights;
use super::segment_file::{ReadError, SegmentFile, Target};
use super::watch::Watch;
use super::wishes::Wishes;

/// Jobs that are told once that they have no log.
const MAX_TOLD: usize = 4096;
/// Bytes of a name that somebody else has chosen, in a message.
const MAX_NAME_BYTES: usize = 128;
/// Files that are warned about once.
const MAX_WARNED: usize = 65_536;

/// All processes of the host.
#[derive(Debug)]
pub struct Tracker {
    dir: PathBuf,
    machine: String,
    other_hosts: bool,
    log_readers: LogReaders,
    budgets: Budgets,
    keys: Keys,
    refusals: BTreeMap<PathBuf, Refusal>,
    keep_dead: Duration,
    ended_bytes: u64,
    processes: BTreeMap<PathBuf, Tracked>,
    log_only: LogOnly,
    launches: Launches,
    other_versions: OtherVersions,
    denied: Denied,
    watch: Watch,
    programs: Programs,
    pub(super) losses: Losses,
    warned: BTreeSet<PathBuf>,
    told: BTreeSet<String>,
    wishes: Wishes,
    queue_pairs: QueuePairStates,
    /// Files of connections that were left out, the most so far.
    connection_files_left_out: u64,
    /// When files of connections were last looked at that may go.
    connections_cleaned_at: Option<Instant>,
    is_first: bool,
}

#[derive(Debug)]
struct Tracked {
    process: Process,
    /// The wish that it has been told: what somebody else writes after that stays.
    obeyed: Option<u32>,
    /// The control word that could not be written, which was said.
    refused: Option<u32>,
    /// Its file was already old when the agent started.
    is_stale: bool,
    /// What its files take, once it has ended.
    bytes: Option<u64>,
}

impl Tracked {
    /// Writes what is wished for in the process's job, once, and what diagnosis needs where nobody wishes for anything.
    fn obey(&mut self, target: Target<'_>, wishes: &Wishes) {
        let path = target.path;
        if self.process.is_final {
            return;
        }
        if let Some(n_places) = self.process.wanted_places
            && let Err(error) = target.want_places(n_places)
        {
            tracing::debug!(segment = %path.display(), %error, "cannot ask for more places of records");
        }
        let job = self.process.account.job();
        let user = self.process.file.owner;
        let wish = wishes.word(job, user).filter(|wish| self.obeyed != Some(*wish));
        self.obeyed = wish.or(self.obeyed);
        let word = wish.unwrap_or_else(|| raised(self.process.control, wishes.is_raised(job, user)));
        if self.process.control != word
            && let Err(error) = target.control(word)
            && self.refused.replace(word) != Some(word)
        {
            tracing::warn!(
                segment = %path.display(),
                %error,
                "cannot write the level that is wished for: the process goes on as it is. Give the agent the capability \
                 CAP_DAC_OVERRIDE, or run it as the user of the job"
            );
        }
    }
}

impl Tracker {
    /// The segments and logs in `dir` on the machine of this name. A process without a segment counts once its log has
    /// waited for `log_grace` for one.
    #[must_use]
    pub fn new(dir: PathBuf, machine: String, keep_dead: Duration, log_grace: Duration) -> Self {
        Self {
            log_only: LogOnly::new(dir.clone(), log_grace),
            launches: Launches::new(dir.clone()),
            other_versions: OtherVersions::default(),
            denied: Denied::default(),
            watch: Watch::new(None),
            programs: Programs::default(),
            dir,
            machine,
            other_hosts: false,
            log_readers: LogReaders::default(),
            budgets: Budgets::default(),
            keys: Keys::default(),
            refusals: BTreeMap::new(),
            keep_dead,
            ended_bytes: super::config::DEFAULT_ENDED_BYTES,
            processes: BTreeMap::new(),
            losses: Losses::default(),
            warned: BTreeSet::new(),
            told: BTreeSet::new(),
            wishes: Wishes::default(),
            queue_pairs: QueuePairStates::default(),
            connection_files_left_out: 0,
            connections_cleaned_at: None,
            is_first: true,
        }
    }

    /// The folder of segments.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The processes whose segments may not be read, those that are not taken for what they say that they are, and those
    /// that are too many, and why, in words.
    pub(super) fn not_watched(&self) -> impl Iterator<Item = String> {
        let starter = self.programs.have_ended().then(lacks::of_starter);
        [self.denied.words(&self.dir), self.refused(), self.budgets.words(), starter].into_iter().flatten()
    }

    fn refused(&self) -> Option<String> {
        let (path, refusal) = self.refusals.first_key_value()?;
        let segments = match self.refusals.len() {
            1 => "1 segment is".to_owned(),
            n => format!("{n} segments are"),
        };
        let name = path.file_name().unwrap_or_default().display().to_string();
        Some(format!(
            "{segments} refused, because it is not what it says ({}: {refusal}): ask that user, and remove it from {}",
            clean(&name, MAX_NAME_BYTES),
            self.dir.display()
        ))
    }

    /// The same where processes may count themselves to other hosts than this machine, as in a demonstration.
    #[must_use]
    pub fn with_other_hosts(self, other_hosts: bool) -> Self {
        Self { other_hosts, ..self }
    }

    /// The same with programs, and whether one of them looks at processes when the daemon asks.
    pub(super) fn looking(self, programs: Programs, looks: bool) -> Self {
        Self { watch: Watch::new(looks.then(|| programs.clone())), programs, ..self }
    }

    /// The same with so many bytes for the segments of processes that have ended.
    pub(super) fn keeping_at_most(self, ended_bytes: u64) -> Self {
        Self { ended_bytes, ..self }
    }

    /// Takes how the kernel says that queue pairs stand.
    pub(super) fn know_queue_pairs(&mut self, states: QueuePairStates) {
        self.queue_pairs.replace(states);
    }

    /// Whether any process runs.
    pub(super) fn has_running(&self) -> bool {
        self.processes.values().any(|tracked| !tracked.process.is_final)
    }

    /// Lets the next reading pass nothing over that is read less often: it is the last.
    pub fn look_at_once(&mut self) {
        self.launches.look_at_once();
    }

    /// Reads all segments and logs.
    pub fn poll(&mut self, monotonic: Instant) {
        let (machine, dir) = (std::mem::take(&mut self.machine), self.dir.clone());
        let wall = ringscope_api::clock::now();
        let readers = std::mem::take(&mut self.log_readers);
        let budgets = std::mem::take(&mut self.budgets);
        let ticks = super::ticks::reading();
        let listing = self.list();
        let left_out = listing.connections.left_out();
        self.losses
            .add(Loss::ConnectionFilesLeftOut, left_out.saturating_sub(self.connection_files_left_out));
        self.connection_files_left_out = self.connection_files_left_out.max(left_out);
        let folder = own_folder(&dir).ok();
        let queue_pairs = std::mem::take(&mut self.queue_pairs);
        let now = Now {
            wall,
            monotonic,
            ticks,
            machine: &machine,
            other_hosts: self.other_hosts,
            dir: &dir,
            folder: folder.as_ref(),
            connections: &listing.connections,
            queue_pairs: &queue_pairs,
            readers: &readers,
            budgets: &budgets,
        };
        budgets.begin(&self.held(), monotonic);
        self.denied = Denied::default();
        for path in &listing.segments {
            if let Err(error) = self.read(path, now) {
                self.other_versions.note(path, &error);
                self.denied.note(path, &error);
                self.warn_unreadable(path, &error);
            }
        }
        for (path, tracked) in &mut self.processes {
            if !listing.segments.contains(path) && !tracked.process.is_final {
                tracked.process.without_segment(self.watch.lives(path), now);
            }
        }
        let claimed = self.claimed();
        self.log_only.poll(&listing.logs, &claimed, &mut self.keys, now, &mut self.losses);
        let pids: Vec<Pid> = self.watch.pids().collect();
        self.launches.poll(&listing.runs, &claimed, &self.log_only.told(), &pids, &mut self.keys, now);
        let logged = self.log_only.processes.values_mut().map(|logged| &mut logged.account);
        logged.chain(self.launches.accounts_mut()).for_each(|account| self.other_versions.tell(account));
        let processes = self.processes.values_mut().map(|tracked| &mut tracked.process).collect();
        self.watch.poll(processes, &mut self.launches, monotonic);
        (self.machine, self.log_readers, self.budgets) = (machine, readers, budgets);
        self.queue_pairs = queue_pairs;
        self.is_first = false;
        self.tell_missing_logs();
        self.clean(monotonic, &listing, &claimed);
    }

    /// What changed since it was queued.
    #[must_use]
    pub fn changes(&self) -> Vec<batch::Process> {
        self.told(&self.shadowed()).filter_map(Account::changes).collect()
    }

    /// Whether all that changed since it was queued may wait: see [`super::steady`].
    pub(super) fn may_wait(&self) -> bool {
        self.told(&self.shadowed()).all(Account::may_wait)
    }

    /// What is told of all processes but those of `shadowed` segments.
    fn told<'a>(&'a self, shadowed: &BTreeSet<PathBuf>) -> impl Iterator<Item = &'a Account> {
        let with_segment = (self.processes.iter())
            .filter(|(path, _)| !shadowed.contains(*path))
            .map(|(_, tracked)| &tracked.process.account);
        let without = self.log_only.processes.values().map(|logged| &logged.account);
        with_segment.chain(without).chain(self.launches.accounts())
    }

    /// Whether a call of some living process has been open for a time in this range.
    pub(super) fn waits(&self, now: Timestamp, range: &Range<Duration>) -> bool {
        self.processes.values().any(|tracked| tracked.process.account.waits(now.0, range))
    }

    /// Notes that all of these processes is now queued, in batch `seq`.
    pub fn queued<'k>(&mut self, keys: impl Iterator<Item = &'k str>, seq: u64) {
        let keys: BTreeSet<&str> = keys.collect();
        let with_segment = self.processes.values_mut().map(|tracked| &mut tracked.process.account);
        let without = self.log_only.processes.values_mut().map(|logged| &mut logged.account);
        let all = with_segment.chain(without).chain(self.launches.accounts_mut());
        for account in all.filter(|account| keys.contains(account.key())) {
            account.queued(seq);
        }
    }

    /// Batches were lost on their way: what they said must be said again before it counts as acknowledged.
    pub(super) fn unsay(&mut self) {
        self.processes.values_mut().for_each(|tracked| tracked.process.account.unsay());
        self.log_only.processes.values_mut().for_each(|logged| logged.account.unsay());
        self.launches.accounts_mut().for_each(Account::unsay);
    }

    /// The daemon has all batches up to `seq`.
    pub(super) fn acknowledged(&mut self, seq: u64, monotonic: Instant) {
        for (path, tracked) in &mut self.processes {
            let process = &mut tracked.process;
            for local_id in process.account.acknowledged(seq, process.is_final, monotonic) {
                let slot = u16::try_from(local_id & 0xffff).unwrap_or_default();
                let generation = u32::try_from(local_id >> 16).unwrap_or_default();
                let target = Target { path, is: Some(process.file) };
                if let Err(error) = target.release(slot, generation) {
                    tracing::debug!(segment = %path.display(), %error, "cannot release a communicator's slot");
                }
            }
        }
        for logged in self.log_only.processes.values_mut() {
            // Nothing in a log waits for it.
            logged.account.acknowledged(seq, logged.is_final, monotonic);
        }
        self.launches.acknowledged(seq, monotonic);
    }

    /// Takes what is wished for now, and the jobs that diagnosis raises. A job that is not named keeps what it was told,
    /// and is not raised.
    pub(super) fn wish(&mut self, wishes: &[batch::Wish], raised: Vec<String>) {
        self.wishes = Wishes::new(wishes, raised);
    }

    /// Takes the daemon's questions; each is answered once.
    pub(super) fn inquire(&mut self, inquiries: &[batch::Inquiry]) {
        let processes = self.processes.values_mut().map(|tracked| &mut tracked.process).collect();
        self.watch.inquire(inquiries, processes, &self.launches);
    }

    /// How the process with this number on this machine knows itself; the same number if it has no segment.
    pub(super) fn own_pid(&self, number: u32) -> u32 {
        let tracked = self.watch.segment(number).and_then(|segment| self.processes.get(segment));
        tracked.map_or(number, |tracked| tracked.process.pid)
    }

    fn list(&self) -> Listing {
        Listing::of(&self.dir).unwrap_or_else(|(mut listing, error)| {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot list the segments");
            // What cannot be seen has not ended. Where the folder itself is gone, its segments are.
            if error.kind() != io::ErrorKind::NotFound {
                listing.segments.extend(self.processes.keys().cloned());
            }
            listing.logs.extend(self.log_only.logs());
            listing
        })
    }

    fn claimed(&self) -> Claimed {
        let mut claimed = Claimed::default();
        for process in self.processes.values().map(|tracked| &tracked.process) {
            if process.run_id.is_empty() {
                continue;
            }
            let user = process.file.owner;
            claimed.by_segment.insert((user, process.run_id.clone(), process.pid));
            claimed.keys.insert(process.account.key().to_owned());
            claimed
                .jobs
                .entry((user, process.run_id.clone()))
                .or_insert_with(|| process.account.job().to_owned());
        }
        claimed
    }

    fn read(&mut self, path: &Path, now: Now<'_>) -> Result<(), ReadError> {
        let known = self.processes.get(path).map(|tracked| &tracked.process);
        let is_passed = match known {
            Some(process) => process.is_final || !now.budgets.may_read(process.file.owner, path),
            None => now.budgets.is_surplus(path) || self.refusals.contains_key(path),
        };
        if is_passed {
            return Ok(());
        }
        let known = known.map(|process| process.file);
        let started = ringscope_api::clock::monotonic();
        let opened = SegmentFile::open(now.folder, path).and_then(|file| match known {
            Some(known) if known != file.id() => Err(io::Error::other("another file has its name by now")),
            _ => Ok(file),
        });
        let mut file = match opened {
            Ok(file) => file,
            Err(error) => {
                self.cannot_open(path, &error, now);
                return Err(error.into());
            }
        };
        if known.is_none() && !self.take(path, &mut file, now)? {
            return Ok(());
        }
        if let Some(tracked) = self.processes.get_mut(path) {
            tracked.process.read(&mut file, now, &mut self.losses)?;
            tracked.obey(Target { path, is: Some(file.id()) }, &self.wishes);
        }
        now.budgets.spent(
            file.id().owner,
            path,
            ringscope_api::clock::monotonic().saturating_duration_since(started),
        );
        Ok(())
    }

    /// Takes in a segment that is seen for the first time. `false`: its user has too many.
    fn take(&mut self, path: &Path, file: &mut SegmentFile, now: Now<'_>) -> Result<bool, ReadError> {
        let (identity, id) = (file.snapshot()?.identity, file.id());
        if let Err(refusal) = claims::check(&identity, id) {
            if self.refusals.len() < MAX_WARNED {
                self.refusals.insert(path.to_owned(), refusal.clone());
            }
            return Err(refusal.into());
        }
        if !now.budgets.add_process(id.owner, path) {
            self.losses.add(Loss::SegmentOverBudget, 1);
            return Ok(false);
        }
        if !now.other_hosts && !identity.host.is_empty() && !is_same_host(&identity.host, now.machine) {
            self.other_host(path, &identity, id);
        }
        let key = self.keys.own(key(&identity, now), id.owner);
        let tracked = Tracked {
            process: Process::new(path.to_owned(), &identity, id, key, now),
            obeyed: None,
            refused: None,
            is_stale: self.is_first && file.age() > self.keep_dead,
            bytes: None,
        };
        self.processes.insert(path.to_owned(), tracked);
        Ok(true)
    }

    /// A process counts itself to another host. In a container it does so by the container's name, and lies to nobody.
    fn other_host(&mut self, path: &Path, identity: &Identity, id: FileId) {
        if claims::has_own_host_name(identity, id, &self.programs) {
            return;
        }
        self.losses.add(Loss::HostRefused, 1);
        tracing::warn!(
            segment = %path.display(),
            user = id.owner,
            host = clean(&identity.host, MAX_NAME_BYTES),
            "a process counts itself to another host (RINGSCOPE_HOST) and is counted to this one: start the agent with \
             --allow-other-hosts where that is meant"
        );
    }

    /// What is held of each user.
    fn held(&self) -> BTreeMap<u32, Held> {
        let mut held = BTreeMap::<u32, Held>::new();
        for process in self.processes.values().map(|tracked| &tracked.process) {
            let of_user = held.entry(process.file.owner).or_default();
            of_user.processes += 1;
            of_user.facts_bytes += process.log.held_bytes();
        }
        for (user, facts_bytes) in self.log_only.held() {
            let of_user = held.entry(user).or_default();
            of_user.logs += 1;
            of_user.facts_bytes += facts_bytes;
        }
        held
    }

    /// A known segment that is there and does not open is as good as gone. The agent's own want is not the process's.
    fn cannot_open(&mut self, path: &Path, error: &io::Error, now: Now<'_>) {
        let own = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR].map(Errno::raw_os_error);
        let is_own = error.raw_os_error().is_some_and(|code| own.contains(&code));
        let is_gone = error.kind() == io::ErrorKind::NotFound;
        let lives = self.watch.lives(path);
        if let Some(tracked) = self.processes.get_mut(path).filter(|_| !is_own && !is_gone) {
            tracked.process.unreadable(lives, now);
        }
    }

    fn warn_unreadable(&mut self, path: &Path, error: &ReadError) {
        // Gone between listing and reading: nothing is lost.
        if matches!(error, ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound) {
            return;
        }
        if self.warned.len() < MAX_WARNED && self.warned.insert(path.to_owned()) {
            let is_refused = matches!(error, ReadError::Refused(_));
            self.losses.add(if is_refused { Loss::ClaimRefused } else { Loss::SegmentUnreadable }, 1);
            let is_denied =
                matches!(error, ReadError::Io(error) if error.kind() == io::ErrorKind::PermissionDenied);
            let advice = if is_denied { Rights::remedy() } else { "if no process uses the file, remove it" };
            tracing::warn!(
                segment = %path.display(),
                %error,
                "cannot read a segment: its process is not seen, all others are: {advice}"
            );
        }
    }

    /// A process that has replaced itself (exec) leaves an old segment with the same key. The living one counts, then
    /// the one made later (whose name sorts last is as good as any).
    fn shadowed(&self) -> BTreeSet<PathBuf> {
        let mut best: BTreeMap<&str, (bool, &Path)> = BTreeMap::new();
        let mut shadowed = BTreeSet::new();
        for (path, tracked) in &self.processes {
            let rank = (!tracked.process.is_final, path.as_path());
            match best.get(tracked.process.account.key()) {
                Some(other) if *other > rank => {
                    shadowed.insert(path.clone());
                }
                Some(other) => {
                    shadowed.insert(other.1.to_owned());
                    best.insert(tracked.process.account.key(), rank);
                }
                None => {
                    best.insert(tracked.process.account.key(), rank);
                }
            }
        }
        shadowed
    }

    fn tell_missing_logs(&mut self) {
        for tracked in self.processes.values() {
            let process = &tracked.process;
            let job = process.account.job();
            let is_done = process.log_reached != Reached::Middle && process.lacks_log();
            if is_done && self.told.len() < MAX_TOLD && !self.told.contains(job) {
                self.told.insert(job.to_owned());
                let log = process.log.wanted().map_or("none".to_owned(), |path| path.display().to_string());
                tracing::info!(
                    job,
                    log,
                    "the rings of this job are not known, for its processes write no log that says them: start it with \
                     `ringscope run`, or set NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV and NCCL_DEBUG_FILE"
                );
            }
        }
    }
}
