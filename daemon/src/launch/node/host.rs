//! The inner of the two processes on a host: hears the launching side, starts the share, tells ends, and ends what is left.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringscope_api::clock;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal,
};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;

use super::agent::{self, Agent};
use super::output::Room;
use super::ports::Held;
use super::start::{self, Refusal};
use super::{NodeArgs, output, tree};
use crate::launch::claim::{Claim, ClaimError};
use crate::launch::protocol::{
    AGENT, Ended, Exit, Frame, GREETING, Hello, Order, PROTOCOL, Role, Share, Stream, Word, read_order,
    write_frame,
};
use crate::launch::signals::{self, Signals};
use crate::launch::{config, node_name};

/// Words and pieces of output that wait to be sent; of pieces there are fewer, for the window bounds them.
const FRAMES: usize = 8192;
/// Orders that wait.
const ORDERS: usize = 64;
/// Between two looks at what is left.
const TICK: Duration = Duration::from_millis(50);
/// Between two looks whether an agent runs.
const AGENT_TICK: Duration = Duration::from_secs(2);
/// How long what copies logs may take after the last process.
const RELAYS: Duration = Duration::from_secs(10);
/// How long what is left may take to end by itself.
const SETTLES: Duration = Duration::from_millis(300);
/// How long an agent may take to send the rest.
const AGENT_ENDS: Duration = Duration::from_secs(6);

/// Serves one launching side over the standard streams until it is gone; the job's exit status.
pub(super) async fn serve(args: &NodeArgs, signals: Signals) -> u8 {
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    let _ = set_child_subreaper(Some(getpid()));
    let (frames, to_write) = mpsc::channel(FRAMES);
    let (to_obey, orders) = mpsc::channel(ORDERS);
    let writer = std::thread::spawn(move || write_all(to_write));
    std::thread::spawn(move || read_all(&to_obey));
    let mut host = Host::new(args, frames);
    host.say(Word::Hello(hello()));
    let status = host.live(orders, signals).await;
    host.end_agent().await;
    host.say(Word::Bye);
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
    frames: Sender<Frame>,
    room: Arc<Room>,
    share: Option<Box<Share>>,
    claim: Option<Claim>,
    ports: Held,
    /// The number of each process of the share, while it runs.
    running: Vec<Option<u32>>,
    streams: JoinSet<()>,
    stage: Stage,
    agent: Option<Agent>,
    agent_streams: JoinSet<()>,
    agent_looked_at: Option<Instant>,
    heard_at: Instant,
    /// The launching side is gone, or said that all is over, with this status.
    leaving: Option<u8>,
    /// The launching side has said that all is over.
    is_dismissed: bool,
    was_told: bool,
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
    fn new(args: &'a NodeArgs, frames: Sender<Frame>) -> Self {
        Self {
            args,
            frames,
            room: Arc::new(Room::new()),
            share: None,
            claim: None,
            ports: Held::default(),
            running: Vec::new(),
            streams: JoinSet::new(),
            stage: Stage::Idle,
            agent: None,
            agent_streams: JoinSet::new(),
            agent_looked_at: None,
            heard_at: clock::monotonic(),
            leaving: None,
            is_dismissed: false,
            was_told: false,
            has_killed: false,
        }
    }

    /// Who does not take what is said is gone, which the reading side will notice.
    fn say(&self, word: Word) {
        let _ = self.frames.try_send(Frame::Word(word));
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
                self.say(Word::Ports(numbers));
            }
            Order::Prepare(share) => match self.prepare(share) {
                Ok(()) => self.say(Word::Ready),
                Err(Refusal { text, status }) => self.say(Word::Refused { text, status }),
            },
            Order::Go => self.go(),
            Order::End { signal, grace_ms } => self.end(signal, Duration::from_millis(grace_ms)),
            Order::Credit(bytes) => self.room.give(bytes),
            Order::Ping(number) => self.say(Word::Pong { number, at_ns: clock::now().0 }),
            Order::Bye { status } => {
                (self.leaving, self.is_dismissed) = (Some(status), true);
                self.end(libc::SIGTERM, self.args.grace());
            }
        }
    }

    fn prepare(&mut self, mut share: Box<Share>) -> Result<(), Refusal> {
        self.args.own.impose_on(&mut share);
        start::check(&share)?;
        if share.claims && self.claim.is_none() {
            self.claim = match Claim::take(&share.job, &share.launch) {
                Ok(claim) => Some(claim),
                Err(ClaimError::Own) => None,
                Err(error @ ClaimError::Taken { .. }) => {
                    return Err(Refusal { text: error.to_string(), status: 1 });
                }
                Err(error @ ClaimError::Io { .. }) => {
                    self.say(Word::Note(format!("{}: {error}", node_name())));
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
        (self.was_told, self.has_killed) = (false, false);
        // Now they are the processes'.
        self.ports = Held::default();
        self.running = vec![None; share.processes.len()];
        self.stage = Stage::Runs { kill_at: None };
        for (place, process) in share.processes.iter().enumerate() {
            match start::start(&share, process) {
                Ok(started) => {
                    self.running[place] = Some(started.pid);
                    self.say(Word::Started { process: place, pid: started.pid });
                    let number = u32::try_from(place).unwrap_or(AGENT);
                    for (pipe, stream) in [(started.out, Stream::Out), (started.err, Stream::Err)] {
                        let (room, frames) = (Arc::clone(&self.room), self.frames.clone());
                        self.streams.spawn(output::hand_on(pipe, (number, stream), room, frames));
                    }
                }
                Err(error) => {
                    self.say(Word::Note(format!(
                        "{}: cannot start {}: {error}",
                        node_name(),
                        name(process.role)
                    )));
                    self.tell_end(place, Exit::Status(CANNOT_START));
                }
            }
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
        let was_told = self.was_told && !is_own;
        self.say(Word::Ended(Ended { process, exit, at_ns: clock::now().0, was_told }));
    }

    /// The launching side is gone.
    fn abandon(&mut self) {
        if self.leaving.is_none() {
            self.leaving = Some(1);
        }
        self.room.abandon();
        self.end(libc::SIGTERM, self.args.grace());
    }

    /// Somebody ends this process: by its guard's death, or by hand.
    fn stop(&mut self, signal: i32) {
        self.say(Word::Stopped(format!(
            "ringscope there was ended by {}, or what started it has ended, and it has ended its processes",
            signals::name(signal)
        )));
        self.leaving.get_or_insert(1);
        self.end(libc::SIGTERM, self.args.grace());
    }

    /// Signals go to the group of each process, as from a terminal; when time is up, all that descends from us is killed.
    fn end(&mut self, signal: i32, grace: Duration) {
        self.was_told = true;
        self.has_killed |= signal == libc::SIGKILL;
        let until = clock::monotonic() + grace;
        match &mut self.stage {
            Stage::Idle | Stage::Drains => {}
            Stage::Leftovers { kill_at, .. } => *kill_at = Some(kill_at.map_or(until, |at| at.min(until))),
            Stage::Runs { kill_at } => {
                *kill_at = Some(kill_at.map_or(until, |at| at.min(until)));
                let Some(signal) = Signal::from_named_raw(signal) else { return };
                for pid in self.running.iter().flatten() {
                    send(*pid, signal);
                    // One that was stopped hears it only when it goes on.
                    send(*pid, Signal::CONT);
                }
            }
        }
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
            } else if self.agent.as_ref().is_some_and(|agent| agent.pid == pid) {
                self.agent = None;
                // Once more would end so once more.
                self.share.iter_mut().for_each(|share| share.agent = None);
                self.say(Word::Note(format!(
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
                    self.say(Word::Over);
                }
            }
        }
    }

    fn kill(&mut self) {
        self.has_killed = true;
        let spared = self.spared();
        tree::descendants(&spared).iter().for_each(|process| process.signal(Signal::KILL));
    }

    fn spared(&self) -> Vec<u32> {
        self.agent.iter().map(|agent| agent.pid).collect()
    }

    /// Ends what the processes left behind.
    fn clear(&mut self, now: Instant, since: Instant, kill_at: Option<Instant>, left: usize) {
        let waited = now.saturating_duration_since(since);
        let mut found = tree::descendants(&self.spared());
        if waited < RELAYS {
            let n_found = found.len();
            found.retain(|process| !process.is_log_relay());
            if found.is_empty() && n_found > 0 {
                return;
            }
        }
        if found.is_empty() {
            self.cleared(left);
            return;
        }
        let signal = match kill_at {
            // What is just about to end by itself is left to do so.
            None if waited < SETTLES => return,
            None => Some(Signal::TERM),
            Some(at) if now >= at => Some(Signal::KILL),
            Some(_) => (self.was_told && left == 0).then_some(Signal::TERM),
        };
        if let Some(signal) = signal {
            found.iter().for_each(|process| process.signal(signal));
        }
        let kill_at = Some(kill_at.unwrap_or(now + self.args.grace()));
        self.stage = Stage::Leftovers { since, kill_at, left: left.max(found.len()) };
    }

    fn cleared(&mut self, left: usize) {
        if left > 0 && !self.was_told {
            let host = node_name();
            self.say(Word::Note(format!(
                "{host}: processes had left others running ({left}), which were ended"
            )));
        }
        self.stage = Stage::Drains;
    }

    /// Starts an agent where none runs.
    fn look_for_agent(&mut self, now: Instant) {
        let Some(share) = &self.share else { return };
        let Some(wish) = share.agent.as_ref().filter(|_| self.agent.is_none()) else { return };
        let is_due = self.agent_looked_at.is_none_or(|at| now.saturating_duration_since(at) >= AGENT_TICK);
        let dir = agent::dir(share);
        if !is_due {
            return;
        }
        self.agent_looked_at = Some(now);
        if agent::is_served(&dir) {
            return;
        }
        match Agent::start(wish, &share.job, &dir) {
            Ok((agent, said)) => {
                let (room, frames) = (Arc::clone(&self.room), self.frames.clone());
                self.agent_streams.spawn(output::hand_on(said, (AGENT, Stream::Err), room, frames));
                self.say(Word::Note(format!(
                    "{}: no agent runs; one was started for this job (pid {})",
                    node_name(),
                    agent.pid
                )));
                self.agent = Some(agent);
            }
            Err(error) => {
                self.say(Word::Note(format!(
                    "{}: no agent runs, and none can be started for {}: {error}; the job is not seen there",
                    node_name(),
                    dir.display()
                )));
            }
        }
    }

    async fn end_agent(&mut self) {
        if let Some(agent) = &self.agent {
            agent.end(Signal::TERM);
            let until = clock::monotonic() + AGENT_ENDS;
            while !tree::descendants(&[]).is_empty() && clock::monotonic() < until {
                tokio::time::sleep(TICK).await;
                tree::reap();
            }
        }
        tree::kill_all(&[]).await;
        self.agent = None;
    }
}

/// Sends a signal to the group of a process whose end was not taken yet, so that its number is still its own.
fn send(pid: u32, signal: Signal) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // It makes its group itself, and may not have come to that: then it is alone.
    if kill_process_group(pid, signal) == Err(Errno::SRCH) {
        let _ = kill_process(pid, signal);
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
