//! The whole log: who said what, which init it belongs to, and what comes after the init.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ringscope_wire::comm_hash;

use super::bracket::{Bracket, Nics, hop};
use super::facts::{CommunicatorFacts, End, Hop};
use super::formats::{Message, Via, message};
use super::init_line::InitLine;
use super::lines::Lines;
use super::prefix::{Record, record};
use super::unparsed::Unparsed;

/// Communicators kept; the oldest goes first.
const MAX_COMMUNICATORS: usize = 4096;
/// Processes told apart in one log.
const MAX_PROCESSES: usize = 4096;
/// Threads of one process that can be within an init at once.
const MAX_BRACKETS: usize = 256;
/// Distinct pointers of one process whose uses are counted.
const MAX_POINTERS: usize = 65_536;
/// Connections of one process kept that may belong to several communicators.
const MAX_AMBIGUOUS: usize = 16_384;
/// NICs and settings kept per process.
const MAX_NAMED: usize = 256;

/// A log being read.
#[derive(Debug, Default)]
pub struct NcclLog {
    lines: Lines,
    content: Content,
}

#[derive(Debug, Default)]
struct Content {
    version: Option<String>,
    processes: HashMap<(String, u32), Process>,
    communicators: VecDeque<CommunicatorFacts>,
    revision: u64,
    unparsed: Unparsed,
}

/// What holds for all communicators of a process.
#[derive(Debug, Default)]
struct Process {
    nics: Nics,
    settings: BTreeMap<String, i64>,
    /// Inits by thread.
    brackets: HashMap<u32, Bracket>,
    /// "Init START" has been seen: outside of a bracket nothing belongs to an init (from 2.18 on).
    has_starts: bool,
    /// Complete inits by pointer.
    uses: HashMap<u64, u32>,
    /// Connections that fit more than one communicator, by (channel, from, to).
    ambiguous: HashMap<(u32, u32, u32), Vec<Hop>>,
}

impl NcclLog {
    /// A log of which nothing has been read.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads on. Chunks may end anywhere; a line counts once its end is there.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Self { lines, content } = self;
        lines.feed(bytes, |line| content.line(line));
    }

    /// The communicators whose init was seen complete, or was followed by another one of the same thread without
    /// having been, in that order.
    pub fn communicators(&self) -> impl DoubleEndedIterator<Item = &CommunicatorFacts> {
        self.content.communicators.iter()
    }

    /// The inits that have not come to an end so far.
    #[must_use]
    pub fn unfinished(&self) -> Vec<CommunicatorFacts> {
        let mut facts: Vec<_> = (self.content.processes.iter())
            .flat_map(|((host, pid), process)| {
                process.brackets.values().filter_map(move |bracket| {
                    let line = bracket.started.as_ref()?;
                    Some(CommunicatorFacts {
                        host: host.clone(),
                        pid: *pid,
                        comm_pointer: line.pointer,
                        comm_hash: line.comm_hash,
                        rank: line.rank,
                        n_ranks: line.n_ranks,
                        ..CommunicatorFacts::default()
                    })
                })
            })
            .collect();
        facts.sort_by(|a, b| (&a.host, a.pid, a.rank).cmp(&(&b.host, b.pid, b.rank)));
        facts
    }

    /// Grows whenever a communicator was added or changed.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.content.revision
    }

    /// Version of the library, as it prints it.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.content.version.as_deref()
    }

    /// Records that no format fits, by the beginning of their message with the numbers taken out.
    #[must_use]
    pub fn unparsed(&self) -> &BTreeMap<String, u64> {
        self.content.unparsed.by_shape()
    }

    /// Lines skipped because they were too long.
    #[must_use]
    pub fn too_long(&self) -> u64 {
        self.lines.too_long()
    }
}

impl Content {
    fn line(&mut self, line: &str) {
        let Some(record) = record(line) else {
            // Rank 0 prints its version without a prefix up to 2.21.
            if let Some(Message::Version(version)) =
                line.starts_with("NCCL version ").then(|| message(line)).flatten()
            {
                self.version.get_or_insert(version);
            }
            return;
        };
        let Some(message) = message(record.message) else {
            self.unparsed.count(record.message);
            return;
        };
        let key = (record.host.to_owned(), record.pid);
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&key) {
            return;
        }
        let process = self.processes.entry(key).or_default();
        match message {
            Message::Version(version) => {
                self.version.get_or_insert(version);
            }
            Message::Known => {}
            Message::Setting { name, value } if process.settings.len() < MAX_NAMED => {
                process.settings.insert(name, value);
            }
            Message::Nics { net, nics } if process.nics.len() < MAX_NAMED => {
                process.nics.insert(net, nics.into_iter().take(MAX_NAMED).collect());
            }
            Message::Setting { .. } | Message::Nics { .. } => {}
            Message::Start(line) => self.start(&record, line),
            Message::Complete(line) => self.complete(&record, &line),
            Message::Ended { pointer, end } => self.ended(&record, pointer, end),
            message => self.within(&record, message),
        }
    }

    fn process(&mut self, record: &Record<'_>) -> &mut Process {
        self.processes.entry((record.host.to_owned(), record.pid)).or_default()
    }

    fn start(&mut self, record: &Record<'_>, line: InitLine) {
        let process = self.process(record);
        process.has_starts = true;
        if process.brackets.len() >= MAX_BRACKETS {
            process.brackets.clear();
        }
        let bracket = Bracket::started(line);
        let failed = process.brackets.insert(record.tid, bracket);
        if let Some((failed, line)) =
            failed.and_then(|bracket| bracket.started.clone().map(|line| (bracket, line)))
        {
            let facts = failed.facts(&line, &self.process(record).nics);
            self.push(record, facts);
        }
    }

    fn complete(&mut self, record: &Record<'_>, line: &InitLine) {
        let derived_hash = self.derived_hash(record, line);
        let process = self.process(record);
        let mut bracket = process.brackets.remove(&record.tid).unwrap_or_default();
        if bracket.started.as_ref().is_some_and(|started| started.pointer != line.pointer) {
            bracket = Bracket::default();
        }
        let mut facts = bracket.facts(line, &process.nics);
        facts.complete = true;
        facts.derived_hash = derived_hash;
        facts.settings.clone_from(&process.settings);
        if process.uses.len() < MAX_POINTERS || process.uses.contains_key(&line.pointer) {
            let uses = process.uses.entry(line.pointer).or_default();
            facts.occurrence = *uses;
            *uses += 1;
        }
        self.push(record, facts);
    }

    fn push(&mut self, record: &Record<'_>, facts: CommunicatorFacts) {
        if self.communicators.len() >= MAX_COMMUNICATORS {
            self.communicators.pop_front();
        }
        self.communicators.push_back(CommunicatorFacts {
            host: record.host.to_owned(),
            pid: record.pid,
            ..facts
        });
        self.revision += 1;
    }

    fn ended(&mut self, record: &Record<'_>, pointer: u64, end: End) {
        let last = self.communicators.iter_mut().rev().find(|facts| {
            facts.complete
                && facts.comm_pointer == pointer
                && facts.pid == record.pid
                && facts.host == record.host
        });
        if let Some(facts) = last.filter(|facts| facts.end.is_none()) {
            facts.end = Some(end);
            self.revision += 1;
        }
    }

    /// A line about a communicator that does not name it: it belongs to the init of its thread.
    fn within(&mut self, record: &Record<'_>, message: Message) {
        let process = self.process(record);
        if let Some(bracket) = process.brackets.get_mut(&record.tid) {
            bracket.add(message);
        } else if !process.has_starts && process.brackets.len() < MAX_BRACKETS {
            process.brackets.entry(record.tid).or_default().add(message);
        } else if let Message::Send { channel, from, to, via, pointer } = message {
            self.late(record, (channel, from, to), via, pointer);
        }
    }

    /// With runtime connect (2.22+) connections come at the first collective, from another thread, and name no
    /// communicator. It is known which one it is if only one fits; if several fit, it does not matter as soon as there
    /// are as many connections as communicators and all are alike.
    fn late(&mut self, record: &Record<'_>, edge: (u32, u32, u32), via: Via, pointer: Option<u64>) {
        let (channel, from, to) = edge;
        let fits = |facts: &CommunicatorFacts| {
            facts.pid == record.pid
                && facts.host == record.host
                && facts.complete
                && facts.end.is_none()
                && facts.rank == from
                && facts.next_on(channel) == Some(to)
                && !facts.hops.contains_key(&channel)
                && pointer.is_none_or(|pointer| facts.comm_pointer == pointer)
                && facts.cuda_device.zip(record.cuda_device).is_none_or(|(a, b)| a == b)
        };
        let candidates = self.communicators.iter().filter(|facts| fits(facts)).count();
        if candidates == 0 {
            return;
        }
        let process = self.process(record);
        let hop = hop(via, &process.nics);
        if candidates > 1 {
            if process.ambiguous.len() >= MAX_AMBIGUOUS {
                process.ambiguous.clear();
            }
            let seen = process.ambiguous.entry(edge).or_default();
            seen.push(hop.clone());
            if seen.len() < candidates || seen.iter().any(|other| *other != hop) {
                seen.truncate(MAX_COMMUNICATORS);
                return;
            }
            process.ambiguous.remove(&edge);
        }
        for facts in self.communicators.iter_mut().filter(|facts| fits(facts)) {
            facts.hops.insert(channel, hop.clone());
        }
        self.revision += 1;
    }

    /// commHash of a split whose lines do not print it (2.23 to 2.31), by the formula of 2.26 and later.
    fn derived_hash(&self, record: &Record<'_>, line: &InitLine) -> Option<u64> {
        let (parent, child_count, color) = (line.parent?, line.child_count?, line.color?);
        let parent = self.communicators.iter().rev().find(|facts| {
            facts.complete
                && facts.comm_pointer == parent
                && facts.pid == record.pid
                && facts.host == record.host
        })?;
        let parent = parent.comm_hash.or(parent.derived_hash)?;
        Some(comm_hash::of_split(parent, child_count, color))
    }
}

#[cfg(test)]
mod tests;
