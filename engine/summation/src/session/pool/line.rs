//! The way to a pool's broker: a connection over which both sides have shown that they know the secret.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::super::keepalive::keep_alive;
use super::super::rendezvous::message::Protocol;
use super::super::rendezvous::proof::{self, Prover};
use super::message::{FromBroker, ToBroker, Who};
use rsccl_collective::error::{Error, Result};
use rsccl_collective::fork;
use rsccl_collective::net::frame;

/// How long a connection, and each step of the greeting, may take.
const STEP_WAIT: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
}

/// Why there is no line.
#[derive(Debug)]
pub(super) enum NoLine {
    /// Nobody is there now.
    Nobody(io::Error),
    /// There is no use in another attempt.
    Final(Error),
}

impl NoLine {
    /// In words.
    pub(super) fn into_error(self, address: &str) -> Error {
        match self {
            Self::Final(error) => error,
            Self::Nobody(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let seconds = STEP_WAIT.as_secs();
                Error::Remote(format!(
                    "the broker at {address} (RSUM_POOL) does not answer within {seconds} s: it is stopped, or not reached"
                ))
            }
            Self::Nobody(error) => Error::Remote(format!(
                "no broker is at {address} (RSUM_POOL): {error}; ringscope-sumd --broker listens there"
            )),
        }
    }
}

impl Line {
    /// Calls the broker.
    pub(super) fn open(address: &str, secret: &str, who: Who) -> std::result::Result<Self, NoLine> {
        let stream = address.to_socket_addrs().and_then(connect);
        let stream = stream.inspect(|stream| fork::keep_from_children(stream)).map_err(NoLine::Nobody)?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(STEP_WAIT)));
        let set = set.and_then(|()| keep_alive(&stream));
        set.map_err(NoLine::Nobody)?;
        greet(&stream, address, secret, who)?;
        stream.set_read_timeout(None).map_err(NoLine::Nobody)?;
        Ok(Self { stream })
    }

    /// Says something.
    pub(super) fn say(&self, message: &ToBroker) -> io::Result<()> {
        frame::send(&self.stream, message)
    }

    /// Waits for what the broker says.
    pub(super) fn hear(&self) -> io::Result<FromBroker> {
        frame::recv(&self.stream)
    }

    /// Ends the line for whoever waits on it.
    pub(super) fn end(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// To the first of a host's addresses at which somebody listens.
fn connect(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(ErrorKind::NotFound, "there is no such host");
    for address in addresses {
        match TcpStream::connect_timeout(&address, STEP_WAIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn greet(stream: &TcpStream, address: &str, secret: &str, who: Who) -> std::result::Result<(), NoLine> {
    let stranger = |said: &FromBroker| {
        let text =
            format!("what listens at {address} (RSUM_POOL) is no broker of this pool: it said {said:?}");
        NoLine::Final(Error::InvalidUsage(text))
    };
    let brokers_nonce = match frame::recv(stream).map_err(NoLine::Nobody)? {
        FromBroker::Challenge { protocol, nonce } if protocol == Protocol::OURS => nonce,
        other => return Err(stranger(&other)),
    };
    let nonce = proof::nonce().map_err(NoLine::Final)?;
    let proof = proof::prove(secret, Prover::Member, &brokers_nonce, &nonce);
    let expected = proof::prove(secret, Prover::Broker, &brokers_nonce, &nonce);
    let hello = ToBroker::Hello { protocol: Protocol::OURS, nonce, proof, who };
    frame::send(stream, &hello).map_err(NoLine::Nobody)?;
    match frame::recv(stream).map_err(NoLine::Nobody)? {
        FromBroker::Welcome { proof } if proof::is_right(&proof, &expected) => Ok(()),
        FromBroker::Refused { why } => {
            let text = format!("the broker {address} (RSUM_POOL) refuses this process: {why}");
            Err(NoLine::Final(Error::InvalidUsage(text)))
        }
        other => Err(stranger(&other)),
    }
}

/// Asks the broker something.
pub(super) fn ask(address: &str, secret: &str, question: &ToBroker) -> Result<FromBroker> {
    let line = Line::open(address, secret, Who::Operator).map_err(|error| error.into_error(address))?;
    let answer = line.say(question).and_then(|()| line.hear());
    answer.map_err(|error| NoLine::Nobody(error).into_error(address))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn all_addresses_of_a_host_are_tried() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = connect([free, address].into_iter()).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        assert_eq!(connect([free].into_iter()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(connect(std::iter::empty()).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn silence_is_told_from_nobody() {
        let words = |kind: ErrorKind| NoLine::Nobody(kind.into()).into_error("a:1").to_string();
        assert!(
            words(ErrorKind::WouldBlock).contains("the broker at a:1 (RSUM_POOL) does not answer within 5 s")
        );
        assert!(words(ErrorKind::ConnectionRefused).contains("no broker is at a:1 (RSUM_POOL): "));
    }
}
