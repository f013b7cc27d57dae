//! The inner of the two processes on a host: hears the launching side, starts the share, tells ends, and ends what is left.

mod ending;

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringscope_agent::ending::cause_name;
use ringscope_api::clock;
use ringscope_wire::batch::launch_end::Cause;
use rustix::process::{Signal, WaitOptions, getpid, set_child_subreaper, set_parent_process_death_signal};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{JoinError, JoinSet};

use super::agent::{OwnAgent, watched_folder};
use super::output::Room;
use super::ports::Held;
use super::start::{self, Refusal};
use super::{NodeArgs, output};
use crate::launch::claim::{Claim, ClaimError};
use crate::launch::inherited::Inherited;
use crate::launch::protocol::{
    AGENT, Ended, Exit, Frame, GREETING, Hello, Message, Order, PROTOCOL, Role, Share, Stream, WhyEnd,
    read_order, write_frame,
};
use crate::launch::signals::Signals;
use crate::launch::{config, node_name};
use crate::run::note;

/// Words and pieces of output that wait to be sent; of pieces there are fewer, for the window bounds them.
const FRAMES: usize = 8192;
/// Orders that wait.
const ORDERS: usize = 64;
/// Between two looks at what is left.
const TICK: Duration = Duration::from_millis(50);

/// Serves one launching side over the standard streams until it is gone; the job's exit status.
pub(super) async fn serve(args: &NodeArgs, inherited: Inherited, signals: Signals) -> u8 {
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    let _ = set_child_subreaper(Some(getpid()));
    let (frames, to_write) = mpsc::channel(FRAMES);
    let (to_obey, orders) = mpsc::channel(ORDERS);
    let writer = std::thread::spawn(move || write_all(to_write));
    std::thread::spawn(move || read_all(&to_obey));
    let mut host = Host::new(args, inherited, frames);
    host.say(Message::Hello(hello()));
    let status = host.live(orders, signals).await;
    host.agent.end().await;
    host.say(Message::Bye);
    drop(host);
    // It ends with the last sender, unless nobody takes what it writes.
    let until = clock::monotonic() + Duration::from_secs(1);
    while !writer.is_finished() && clock::monotonic() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    status
}

fn write_all(mut frames: Receiver<Frame>) {
    let mut stdout = std::io::stdout().lock();
    if stdout.write_all(GREETING).is_err() {
        return;
    }
    while let Some(frame) = frames.blocking_recv() {
        if write_frame(&mut stdout, &frame).is_err() {
            return;
        }
    }
}

/// Ends with the channel, whose end is that of the sender.
fn read_all(orders: &Sender<Order>) {
    let mut stdin = std::io::stdin().lock();
    while let Ok(Some(order)) = read_order(&mut stdin) {
        if orders.blocking_send(order).is_err() {
            return;
        }
    }
}

fn hello() -> Hello {
    let connection = config::ssh_connection();
    Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: node_name(),
        pid: std::process::id(),
        from_address: connection.as_ref().map(|(from, _)| from.clone()),
        own_address: connection.map(|(_, own)| own),
    }
}

struct Host<'a> {
    args: &'a NodeArgs,
    inherited: Inherited,
    frames: Sender<Frame>,
    room: Arc<Room>,
    share: Option<Box<Share>>,
    /// Looks whether the next share can be started.
    looks: JoinSet<Result<Box<Share>, Refusal>>,
    claim: Option<Claim>,
    ports: Held,
    /// The number of each process of the share, while it runs.
    running: Vec<Option<u32>>,
    /// Under which run each is watched.
    runs: Vec<String>,
    streams: JoinSet<()>,
    stage: Stage,
    agent: OwnAgent,
    heard_at: Instant,
    /// The launching side is gone, or said that all is over, with this status.
    leaving: Option<u8>,
    /// The launching side has said that all is over.
    is_dismissed: bool,
    /// Why its processes were told to end, if they were.
    told: Option<WhyEnd>,
    /// SIGKILL was sent to all.
    has_killed: bool,
}

/// How far the share is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nothing runs.
    Idle,
    /// Processes run; those that were told to end are killed then.
    Runs { kill_at: Option<Instant> },
    /// They have ended; what they left is told to end, and killed then.
    Leftovers { since: Instant, kill_at: Option<Instant>, left: usize },
    /// Nothing is left but what they wrote.
    Drains,
}

impl<'a> Host<'a> {
    fn new(args: &'a NodeArgs, inherited: Inherited, frames: Sender<Frame>) -> Self {
        Self {
            args,
            inherited,
            frames,
            room: Arc::new(Room::new()),
            share: None,
            looks: JoinSet::new(),
            claim: None,
            ports: Held::default(),
            running: Vec::new(),
            runs: Vec::new(),
            streams: JoinSet::new(),
            stage: Stage::Idle,
            agent: OwnAgent::new(inherited),
            heard_at: clock::monotonic(),
            leaving: None,
            is_dismissed: false,
            told: None,
            has_killed: false,
        }
    }

    /// Who does not take what is said is gone, which the reading side will notice.
    fn say(&self, message: Message) {
        let _ = self.frames.try_send(Frame::Message(message));
    }

    async fn live(&mut self, mut orders: Receiver<Order>, mut signals: Signals) -> u8 {
        let mut is_open = true;
        loop {
            tokio::select! {
                order = orders.recv(), if is_open => match order {
                    Some(order) => {
                        // What has ended by itself has not ended by what is ordered now.
                        self.reap();
                        self.obey(order);
                    }
                    None => {
                        is_open = false;
                        self.abandon();
                    }
                },
                signal = signals.next() => match signal {
                    libc::SIGCHLD => {}
                    signal => self.stop(signal),
                },
                Some(looked) = self.looks.join_next() => self.looked(looked),
                Some(_) = self.streams.join_next() => {}
                () = tokio::time::sleep(TICK) => {}
            }
            self.reap();
            self.step(clock::monotonic());
            match (self.leaving, self.stage) {
                (Some(status), Stage::Idle) => return status,
                // Nobody takes what they wrote.
                (Some(status), Stage::Drains) if !is_open || self.is_dismissed => return status,
                _ => {}
            }
        }
    }

    fn obey(&mut self, order: Order) {
        self.heard_at = clock::monotonic();
        match order {
            Order::FindPorts { count, first, last } => {
                let found = Held::find(count, first, last);
                let numbers = found.as_ref().map(Held::numbers).map_err(Clone::clone);
                self.ports = found.unwrap_or_default();
                self.say(Message::Ports(numbers));
            }
            Order::Prepare(share) => self.prepare(share),
            Order::Go => self.go(),
            Order::End { signal, grace_ms, why } => self.end(signal, Duration::from_millis(grace_ms), why),
            Order::Credit(bytes) => self.room.give(bytes),
            Order::Ping(number) => self.say(Message::Pong { number, at_ns: clock::now().0 }),
            Order::Bye { status } => {
                (self.leaving, self.is_dismissed) = (Some(status), true);
                self.end(libc::SIGTERM, self.args.grace(), WhyEnd::LaunchGone);
            }
        }
    }

    /// Looks whether the share can be started, beside all else: disks may be slow, or hang.
    fn prepare(&mut self, mut share: Box<Share>) {
        self.args.own.impose_on(&mut share);
        self.forget_earlier();
        self.share = None;
        self.looks = JoinSet::new();
        self.looks.spawn_blocking(move || start::check(&share).map(|()| share));
    }

    /// What an earlier start has left is killed, and nothing is said of it any more: what comes after the answer is the next one's.
    fn forget_earlier(&mut self) {
        if matches!(self.stage, Stage::Idle) {
            return;
        }
        self.kill();
        self.stage = Stage::Idle;
        self.running.clear();
        self.streams.detach_all();
    }

    fn looked(&mut self, looked: Result<Result<Box<Share>, Refusal>, JoinError>) {
        let failed = |error: JoinError| {
            Err(Refusal { text: format!("ringscope there cannot look at its share: {error}"), status: 1 })
        };
        match looked.unwrap_or_else(failed).and_then(|share| self.take(share)) {
            Ok(()) => self.say(Message::Ready),
            Err(Refusal { text, status }) => self.say(Message::Refused { text, status }),
        }
    }

    fn take(&mut self, share: Box<Share>) -> Result<(), Refusal> {
        if share.claims && self.claim.is_none() {
            self.claim = match Claim::take(&share.job, &share.launch) {
                Ok(claim) => Some(claim),
                Err(ClaimError::Own) => None,
                Err(error @ ClaimError::Taken { .. }) => {
                    return Err(Refusal { text: error.to_string(), status: 1 });
                }
                Err(error @ ClaimError::Io { .. }) => {
                    self.say(Message::Note(format!("{}: {error}", node_name())));
                    None
                }
            };
        }
        self.share = Some(share);
        Ok(())
    }

    fn go(&mut self) {
        let Some(share) = self.share.clone() else { return };
        self.look_for_agent(clock::monotonic());
        (self.told, self.has_killed) = (None, false);
        // Now they are the processes'.
        self.ports = Held::default();
        self.running = vec![None; share.processes.len()];
        self.runs = share.processes.iter().map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
        self.stage = Stage::Runs { kill_at: None };
        for (place, process) in share.processes.iter().enumerate() {
            match start::start(&share, process, &self.runs[place], self.inherited) {
                Ok(started) => {
                    self.running[place] = Some(started.pid);
                    self.say(Message::Started { process: place, pid: started.pid });
                    let number = u32::try_from(place).unwrap_or(AGENT);
                    for (pipe, stream) in [(started.out, Stream::Out), (started.err, Stream::Err)] {
                        let (room, frames) = (Arc::clone(&self.room), self.frames.clone());
                        self.streams.spawn(output::hand_on(pipe, (number, stream), room, frames));
                    }
                }
                Err(error) => {
                    self.say(Message::Note(format!(
                        "{}: cannot start {}: {error}",
                        node_name(),
                        name(process.role)
                    )));
                    self.tell_end(place, Exit::Status(CANNOT_START));
                }
            }
        }
    }

    fn look_for_agent(&mut self, now: Instant) {
        if let Some(share) = &self.share
            && let Some(note) = self.agent.look(share, now, &self.room, &self.frames)
        {
            self.say(Message::Note(note));
        }
    }

    fn tell_end(&self, process: usize, exit: Exit) {
        // A crash is none of our asking, nor is SIGKILL before we send it. The culprit's end often comes after its victims': the
        // kernel takes its memory away before it tells, and its connections before that.
        let is_own = match exit {
            Exit::Signal(libc::SIGKILL) => !self.has_killed,
            Exit::Signal(libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE) => true,
            _ => false,
        };
        let (told, at_ns) = (self.told.filter(|_| !is_own), clock::now().0);
        if let Some((share, run)) = self.share.as_ref().zip(self.runs.get(process)) {
            leave_ending(share, run, exit, told, at_ns);
        }
        self.say(Message::Ended(Ended { process, exit, at_ns, was_told: told.is_some() }));
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = u32::try_from(pid.as_raw_nonzero().get()).unwrap_or_default();
            let exit = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Exit::Status(code),
                (None, signal) => Exit::Signal(signal.unwrap_or_default()),
            };
            if let Some(place) = self.running.iter().position(|running| *running == Some(pid)) {
                self.running[place] = None;
                self.tell_end(place, exit);
            } else if self.agent.has_ended(pid) {
                // Once more would end so once more.
                self.share.iter_mut().for_each(|share| share.agent = None);
                self.say(Message::Note(format!(
                    "{}: the agent has ended ({exit:?}); the job goes on unseen there",
                    node_name()
                )));
            }
        }
    }

    fn step(&mut self, now: Instant) {
        if now.saturating_duration_since(self.heard_at) > self.args.silence() && self.leaving.is_none() {
            self.abandon();
        }
        match self.stage {
            Stage::Idle => {}
            Stage::Runs { kill_at } if self.running.iter().all(Option::is_none) => {
                self.stage = Stage::Leftovers { since: now, kill_at, left: 0 };
            }
            Stage::Runs { kill_at } => {
                self.look_for_agent(now);
                if kill_at.is_some_and(|at| now >= at) {
                    self.kill();
                }
            }
            Stage::Leftovers { since, kill_at, left } => self.clear(now, since, kill_at, left),
            Stage::Drains => {
                if self.streams.is_empty() {
                    self.stage = Stage::Idle;
                    self.say(Message::Over);
                }
            }
        }
    }
}

/// Writes down for the agent how a process ended. What is watched has left a note.
fn leave_ending(share: &Share, run: &str, exit: Exit, told: Option<WhyEnd>, at_ns: u64) {
    if share.watch.is_none() {
        return;
    }
    let (status, signal) = match exit {
        Exit::Status(status) => (Some(status), None),
        Exit::Signal(signal) => (None, Some(signal)),
    };
    let (cause, told_signal) = match told {
        None => (Cause::Unspecified, None),
        Some(WhyEnd::Failure) => (Cause::Failure, None),
        Some(WhyEnd::Signal(signal)) => (Cause::Signal, Some(signal)),
        Some(WhyEnd::LaunchGone) => (Cause::LaunchGone, None),
        Some(WhyEnd::WorkersDone) => (Cause::WorkersDone, None),
    };
    let ending = note::Ending { status, signal, at_ns, told: cause_name(cause), told_signal };
    if let Err(error) = ending.leave(&watched_folder(share), run) {
        tracing::warn!(%error, "cannot write down for the agent how a process ended");
    }
}

/// A role in words.
fn name(role: Role) -> String {
    match role {
        Role::Worker(rank) => format!("rank {rank}"),
        Role::Server(number) => format!("server {number}"),
    }
}

/// As shells have it for what cannot be executed.
const CANNOT_START: i32 = 126;
