//! Follows the NCCL log of one process.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use std::{io, mem};

use ringscope_logs::nccl_log::NcclLog;
use ringscope_wire::segment::read::Identity;

use super::beneath::FileId;
use super::budget::Budgets;
use super::log_file::{LogFile, Reached, Read};
use super::log_hole::Freed;
use super::log_readers::{Answer, LogReaders};

/// A file system that takes longer is said not to answer.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// A log being followed.
#[derive(Debug)]
pub(super) struct LogTail {
    /// Whose it is.
    owner: u32,
    place: Place,
    /// What is looked for.
    wanted: Option<PathBuf>,
    /// The file that is read.
    file: Option<(PathBuf, FileId)>,
    pub(super) log: NcclLog,
    freed: Freed,
    /// The file was replaced or cut, or a part of it freed: inits are not in `log`.
    pub(super) restarted: bool,
}

/// Where the file of a log is.
#[derive(Debug)]
enum Place {
    Here(LogFile),
    /// With a reader that has not come back from it since then.
    Away(Receiver<Answer>, Instant),
}

impl LogTail {
    /// The log of a process of the user `owner`: it is that user's too, for the library in the process writes it. No
    /// other's is read, whatever a segment names. `%h` in its name is the process's host or the machine's, in NCCL cut at
    /// the first dot.
    pub(super) fn new(dir: &Path, identity: &Identity, owner: u32, machine: &str) -> Self {
        let mut candidates = Vec::new();
        for host in [identity.host.as_str(), machine] {
            for host in [host, host.split('.').next().unwrap_or(host)] {
                let path = PathBuf::from(expand(&identity.log_file, host, identity.pid));
                if !identity.log_file.is_empty() && !candidates.contains(&path) {
                    candidates.push(path);
                }
            }
        }
        Self::of(LogFile::new(dir.to_owned(), candidates, owner))
    }

    /// The log at a path that is known. `owner`: whose it must be.
    pub(super) fn at(dir: &Path, path: PathBuf, owner: u32) -> Self {
        Self::of(LogFile::new(dir.to_owned(), vec![path], owner))
    }

    fn of(file: LogFile) -> Self {
        Self {
            owner: file.owner(),
            wanted: file.wanted().map(Path::to_owned),
            place: Place::Here(file),
            file: None,
            log: NcclLog::new(),
            freed: Freed::default(),
            restarted: false,
        }
    }

    /// Takes in what was added, as far as its user's budget goes. One that is not in the folder of segments is read by
    /// `readers`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn poll(
        &mut self,
        readers: &LogReaders,
        budgets: &Budgets,
        dir: &Path,
    ) -> io::Result<Reached> {
        let reached = self.read_by(readers, budgets);
        if let Place::Here(file) = &self.place
            && let Some((path, offset)) = file.read_up_to()
            && let Err(error) = self.freed.free_in(dir, path, offset)
        {
            tracing::debug!(log = %path.display(), %error, "cannot free what was read of a log");
        }
        reached
    }

    fn read_by(&mut self, readers: &LogReaders, budgets: &Budgets) -> io::Result<Reached> {
        let Place::Here(file) = &mut self.place else { return self.fetch(budgets, Duration::ZERO) };
        let max_bytes = budgets.log_bytes(self.owner);
        if max_bytes == 0 {
            return Ok(Reached::Middle);
        }
        if file.is_in_memory() {
            let read = file.read(max_bytes)?;
            return Ok(self.take_in(read, budgets));
        }
        match readers.read(mem::take(file), max_bytes) {
            Ok(answer) => self.place = Place::Away(answer, ringscope_api::clock::monotonic()),
            Err(unread) => {
                *file = unread.file;
                return Err(unread.error);
            }
        }
        let (patience, asked) = (budgets.patience(self.owner), ringscope_api::clock::monotonic());
        let reached = self.fetch(budgets, patience);
        budgets.waited(self.owner, ringscope_api::clock::monotonic().saturating_duration_since(asked));
        reached
    }

    /// Fetches what a reader read.
    fn fetch(&mut self, budgets: &Budgets, patience: Duration) -> io::Result<Reached> {
        let Place::Away(answer, since) = &self.place else { return Ok(Reached::Missing) };
        match answer.recv_timeout(patience) {
            Ok((file, read)) => {
                self.place = Place::Here(file);
                Ok(self.take_in(read?, budgets))
            }
            Err(_) if ringscope_api::clock::monotonic().duration_since(*since) < SILENT_AFTER => {
                Ok(Reached::Middle)
            }
            Err(_) => Ok(Reached::Silent),
        }
    }

    /// What the log holds, to be counted against its user's budget.
    pub(super) fn held_bytes(&self) -> usize {
        self.log.facts_bytes()
    }

    fn take_in(&mut self, read: Read, budgets: &Budgets) -> Reached {
        let held = self.log.facts_bytes();
        self.log.hold_at_most(budgets.facts_bytes(self.owner, held));
        if read.restarted {
            (self.log, self.restarted) = (NcclLog::new(), true);
            self.log.hold_at_most(budgets.facts_bytes(self.owner, held));
        }
        let (before, after) = read.bytes.split_at(read.gap.unwrap_or_default());
        self.log.feed(before);
        if read.gap.is_some() {
            self.log.gap();
            self.restarted = true;
        }
        self.log.feed(after);
        budgets.read_log(self.owner, read.bytes.len() as u64, (held, self.log.facts_bytes()));
        self.file = read.file.or_else(|| self.file.take());
        read.reached
    }

    /// Where the file lies that is read.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file().map(|(path, _)| path)
    }

    /// The file that is read.
    pub(super) fn file(&self) -> Option<(&Path, FileId)> {
        self.file.as_ref().map(|(path, id)| (path.as_path(), *id))
    }

    /// What was looked for, to tell the user.
    pub(super) fn wanted(&self) -> Option<&Path> {
        self.wanted.as_deref()
    }
}

/// `NCCL_DEBUG_FILE` as NCCL reads it: `%h`, `%p` and `%%`. Source: `src/debug.cc`, `ncclDebugInit`.
fn expand(name: &str, host: &str, pid: u32) -> String {
    let mut expanded = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            expanded.push(c);
            continue;
        }
        match chars.next() {
            Some('h') => expanded.push_str(host),
            Some('p') => expanded.push_str(&pid.to_string()),
            Some('%') | None => expanded.push('%'),
            Some(other) => expanded.extend(['%', other]),
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_does_not_answer_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("nccl.log");
        std::fs::write(&log, "node1:42:42 [0] NCCL INFO NET/Socket : Using [0]eth0\n").unwrap();
        let (readers, elsewhere) = (LogReaders::default(), Path::new("/elsewhere"));
        let budgets = Budgets::default();
        budgets.begin(&std::collections::BTreeMap::new(), ringscope_api::clock::monotonic());
        let own = FileId::of(&log.metadata().unwrap()).owner;
        let mut tail = LogTail::at(elsewhere, log.clone(), own);
        let mut next = || tail.poll(&readers, &budgets, elsewhere);
        while next().unwrap() != Reached::End {}
        assert_eq!(tail.path(), Some(log.as_path()));
        // One that nobody brings back.
        let (answer, receiver) = std::sync::mpsc::channel();
        let mut stuck = LogTail {
            place: Place::Away(receiver, ringscope_api::clock::monotonic()),
            ..LogTail::at(elsewhere, log.clone(), own)
        };
        assert_eq!(stuck.poll(&readers, &budgets, elsewhere).unwrap(), Reached::Middle);
        if let Place::Away(_, since) = &mut stuck.place {
            *since -= SILENT_AFTER;
        }
        assert_eq!(stuck.poll(&readers, &budgets, elsewhere).unwrap(), Reached::Silent);
        let mut file = LogFile::new(elsewhere.to_owned(), vec![log], own);
        let read = file.read(u64::MAX);
        answer.send((file, read)).unwrap();
        assert_eq!(stuck.poll(&readers, &budgets, elsewhere).unwrap(), Reached::End);
    }

    #[test]
    fn names_are_expanded_as_nccl_does() {
        let check = |name, expected| assert_eq!(expand(name, "node1", 42), expected);
        check("/tmp/nccl.%h.%p", "/tmp/nccl.node1.42");
        check("/tmp/100%%.%x%", "/tmp/100%.%x%");
    }
}
