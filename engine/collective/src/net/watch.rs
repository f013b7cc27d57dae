//! The watcher: one thread per communicator that notices death.
//!
//! Rank 0 keeps a control connection to every rank. The end of one means that its process is gone; a peer whose watcher
//! has been silent for the timeout is stopped or cut off. A slow caller is not silent: its watcher answers while
//! its other threads compute, and says with each answer what operations wait for. When one has stood still for as long as is
//! allowed, if there is such a limit, rank 0 finds where the waiting begins (see `verdict`). Rank 0 tells all. The watcher also
//! takes the connections that peers make for their sends.
//! With silent faults it has no control connections, and these are all that it does.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::clock::{self, Deadline};
use crate::net::acceptor::Inbox;
use crate::net::account::{self, Account};
use crate::net::control::{Control, Failure, Health, Inbound};
use crate::net::frame;
use crate::net::hello::Purpose;
use crate::net::strands::Strands;
use crate::net::verdict::{Known, NameOf, OTHER_CALL, abandoned, first_mismatch, is_told, mismatch, verdict};
use crate::net::wake::{self, Wake};
use crate::transport::tcp::connect::tune;

/// What is said of a rank whose connection is there and which does not answer.
pub const SILENT: &str = "has not answered for";
/// Bytes of an unfinished message at most.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;
/// A peer answers a farewell in a round trip; one that is stopped must not hold up a destroy.
const FAREWELL_WAIT: Duration = Duration::from_millis(300);
/// So long rank 0 waits for all ranks to say what they are in, where calls do not fit together. Who does not say so is in no
/// call, or computes; who has seen the mismatch waits longer for the verdict.
const DISPUTE_WAIT: Duration = Duration::from_millis(600);
/// The same while as many ranks are known to have called the one thing as the other: on a machine that does much else, those
/// who would decide it may be slow to say so. Shorter than who has seen the mismatch waits.
const TIE_WAIT: Duration = Duration::from_secs(15);
/// Who has nobody to ask sleeps until a connection comes: any long time.
const UNASKED_WAIT: Duration = Duration::from_secs(3600);

/// A rank of this host, whose end the kernel tells without its help.
pub(crate) trait Neighbour: Send + Sync + std::fmt::Debug {
    /// Its rank.
    fn rank(&self) -> usize;
    /// Sets `wake` at its end, if it is a rank of this process.
    fn wake_at_end(&self, wake: &Wake);
    /// Ready once its process has closed what it shares with this one; none if that is this process.
    fn end_fd(&self) -> Option<PollFd<'_>>;
    /// Whether that has come.
    fn has_ended(&self) -> bool;
    /// Whether it had said before that it was done.
    fn has_left(&self) -> bool;
}

/// A control connection.
#[derive(Debug)]
pub(crate) struct ControlPeer {
    /// The rank at the other end.
    pub(crate) rank: usize,
    /// Non-blocking.
    pub(crate) stream: TcpStream,
}

/// What a watcher needs.
#[derive(Debug)]
pub(crate) struct Watch {
    /// This rank.
    pub(crate) rank: usize,
    /// A name for each rank: `rank 5 (host-2, 127.0.2.1)`.
    pub(crate) names: Arc<[String]>,
    /// On rank 0 all others, elsewhere rank 0; with silent faults nobody.
    pub(crate) peers: Vec<ControlPeer>,
    /// The other ranks of this host. While rank 0 is there, it tells of their ends.
    pub(crate) neighbours: Vec<Arc<dyn Neighbour>>,
    /// Where peers connect for their sends: sets the health's wake of the watcher. None where nobody does.
    pub(crate) inbox: Option<Inbox>,
    /// Silence that counts as death.
    pub(crate) timeout: Duration,
    /// Stillness that counts as failure.
    pub(crate) stall_timeout: Duration,
    /// The communicator's.
    pub(crate) health: Arc<Health>,
    /// What collectives are called.
    pub(crate) name_of: NameOf,
}

struct Watched {
    peer: ControlPeer,
    buffer: Vec<u8>,
    heard: Instant,
    account: Option<Account>,
    gone: bool,
    left: bool,
}

/// Calls that do not fit together, until all ranks have said what they are in.
struct Dispute {
    /// As the rank has it that saw it.
    seen: Failure,
    how: String,
    until: Instant,
    until_though_tied: Instant,
}

impl Dispute {
    /// When it is to be looked at again, should nobody say anything.
    fn next_look(&self, now: Instant) -> Instant {
        if now < self.until { self.until } else { self.until_though_tied }
    }
}

/// Starts the watcher.
pub(crate) fn start(watch: Watch) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("rsccl-watch".to_owned()).spawn(move || Watcher::new(watch).run())
}

struct Watcher {
    rank: usize,
    names: Arc<[String]>,
    peers: Vec<Watched>,
    neighbours: Vec<Arc<dyn Neighbour>>,
    inbox: Option<Inbox>,
    strands: Strands,
    /// How long a peer may be silent.
    silence: Duration,
    /// How long an operation may stand still.
    stillness: Duration,
    beat: Duration,
    health: Arc<Health>,
    name_of: NameOf,
    announced: bool,
    dispute: Option<Dispute>,
}

impl Watcher {
    fn new(watch: Watch) -> Self {
        let heard = clock::now();
        let watched =
            |peer| Watched { peer, buffer: Vec::new(), heard, account: None, gone: false, left: false };
        let beat = if watch.peers.is_empty() {
            UNASKED_WAIT
        } else {
            account::beat(watch.timeout.min(watch.stall_timeout))
        };
        Self {
            rank: watch.rank,
            names: watch.names,
            peers: watch.peers.into_iter().map(watched).collect(),
            neighbours: watch.neighbours,
            inbox: watch.inbox,
            strands: Strands::default(),
            // A beat passes until it is noticed, and one more until an account of it has come.
            silence: watch.timeout.saturating_sub(beat),
            stillness: watch.stall_timeout.saturating_sub(2 * beat),
            beat,
            health: watch.health,
            name_of: watch.name_of,
            announced: false,
            dispute: None,
        }
    }

    fn run(mut self) {
        self.neighbours.iter().for_each(|one| one.wake_at_end(&self.health.watcher));
        let mut next_beat = clock::now();
        while !self.health.is_leaving() {
            let now = clock::now();
            if now >= next_beat {
                self.beat(now, next_beat);
                next_beat = now + self.beat;
            }
            let due = self.dispute.iter().fold(next_beat, |due, dispute| due.min(dispute.next_look(now)));
            self.sleep(due.saturating_duration_since(now));
            self.health.watcher.reset();
            self.accept();
            self.listen();
            self.look_around();
            self.speak();
            self.settle();
        }
        self.speak();
        self.tell_all(&Control::Leave);
        self.close();
    }

    /// Closes in order: a socket closed with an unread ping in it would be reset, and a reset can overtake the farewell.
    fn close(&mut self) {
        let deadline = Deadline::after(FAREWELL_WAIT);
        self.peers.retain(|peer| !peer.gone && peer.peer.stream.shutdown(Shutdown::Write).is_ok());
        while !self.peers.is_empty() && !deadline.passed() {
            let streams = self.peers.iter().map(|peer| &peer.peer.stream);
            let mut fds: Vec<PollFd<'_>> = streams.map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
            let _ = wake::sleep(&mut fds, deadline.left());
            self.peers.retain_mut(|peer| {
                peer.buffer.clear();
                peer.read()
            });
        }
    }

    /// Sends pings and judges silence. A beat that comes late tells of this process's own stop, after which everybody's
    /// silence is its own fault.
    fn beat(&mut self, now: Instant, due: Instant) {
        if self.peers.is_empty() {
            return;
        }
        if now.saturating_duration_since(due) > self.beat {
            self.peers.iter_mut().for_each(|peer| peer.heard = now);
        }
        if self.rank == 0 {
            self.tell_all(&Control::Ping);
        }
        let silent =
            |peer: &&Watched| !peer.gone && now.saturating_duration_since(peer.heard) >= self.silence;
        if let Some(peer) = self.peers.iter().find(silent) {
            let silence = now.saturating_duration_since(peer.heard).as_secs_f32();
            let what = format!("{} {SILENT} {silence:.1} s", self.names[peer.peer.rank]);
            self.health.fail(Failure::new(6, what));
        } else if self.rank == 0 {
            self.look_into_stalls(now);
        }
    }

    /// Asks the accounts why nothing moves. A rank that is silent is not judged by an old one: its silence will tell.
    fn look_into_stalls(&mut self, now: Instant) {
        let mut known = vec![Known::Here(self.health.activity.account()); self.names.len()];
        for peer in &self.peers {
            let is_fresh = now.saturating_duration_since(peer.heard) <= 2 * self.beat;
            known[peer.peer.rank] = match &peer.account {
                _ if peer.left => Known::Left,
                Some(account) if is_fresh => Known::Here(account.clone()),
                _ => return,
            };
        }
        let stillness_ms = u64::try_from(self.stillness.as_millis()).unwrap_or(u64::MAX);
        let differs = || mismatch(&known, &self.names, OTHER_CALL);
        if let Some(found) = first_mismatch(&known, &self.names, self.name_of).or_else(differs) {
            // Some may not have come to it yet.
            let failure = Failure { code: 5, what: found.what, mismatch: Some(OTHER_CALL.to_owned()) };
            self.adopt(failure, None);
        } else if let Some(what) = verdict(&known, &self.names, stillness_ms).or_else(|| {
            abandoned(&known, &self.names, u64::try_from(2 * self.beat.as_millis()).unwrap_or(u64::MAX))
        }) {
            self.health.fail(Failure::new(6, what));
        }
    }

    fn sleep(&self, wait: Duration) {
        let mut fds = vec![PollFd::new(&self.health.watcher, PollFlags::IN)];
        let present = self.peers.iter().filter(|peer| !peer.gone);
        fds.extend(present.map(|peer| PollFd::new(&peer.peer.stream, PollFlags::IN)));
        if self.health.is_coordinator_gone() {
            fds.extend(self.neighbours.iter().filter_map(|one| one.end_fd()));
        }
        let _ = wake::sleep(&mut fds, wait);
    }

    fn accept(&mut self) {
        for (hello, stream) in self.inbox.as_ref().map(Inbox::take).unwrap_or_default() {
            if let Purpose::Data(strand) = hello.purpose
                && hello.rank < self.names.len()
                && tune(&stream).is_ok()
                && let Some(streams) = self.strands.add(strand, hello.rank, stream)
            {
                let channel = u32::from(strand.channel);
                self.health.add_inbound(Inbound { channel, peer: hello.rank, streams });
            }
        }
    }

    fn listen(&mut self) {
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            if peer.gone {
                continue;
            }
            let open = peer.read();
            while let Ok(Some(message)) = frame::take::<Control>(&mut self.peers[index].buffer) {
                self.hear(index, message);
            }
            if !open && !self.peers[index].gone {
                self.peers[index].gone = true;
                let what = format!("{} closed the connection", self.names[self.peers[index].peer.rank]);
                self.health.fail(Failure::new(6, what));
            }
        }
    }

    /// Rank 0 has left: who dies beside this rank is noticed here, over whatever they are connected.
    fn look_around(&mut self) {
        if self.neighbours.is_empty() || !self.health.is_coordinator_gone() {
            return;
        }
        let (over, here): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.neighbours).into_iter().partition(|one| one.has_ended());
        self.neighbours = here;
        if let Some(dead) = over.iter().find(|one| !one.has_left()) {
            let what = format!("{} closed the connection", self.names[dead.rank()]);
            self.health.fail(Failure::new(6, what));
        }
    }

    fn hear(&mut self, index: usize, message: Control) {
        let peer = &mut self.peers[index];
        peer.heard = clock::now();
        match message {
            Control::Ping => peer.tell(&Control::Pong(self.health.activity.account())),
            Control::Ask => {
                // Who has seen the mismatch waits for the verdict, and says no more.
                peer.tell(&Control::Pong(self.health.activity.account_with_calls()));
                self.health.activity.ask();
                self.health.wake_runner();
            }
            Control::Pong(account) => peer.keep(account),
            Control::Failed(failure) => self.adopt(failure, Some(index)),
            Control::Leave => {
                (peer.gone, peer.left) = (true, true);
                let _ = peer.peer.stream.shutdown(Shutdown::Write);
                if self.rank != 0 {
                    self.health.set_coordinator_gone();
                }
            }
        }
    }

    /// A failure that `from`, or this rank itself, tells of. Of calls that do not fit together, rank 0 asks all first.
    fn adopt(&mut self, failure: Failure, from: Option<usize>) {
        let Some(how) = failure.mismatch.clone().filter(|_| self.rank == 0) else {
            return self.health.fail(failure);
        };
        if self.dispute.is_some() || self.health.has_failed() {
            return;
        }
        let others = self.peers.iter_mut().enumerate().filter(|(index, _)| Some(*index) != from);
        others.for_each(|(_, peer)| peer.account = None);
        self.tell_all(&Control::Ask);
        self.health.activity.ask();
        self.health.wake_runner();
        let now = clock::now();
        let (until, until_though_tied) = (now + DISPUTE_WAIT, now + TIE_WAIT);
        self.dispute = Some(Dispute { seen: failure, how, until, until_though_tied });
    }

    /// Once all have said what they are in, or have had the time for it, who called what nobody else called is named.
    fn settle(&mut self) {
        let Some(dispute) = &self.dispute else { return };
        let here = |account: &Option<Account>| Known::Here(account.clone().unwrap_or_default());
        let mut known = vec![Known::Here(self.health.activity.account_with_calls()); self.names.len()];
        for peer in &self.peers {
            known[peer.peer.rank] = if peer.gone { Known::Left } else { here(&peer.account) };
        }
        let found = first_mismatch(&known, &self.names, self.name_of)
            .or_else(|| mismatch(&known, &self.names, &dispute.how));
        let is_tie = found.as_ref().is_none_or(|found| found.is_tie);
        let until = if is_tie { dispute.until_though_tied } else { dispute.until };
        if is_told(&known, found.as_ref().map(|found| found.number)) || clock::now() >= until {
            let what = found.map_or_else(|| dispute.seen.what.clone(), |found| found.what);
            self.health.fail(Failure::new(dispute.seen.code, what));
            self.dispute = None;
            self.speak();
        }
    }

    /// Passes on a failure, a suspicion, and what rank 0 has asked for. What rank 0 suspects itself is so.
    fn speak(&mut self) {
        if self.health.activity.take_answer() && self.rank != 0 {
            self.tell_all(&Control::Pong(self.health.activity.account_with_calls()));
        }
        if let Some(suspicion) = self.health.take_suspicion() {
            if self.rank == 0 {
                self.adopt(suspicion, None);
            } else {
                self.tell_all(&Control::Failed(suspicion));
            }
        }
        if !self.announced
            && let Some(failure) = self.health.failure()
        {
            self.announced = true;
            self.tell_all(&Control::Failed(failure));
        }
    }

    fn tell_all(&mut self, message: &Control) {
        self.peers.iter_mut().filter(|peer| !peer.gone).for_each(|peer| peer.tell(message));
    }
}

impl Watched {
    /// What it tells of itself; an answer to a ping does not take back the calls that it has told of.
    fn keep(&mut self, mut account: Account) {
        if account.calls.is_empty()
            && let Some(old) = &mut self.account
        {
            account.calls = std::mem::take(&mut old.calls);
        }
        self.account = Some(account);
    }

    /// Reads what has come; false at the end of the connection.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        while self.buffer.len() < MAX_BUFFERED_BYTES {
            match self.peer.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => self.buffer.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        // Nobody honest sends so much without a whole message in it.
        false
    }

    /// Messages are small and rare: a socket that has no room for one belongs to a peer that has stopped reading, and
    /// its silence will tell.
    fn tell(&mut self, message: &Control) {
        if let Ok(bytes) = frame::encode(message) {
            let _ = self.peer.stream.write_all(&bytes);
        }
    }
}
