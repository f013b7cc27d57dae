//! The agent as a whole: a reader and a sender, until it is told to stop.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use prost::Message as _;
use ringscope_api::clock::Timestamp;
use ringscope_api::terminal::without_passwords;
use ringscope_wire::batch::{Batch, FORMAT_VERSION, Process};
use ringscope_wire::segment::layout;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::backlog::Backlog;
use super::config::AgentConfig;
use super::delta::{MAX_BATCH_BYTES, split};
use super::error::AgentError;
use super::folders;
use super::hardware::Hardware;
use super::kernel::Kernel;
use super::loss::Losses;
use super::mark::Mark;
use super::rights::Rights;
use super::room::Room;
use super::sender::{NewsBox, Outgoing, Sender};
use super::steady;
use super::tracker::Tracker;
use super::transport::Transport;

/// A batch is sent at least this often, so that the daemon knows that the agent lives.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The same while some call has been open for such a time: what a rank does not say is known only up to the newest batch,
/// and whoever waits shall be known to wait within two seconds. A call that is open for longer is known by then.
const PULSE: Duration = Duration::from_millis(200);
const PULSE_AGES: Range<Duration> = Duration::from_millis(700)..Duration::from_secs(5);
/// Batches between reader and sender.
const QUEUE: usize = 16;

/// Runs an agent until `shutdown`. Then it reads once more, says that it ends, tries for at most two seconds to send what
/// is left, and leaves the rest on disk for the next agent.
///
/// # Errors
/// [`AgentError`] if the configuration cannot work. A daemon that is away, or segments that cannot be read, are no
/// errors.
pub async fn run(config: AgentConfig, shutdown: CancellationToken) -> Result<(), AgentError> {
    if config.interval.is_zero() {
        return Err(AgentError::Interval);
    }
    let transport = Transport::new(&config)?;
    let agent_id = uuid::Uuid::new_v4().to_string();
    let opening = (config.dir.clone(), config.state_dir.clone(), agent_id.clone(), config.backlog_bytes);
    // For everybody on this host to see.
    let daemons = without_passwords(&config.daemon_urls.join(",")).into_owned();
    let (mark, backlog) = tokio::task::spawn_blocking(move || {
        let (dir, state_dir, agent_id, backlog_bytes) = opening;
        folders::prepare_dir(&dir)?;
        let mark = mark(&dir, &daemons);
        Ok::<_, AgentError>((mark, Backlog::open(&state_dir, &agent_id, backlog_bytes)?))
    })
    .await??;
    let (dir, daemon, confined) = (config.dir.display(), config.daemon_urls.join(", "), config.is_held);
    tracing::info!(agent_id, %dir, daemon, confined, "agent started");
    Rights::own().say();

    let held_to = config.is_held.then(|| folders::Held::to(&config.dir));
    let programs = config.programs();
    let (queue, outgoing) = mpsc::channel(QUEUE);
    let news = NewsBox::default();
    let sender = Sender { backlog, transport, news: news.clone(), said: None };
    let reader = Reader {
        interval: config.interval,
        counts_wait: Duration::ZERO,
        hardware: Hardware::new(&config),
        kernel: Kernel::new(&config),
        held_to,
        mark,
        room: Room::default(),
        tracker: Tracker::new(config.dir, config.host.clone(), config.keep_dead, config.log_grace)
            .looking(programs, config.look.is_some())
            .keeping_at_most(config.ended_bytes)
            .with_other_hosts(config.other_hosts),
        agent_id,
        host: config.host,
        news,
        lost_by_sender: Losses::default(),
        queue,
        last_seq: 0,
        queued_at: None,
        read_at: Timestamp(0),
        resend_all_at: None,
    };
    let (read, ()) = tokio::join!(reader.run(shutdown), sender.run(outgoing));
    read
}

/// Where there can be none, the agent does its work without.
fn mark(dir: &Path, daemons: &str) -> Option<Mark> {
    let mark = Mark::leave(dir, daemons);
    if let Err(error) = &mark {
        tracing::warn!(
            dir = %dir.display(),
            %error,
            "cannot say in the folder that an agent reads it: `ringscope run` may remove what ended processes left before \
             it has been read"
        );
    }
    let mut mark = mark.ok()?;
    mark.renew(ringscope_api::clock::monotonic());
    Some(mark)
}

/// The reading half of an agent.
struct Reader {
    /// From one reading to the next.
    interval: Duration,
    /// As the daemon says.
    counts_wait: Duration,
    hardware: Hardware,
    kernel: Kernel,
    /// The folder that a confined agent may write in.
    held_to: Option<folders::Held>,
    mark: Option<Mark>,
    room: Room,
    tracker: Tracker,
    agent_id: String,
    host: String,
    news: NewsBox,
    lost_by_sender: Losses,
    queue: mpsc::Sender<Outgoing>,
    last_seq: u64,
    queued_at: Option<Instant>,
    /// When the segments were read last; what a batch tells is of that moment.
    read_at: Timestamp,
    resend_all_at: Option<Instant>,
}

impl Reader {
    async fn run(mut self, shutdown: CancellationToken) -> Result<(), AgentError> {
        let mut timer = tokio::time::interval(self.interval);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                biased;
                () = shutdown.cancelled() => true,
                _ = timer.tick() => false,
            };
            let (reader, batches, is_last) = tokio::task::spawn_blocking(move || {
                let is_last = is_last || self.has_lost_its_folder();
                let batches = self.read(is_last);
                (self, batches, is_last)
            })
            .await?;
            self = reader;
            for batch in batches {
                if self.queue.send(batch).await.is_err() {
                    return Ok(());
                }
            }
            if is_last {
                return self.held_to.map_or(Ok(()), folders::Held::or_lost);
            }
        }
    }

    fn has_lost_its_folder(&self) -> bool {
        self.held_to.as_ref().is_some_and(folders::Held::is_lost)
    }

    /// Reads everything and makes batches of what changed.
    fn read(&mut self, is_last: bool) -> Vec<Outgoing> {
        let monotonic = ringscope_api::clock::monotonic();
        let now = Instant::from_std(monotonic);
        if let Some(mark) = &mut self.mark {
            mark.renew(monotonic);
        }
        let news = self.news.take();
        self.lost_by_sender.add_all(&news.losses);
        if news.refused {
            self.resend_all_at.get_or_insert(now + HEARTBEAT);
        }
        let is_due = self.resend_all_at.is_some_and(|at| at <= now);
        let resend_all = news.resend_all || is_due;
        if resend_all {
            self.resend_all_at = None;
            self.tracker.unsay();
            self.kernel.unsay();
        }
        self.tracker.acknowledged(news.settled, monotonic);
        if let Some(wishes) = news.wishes {
            self.tracker.wish(&wishes, news.raised);
        }
        self.tracker.inquire(&news.inquiries);
        self.counts_wait = news.counts_wait.unwrap_or(self.counts_wait);
        self.hardware.poll(monotonic, self.tracker.has_running());
        if let Some(states) = self.hardware.take_queue_pairs() {
            self.tracker.know_queue_pairs(states);
        }
        // What is read after this moment may have happened after it, never before.
        self.read_at = ringscope_api::clock::now();
        if is_last {
            self.tracker.look_at_once();
        }
        self.tracker.poll(monotonic);
        let is_due = self.needs_heartbeat(now, news.settled, is_last)
            || self.has_hardware(news.settled)
            || self.kernel.is_new() && news.settled >= self.last_seq
            || resend_all
            || is_last;
        if !is_due && self.may_wait(now) {
            return Vec::new();
        }
        let changes = self.tracker.changes();
        if !is_due && changes.is_empty() {
            return Vec::new();
        }
        self.queued_at = Some(now);
        self.room.look(self.tracker.dir(), monotonic, self.read_at);
        let mut parts = split(changes, MAX_BATCH_BYTES);
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        let last = parts.len() - 1;
        // A process that is cut is told by its last part.
        let goes_on: Vec<Option<String>> = (parts.iter().skip(1))
            .map(|next| next.first().map(|process| process.key.clone()))
            .chain([None])
            .collect();
        // The last word of an agent is that it ends.
        let batches = parts.into_iter().enumerate();
        batches
            .map(|(at, processes)| {
                let told = processes.iter().map(|process| process.key.as_str());
                let told = told.filter(|key| goes_on[at].as_deref() != Some(*key));
                self.tracker.queued(told, self.last_seq + 1);
                self.batch(processes, at < last, is_last && at == last)
            })
            .collect()
    }

    /// An empty batch says that the agent lives. While older ones wait there is no need: the daemon would not see it.
    fn needs_heartbeat(&self, now: Instant, settled: u64, is_last: bool) -> bool {
        let waits = || self.tracker.waits(ringscope_api::clock::now(), &PULSE_AGES);
        let is_due = self.queued_at.is_none_or(|at| {
            let silent = now.duration_since(at);
            silent >= HEARTBEAT || silent >= PULSE && waits()
        });
        is_due && !is_last && settled >= self.last_seq
    }

    /// Whether this reading need not be told, because a later one will be soon and has all that it has. Not where somebody
    /// waits in a call: whoever judges that looks at each reading.
    fn may_wait(&self, now: Instant) -> bool {
        let wait = steady::wait(self.counts_wait, self.interval);
        let is_early = self.queued_at.is_some_and(|at| now.duration_since(at) < wait);
        is_early && self.tracker.may_wait() && !self.tracker.waits(ringscope_api::clock::now(), &PULSE_AGES)
    }

    /// While older batches wait, a newer reading takes the place of this one: the daemon would see both too late.
    fn has_hardware(&self, settled: u64) -> bool {
        self.hardware.is_new() && settled >= self.last_seq
    }

    /// The processes that run here and are not watched, and why.
    fn not_watched(&self) -> String {
        let refused = Some(self.room.not_watched.clone()).filter(|refused| !refused.is_empty());
        refused.into_iter().chain(self.tracker.not_watched()).collect::<Vec<_>>().join("; ")
    }

    fn batch(&mut self, processes: Vec<Process>, more_follows: bool, ending: bool) -> Outgoing {
        self.last_seq += 1;
        let mut losses = self.tracker.losses.clone();
        losses.add_all(&self.lost_by_sender);
        let (mut kernel, kernel_reading) = self.kernel.take();
        for message in &mut kernel {
            // The kernel knows a process in a container by another number than it knows itself.
            message.pid = message.pid.map(|pid| self.tracker.own_pid(pid));
        }
        let batch = Batch {
            format_version: FORMAT_VERSION,
            agent_id: self.agent_id.clone(),
            seq_number: self.last_seq,
            agent_host: self.host.clone(),
            sent_at_ns: self.read_at.0,
            processes,
            dropped: losses.to_batch(),
            hardware: self.hardware.take(),
            kernel,
            kernel_reading,
            ending,
            posted_at_ns: 0,
            more_follows,
            cannot_watch: self.room.lack.clone(),
            not_watched: self.not_watched(),
            reads_segment_version: layout::VERSION,
        };
        Outgoing { seq: self.last_seq, body: batch.encode_to_vec() }
    }
}
