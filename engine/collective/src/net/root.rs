//! The bootstrap root: a thread of the process that made the unique id, through which the ranks gather their facts.
//!
//! Each rank connects, proves the secret and gives its rank; then, round by round, every rank hands in a blob and gets
//! all of them. A rank that is missing, or that goes away, fails the round for all, with its number; with silent faults
//! see [`silent`].

pub(crate) mod message;
mod silent;

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::clock::Deadline;
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::net::acceptor::{Acceptor, Door, Joins, Listening};
use crate::net::descriptors;
use crate::net::frame;
use crate::net::gathered::Gathered;
use crate::net::hello::{MAX_RANKS, PROTOCOL, other_protocol};
use crate::net::secret::{Secret, new_secret};
use crate::net::unique_id::UniqueId;
use crate::net::wake;
use message::{Answer, Offer};

/// What a root makes of ranks that do not come, or go away.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// It tells the others, of those that do not come after so long.
    Tells(Duration),
    /// As NCCL's, it tells nobody: see [`silent`].
    Silent,
}

impl Manner {
    /// As the settings want it.
    pub(crate) fn of(settings: &Settings) -> Self {
        if settings.is_silent() { Self::Silent } else { Self::Tells(settings.timeout) }
    }
}

impl From<Duration> for Manner {
    fn from(timeout: Duration) -> Self {
        Self::Tells(timeout)
    }
}

/// A rank that is to be told that the root has failed is waited for this long.
const JOIN_WAIT: Duration = Duration::from_secs(5);
/// While ranks join, those that have joined are looked at so often.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks at nothing: what comes wakes the sleeper.
const LONG_WAIT: Duration = Duration::from_secs(3600);
/// Nobody takes calls any more, for whatever reason.
const SHUT: &str = "the bootstrap root takes no more ranks";
/// Ranks named in a message at most.
const NAMED_RANKS: usize = 16;

/// Starts a root on `address`; returns its id.
pub fn start(address: std::net::IpAddr, manner: impl Into<Manner>) -> Result<UniqueId> {
    descriptors::raise_limit();
    let listening = Acceptor::of_process()?.listen(address, 0);
    let listening = listening.map_err(|error| Error::system(format_args!("listen on {address}"), &error))?;
    let id = UniqueId { root: listening.address(), secret: new_secret()? };
    start_on(Arc::new(listening), id.secret, manner.into())?;
    Ok(id)
}

/// Starts a root where ranks know that this process listens. It takes connections until all ranks have joined.
pub(crate) fn start_on(listening: Arc<Listening>, secret: Secret, manner: Manner) -> Result<()> {
    let (door, joined) = Acceptor::of_process()?.expect_joins(&secret);
    let server = move || serve((listening, door), joined, manner);
    let thread = std::thread::Builder::new().name("rsccl-root".to_owned()).spawn(server);
    thread.map(drop).map_err(|error| Error::no_thread("the bootstrap root's thread", &error))
}

/// Waits for the first rank without limit (the id may travel long), for the others as its manner is.
fn serve(open: (Arc<Listening>, Door), joined: Joins, manner: Manner) {
    let mut ranks = Vec::new();
    let gathered = match manner {
        Manner::Tells(timeout) => gather_ranks(&joined, &mut ranks, timeout).is_ok(),
        Manner::Silent => silent::gather_ranks(&joined, &mut ranks),
    };
    drop(open);
    // Whoever still waits here is one too many, and finds that out when it calls again.
    drop(joined);
    match manner {
        Manner::Tells(timeout) if gathered => serve_rounds(&mut ranks, timeout),
        Manner::Silent if gathered => silent::serve_rounds(&mut ranks),
        _ => {}
    }
}

fn gather_ranks(
    joined: &Joins,
    ranks: &mut Vec<Option<TcpStream>>,
    timeout: Duration,
) -> std::result::Result<(), String> {
    let gathered = gather(joined, ranks, timeout);
    if let Err(why) = &gathered {
        fail(ranks, why);
        turn_away(joined, ranks, why);
    }
    gathered
}

fn gather(
    joined: &Joins,
    ranks: &mut Vec<Option<TcpStream>>,
    timeout: Duration,
) -> std::result::Result<(), String> {
    let Ok(first) = joined.recv() else { return Err(SHUT.to_owned()) };
    let first = first?;
    let deadline = Deadline::after(timeout);
    let n_ranks = first.0.n_ranks;
    if n_ranks > MAX_RANKS {
        ranks.push(Some(first.1));
        return Err(format!("{n_ranks} ranks: a communicator has {MAX_RANKS} at most"));
    }
    ranks.resize_with(n_ranks, || None);
    let mut next = Some(first);
    while let Some((join, stream)) = next {
        if join.protocol != PROTOCOL {
            ranks.push(Some(stream));
            return Err(other_protocol(&format!("rank {}", join.rank), join.protocol));
        }
        if join.n_ranks != n_ranks || join.rank >= n_ranks {
            ranks.push(Some(stream));
            return Err(format!(
                "rank {} has n_ranks {}, another rank has {n_ranks}",
                join.rank, join.n_ranks
            ));
        }
        if ranks[join.rank].is_some() {
            ranks.push(Some(stream));
            return Err(format!("two processes call themselves rank {}", join.rank));
        }
        ranks[join.rank] = Some(stream);
        if ranks.iter().all(Option::is_some) {
            return Ok(());
        }
        next = None;
        while next.is_none() && !deadline.passed() {
            next = match joined.recv_timeout(deadline.left().min(LOOK_INTERVAL)) {
                Ok(joined) => Some(joined?),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Err(SHUT.to_owned()),
            };
            if next.is_none()
                && let Some(rank) = first_gone(ranks)
            {
                return Err(gone(rank, &ErrorKind::UnexpectedEof.into()));
            }
        }
    }
    let missing: Vec<String> = (0..n_ranks)
        .filter(|rank| ranks[*rank].is_none())
        .take(NAMED_RANKS)
        .map(|rank| rank.to_string())
        .collect();
    Err(format!("rank {} did not join within {} s", missing.join(", "), timeout.as_secs()))
}

/// Tells the ranks that are still to join why there is no use in it.
fn turn_away(joined: &Joins, ranks: &[Option<TcpStream>], why: &str) {
    let deadline = Deadline::after(JOIN_WAIT);
    // How many there are is known from the first that has joined.
    let mut missing = ranks.iter().filter(|rank| rank.is_none()).count();
    let mut is_known = !ranks.is_empty();
    while missing > 0 || !is_known {
        match joined.recv_timeout(deadline.left()) {
            Ok(Ok((join, stream))) => {
                if !is_known {
                    (missing, is_known) = (join.n_ranks, true);
                }
                fail(&mut [Some(stream)], why);
                missing = missing.saturating_sub(1);
            }
            Ok(Err(_)) => {}
            Err(_) => return,
        }
    }
}

/// The first rank that has joined and closed its connection.
fn first_gone(ranks: &[Option<TcpStream>]) -> Option<usize> {
    let joined = || ranks.iter().enumerate().filter_map(|(rank, stream)| Some((rank, stream.as_ref()?)));
    let mut fds: Vec<PollFd<'_>> =
        joined().map(|(_, stream)| PollFd::new(stream, PollFlags::RDHUP)).collect();
    wake::sleep(&mut fds, Duration::ZERO).ok()?;
    joined().zip(&fds).find(|(_, fd)| !fd.revents().is_empty()).map(|((rank, _), _)| rank)
}

fn serve_rounds(ranks: &mut [Option<TcpStream>], timeout: Duration) {
    loop {
        match round(ranks, timeout) {
            Ok((all, is_last)) => {
                answer(ranks, &Answer::All(all));
                if is_last {
                    return;
                }
            }
            Err(why) => return fail(ranks, &why),
        }
    }
}

/// One blob of each rank, and whether it was the last round.
fn round(ranks: &[Option<TcpStream>], timeout: Duration) -> std::result::Result<(Gathered, bool), String> {
    let deadline = Deadline::after(timeout);
    let mut hands: Vec<Hand<'_>> = ranks.iter().flatten().map(Hand::new).collect();
    while let Some(missing) = hands.iter().position(|hand| hand.offer.is_none()) {
        if deadline.passed() {
            return Err(format!("rank {missing} has not gone on within {} s", timeout.as_secs()));
        }
        let mut fds: Vec<PollFd<'_>> = hands.iter().map(Hand::poll_fd).collect();
        wake::sleep(&mut fds, deadline.left()).map_err(|error| error.to_string())?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        for (rank, hand) in hands.iter_mut().enumerate().filter(|(rank, _)| ready[*rank]) {
            hand.read().map_err(|error| gone(rank, &error))?;
            if let Some(why) = hand.offer.as_ref().and_then(|offer| offer.failure.as_ref()) {
                return Err(format!("rank {rank}: {why}"));
            }
        }
    }
    Ok(gathered(hands))
}

/// What all have handed in, and whether it was the last round.
fn gathered(hands: Vec<Hand<'_>>) -> (Gathered, bool) {
    let offers: Vec<Offer> = hands.into_iter().filter_map(|hand| hand.offer).collect();
    let is_last = offers.iter().all(|offer| offer.is_last);
    (Gathered::new(offers.into_iter().map(|offer| offer.blob)), is_last)
}

fn gone(rank: usize, error: &std::io::Error) -> String {
    format!("rank {rank} went away during initialisation: {error}")
}

/// A rank's offer, as far as it has come.
struct Hand<'a> {
    stream: &'a TcpStream,
    buffer: Vec<u8>,
    offer: Option<Offer>,
}

impl<'a> Hand<'a> {
    fn new(stream: &'a TcpStream) -> Self {
        Self { stream, buffer: Vec::new(), offer: None }
    }

    /// Who has made an offer waits for the answer: all that can come is its end.
    fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(self.stream, if self.offer.is_some() { PollFlags::RDHUP } else { PollFlags::IN })
    }

    /// Reads what is there. The end of the stream is an error.
    fn read(&mut self) -> std::io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        match rustix::net::recv(self.stream, &mut bytes, RecvFlags::DONTWAIT).map(|(count, _)| count) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.buffer.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.offer =
            frame::take_bytes(&mut self.buffer)?.map(|bytes| Offer::from_bytes(&bytes)).transpose()?;
        Ok(())
    }
}

fn fail(ranks: &mut [Option<TcpStream>], why: &str) {
    answer(ranks, &Answer::Failed(why.to_owned()));
}

fn answer(ranks: &mut [Option<TcpStream>], answer: &Answer) {
    let Ok(bytes) = frame::encode_bytes(&answer.to_bytes()) else { return };
    // Rank 0 last: as a rule the root lives in its process, which may end as soon as it has its own answer.
    for stream in ranks.iter_mut().rev().flatten() {
        let _ = stream.set_write_timeout(Some(JOIN_WAIT));
        let _ = stream.write_all(&bytes);
    }
}
