//! What is remembered between two calls, in a file: who was drained when, and what held at the last look.
//!
//! A file that cannot be read is an error and not an empty one: who forgets drains again.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Finding, Incident};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// It cannot be read or written.
    #[error("cannot use {path}, which remembers who was drained: {source}; name another with --state")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It holds something else.
    #[error(
        "{path} does not hold what `ringscope drain` remembers ({why}); see that nobody is drained twice, and remove it"
    )]
    Strange {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Another one is at work.
    #[error("another `ringscope drain` is at work with {path}")]
    Busy {
        /// The file.
        path: PathBuf,
    },
}

/// What is remembered.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Memory {
    /// When each host was drained that has been accused ever since.
    drained: BTreeMap<String, Timestamp>,
    /// When hosts were drained lately, or it was tried.
    tries: Vec<Timestamp>,
    /// When it was looked last.
    looked_at: Option<Timestamp>,
    /// Findings that held then, and since when without a break.
    held: BTreeMap<String, Timestamp>,
}

impl Memory {
    /// Notes what holds now.
    pub(super) fn observe<'f>(&mut self, findings: impl Iterator<Item = &'f Finding>, now: Timestamp) {
        let looked_at = self.looked_at;
        let held = findings.map(|finding| {
            // One that did not hold at the last look has come since, whenever it came first.
            let came = looked_at.map_or(finding.first_seen, |at| finding.first_seen.max(at));
            let since = self.held.get(&finding.id).copied().unwrap_or(came);
            // The clocks of daemon and this machine may differ.
            (finding.id.clone(), since.min(finding.last_seen))
        });
        self.held = held.collect();
        self.looked_at = Some(now);
    }

    /// Since when a finding that holds has done so without a break, as far as is known.
    pub(super) fn since(&self, finding: &Finding, incident: Option<&Incident>) -> Timestamp {
        let held = self.held.get(&finding.id).copied().unwrap_or(finding.last_seen);
        // One that came back later has a new incident. One that comes and goes within minutes has been back at last when
        // nobody knows: then our own looks count alone.
        incident.map_or(held, |incident| held.max(incident.first_seen))
    }

    /// When this host was drained that is accused still.
    pub(super) fn drained_at(&self, host: &str) -> Option<Timestamp> {
        self.drained.get(host).copied()
    }

    /// Hosts for which it was tried within this time.
    pub(super) fn tries_within(&self, now: Timestamp, per: Duration) -> usize {
        self.tries.iter().filter(|at| now.since(**at) < per).count()
    }

    /// Forgets hosts but these, and tries that are older than they need be.
    pub(super) fn forget_but(&mut self, is_accused: impl Fn(&str) -> bool, now: Timestamp, per: Duration) {
        self.drained.retain(|host, _| is_accused(host));
        let kept = per.max(KEPT);
        self.tries.retain(|at| now.since(*at) < kept);
    }

    /// Notes that a host is drained.
    pub(super) fn note(&mut self, host: &str, now: Timestamp) {
        self.drained.insert(host.to_owned(), now);
        self.tries.push(now);
    }

    /// Notes that it was not.
    pub(super) fn note_failed(&mut self, host: &str) {
        self.drained.remove(host);
    }
}

/// The file, as long as nobody else has it.
#[derive(Debug)]
pub(super) struct MemoryFile {
    path: PathBuf,
    _lock: File,
}

impl MemoryFile {
    /// Has it for this process alone. Its folder is made.
    pub(super) fn lock(path: &Path) -> Result<Self, MemoryError> {
        let error = |source| MemoryError::File { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(error)?;
        }
        let beside = beside(path, ".lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(beside).map_err(error)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(MemoryError::Busy { path: path.to_owned() }),
            Err(errno) => Err(error(errno.into())),
        }
    }

    pub(super) fn read(&self) -> Result<Memory, MemoryError> {
        Self::peek(&self.path)
    }

    /// What it holds, where nothing will be done.
    pub(super) fn peek(path: &Path) -> Result<Memory, MemoryError> {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Memory::default()),
            Err(source) => return Err(MemoryError::File { path: path.to_owned(), source }),
            Ok(_) => {}
        }
        let strange = |error: serde_json::Error| {
            let why = error.to_string();
            MemoryError::Strange { path: path.to_owned(), why }
        };
        serde_json::from_str(&text).map_err(strange)
    }

    /// Writes it whole, or not at all.
    pub(super) fn write(&self, memory: &Memory) -> Result<(), MemoryError> {
        let write = || {
            let beside = beside(&self.path, ".new");
            let mut file = File::create(&beside)?;
            file.write_all(&serde_json::to_vec_pretty(memory)?)?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        write().map_err(|source| MemoryError::File { path: self.path.clone(), source })
    }
}

/// A file beside it, whatever it is called itself.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// A cluster has some thousand hosts.
const MAX_BYTES: u64 = 16 << 20;
/// Tries are kept for so long, for one who calls with a longer `--per` next time.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nobody_else_writes_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/state.json");
        assert_eq!(MemoryFile::peek(&path).unwrap(), Memory::default());
        let file = MemoryFile::lock(&path).unwrap();
        let mut memory = file.read().unwrap();
        memory.note("n1", Timestamp(7_000_000_000));
        file.write(&memory).unwrap();
        assert_eq!(MemoryFile::peek(&path).unwrap(), memory);
        assert!(MemoryFile::lock(&path).unwrap_err().to_string().contains("at work"));
        drop(file);
        assert_eq!(MemoryFile::lock(&path).unwrap().read().unwrap(), memory);
    }

    #[test]
    fn it_may_be_called_as_one_likes() {
        for name in ["state", "state.lock", "state.new", ".lock"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(name);
            let file = MemoryFile::lock(&path).unwrap();
            file.write(&file.read().unwrap()).unwrap();
            assert!(MemoryFile::lock(&path).unwrap_err().to_string().contains("at work"), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_cut_is_an_error_and_not_an_empty_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        for text in ["", "{", "[]", "{\"drained\":[]}"] {
            fs::write(&path, text).unwrap();
            let error = MemoryFile::peek(&path).unwrap_err().to_string();
            assert!(error.contains("state.json") && error.contains("remove it"), "{text}: {error}");
        }
        let error = MemoryFile::lock(Path::new("/dev/null/state.json")).unwrap_err().to_string();
        assert!(error.contains("/dev/null/state.json") && error.contains("--state"), "{error}");
    }
}
