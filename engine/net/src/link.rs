//! What both ends of a connection have: queue pairs, where they complete, and the socket over which the ends met.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rsnet_connections::{Counts, Place};
use rustix::time::{ClockId, clock_gettime};
use verbs::{Completion, CompletionQueue, QueuePair, State, Status};

use crate::config::settings;
use crate::device::Device;
use crate::failure::{Failure, Result};
use crate::wire::Hello;

/// Empty looks after which the socket is asked: a question costs as much as some looks.
const LOOKS_PER_QUESTION: u32 = 256;
/// Empty looks after which the clock is read.
const LOOKS_PER_READING: u32 = 1024;
/// How often the counts are shown and the device's events are read, while nothing comes.
const SHOW_AFTER_NS: u64 = 500_000_000;
/// How often queue pairs are asked, while nothing comes: on some devices a peer's mistake ends one without a word. On others the
/// question is a command to the firmware, so it is rare.
const ASK_AFTER_NS: u64 = 10_000_000_000;
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
    shown_ns: u64,
    asked_ns: u64,
    /// Registrations, which other threads make too.
    pub(crate) registrations: Arc<Registrations>,
}

/// How often memory was registered for a connection, and found to be.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    /// All.
    all: AtomicU64,
    /// Those of them that were found.
    cached: AtomicU64,
    /// Why the last one was refused, if it was.
    refused: Mutex<Option<Failure>>,
}

impl Registrations {
    /// One more. Memory that is registered takes back that some was refused before.
    pub(crate) fn note(&self, was_there: bool) {
        self.all.fetch_add(1, Ordering::Relaxed);
        self.cached.fetch_add(u64::from(was_there), Ordering::Relaxed);
        *self.refused() = None;
    }

    /// One was refused.
    pub(crate) fn note_refused(&self, failure: Failure) {
        *self.refused() = Some(failure);
    }

    fn refused(&self) -> MutexGuard<'_, Option<Failure>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
            shown_ns: 0,
            asked_ns: monotonic_ns(),
            registrations: Arc::default(),
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
        if self.device.is_broken.load(Ordering::Relaxed) {
            return Err(Failure::system(format!("{}: the device is broken, as its driver says", self.own())));
        }
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Hands over what is done; a completion that is a failure is given back, so that its request can be named. `waits`: whether
    /// anything is in flight that only the other end can bring.
    pub(crate) fn poll(
        &mut self,
        waits: bool,
        mut take: impl FnMut(&mut Counts, Completion),
    ) -> Result<Option<Completion>> {
        self.check()?;
        let (come, failed) = self.take(&mut take)?;
        if come > 0 || failed.is_some() || !waits {
            return Ok(failed);
        }
        let Some(failure) = self.look_after()? else { return Ok(None) };
        // What came before the other end left has come.
        let (come, failed) = self.take(&mut take)?;
        if come > 0 || failed.is_some() { Ok(failed) } else { Err(self.fail(failure)) }
    }

    /// How many are done, and the first failure: what was not even begun because of it says less.
    fn take(
        &mut self,
        take: &mut impl FnMut(&mut Counts, Completion),
    ) -> Result<(usize, Option<Completion>)> {
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
        if come > 0 {
            self.show_counts();
            self.looks = 0;
        }
        Ok((come, failed))
    }

    /// A request failed: `rank 3 (host-1) on mlx5_0:1/RoCE: a write of 4096 bytes to rank 1 (…) by queue pair 17 -> 20: transport retry
    /// counter exceeded (status 12)`.
    pub(crate) fn broke(&mut self, completion: &Completion, what: &str) -> Failure {
        let Completion { queue_pair, status, vendor_error, .. } = *completion;
        let at = self.pairs.iter().position(|pair| pair.number() == queue_pair);
        let theirs = at.and_then(|at| self.peer.queue_pairs.get(at)).copied().unwrap_or(queue_pair);
        let vendor =
            if vendor_error == 0 { String::new() } else { format!(", vendor's error {vendor_error:#x}") };
        let (own, peer) = (self.own(), self.peer.shown());
        let text = format!("{own}: {what} {peer} by queue pair {queue_pair} -> {theirs}: {status}{vendor}");
        let words = Some(format!("{status}{vendor}"));
        self.fail(Failure { words, ..Failure::remote(text) })
    }

    /// A call of the verbs failed, as the connection with it.
    pub(crate) fn refused(&mut self, failure: Failure) -> Failure {
        let text = format!("{}, to {}: {}", self.own(), self.peer.shown(), failure.text);
        self.fail(Failure { text, ..failure })
    }

    /// `rank 3 (host-1) on mlx5_0:1/RoCE`
    pub(crate) fn own(&self) -> String {
        own(&self.device)
    }

    /// Nothing has come for a while: what is wrong with the other end, the queue pairs or the device, if anything is.
    fn look_after(&mut self) -> Result<Option<Failure>> {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS_PER_QUESTION)
            && let Some(failure) = self.hear()
        {
            return Ok(Some(failure));
        }
        if !self.looks.is_multiple_of(LOOKS_PER_READING) {
            return Ok(None);
        }
        let now = monotonic_ns();
        if now.saturating_sub(self.shown_ns) >= SHOW_AFTER_NS {
            self.shown_ns = now;
            self.show_counts();
            self.device.say_events();
        }
        if now.saturating_sub(self.asked_ns) < ASK_AFTER_NS {
            return Ok(None);
        }
        self.asked_ns = now;
        for pair in &self.pairs {
            if pair.state()? == State::Error {
                let what = format!("has put queue pair {} into the error state", pair.number());
                return Ok(Some(self.by_other_end(&what)));
            }
        }
        Ok(None)
    }

    /// What the other end says over the socket: that it has failed, and why; or it is gone.
    fn hear(&mut self) -> Option<Failure> {
        let mut words = [0; LAST_WORDS_BYTES];
        match self.socket.read(&mut words) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Ok(count @ 1..) => {
                let text = String::from_utf8_lossy(words.get(..count).unwrap_or_default());
                Some(self.by_other_end(&format!("has failed: {}", text.trim_end_matches('\0'))))
            }
            _ => Some(self.by_other_end("is gone: it ended, or closed the connection")),
        }
    }

    fn by_other_end(&self, what: &str) -> Failure {
        Failure::of_other_end(&self.own(), &self.peer.shown(), what)
    }

    /// The connection has failed, which the other end is told. The first failure is the one that stays.
    pub(crate) fn fail(&mut self, failure: Failure) -> Failure {
        if let Some(first) = &self.failure {
            return first.clone();
        }
        self.show_counts();
        if let Some(place) = &self.place {
            place.fail(failure.words());
        }
        let mut words = [0; LAST_WORDS_BYTES];
        let own = failure.words();
        let cut = own.floor_char_boundary(LAST_WORDS_BYTES);
        words[..cut].copy_from_slice(&own.as_bytes()[..cut]);
        // Who does not hear it sees the socket close.
        let _ = self.socket.write(&words);
        self.failure = Some(failure.clone());
        failure
    }

    /// It is closed. Where it never carried anything, and the last memory for it was refused, that is why.
    pub(crate) fn close(&mut self) {
        let refused = self.registrations.refused().clone();
        match refused.filter(|_| self.counts.completed_requests == 0) {
            Some(refused) => drop(self.fail(refused)),
            None => self.show_counts(),
        }
    }

    /// A request is done.
    pub(crate) fn note_done(counts: &mut Counts, bytes: u64) {
        counts.bytes += bytes;
        counts.completed_requests += 1;
        counts.last_done_ns = monotonic_ns();
    }

    /// Shows the counts.
    pub(crate) fn show_counts(&self) {
        let Some(place) = &self.place else { return };
        let Registrations { all, cached, .. } = &*self.registrations;
        place.store(&Counts {
            registrations: all.load(Ordering::Relaxed),
            cached_registrations: cached.load(Ordering::Relaxed),
            ..self.counts
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_registered_takes_back_that_some_was_refused() {
        let registrations = Registrations::default();
        registrations.note_refused(Failure::system("no room"));
        assert!(registrations.refused().is_some());
        registrations.note(false);
        assert_eq!(*registrations.refused(), None);
    }

    #[test]
    fn what_is_known_by_the_other_end_says_so() {
        let heard = Failure::of_other_end("rank 0 (host-0) on rxe0", "rank 1", "is gone");
        assert_eq!(heard.text, "rank 0 (host-0) on rxe0: rank 1 is gone");
        assert_eq!(heard.words(), "the other end is gone");
        let refused = Failure::system("make a queue pair: no room").at("rank 0");
        assert_eq!(
            (refused.words(), &*refused.text),
            ("make a queue pair: no room", "rank 0: make a queue pair: no room")
        );
    }
}
