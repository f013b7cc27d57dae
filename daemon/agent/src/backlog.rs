//! The batches that the daemon does not have yet, oldest first.
//!
//! In memory while the daemon answers; on disk, one file per batch, as soon as it does not or the agent stops. A folder
//! `agent-<uuid>` belongs to the agent that holds its lock; the folders of agents that are gone are sent first.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::AgentError;

/// One batch.
#[derive(Debug)]
struct Entry {
    id: u64,
    /// Its number if it is this agent's, `None` if it was left over.
    seq: Option<u64>,
    bytes: u64,
    body: Option<Vec<u8>>,
    path: Option<PathBuf>,
}

/// The oldest batch.
#[derive(Debug)]
pub(super) struct Front {
    /// Tells it from all others of this backlog.
    pub(super) id: u64,
    /// Its number if it is this agent's, `None` if it was left over.
    pub(super) seq: Option<u64>,
    pub(super) body: io::Result<Vec<u8>>,
}

/// All batches not yet sent.
#[derive(Debug)]
pub(super) struct Backlog {
    folder: PathBuf,
    entries: VecDeque<Entry>,
    bytes: u64,
    limit_bytes: u64,
    next_id: u64,
    /// The lock of this agent's folder and of those taken over.
    locks: BTreeMap<PathBuf, File>,
}

const LOCK: &str = "lock";
const SUFFIX: &str = "batch";

impl Backlog {
    /// Makes this agent's folder and takes over those of agents that are gone.
    pub(super) fn open(state_dir: &Path, agent_id: &str, limit_bytes: u64) -> Result<Self, AgentError> {
        let wrong = |source| AgentError::StateDir { path: state_dir.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(wrong)?;
        let mut backlog = Self {
            folder: state_dir.join(format!("agent-{agent_id}")),
            entries: VecDeque::new(),
            bytes: 0,
            limit_bytes,
            next_id: 0,
            locks: BTreeMap::new(),
        };
        backlog.take_over(state_dir).map_err(wrong)?;
        backlog.make_folder(state_dir, agent_id).map_err(wrong)?;
        Ok(backlog)
    }

    /// Adds a batch. Returns how many old ones had to go for it.
    pub(super) fn push(&mut self, seq: u64, body: Vec<u8>) -> u64 {
        let bytes = body.len() as u64;
        self.add(Entry { id: 0, seq: Some(seq), bytes, body: Some(body), path: None });
        let mut dropped = 0;
        while self.bytes > self.limit_bytes && self.entries.len() > 1 {
            self.drop_front();
            dropped += 1;
        }
        dropped
    }

    /// Batches that are in memory only.
    pub(super) fn in_memory(&self) -> usize {
        self.entries.iter().rev().take_while(|entry| entry.body.is_some()).count()
    }

    /// The oldest batch, read back if need be.
    pub(super) async fn front(&self) -> Option<Front> {
        let entry = self.entries.front()?;
        let body = match (&entry.body, &entry.path) {
            (Some(body), _) => Ok(body.clone()),
            (None, Some(path)) => tokio::fs::read(path).await,
            (None, None) => Err(io::Error::other("neither in memory nor on disk")),
        };
        Some(Front { id: entry.id, seq: entry.seq, body })
    }

    /// Forgets a batch that was the oldest: it was taken or refused. It may have had to go meanwhile.
    pub(super) fn done(&mut self, id: u64) {
        if self.entries.front().is_some_and(|entry| entry.id == id) {
            self.drop_front();
        }
    }

    fn add(&mut self, entry: Entry) {
        self.next_id += 1;
        self.bytes += entry.bytes;
        self.entries.push_back(Entry { id: self.next_id, ..entry });
    }

    fn drop_front(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        let Some(path) = entry.path else { return };
        remove(&path);
        let Some(folder) = path.parent() else { return };
        let is_needed = folder == self.folder
            || self
                .entries
                .iter()
                .any(|entry| entry.path.as_ref().is_some_and(|path| path.starts_with(folder)));
        if !is_needed {
            self.locks.remove(folder);
            remove_folder(folder);
        }
    }

    /// Writes to disk what is in memory only.
    pub(super) async fn spill(&mut self) -> io::Result<()> {
        for entry in &mut self.entries {
            let (Some(body), Some(seq)) = (&entry.body, entry.seq) else { continue };
            // Under another name first: a file with the right name is whole.
            let path = self.folder.join(format!("{seq:020}.{SUFFIX}"));
            let unfinished = path.with_extension("tmp");
            tokio::fs::write(&unfinished, body).await?;
            tokio::fs::rename(&unfinished, &path).await?;
            (entry.body, entry.path) = (None, Some(path));
        }
        Ok(())
    }

    /// Ends the agent's use of it: a folder without batches goes, one with batches is left for the next agent.
    pub(super) fn close(self) {
        if self.entries.is_empty() {
            remove_folder(&self.folder);
        }
    }

    fn make_folder(&mut self, state_dir: &Path, agent_id: &str) -> io::Result<()> {
        // Under another name until it is locked, or another agent could take it over.
        let unlocked = state_dir.join(format!("new-{agent_id}"));
        std::fs::create_dir_all(&unlocked)?;
        let lock = File::create(unlocked.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        std::fs::rename(&unlocked, &self.folder)?;
        self.locks.insert(self.folder.clone(), lock);
        Ok(())
    }

    fn take_over(&mut self, state_dir: &Path) -> io::Result<()> {
        let mut folders: Vec<PathBuf> = (std::fs::read_dir(state_dir)?.filter_map(Result::ok))
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("agent-"))
            .map(|entry| entry.path())
            .collect();
        folders.sort();
        for folder in folders {
            let Ok(lock) = OpenOptions::new().read(true).open(folder.join(LOCK)) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let mut batches: Vec<PathBuf> = (std::fs::read_dir(&folder)?.filter_map(Result::ok))
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|extension| extension == SUFFIX))
                .collect();
            batches.sort();
            if batches.is_empty() {
                remove_folder(&folder);
                continue;
            }
            for path in batches {
                let bytes = path.metadata().map_or(0, |metadata| metadata.len());
                self.add(Entry { id: 0, seq: None, bytes, body: None, path: Some(path) });
            }
            self.locks.insert(folder, lock);
        }
        Ok(())
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(file = %path.display(), %error, "cannot remove a batch");
    }
}

fn remove_folder(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        tracing::debug!(folder = %folder.display(), %error, "cannot remove an empty backlog");
    }
}
