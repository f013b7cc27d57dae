//! The way to a pool's broker: a connection over which both sides have shown that they know the secret.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::super::rendezvous::message::Protocol;
use super::super::rendezvous::proof::{self, Prover};
use super::message::{FromBroker, ToBroker, Who};
use rsccl_collective::error::{Error, Result};
use rsccl_collective::fork;
use rsccl_collective::net::frame;

/// How long a connection, and each step of the greeting, may take.
const STEP_WAIT: Duration = Duration::from_secs(5);
/// A broker whose machine is gone is noticed after about three of these.
const KEEPALIVE: Duration = Duration::from_secs(10);

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
            Self::Nobody(error) => {
                let text = format!(
                    "no broker is at {address} (RSUM_POOL): {error}; ringscope-sumd --broker listens there"
                );
                Error::Remote(text)
            }
        }
    }
}

impl Line {
    /// Calls the broker.
    pub(super) fn open(address: &str, secret: &str, who: Who) -> std::result::Result<Self, NoLine> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "there is no such host");
        let found = address.to_socket_addrs().and_then(|mut found| found.next().ok_or_else(none));
        let stream = found.and_then(|address| TcpStream::connect_timeout(&address, STEP_WAIT));
        let stream = stream.inspect(|stream| fork::keep_from_children(stream)).map_err(NoLine::Nobody)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(STEP_WAIT)));
        let set = set.and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive));
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
