//! A rank's side of bootstrap: joins the root and gathers, round by round.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::clock::Deadline;
use crate::comm::making::Making;
use crate::error::{Error, Result};
use crate::net::frame;
use crate::net::root::{Answer, Join};
use crate::net::unique_id::UniqueId;

/// The root gives up first and says which rank is missing; a rank waits this much longer to hear it.
const GRACE: Duration = Duration::from_secs(5);

/// Between two attempts to join: about a round trip, then longer, so that nobody is flooded.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A connection to the root.
#[derive(Debug)]
pub(crate) struct Bootstrap {
    stream: TcpStream,
    id: UniqueId,
}

impl Bootstrap {
    /// Joins as `rank`. A root may be about to open on a listener where another one is about to end and shuts out whom
    /// it does not know: then it is tried again.
    pub(crate) fn join(
        id: UniqueId,
        rank: usize,
        n_ranks: usize,
        timeout: Duration,
        making: &Making,
    ) -> Result<Self> {
        let deadline = Deadline::after(timeout + GRACE);
        let mut pause = FIRST_PAUSE;
        loop {
            let stream = TcpStream::connect_timeout(&id.root, timeout).map_err(|error| {
                Error::Remote(format!("cannot reach the bootstrap root at {}: {error}", id.root))
            })?;
            let bootstrap = Self { stream, id };
            making.waits_on(bootstrap.line()?)?;
            match bootstrap.greet(rank, n_ranks, timeout) {
                Ok(()) => return Ok(bootstrap),
                Err(error) if !shut_out(&error) || deadline.passed() => return Err(bootstrap.lost(&error)),
                Err(_) => std::thread::sleep(pause.min(deadline.left())),
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn line(&self) -> Result<TcpStream> {
        self.stream.try_clone().map_err(|error| Error::system("dup of the bootstrap connection", &error))
    }

    /// Hands in `own`; returns everybody's, in rank order.
    pub(crate) fn all_gather<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>> {
        frame::send(&self.stream, own).map_err(|error| self.lost(&error))?;
        match frame::recv(&self.stream).map_err(|error| self.lost(&error))? {
            Answer::All(all) => all.iter().map(|blob| self.parse(blob)).collect(),
            Answer::Failed(why) => Err(Error::Remote(format!("initialisation failed: {why}"))),
        }
    }

    fn greet(&self, rank: usize, n_ranks: usize, timeout: Duration) -> std::io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_read_timeout(Some(timeout + GRACE))?;
        (&self.stream).write_all(&self.id.secret)?;
        frame::send(&self.stream, &Join { rank, n_ranks })?;
        (&self.stream).read_exact(&mut [0])
    }

    fn parse<T: DeserializeOwned>(&self, blob: &RawValue) -> Result<T> {
        serde_json::from_str(blob.get()).map_err(|error| {
            Error::Internal(format!(
                "a peer's message through the root at {} is malformed: {error}",
                self.id.root
            ))
        })
    }

    fn lost(&self, error: &std::io::Error) -> Error {
        Error::Remote(format!("lost the bootstrap root at {}: {error}", self.id.root))
    }
}

fn shut_out(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
