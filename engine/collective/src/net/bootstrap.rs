//! A rank's side of bootstrap: joins the root and gathers, round by round.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::Deadline;
use crate::comm::pending::Pending;
use crate::error::{Error, Result};
use crate::fork;
use crate::net::frame;
use crate::net::gathered::{Blob, Gathered};
use crate::net::hello::{HAS_ENDED, Join, PROTOCOL};
use crate::net::root::message::{Answer, Offer};
use crate::net::unique_id::UniqueId;
use crate::net::wake;

/// The root gives up first and says which rank is missing; a rank waits this much longer to hear it.
const GRACE: Duration = Duration::from_secs(5);

/// Between two attempts to join: about a round trip, then longer, so that nobody is flooded.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// What a rank has told: what it may have in common with others, kept once for all of them, and what is its own.
pub(crate) type ParsedBlob<T> = (Arc<T>, Vec<u8>);

/// A connection to the root.
#[derive(Debug)]
pub(crate) struct Bootstrap {
    stream: TcpStream,
    id: UniqueId,
    n_ranks: usize,
    /// Why the root has given up.
    failed: OnceLock<String>,
}

impl Bootstrap {
    /// Joins as `rank`. Whose root is about to begin may be shut out before it does: then it is tried again.
    pub(crate) fn join(
        id: UniqueId,
        rank: usize,
        n_ranks: usize,
        timeout: Duration,
        pending: &Pending,
    ) -> Result<Self> {
        let deadline = Deadline::after(timeout + GRACE);
        let mut pause = FIRST_PAUSE;
        loop {
            let stream = TcpStream::connect_timeout(&id.root, timeout).map_err(|error| {
                Error::calling(format_args!("cannot reach the bootstrap root at {}", id.root), &error)
            })?;
            fork::keep_from_children(&stream);
            let bootstrap = Self { stream, id, n_ranks, failed: OnceLock::new() };
            pending.waits_on(bootstrap.line()?)?;
            match bootstrap.greet(rank, n_ranks, timeout) {
                Ok(()) => return Ok(bootstrap),
                Err(error) if !shut_out(&error) || deadline.passed() => return Err(bootstrap.lost(&error)),
                Err(_) => std::thread::sleep(pause.min(deadline.left())),
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn line(&self) -> Result<TcpStream> {
        let line = self.stream.try_clone();
        line.inspect(|line| fork::keep_from_children(line))
            .map_err(|error| Error::system("dup of the bootstrap connection", &error))
    }

    /// Hands in `common`, which other ranks may say too, and `own`; returns everybody's, in rank order.
    pub(crate) fn all_gather_told<T: Serialize + DeserializeOwned>(
        &self,
        common: &T,
        own: Vec<u8>,
    ) -> Result<Vec<ParsedBlob<T>>> {
        self.parse(self.offer(common, own, false)?)
    }

    /// Hands in `own`; returns everybody's, in rank order.
    pub(crate) fn all_gather<T: Serialize + DeserializeOwned + Clone>(&self, own: &T) -> Result<Vec<T>> {
        self.parse_alone(self.offer(own, Vec::new(), false)?)
    }

    /// The last round: the root ends with it, and from then on does not care for who goes away.
    pub(crate) fn all_gather_last<T: Serialize + DeserializeOwned + Clone>(&self, own: &T) -> Result<Vec<T>> {
        self.parse_alone(self.offer(own, Vec::new(), true)?)
    }

    /// What to poll for while this rank waits for something else.
    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.stream, PollFlags::IN)
    }

    /// Whether the others are still there, between two rounds: the root has nothing else to say then.
    pub(crate) fn check(&self) -> Result<()> {
        let mut fds = [self.poll_fd()];
        wake::sleep(&mut fds, Duration::ZERO)?;
        if fds.iter().all(|fd| fd.revents().is_empty()) { Ok(()) } else { self.answer().map(drop) }
    }

    /// Why the root has given up, if it has said so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failed.get().map(|why| failure(why))
    }

    /// Tells all that this rank cannot go on; returns the cause, which is `error` unless the root knows of an earlier one. What the
    /// operating system refuses this rank is its own, though a peer may have told first that a connection was closed then.
    pub(crate) fn fail(&self, error: Error) -> Error {
        if let Some(cause) = self.failure() {
            return cause;
        }
        let why = error.to_string();
        // A root that has failed has said why before it closed.
        let offer = Offer { is_last: true, failure: Some(why.clone()), ..Offer::default() };
        let _ = self.send(&offer);
        match self.answer() {
            Err(cause) if !matches!(error, Error::System(_)) && !cause.to_string().contains(&why) => cause,
            _ => error,
        }
    }

    fn offer<T: Serialize>(&self, common: &T, own: Vec<u8>, is_last: bool) -> Result<Gathered> {
        let text = serde_json::to_vec(common).map_err(|error| Error::Internal(error.to_string()))?;
        let sent = self.send(&Offer { is_last, blob: Blob { text, own }, failure: None });
        // A root that has failed has said why before it closed.
        let answer = self.answer();
        if answer.is_ok() {
            sent.map_err(|error| self.lost(&error))?;
        }
        answer
    }

    fn send(&self, offer: &Offer) -> std::io::Result<()> {
        (&self.stream).write_all(&frame::encode_bytes(&offer.to_bytes())?)
    }

    fn answer(&self) -> Result<Gathered> {
        let answer = frame::recv_bytes(&self.stream).map_err(|error| self.lost(&error))?;
        match Answer::from_bytes(&answer, self.n_ranks).map_err(|error| self.lost(&error))? {
            Answer::All(gathered) => Ok(gathered),
            Answer::Failed(why) => Err(failure(self.failed.get_or_init(|| why))),
        }
    }

    fn greet(&self, rank: usize, n_ranks: usize, timeout: Duration) -> std::io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_read_timeout(Some(timeout + GRACE))?;
        (&self.stream).write_all(&self.id.secret)?;
        frame::send(&self.stream, &Join { rank, n_ranks, protocol: PROTOCOL })?;
        let mut answer = [0];
        (&self.stream).read_exact(&mut answer)?;
        if answer == [HAS_ENDED] {
            return Err(std::io::Error::other(
                "it has ended: all its ranks have come, or it has given up. An id serves once",
            ));
        }
        Ok(())
    }

    fn parse_alone<T: DeserializeOwned + Clone>(&self, gathered: Gathered) -> Result<Vec<T>> {
        Ok(self.parse(gathered)?.into_iter().map(|(told, _)| T::clone(&told)).collect())
    }

    fn parse<T: DeserializeOwned>(&self, gathered: Gathered) -> Result<Vec<ParsedBlob<T>>> {
        let texts = gathered.texts.iter().map(|text| serde_json::from_slice(text).map(Arc::new));
        let texts: Vec<Arc<T>> = texts.collect::<std::result::Result<_, _>>().map_err(|error| {
            let root = self.id.root;
            Error::Internal(format!("a peer's message through the root at {root} is malformed: {error}"))
        })?;
        // What is gathered has no other texts than its own.
        Ok(gathered.which.iter().map(|which| Arc::clone(&texts[*which])).zip(gathered.own).collect())
    }

    fn lost(&self, error: &std::io::Error) -> Error {
        let why = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "it has not answered in time".to_owned(),
            _ => error.to_string(),
        };
        Error::Remote(format!(
            "lost the bootstrap root at {}, in the process that made the unique id: {why}",
            self.id.root
        ))
    }
}

fn failure(why: &str) -> Error {
    Error::Remote(format!("initialisation failed: {why}"))
}

fn shut_out(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
