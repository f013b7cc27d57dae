//! The segments of the folder: which there are, what changed, and when their files may go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringscope_wire::batch;
use ringscope_wire::segment::read::snapshot;

use super::delta::delta;
use super::log_tail::Reached;
use super::loss::{Loss, Losses};
use super::process::{Now, Process, has_ended, key};
use super::segment_file::{ReadError, SegmentFile, release};

/// Jobs that are told once that they have no log.
const MAX_TOLD: usize = 4096;
/// Files that are warned about once.
const MAX_WARNED: usize = 65_536;

/// Not queued, or queued in a batch that will not arrive.
const UNSAID: u64 = u64::MAX;

/// All processes of the host.
#[derive(Debug)]
pub(super) struct Tracker {
    dir: PathBuf,
    machine: String,
    keep_dead: Duration,
    processes: BTreeMap<PathBuf, Tracked>,
    pub(super) losses: Losses,
    warned: BTreeSet<PathBuf>,
    told: BTreeSet<String>,
    is_first: bool,
}

#[derive(Debug)]
struct Tracked {
    process: Process,
    /// Newest batch that names the process.
    last_said: u64,
    /// Batch by which the end of the process, and all before it, was said.
    end_said: u64,
    /// When its end was acknowledged.
    end_acknowledged: Option<Instant>,
    /// Its file was already old when the agent started.
    is_stale: bool,
}

impl Tracker {
    pub(super) fn new(dir: PathBuf, machine: String, keep_dead: Duration) -> Self {
        Self {
            dir,
            machine,
            keep_dead,
            processes: BTreeMap::new(),
            losses: Losses::default(),
            warned: BTreeSet::new(),
            told: BTreeSet::new(),
            is_first: true,
        }
    }

    /// Reads all segments and logs.
    pub(super) fn poll(&mut self, monotonic: Instant) {
        let machine = std::mem::take(&mut self.machine);
        let now = Now { wall: crate::clock::now(), ticks: super::ticks::reading(), machine: &machine };
        let paths = self.list();
        for path in &paths {
            if let Err(error) = self.read(path, now) {
                self.warn_unreadable(path, &error);
            }
        }
        for (path, tracked) in &mut self.processes {
            if !paths.contains(path) && !tracked.process.is_final {
                tracing::warn!(segment = %path.display(), "the segment is gone: its process is counted as killed");
                tracked.process.end(batch::ProcessState::Killed, now.wall);
                tracked.process.is_final = true;
            }
        }
        self.machine = machine;
        self.is_first = false;
        self.tell_missing_logs();
        self.clean(monotonic, &paths);
    }

    /// What changed since it was queued.
    pub(super) fn changes(&self) -> Vec<batch::Process> {
        let shadowed = self.shadowed();
        (self.processes.iter())
            .filter(|(path, tracked)| tracked.process.has_been_read() && !shadowed.contains(*path))
            .filter_map(|(_, tracked)| delta(tracked.process.said.as_ref(), &tracked.process.now))
            .collect()
    }

    /// Notes that all of these processes is now queued, in batch `seq`.
    pub(super) fn queued<'k>(&mut self, keys: impl Iterator<Item = &'k str>, seq: u64) {
        let keys: BTreeSet<&str> = keys.collect();
        for tracked in self.processes.values_mut().filter(|t| keys.contains(t.process.now.key.as_str())) {
            let process = &mut tracked.process;
            for communicator in &process.now.communicators {
                let was_said =
                    process.said.as_ref().is_some_and(|said| said.communicators.contains(communicator));
                if has_ended(communicator.state) && !was_said {
                    process.ends_said.insert(communicator.local_id, seq);
                }
            }
            tracked.last_said = seq;
            process.said = Some(process.now.clone());
        }
    }

    /// Batches were lost on their way: what they said must be said again before it counts as acknowledged.
    pub(super) fn unsay(&mut self) {
        for tracked in self.processes.values_mut() {
            tracked.process.said = None;
            tracked.process.ends_said.clear();
            (tracked.last_said, tracked.end_said) = (UNSAID, UNSAID);
        }
    }

    /// The daemon has all batches up to `seq`.
    pub(super) fn acknowledged(&mut self, seq: u64, monotonic: Instant) {
        for (path, tracked) in &mut self.processes {
            let ends = &mut tracked.process.ends_said;
            for (local_id, _) in ends.extract_if(.., |_, said| *said <= seq) {
                let slot = u16::try_from(local_id & 0xffff).unwrap_or_default();
                let generation = u32::try_from(local_id >> 16).unwrap_or_default();
                if let Err(error) = release(path, slot, generation) {
                    tracing::debug!(segment = %path.display(), %error, "cannot release a communicator's slot");
                }
            }
            // The end may have been said before the log was read to its end.
            if tracked.process.is_final && tracked.process.said.as_ref() == Some(&tracked.process.now) {
                tracked.end_said = tracked.end_said.min(tracked.last_said);
            }
            if tracked.end_said <= seq {
                tracked.end_acknowledged.get_or_insert(monotonic);
            }
        }
    }

    fn list(&self) -> BTreeSet<PathBuf> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), %error, "cannot list the segments");
                return self.processes.keys().cloned().collect();
            }
        };
        (entries.filter_map(Result::ok).map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
            .collect()
    }

    fn read(&mut self, path: &Path, now: Now<'_>) -> Result<(), ReadError> {
        if self.processes.get(path).is_some_and(|tracked| tracked.process.is_final) {
            return Ok(());
        }
        let mut file = SegmentFile::open(path)?;
        if !self.processes.contains_key(path) {
            let identity = snapshot(&mut file)?.identity;
            let tracked = Tracked {
                process: Process::new(path.to_owned(), &identity, now.machine),
                last_said: UNSAID,
                end_said: UNSAID,
                end_acknowledged: None,
                is_stale: self.is_first && file.age() > self.keep_dead,
            };
            debug_assert_eq!(tracked.process.now.key, key(&identity, now.machine));
            self.processes.insert(path.to_owned(), tracked);
        }
        if let Some(tracked) = self.processes.get_mut(path) {
            tracked.process.read(&mut file, now, &mut self.losses)?;
        }
        Ok(())
    }

    fn warn_unreadable(&mut self, path: &Path, error: &ReadError) {
        // Gone between listing and reading: nothing is lost.
        if matches!(error, ReadError::Io(io) if io.kind() == std::io::ErrorKind::NotFound) {
            return;
        }
        if self.warned.len() < MAX_WARNED && self.warned.insert(path.to_owned()) {
            self.losses.add(Loss::SegmentUnreadable, 1);
            tracing::warn!(
                segment = %path.display(),
                %error,
                "cannot read a segment: its process is not seen, all others are. If no process uses the file, remove it"
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
            match best.get(tracked.process.now.key.as_str()) {
                Some(other) if *other > rank => {
                    shadowed.insert(path.clone());
                }
                Some(other) => {
                    shadowed.insert(other.1.to_owned());
                    best.insert(&tracked.process.now.key, rank);
                }
                None => {
                    best.insert(&tracked.process.now.key, rank);
                }
            }
        }
        shadowed
    }

    fn tell_missing_logs(&mut self) {
        for tracked in self.processes.values() {
            let process = &tracked.process;
            let job = process.now.identity.as_ref().map_or("", |identity| identity.job.as_str());
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

    /// Removes the files of processes whose end the daemon has had for long enough, and forgets what is gone.
    fn clean(&mut self, monotonic: Instant, paths: &BTreeSet<PathBuf>) {
        let (dir, keep_dead) = (self.dir.clone(), self.keep_dead);
        let shadowed = self.shadowed();
        self.processes.retain(|path, tracked| {
            let heard = tracked.end_acknowledged.or_else(|| shadowed.contains(path).then_some(monotonic));
            let Some(heard) = heard.filter(|_| tracked.process.is_final) else { return true };
            let kept = monotonic.saturating_duration_since(heard);
            if kept < keep_dead && !tracked.is_stale && paths.contains(path) {
                return true;
            }
            if let Some(log) = tracked.process.log.path().filter(|log| lies_in(log, &dir)) {
                remove(log);
            }
            remove(path);
            false
        });
        self.warned.retain(|path| paths.contains(path));
    }
}

/// Whether a file lies in the folder, whatever links and dots its path has. Logs elsewhere are the user's.
fn lies_in(file: &Path, dir: &Path) -> bool {
    match (file.canonicalize(), dir.canonicalize()) {
        (Ok(file), Ok(dir)) => file.starts_with(dir),
        _ => false,
    }
}

fn remove(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(file = %path.display(), %error, "cannot remove a file of a process that has ended");
        }
        _ => {}
    }
}
