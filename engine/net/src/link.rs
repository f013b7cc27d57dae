//! What both ends of a connection have: queue pairs, where they complete, and the socket over which the ends met.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rsnet_connections::{Counts, Place};
use rustix::time::{ClockId, clock_gettime};
use verbs::{Completion, CompletionQueue, QueuePair, State, Status};

use crate::config::settings;
use crate::device::Device;
use crate::failure::{Failure, Result};
use crate::log;
use crate::wire::Hello;

/// Empty looks after which the socket is asked: a question costs as much as some looks.
const LOOKS_PER_QUESTION: u32 = 256;
/// Empty looks after which the clock is read.
const LOOKS_PER_READING: u32 = 1024;
/// How often queue pairs and the device are asked, while nothing comes: a peer's mistake may end a queue pair here without a word.
const ASK_AFTER_NS: u64 = 500_000_000;
/// Bytes in which an end that has failed tells the other one why.
const LAST_WORDS_BYTES: usize = 256;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    // Queue pairs first: they are destroyed before what they complete into.
    pub(crate) pairs: Vec<QueuePair>,
    queue: CompletionQueue,
    pub(crate) device: Arc<Device>,
    /// Whether each message takes all queue pairs.
    pub(crate) splits: bool,
    /// Whether packets of one write may come in any order.
    pub(crate) is_adaptive: bool,
    /// The other end.
    pub(crate) peer: Hello,
    /// What went over it.
    pub(crate) counts: Counts,
    socket: TcpStream,
    place: Option<Place>,
    failure: Option<Failure>,
    looks: u32,
    asked_ns: u64,
}

/// What a completion is of: its number is a request's place, unless it is one of these.
pub(crate) const OF_ROOM: u64 = u64::MAX;

impl Link {
    /// Over queue pairs that are connected.
    pub(crate) fn new(
        device: Arc<Device>,
        (pairs, queue): (Vec<QueuePair>, CompletionQueue),
        (socket, peer): (TcpStream, Hello),
        splits: bool,
        place: Option<Place>,
    ) -> Self {
        let is_infiniband = device.link_layer == verbs::LinkLayer::InfiniBand;
        Self {
            pairs,
            queue,
            device,
            splits,
            is_adaptive: settings().adaptive_routing.unwrap_or(is_infiniband),
            peer,
            counts: Counts::default(),
            socket,
            place,
            failure: None,
            looks: 0,
            asked_ns: 0,
        }
    }

    /// The queue pairs that the n-th message takes.
    pub(crate) fn taken(&self, message: u64) -> std::ops::Range<usize> {
        let n = self.pairs.len().max(1);
        if self.splits {
            return 0..n;
        }
        let index = usize::try_from(message % n as u64).unwrap_or(0);
        index..index + 1
    }

    /// Where completions come.
    pub(crate) fn queue(&self) -> &CompletionQueue {
        &self.queue
    }

    /// An error if the connection has failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Hands over what is done. `what` names the request of a completion, for errors; `waits` says whether anything is waited for
    /// that only the other end can bring.
    pub(crate) fn poll(
        &mut self,
        waits: bool,
        what: impl Fn(u64) -> String,
        mut take: impl FnMut(&mut Counts, Completion),
    ) -> Result<()> {
        self.check()?;
        let mut failed = None;
        let counts = &mut self.counts;
        let polled = self.queue.poll(|completion| {
            if completion.status.is_success() {
                take(counts, completion);
            } else if failed.is_none_or(|first: Completion| first.status == Status::FLUSHED) {
                failed = Some(completion);
            }
        });
        let come = polled.map_err(|error| self.fail(error.into()))?;
        if let Some(completion) = failed {
            let text = self.words(&completion, &what(completion.id));
            return Err(self.fail(Failure::remote(text)));
        }
        if come > 0 {
            self.store();
            self.looks = 0;
            return Ok(());
        }
        if waits { self.wonder() } else { Ok(()) }
    }

    /// `rank 3 (host-1) on mlx5_0:1/RoCE: a write of 4096 bytes to rank 1 (…) by queue pair 17 -> 20: transport retry counter exceeded …`
    fn words(&self, completion: &Completion, what: &str) -> String {
        let at = self.pairs.iter().position(|pair| pair.number() == completion.queue_pair);
        let theirs = at.and_then(|at| self.peer.queue_pairs.get(at)).copied().unwrap_or(0);
        let Completion { queue_pair, status, vendor_error, .. } = *completion;
        let vendor =
            if vendor_error == 0 { String::new() } else { format!(", vendor's error {vendor_error:#x}") };
        format!(
            "{}: {what} {} by queue pair {queue_pair} -> {theirs}: {status}{vendor}",
            self.own(),
            self.peer.shown()
        )
    }

    /// `rank 3 (host-1) on mlx5_0:1/RoCE`
    pub(crate) fn own(&self) -> String {
        own(&self.device)
    }

    /// Nothing has come for a while: whether the other end, the queue pairs and the device are still well.
    fn wonder(&mut self) -> Result<()> {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS_PER_QUESTION) {
            self.hear()?;
        }
        if !self.looks.is_multiple_of(LOOKS_PER_READING) {
            return Ok(());
        }
        let now = monotonic_ns();
        if now.saturating_sub(self.asked_ns) < ASK_AFTER_NS {
            return Ok(());
        }
        self.asked_ns = now;
        self.store();
        self.device.say_events();
        for pair in &self.pairs {
            if pair.state()? == State::Error {
                let (own, peer, number) = (self.own(), self.peer.shown(), pair.number());
                let text = format!(
                    "{own}: queue pair {number} to {peer} is in the error state, by what the other end did"
                );
                return Err(self.fail(Failure::remote(text)));
            }
        }
        Ok(())
    }

    /// What the other end says over the socket: that it has failed, and why; or it is gone.
    fn hear(&mut self) -> Result<()> {
        let mut words = [0; LAST_WORDS_BYTES];
        match self.socket.read(&mut words) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Ok(count @ 1..) => {
                let text = String::from_utf8_lossy(words.get(..count).unwrap_or_default());
                let text = text.trim_end_matches('\0');
                let text = format!("{}: {} has failed: {text}", self.own(), self.peer.shown());
                Err(self.fail(Failure::remote(text)))
            }
            _ => {
                let text = format!(
                    "{}: {} is gone: it ended, or closed the connection",
                    self.own(),
                    self.peer.shown()
                );
                Err(self.fail(Failure::remote(text)))
            }
        }
    }

    /// The connection has failed, which the other end is told. The first failure is the one that stays.
    pub(crate) fn fail(&mut self, failure: Failure) -> Failure {
        if let Some(first) = &self.failure {
            return first.clone();
        }
        log::warn(&format!("NET/ringscope : {}", failure.text));
        self.store();
        if let Some(place) = &self.place {
            place.fail(&failure.text);
        }
        let mut words = [0; LAST_WORDS_BYTES];
        let cut = failure.text.floor_char_boundary(LAST_WORDS_BYTES);
        words[..cut].copy_from_slice(&failure.text.as_bytes()[..cut]);
        // Who does not hear it sees the socket close.
        let _ = self.socket.write(&words);
        self.failure = Some(failure.clone());
        failure
    }

    /// A request is done.
    pub(crate) fn note_done(counts: &mut Counts, bytes: u64) {
        counts.bytes += bytes;
        counts.completed_requests += 1;
        counts.last_done_ns = monotonic_ns();
    }

    /// Shows the counts.
    pub(crate) fn store(&self) {
        if let Some(place) = &self.place {
            place.store(&self.counts);
        }
    }
}

/// `rank 3 (host-1) on mlx5_0:1/RoCE`; the rank as far as the launcher has told it.
pub(crate) fn own(device: &Device) -> String {
    let rank = settings().global_rank;
    let who = if rank < 0 { format!("process {}", std::process::id()) } else { format!("rank {rank}") };
    format!("{who} ({}) on {}", host(), device.shown())
}

/// The host's name.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// `CLOCK_MONOTONIC`.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
