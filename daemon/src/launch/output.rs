//! What the processes write, on its way to this process's own streams and files. A thread of its own, so that a reader who takes
//! nothing holds up the job's output and nothing else.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringscope_api::clock;
use rustix::fs::OFlags;
use tokio::sync::mpsc::WeakSender;

use super::lines::{Lines, Tail};
use super::protocol::{AGENT, Chunk, Order, Stream, WINDOW_BYTES, cost};
use super::say::Say;

/// What comes to the thread.
#[derive(Debug)]
pub(super) enum Item {
    /// A host's channel, to tell it what was taken.
    Link { node: usize, orders: WeakSender<Order> },
    /// The job is started: what stands before lines, by host and process, and before those of each host's agent.
    Labels { labels: Vec<Vec<Label>>, agents: Vec<String> },
    /// Output of one of its processes.
    Chunk { node: usize, chunk: Chunk },
    /// Nothing more comes of this start of the job.
    EndOfLines,
}

/// What stands before a process's lines, and its file.
#[derive(Clone, Debug, Default)]
pub(super) struct Label {
    pub(super) prefix: String,
    pub(super) file: Option<String>,
}

/// Who writes: host and place.
pub(super) type Source = (usize, u32);

/// The way for output.
pub(super) struct Output {
    items: SyncSender<Item>,
    thread: JoinHandle<()>,
    seen: Arc<Seen>,
}

/// What others look at.
#[derive(Debug, Default)]
struct Seen {
    tails: Mutex<HashMap<Source, Tail>>,
    /// Grows with every piece that was written.
    written: AtomicU64,
}

impl Output {
    /// Of so many hosts; files go into `dir`.
    pub(super) fn start(n_hosts: usize, dir: Option<PathBuf>, say: Say) -> io::Result<Self> {
        let pieces = usize::try_from(WINDOW_BYTES / cost(0)).unwrap_or(1) + 2;
        let (items, to_write) = sync_channel(n_hosts.saturating_mul(pieces).saturating_add(SPARE));
        let seen = Arc::new(Seen::default());
        let writer = Writer {
            labels: Vec::new(),
            agents: Vec::new(),
            files: Files { dir, open: HashMap::new(), is_told: false },
            streams: [Target::new(), Target::new()],
            links: HashMap::new(),
            owed: HashMap::new(),
            seen: Arc::clone(&seen),
            say,
        };
        let thread =
            std::thread::Builder::new().name("output".into()).spawn(move || writer.run(&to_write))?;
        Ok(Self { items, thread, seen })
    }

    /// Where items go.
    pub(super) fn items(&self) -> SyncSender<Item> {
        self.items.clone()
    }

    /// The last lines of a process, and when the last of them came, nanoseconds since the epoch.
    pub(super) fn tail(&self, source: Source) -> (Vec<String>, u64) {
        let tails = self.seen.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.get(&source).map(|tail| (tail.lines(), tail.at_ns)).unwrap_or_default()
    }

    /// Counts what was taken of it.
    pub(super) fn taken(&self) -> u64 {
        taken(&self.seen)
    }

    /// Waits until all is written that came, as long as anything of it is taken; whether it was.
    pub(super) fn drain(&self, untaken: Untaken, patience: Duration) -> impl Future<Output = bool> + use<> {
        drained(self.items.clone(), Arc::clone(&self.seen), untaken, patience)
    }

    /// Whether the thread is gone, which it should not be.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Since when nothing of the output was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Untaken {
    taken: u64,
    since: Instant,
}

impl Untaken {
    /// Begins to look.
    pub(super) const fn new(taken: u64, now: Instant) -> Self {
        Self { taken, since: now }
    }

    /// How long that is by now.
    pub(super) fn lasts(&mut self, taken: u64, now: Instant) -> Duration {
        if taken != self.taken {
            *self = Self::new(taken, now);
        }
        now.saturating_duration_since(self.since)
    }
}

fn taken(seen: &Seen) -> u64 {
    seen.written.load(Ordering::Relaxed) & !ENDED
}

async fn drained(items: SyncSender<Item>, seen: Arc<Seen>, mut untaken: Untaken, patience: Duration) -> bool {
    let began = clock::monotonic();
    let mut is_told = false;
    loop {
        if !is_told {
            match items.try_send(Item::EndOfLines) {
                Ok(()) => is_told = true,
                Err(std::sync::mpsc::TrySendError::Disconnected(_)) => return true,
                Err(std::sync::mpsc::TrySendError::Full(_)) => {}
            }
        }
        if is_told && seen.written.load(Ordering::Relaxed) & ENDED != 0 {
            seen.written.fetch_and(!ENDED, Ordering::Relaxed);
            return true;
        }
        let now = clock::monotonic();
        // What has only just come could not be taken yet.
        let is_fresh = now.saturating_duration_since(began) < WRITES_WITHIN;
        if untaken.lasts(taken(&seen), now) >= patience && !is_fresh {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// How long it takes to write what somebody reads.
const WRITES_WITHIN: Duration = Duration::from_millis(300);
/// The highest bit of the count says that the lines have ended.
const ENDED: u64 = 1 << 63;
/// Items that are no output.
const SPARE: usize = 1024;

struct Writer {
    labels: Vec<Vec<Label>>,
    agents: Vec<String>,
    files: Files,
    streams: [Target; 2],
    /// A channel that is given up ends, whatever is kept here.
    links: HashMap<usize, WeakSender<Order>>,
    /// What was taken and not told yet.
    owed: HashMap<usize, u32>,
    seen: Arc<Seen>,
    say: Say,
}

struct Target {
    lines: Lines<Source>,
    is_gone: bool,
}

impl Target {
    fn new() -> Self {
        Self { lines: Lines::new(), is_gone: false }
    }
}

impl Writer {
    fn run(mut self, items: &Receiver<Item>) {
        loop {
            match items.recv_timeout(LOOK) {
                Ok(Item::Link { node, orders }) => {
                    self.links.insert(node, orders);
                    self.owed.remove(&node);
                }
                Ok(Item::Labels { labels, agents }) => {
                    (self.labels, self.agents) = (labels, agents);
                    // Last lines are those of this start.
                    self.seen.tails.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
                Ok(Item::Chunk { node, chunk }) => self.take(node, &chunk),
                Ok(Item::EndOfLines) => {
                    self.finish();
                    self.seen.written.fetch_or(ENDED, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => self.show_unfinished(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, node: usize, chunk: &Chunk) {
        let source = (node, chunk.process);
        {
            let mut tails = self.seen.tails.lock().unwrap_or_else(PoisonError::into_inner);
            tails.entry(source).or_default().feed(&chunk.bytes, clock::now().0);
        }
        let label = label(&self.labels, source);
        if let Some(file) = label.and_then(|label| label.file.as_deref()) {
            self.files.write(source, file, &chunk.bytes, &self.say);
        }
        let prefix = prefix(&self.labels, &self.agents, source);
        let mut out = Vec::new();
        let stream = usize::from(chunk.stream == Stream::Err);
        self.streams[stream].lines.feed(source, prefix, &chunk.bytes, clock::monotonic(), &mut out);
        self.write(stream, &out);
        self.give(node, chunk.cost());
        self.seen.written.fetch_add(1, Ordering::Relaxed);
    }

    fn show_unfinished(&mut self) {
        for stream in 0..2 {
            let mut out = Vec::new();
            let (labels, agents) = (&self.labels, &self.agents);
            let now = clock::monotonic();
            self.streams[stream].lines.show_unfinished(
                now,
                |source| prefix(labels, agents, source),
                &mut out,
            );
            self.write(stream, &out);
        }
        let owing: Vec<usize> = self.owed.keys().copied().collect();
        owing.into_iter().for_each(|node| self.tell(node));
    }

    fn finish(&mut self) {
        for stream in 0..2 {
            let mut out = Vec::new();
            let (labels, agents) = (&self.labels, &self.agents);
            self.streams[stream].lines.finish(|source| prefix(labels, agents, source), &mut out);
            self.write(stream, &out);
        }
    }

    fn write(&mut self, stream: usize, bytes: &[u8]) {
        if bytes.is_empty() || self.streams[stream].is_gone {
            return;
        }
        let written = if stream == 0 { put(&mut io::stdout(), bytes) } else { put(&mut io::stderr(), bytes) };
        if let Err(error) = written {
            self.streams[stream].is_gone = true;
            let name = ["output", "errors"][stream];
            self.say
                .note(&format!("the job's {name} can be written no more ({error}); the job goes on without"));
        }
    }

    /// Tells a host that it may send more, not for every piece.
    fn give(&mut self, node: usize, bytes: u32) {
        let owed = self.owed.entry(node).or_default();
        *owed = owed.saturating_add(bytes);
        if *owed >= WINDOW_BYTES / 4 {
            self.tell(node);
        }
    }

    fn tell(&mut self, node: usize) {
        let Some(owed) = self.owed.get(&node).copied().filter(|owed| *owed > 0) else { return };
        let link = self.links.get(&node).and_then(WeakSender::upgrade);
        // Where that is full it is told with the next.
        if link.is_none_or(|link| link.try_send(Order::Credit(owed)).is_ok()) {
            self.owed.remove(&node);
        }
    }
}

fn put(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

fn label(labels: &[Vec<Label>], (node, process): Source) -> Option<&Label> {
    labels.get(node)?.get(usize::try_from(process).ok()?)
}

fn prefix<'a>(labels: &'a [Vec<Label>], agents: &'a [String], source: Source) -> &'a str {
    if source.1 == AGENT {
        return agents.get(source.0).map_or("", String::as_str);
    }
    label(labels, source).map_or("", |label| label.prefix.as_str())
}

/// Files of the processes. What does not fit is said once, and lacks.
struct Files {
    dir: Option<PathBuf>,
    open: HashMap<Source, Option<File>>,
    is_told: bool,
}

impl Files {
    fn write(&mut self, source: Source, name: &str, bytes: &[u8], say: &Say) {
        let Some(dir) = &self.dir else { return };
        let path = dir.join(name);
        let file = self.open.entry(source).or_insert_with(|| create(&path, &mut self.is_told, say));
        let Some(open) = file else { return };
        if let Err(error) = open.write_all(bytes) {
            tell(&path, &error, &mut self.is_told, say);
            *file = None;
        }
    }
}

fn create(path: &Path, is_told: &mut bool, say: &Say) -> Option<File> {
    create_plain(path).map_err(|error| tell(path, &error, is_told, say)).ok()
}

/// A pipe of that name would hold up all output, and so the job.
fn create_plain(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe"));
    }
    Ok(file)
}

fn tell(path: &Path, error: &io::Error, is_told: &mut bool, say: &Say) {
    if !std::mem::replace(is_told, true) {
        say.note(&format!(
            "cannot write {}: {error}; it lacks what comes from now on, as other files of --output may, and the job goes on",
            path.display()
        ));
    }
}

/// How often unfinished lines are looked at.
const LOOK: Duration = Duration::from_millis(100);
