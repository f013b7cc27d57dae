//! The whole log: who said what, which init it belongs to, and what comes after the init.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use ringscope_wire::comm_hash;

use super::bracket::{Bracket, Line, MAX_EVIDENCE, Nics, connected, evidence_of, kind_of, named};
use ringscope_wire::batch::FACT_DESTROYED;

use super::facts::{CommunicatorFacts, End, Evidence, Fragment};
use super::formats::{Connection, Counts as Agreed, Message, RCCL, message};
use super::init_line::InitLine;
use super::json;
use super::lines::Lines;
use super::prefix::{Level, Record, Writers, records};
use super::process::{Ambiguous, Process, Processes};
use super::unparsed::Unparsed;
use super::wraps::{self, Bare};

/// Memory for the facts of communicators, of the process that reads a log; the oldest goes first.
const MAX_FACTS_BYTES: usize = 24 << 20;
/// Threads of one process that can be within an init at once.
const MAX_BRACKETS: usize = 256;
/// Communicators of one process that are followed after their init.
const MAX_LIVE: usize = 1024;
/// Distinct pointers of one process whose uses are counted.
const MAX_POINTERS: usize = 65_536;
/// Connections of one process kept that may belong to several communicators.
const MAX_AMBIGUOUS: usize = 16_384;
/// NICs and settings kept per process.
const MAX_NAMED: usize = 256;
/// Warnings kept that belong to no init.
const MAX_WARNINGS: usize = 16;
/// Kinds of connections told apart that belong to no communicator.
const MAX_KINDS: usize = 256;

/// Settings that bound the number of channels. RSCCL's are those of ringscope's own engine.
const CHANNEL_SETTINGS: [&str; 6] =
    ["MIN_NCHANNELS", "MAX_NCHANNELS", "MIN_NRINGS", "MAX_NRINGS", "MIN_CTAS", "MAX_CTAS"];

/// A log being read.
#[derive(Debug, Default)]
pub struct NcclLog {
    lines: Lines,
    pub(super) content: Content,
}

#[derive(Debug, Default)]
pub(super) struct Content {
    version: Option<String>,
    processes: Processes,
    writers: Writers,
    communicators: VecDeque<CommunicatorFacts>,
    /// Number of the first of `communicators`.
    first: u64,
    facts_bytes: usize,
    /// Bound of `facts_bytes` below the common one.
    max_facts_bytes: Option<usize>,
    revision: u64,
    unparsed: Unparsed,
    warnings: Vec<Evidence>,
    unattributed: BTreeMap<String, u64>,
    pub(super) counts: Counts,
    pub(super) said: Said,
}

/// What was read, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that have ended.
    pub lines: u64,
    /// Records of level INFO.
    pub info: u64,
    /// Records of level WARN.
    pub warn: u64,
    /// Lines that hold more than one record: several writers wrote over one another.
    pub torn: u64,
    /// Records whose end is missing and which were therefore not read.
    pub cut: u64,
    /// Lines that Ray says it left out because they looked like others.
    pub left_out_by_ray: u64,
    /// Communicators forgotten because there were too many.
    pub communicators_forgotten: u64,
    /// Processes forgotten because there were too many.
    pub processes_forgotten: u64,
}

/// Which kinds of lines there were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    pub(super) searches: bool,
    pub(super) rings: bool,
    pub(super) inits: bool,
    pub(super) settings: bool,
    pub(super) hashes: bool,
    pub(super) without_hash: bool,
}

/// What the log says of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFacts {
    /// Host in front of its lines.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// NICs by net plugin and index.
    pub nics: BTreeMap<String, BTreeMap<u32, String>>,
    /// Name of the network that it uses.
    pub network: Option<String>,
    /// Settings taken from the environment.
    pub environment: BTreeMap<String, String>,
}

impl NcclLog {
    /// A log of which nothing has been read.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What the facts of its communicators take.
    #[must_use]
    pub fn facts_bytes(&self) -> usize {
        self.content.facts_bytes
    }

    /// From now on they take no more than so much: the oldest goes first.
    pub fn hold_at_most(&mut self, bytes: usize) {
        self.content.max_facts_bytes = Some(bytes);
    }

    /// Reads on. Chunks may end anywhere; a line counts once its end is there.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Self { lines, content } = self;
        lines.feed(bytes, |number, text, mark| content.line(number, text, mark, false));
        content.counts.lines = lines.ended();
    }

    /// Says that lines are missing before what follows, which may begin within one: what began before does not end after.
    pub fn gap(&mut self) {
        self.lines.gap();
        self.content.processes.gap();
        self.content.revision += 1;
    }

    /// Says that nothing follows. Of a last line without an end only what cannot have been cut off is taken.
    pub fn finish(&mut self) {
        if let Some((number, text)) = self.lines.rest() {
            self.content.line(number, &text, None, true);
        }
        self.content.counts.lines = self.lines.ended();
    }

    /// The communicators whose init was seen complete, or was followed by another one of the same thread without
    /// having been, in that order.
    pub fn communicators(&self) -> impl DoubleEndedIterator<Item = &CommunicatorFacts> {
        self.content.communicators.iter()
    }

    /// The inits that have not come to an end so far.
    #[must_use]
    pub fn unfinished(&self) -> Vec<CommunicatorFacts> {
        let mut facts: Vec<_> = (self.content.processes.all())
            .flat_map(|process| {
                process.brackets.values().filter_map(|bracket| {
                    let init = bracket.started.as_ref()?;
                    Some(process.told(bracket.clone().facts(init, &process.nics)))
                })
            })
            .collect();
        facts.sort_by(|a, b| (&a.host, a.pid, a.rank).cmp(&(&b.host, b.pid, b.rank)));
        facts
    }

    /// What threads said of communicators that no line of theirs names.
    #[must_use]
    pub fn fragments(&self) -> Vec<Fragment> {
        let mut fragments: Vec<_> = (self.content.processes.all())
            .flat_map(|process| {
                process.brackets.iter().filter(|(_, bracket)| bracket.is_fragment()).map(|(tid, bracket)| {
                    let facts = bracket.clone().facts(&bracket.implied(), &process.nics);
                    Fragment { tid: *tid, rank: bracket.rank(), facts: process.told(facts) }
                })
            })
            .collect();
        let key = |fragment: &Fragment| (fragment.facts.host.clone(), fragment.facts.pid, fragment.tid);
        fragments.sort_by_key(key);
        fragments
    }

    /// What the log says of each process.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessFacts> {
        let mut facts: Vec<_> = (self.content.processes.all())
            .filter(|process| process.heard)
            .map(|process| ProcessFacts {
                host: process.host.clone(),
                pid: process.pid,
                nics: process.nics.clone(),
                network: process.network.clone(),
                environment: process.environment.clone(),
            })
            .collect();
        facts.sort_by(|a, b| (&a.host, a.pid).cmp(&(&b.host, b.pid)));
        facts
    }

    /// What the host of a process is called, where `host` is what a line of it says: torn lines have only a part of the
    /// name.
    pub(super) fn host_of<'l>(&'l self, host: &'l str, pid: u32) -> &'l str {
        self.content.processes.name_of(host, pid).unwrap_or(host)
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

    /// What was read, in numbers.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { processes_forgotten: self.content.processes.evicted(), ..self.content.counts }
    }

    /// The first warnings outside of inits.
    #[must_use]
    pub fn warnings(&self) -> &[Evidence] {
        &self.content.warnings
    }

    /// Connection lines that belong to no communicator that is known, or to one of several, by kind.
    #[must_use]
    pub fn unattributed(&self) -> &BTreeMap<String, u64> {
        &self.content.unattributed
    }

    /// Records that no format fits, by the beginning of their message with the numbers taken out.
    #[must_use]
    pub fn unparsed(&self) -> BTreeMap<String, u64> {
        self.content.unparsed.by_shape()
    }

    /// Lines skipped because they were too long.
    #[must_use]
    pub fn too_long(&self) -> u64 {
        self.lines.too_long()
    }
}

impl Content {
    fn line(&mut self, number: u64, text: &str, mark: Option<usize>, cut: bool) {
        if json::may_be(text) {
            let texts = json::texts(text);
            // A text with lines of its own is one write of the container. One that was cut has no closing quote.
            for text in texts.iter().flat_map(|text| text.lines()) {
                self.plain(Line { number, text }, None, false);
            }
            if !texts.is_empty() {
                return;
            }
        }
        self.plain(Line { number, text }, mark, cut);
    }

    /// `mark`: where the only one stands, if that is known.
    fn plain(&mut self, line: Line<'_>, mark: Option<usize>, cut: bool) {
        let Bare { text, left_out } = wraps::bare(line.text);
        self.counts.left_out_by_ray += left_out;
        // What was taken out of the middle moves the mark.
        let mark = mark.filter(|_| matches!(text, Cow::Borrowed(_)));
        let line = Line { text: &text, ..line };
        if let Some(record) = mark.and_then(|mark| self.writers.record(line.text, mark)) {
            return self.record(&record, line, cut);
        }
        let mut found = Vec::new();
        let torn = records(line.text, |host| self.processes.knows(host), |record| found.push(record));
        self.counts.torn += u64::from(torn);
        for record in &found {
            self.record(record, line, cut);
        }
        if found.is_empty() {
            // Rank 0 prints its version without a prefix up to 2.21.
            let at = line.text.find("NCCL version ").or_else(|| line.text.find("RCCL version "));
            if let Some(Message::Version(version)) = at.and_then(|at| message(&line.text[at..])) {
                self.is_of(version);
            }
        }
    }

    fn record(&mut self, record: &Record<'_>, line: Line<'_>, cut: bool) {
        if record.level == Level::Warn {
            self.counts.warn += 1;
            return self.warn(record, line);
        }
        self.counts.info += 1;
        let said = self.said_by(record, cut || record.cut);
        // Whatever it says: its name tells torn ones from others.
        self.process(record, line).heard |= said.is_some();
        let Some(message) = said else { return };
        match message {
            Message::Version(version) => self.is_of(version),
            Message::Setting { .. } | Message::Nics { .. } | Message::Network(_) => {
                self.said.settings |= matches!(message, Message::Setting { .. });
                let more = self.process(record, line).learn(message, line);
                self.processes.holds(more);
            }
            Message::Start(init) => self.start(record, init, line),
            Message::Complete(init) => self.complete(record, &init, line),
            Message::Ended { pointer, end } => self.ended(record, pointer, end, line),
            message => self.within(record, message, line),
        }
    }

    /// What a record says, as far as that is certain and of use.
    fn said_by(&mut self, record: &Record<'_>, cut: bool) -> Option<Message> {
        match message(record.message) {
            Some(Message::Known) => None,
            Some(message) if cut => {
                let certain = message.of_cut();
                self.counts.cut += u64::from(certain.is_none());
                certain
            }
            Some(message) => Some(message),
            None if cut => {
                self.counts.cut += 1;
                None
            }
            None => {
                self.unparsed.count(record.message);
                None
            }
        }
    }

    /// Takes the first version told; a library's name alone is only better than nothing.
    fn is_of(&mut self, version: String) {
        let has_number = |version: &String| version.bytes().any(|byte| byte.is_ascii_digit());
        if !self.version.as_ref().is_some_and(has_number) {
            self.version = Some(version);
        }
    }

    fn process(&mut self, record: &Record<'_>, line: Line<'_>) -> &mut Process {
        self.processes.of(record.host, record.pid, record.tid, line.number)
    }

    fn warn(&mut self, record: &Record<'_>, line: Line<'_>) {
        if let Some(fell_back @ Message::FellBack { .. }) = message(record.message) {
            return self.within(record, fell_back, line);
        }
        if let Some(bracket) = self.process(record, line).brackets.get_mut(&record.tid) {
            bracket.warn(line);
        }
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(line.proves("warning"));
        }
    }

    fn start(&mut self, record: &Record<'_>, init: InitLine, line: Line<'_>) {
        self.said.inits = true;
        self.heard_of(&init);
        let bracket = Bracket::started(init, line);
        let process = self.process(record, line);
        process.has_starts = true;
        if process.brackets.len() >= MAX_BRACKETS {
            process.brackets.clear();
        }
        let more = bracket.held();
        let failed = process.brackets.insert(record.tid, bracket);
        let told = failed.and_then(|bracket| {
            let init = bracket.started.clone()?;
            let held = bracket.held();
            Some((process.told(bracket.facts(&init, &process.nics)), held))
        });
        self.processes.holds(more);
        if let Some((facts, held)) = told {
            self.processes.released(held);
            self.push(facts);
        }
    }

    fn heard_of(&mut self, init: &InitLine) {
        self.said.hashes |= init.comm_hash.is_some();
        self.said.without_hash |= init.comm_hash.is_none() && init.parent.is_none();
    }

    fn complete(&mut self, record: &Record<'_>, init: &InitLine, line: Line<'_>) {
        self.said.inits = true;
        self.heard_of(init);
        let derived_hash = self.derived_hash(record, init, line);
        let number = self.first + self.communicators.len() as u64;
        let process = self.process(record, line);
        let mut bracket = process.brackets.remove(&record.tid).unwrap_or_default();
        let held = bracket.held();
        if bracket.started.as_ref().is_some_and(|started| started.pointer != init.pointer) {
            bracket = Bracket::default();
        }
        let mut facts = process.told(bracket.facts(init, &process.nics));
        facts.complete = true;
        facts.failed = false;
        facts.derived_hash = derived_hash;
        facts.final_channels = facts.final_channels.or(facts.printed_channels);
        if facts.evidence.len() < MAX_EVIDENCE {
            facts.evidence.push(line.proves("complete"));
        }
        if process.live.len() >= MAX_LIVE {
            process.live.remove(0);
        }
        process.live.push(number);
        let mut more = 0;
        if process.uses.len() < MAX_POINTERS || process.uses.contains_key(&init.pointer) {
            let uses = process.uses.entry(init.pointer).or_default();
            more += usize::from(*uses == 0);
            facts.occurrence = *uses;
            *uses += 1;
        }
        self.processes.released(held);
        self.processes.holds(more);
        self.push(facts);
    }

    fn push(&mut self, mut facts: CommunicatorFacts) {
        facts.version.clone_from(&self.version);
        self.facts_bytes += facts.weight_bytes();
        self.communicators.push_back(facts);
        let bound = self.max_facts_bytes.unwrap_or(MAX_FACTS_BYTES).min(MAX_FACTS_BYTES);
        while self.facts_bytes > bound
            && let Some(oldest) = self.communicators.pop_front()
        {
            self.facts_bytes = self.facts_bytes.saturating_sub(oldest.weight_bytes());
            self.first += 1;
            self.counts.communicators_forgotten += 1;
        }
        self.revision += 1;
    }

    /// The communicator with this number, if it is still there.
    fn known(&self, number: u64) -> Option<&CommunicatorFacts> {
        self.communicators.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The same, to be changed.
    fn at(&mut self, number: u64) -> Option<&mut CommunicatorFacts> {
        self.communicators.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn ended(&mut self, record: &Record<'_>, pointer: u64, end: End, line: Line<'_>) {
        let first = self.first;
        let process = self.process(record, line);
        process.live.retain(|number| *number >= first);
        let live = process.live.clone();
        let last = live
            .iter()
            .rev()
            .copied()
            .find(|number| self.at(*number).is_some_and(|f| f.comm_pointer == pointer));
        let Some(number) = last else { return };
        self.process(record, line).live.retain(|other| *other != number);
        if let Some(facts) = self.at(number) {
            facts.end = Some(end);
            let before = facts.weight_bytes();
            if end == End::Destroyed {
                // It proves more than the last of many connections.
                facts.evidence.truncate(MAX_EVIDENCE - 1);
                facts.evidence.push(line.proves(FACT_DESTROYED));
            }
            let more = facts.weight_bytes().saturating_sub(before);
            self.facts_bytes += more;
        }
        self.revision += 1;
    }

    /// A line about a communicator that does not name it: it belongs to the init of its thread.
    fn within(&mut self, record: &Record<'_>, message: Message, line: Line<'_>) {
        self.said.searches |= matches!(message, Message::Search { .. });
        self.said.rings |= matches!(message, Message::Ring { .. });
        if matches!(message, Message::Final(Agreed { is_rccl: true, .. })) {
            self.is_of(RCCL.to_owned());
        }
        let process = self.process(record, line);
        let mut more = 0;
        if let Some(bracket) = process.brackets.get_mut(&record.tid) {
            more += bracket.add(message, line);
        } else {
            let message = match message {
                Message::Connection(connection) => {
                    let Some(connection) = self.late(record, connection, line) else { return };
                    Message::Connection(connection)
                }
                Message::Returned => return,
                message => message,
            };
            let process = self.process(record, line);
            if process.has_starts || process.brackets.len() >= MAX_BRACKETS {
                if let Message::Connection(connection) = message {
                    self.stray(&connection);
                }
                return;
            }
            let bracket = process.brackets.entry(record.tid).or_default();
            bracket.cuda_device = record.cuda_device;
            more += bracket.add(message, line) + bracket.held();
        }
        self.processes.holds(more);
    }

    fn stray(&mut self, connection: &Connection) {
        let kind = kind_of(&connection.hop, connection.direction, connection.index);
        if self.unattributed.len() < MAX_KINDS || self.unattributed.contains_key(&kind) {
            *self.unattributed.entry(kind).or_default() += 1;
        }
    }

    /// With runtime connect (2.22+) connections come at the first collective, from another thread, and name no
    /// communicator. It is known which one it is if only one is alive in the process for that rank and GPU; if several
    /// are, it does not matter for the path as soon as there are as many connections as communicators and all are
    /// alike. Gives the connection back if none is alive.
    fn late(&mut self, record: &Record<'_>, connection: Connection, line: Line<'_>) -> Option<Connection> {
        let live = std::mem::take(&mut self.process(record, line).live);
        let fits = |number: &u64| {
            self.known(*number).is_some_and(|facts| {
                facts.rank == connection.own_rank()
                    && connection.pointer.is_none_or(|pointer| facts.comm_pointer == pointer)
                    && facts.cuda_device.zip(record.cuda_device).is_none_or(|(a, b)| a == b)
            })
        };
        let mut alive = live.iter().copied().filter(fits);
        let (only, others) = (alive.next(), alive.next().is_some());
        let alive = if others { live.iter().copied().filter(fits).collect() } else { Vec::new() };
        self.process(record, line).live = live;
        match only {
            None => return Some(connection),
            Some(only) if !others => self.attach(record, only, connection, line),
            Some(_) => self.share(record, &alive, connection, line),
        }
        self.revision += 1;
        None
    }

    fn attach(&mut self, record: &Record<'_>, number: u64, connection: Connection, line: Line<'_>) {
        let nics = std::mem::take(&mut self.process(record, line).nics);
        self.attach_with(&nics, number, connection, line);
        self.process(record, line).nics = nics;
    }

    fn attach_with(&mut self, nics: &Nics, number: u64, connection: Connection, line: Line<'_>) {
        let Some(facts) = self.at(number) else { return };
        let before = facts.weight_of_connections_bytes();
        let fact = evidence_of(&connection);
        let is_new = connected(facts, connection, nics);
        let mut more = facts.weight_of_connections_bytes().saturating_sub(before);
        if is_new && facts.evidence.len() < MAX_EVIDENCE {
            let proof = line.proves(fact);
            more += proof.weight_bytes();
            facts.evidence.push(proof);
        }
        self.facts_bytes += more;
    }

    fn share(&mut self, record: &Record<'_>, alive: &[u64], connection: Connection, line: Line<'_>) {
        self.stray(&connection);
        let Connection { channel, index: 0, from, to, direction, .. } = connection else { return };
        if direction == super::formats::Direction::Receive {
            return;
        }
        let mut fitting = alive.to_vec();
        fitting.retain(|number| {
            self.at(*number)
                .is_some_and(|facts| facts.next_on(channel) == Some(to) && !facts.hops.contains_key(&channel))
        });
        let process = self.process(record, line);
        let hop = named(connection.hop, &process.nics);
        if fitting.len() > 1 {
            if process.ambiguous.len() >= MAX_AMBIGUOUS {
                process.ambiguous.clear();
            }
            let fresh = !process.ambiguous.contains_key(&(channel, from, to));
            let first = || Ambiguous { hop: hop.clone(), count: 0, alike: true };
            let seen = process.ambiguous.entry((channel, from, to)).or_insert_with(first);
            seen.count += 1;
            seen.alike &= seen.hop == hop;
            let undecided = !seen.alike || seen.count < fitting.len();
            if !undecided {
                process.ambiguous.remove(&(channel, from, to));
            }
            self.processes.holds(2 * usize::from(fresh && undecided));
            if undecided {
                return;
            }
        }
        for number in fitting {
            if let Some(facts) = self.at(number) {
                facts.hops.insert(channel, hop.clone());
            }
        }
    }

    /// commHash of a split whose lines do not print it (2.23 to 2.31), by the formula of 2.26 and later; earlier ones
    /// are not computed.
    fn derived_hash(&mut self, record: &Record<'_>, init: &InitLine, line: Line<'_>) -> Option<u64> {
        let (parent, child_count, color) = (init.parent?, init.child_count?, init.color?);
        if self.version.as_deref().and_then(minor).is_some_and(|minor| minor < 26) {
            return None;
        }
        let live = self.process(record, line).live.clone();
        let of_parent = live.iter().rev().find_map(|number| {
            let facts = self.at(*number)?;
            (facts.comm_pointer == parent).then(|| facts.hash())
        })?;
        Some(comm_hash::of_split(of_parent?, child_count, color))
    }
}

/// 27 of `2.27.3+cuda12.9` and of `RCCL 2.27.7-HEAD:0d2c4fd`, 18 of `2.18-nightly`.
fn minor(version: &str) -> Option<u32> {
    let number = version.strip_prefix(RCCL).unwrap_or(version).trim_start();
    number.strip_prefix("2.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Message {
    /// What of a message is certain although its end is missing.
    fn of_cut(self) -> Option<Self> {
        match self {
            Self::Start(_) | Self::Complete(_) | Self::Ended { .. } => Some(self),
            // The number stands before a comma.
            Self::Search { pattern, channels, .. } => {
                Some(Self::Search { pattern, channels, bandwidth: None })
            }
            _ => None,
        }
    }
}

impl Process {
    /// The facts with what holds for the whole process.
    fn told(&self, facts: CommunicatorFacts) -> CommunicatorFacts {
        let bounds = |name: &str| {
            let bare = name.strip_prefix("NCCL_").or_else(|| name.strip_prefix("RSCCL_"));
            bare.is_some_and(|bare| CHANNEL_SETTINGS.contains(&bare))
        };
        let settings = self.environment.iter().filter(|(name, _)| bounds(name));
        let mut evidence = facts.evidence;
        let room = MAX_EVIDENCE.saturating_sub(evidence.len());
        evidence.extend(self.environment_lines.iter().take(room).cloned());
        CommunicatorFacts {
            host: self.host.clone(),
            pid: self.pid,
            network: self.network.clone(),
            settings: settings
                .filter_map(|(name, value)| Some((name.clone(), value.parse().ok()?)))
                .collect(),
            evidence,
            ..facts
        }
    }

    /// Takes what a line says of the whole process, and returns how much there is more to hold.
    fn learn(&mut self, message: Message, line: Line<'_>) -> usize {
        match message {
            Message::Setting { name, value } if self.environment.len() < MAX_NAMED => {
                let bare = name.strip_prefix("NCCL_").or_else(|| name.strip_prefix("RSCCL_"));
                let bounds = bare.is_some_and(|bare| CHANNEL_SETTINGS.contains(&bare));
                if bounds && self.environment_lines.len() < CHANNEL_SETTINGS.len() {
                    self.environment_lines.push(line.proves(format!("setting/{name}")));
                }
                self.environment.insert(name, value);
                2 + 2 * usize::from(bounds)
            }
            Message::Nics { net, nics } if self.nics.len() < MAX_NAMED && !nics.is_empty() => {
                let more = nics.len();
                self.nics.insert(net, nics.into_iter().take(MAX_NAMED).collect());
                more
            }
            Message::Network(network) => {
                self.network = Some(network);
                0
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod dialect_tests;
#[cfg(test)]
mod tests;
