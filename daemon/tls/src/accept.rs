//! Handshakes: each has its time, and so many at once their room. Beyond it the oldest goes, for a good one takes
//! milliseconds: so who never finishes holds no place of others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::HTTPS_PORT;

/// The handshakes under way, and what became of the others.
#[derive(Debug)]
pub struct Handshakes {
    next: AtomicU64,
    /// By age.
    pending: Mutex<BTreeMap<u64, CancellationToken>>,
    room: usize,
    counts: [AtomicU64; Handshake::ALL.len()],
}

/// What became of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// It is served.
    Done,
    /// The client shows no certificate where it must, or one that is not taken.
    ClientRefused,
    /// It speaks http.
    PlainHttp,
    /// It took too long.
    TimedOut,
    /// It was the oldest when there was no room for another.
    CrowdedOut,
    /// Anything else, e.g. a client that does not trust the certificate and says so.
    Failed,
}

impl Handshake {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::ClientRefused, Self::PlainHttp, Self::TimedOut, Self::CrowdedOut, Self::Failed];

    /// The word used in labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::ClientRefused => "client_refused",
            Self::PlainHttp => "plain_http",
            Self::TimedOut => "timed_out",
            Self::CrowdedOut => "crowded_out",
            Self::Failed => "failed",
        }
    }
}

impl Default for Handshakes {
    fn default() -> Self {
        Self::with_room(PENDING_MAX)
    }
}

impl Handshakes {
    fn with_room(room: usize) -> Self {
        Self {
            next: AtomicU64::new(0),
            pending: Mutex::default(),
            room,
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// How many came to this.
    #[must_use]
    pub fn count(&self, handshake: Handshake) -> u64 {
        self.counts[handshake as usize].load(Ordering::Relaxed)
    }

    /// How many are under way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn add(&self, handshake: Handshake) {
        self.counts[handshake as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A place; where there is none the oldest loses its own.
    fn enter(&self) -> Place<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let out = CancellationToken::new();
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert(number, out.clone());
        if pending.len() > self.room
            && let Some((_, oldest)) = pending.pop_first()
        {
            oldest.cancel();
        }
        Place { of: self, number, out }
    }
}

struct Place<'h> {
    of: &'h Handshakes,
    number: u64,
    out: CancellationToken,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.of.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Handshakes {
    /// Makes a connection one of TLS, within `time`. `None`: it is none, and is closed.
    pub(super) async fn accept(
        &self,
        config: Arc<ServerConfig>,
        stream: TcpStream,
        time: Duration,
    ) -> Option<TlsStream<TcpStream>> {
        let place = self.enter();
        let shaken = place.out.run_until_cancelled(tokio::time::timeout(time, shake(config, stream))).await;
        drop(place);
        let (became, stream) = match shaken {
            None => (Handshake::CrowdedOut, None),
            Some(Err(_)) => (Handshake::TimedOut, None),
            Some(Ok(Ok(stream))) => {
                self.add(Handshake::Done);
                return Some(stream);
            }
            Some(Ok(Err((became, stream)))) => (became, stream),
        };
        self.add(became);
        tracing::debug!(became = became.label(), "a connection that is none of TLS is closed");
        if let Some(stream) = stream {
            let _ = tokio::time::timeout(time.min(GOODBYE), goodbye(stream, became)).await;
        }
        None
    }
}

async fn shake(
    config: Arc<ServerConfig>,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, (Handshake, Option<TcpStream>)> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1) if first[0].is_ascii_uppercase() => return Err((Handshake::PlainHttp, Some(stream))),
        Ok(1) => {}
        _ => return Err((Handshake::Failed, None)),
    }
    TlsAcceptor::from(config).accept(stream).into_fallible().await.map_err(|(error, stream)| {
        let cause = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        let became = match cause {
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
                Handshake::ClientRefused
            }
            _ => Handshake::Failed,
        };
        (became, Some(stream))
    })
}

/// Says why, and reads what the client still sends: closing over unread bytes would take the last word away from it.
async fn goodbye(mut stream: TcpStream, became: Handshake) {
    if became == Handshake::PlainHttp {
        let answer = format!(
            "HTTP/1.1 400 Bad Request\r\nserver: ringscope\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{HTTPS_PORT}\n",
            HTTPS_PORT.len() + 1
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
    let mut left = [0; 4096];
    for _ in 0..GOODBYE_READS {
        if !stream.read(&mut left).await.is_ok_and(|n| n > 0) {
            return;
        }
    }
}

/// A quarter of the connections there may be: twice the agents of the largest fleet, all at once.
const PENDING_MAX: usize = 2048;
/// Who has been refused has this long to hear it.
const GOODBYE: Duration = Duration::from_secs(1);
/// 16 MiB at most, as large as a batch may be: who is still sending one hears why it is not taken.
const GOODBYE_READS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room_for_another() {
        let handshakes = Handshakes::with_room(2);
        let (first, second) = (handshakes.enter(), handshakes.enter());
        assert_eq!((first.out.is_cancelled(), handshakes.pending()), (false, 2));
        let third = handshakes.enter();
        assert!(first.out.is_cancelled() && !second.out.is_cancelled() && !third.out.is_cancelled());
        drop((first, second));
        assert_eq!(handshakes.pending(), 1);
    }
}
