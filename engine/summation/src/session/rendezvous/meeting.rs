//! A process's side of the rendezvous: how it is let in, waits for groups, and leaves.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::message::{FromRoot, Membership, Protocol, Seat, ToRoot, Wanted};
use super::proof::{self, Prover};
use rsccl_collective::clock::Deadline;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::fork;
use rsccl_collective::net::frame;

/// How long one attempt to connect, and each step of the greeting, may take.
const STEP_WAIT: Duration = Duration::from_secs(5);
/// Between two attempts: soon at first, later so that nobody is flooded.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// A host that is gone is noticed after about three of these.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A connection to the rendezvous.
#[derive(Debug)]
pub(crate) struct Meeting {
    stream: TcpStream,
    address: String,
}

/// What a process is told that waits for a group.
#[derive(Debug)]
pub(crate) enum Met {
    /// One begins.
    Group(Box<Membership>),
    /// No more will: with it, the process whose loss was the end.
    Over(Option<String>),
}

/// Why an attempt to join has failed.
enum Attempt {
    /// Nobody is there yet, or not any more.
    Nobody(io::Error),
    /// There is no use in another one.
    Final(Error),
}

/// Where and as whom to join.
#[derive(Debug)]
pub(crate) struct Call {
    /// Host and port.
    pub(crate) address: String,
    /// Of the job.
    pub(crate) secret: String,
    /// Who calls.
    pub(crate) seat: Seat,
    /// How long it tries; none: without end.
    pub(crate) patience: Option<Duration>,
}

impl Meeting {
    /// Comes to the rendezvous, unless that is called off.
    ///
    /// # Errors
    /// Nobody is there for as long as that, or one does not let it in: why.
    pub(crate) fn join(call: &Call, called_off: &AtomicBool) -> Result<Self> {
        let deadline = call.patience.map(Deadline::after);
        let address = &call.address;
        let mut pause = FIRST_PAUSE;
        loop {
            match attempt(address, call) {
                Ok(stream) => return Ok(Self { stream, address: address.clone() }),
                Err(Attempt::Final(error)) => return Err(error),
                Err(Attempt::Nobody(error)) if deadline.is_some_and(Deadline::passed) => {
                    let text = format!(
                        "nobody is at the rendezvous {address} (RSUM_ROOT): {error}; worker 0, or a ringscope-sumd with --root, listens there"
                    );
                    return Err(Error::Remote(text));
                }
                Err(Attempt::Nobody(_)) => std::thread::sleep(pause),
            }
            if called_off.load(Ordering::Acquire) {
                return Err(Error::InvalidUsage(format!("called off the way to {address}")));
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Waits for a group.
    ///
    /// # Errors
    /// There will be none: why. Or the rendezvous' process is lost, which ends the job.
    pub(crate) fn meet(&self, wanted: Wanted) -> Result<Met> {
        let sent = frame::send(&self.stream, &ToRoot::Ready(wanted));
        let answer = frame::recv(&self.stream);
        match answer.map_err(|error| self.lost(&sent.err().unwrap_or(error)))? {
            FromRoot::Membership(membership) => Ok(Met::Group(membership)),
            FromRoot::Over { lost } => Ok(Met::Over(lost)),
            FromRoot::Refused { why } => Err(Error::Remote(format!("there is no summation group: {why}"))),
            other => Err(Error::Internal(format!("the rendezvous {} said {other:?}", self.address))),
        }
    }

    /// A handle whose [`TcpStream::shutdown`] ends a wait for a group.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn line(&self) -> Result<TcpStream> {
        let line = self.stream.try_clone().inspect(|line| fork::keep_from_children(line));
        line.map_err(|error| Error::system("dup of the rendezvous' connection", &error))
    }

    /// Leaves.
    pub(crate) fn leave(self) {
        let _ = frame::send(&self.stream, &ToRoot::Leave);
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn lost(&self, error: &io::Error) -> Error {
        let at = &self.address;
        Error::Remote(format!(
            "the process that gives the rendezvous {at} is lost, and the job with it: {error}"
        ))
    }
}

fn attempt(address: &str, call: &Call) -> std::result::Result<TcpStream, Attempt> {
    let mut addresses = address.to_socket_addrs().map_err(Attempt::Nobody)?;
    let connect = |address: SocketAddr| TcpStream::connect_timeout(&address, STEP_WAIT);
    let none = io::Error::new(io::ErrorKind::NotFound, "there is no such host");
    let first = addresses.next().ok_or(none).and_then(connect);
    let stream = first.or_else(|error| addresses.find_map(|address| connect(address).ok()).ok_or(error));
    let stream = stream.map_err(Attempt::Nobody)?;
    fork::keep_from_children(&stream);
    prepare(&stream).map_err(Attempt::Nobody)?;
    if meets_itself(&stream) {
        return Err(Attempt::Nobody(io::ErrorKind::ConnectionRefused.into()));
    }
    greet(&stream, address, call)?;
    stream.set_read_timeout(None).map_err(Attempt::Nobody)?;
    Ok(stream)
}

/// Whether both ends are this one: where nobody listens, the port that is asked for may become the asking end's own.
fn meets_itself(stream: &TcpStream) -> bool {
    let ends = (stream.local_addr(), stream.peer_addr());
    matches!(ends, (Ok(local), Ok(peer)) if local == peer)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STEP_WAIT))?;
    SockRef::from(stream)
        .set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))
}

fn greet(stream: &TcpStream, address: &str, call: &Call) -> std::result::Result<(), Attempt> {
    let (protocol, roots_nonce) = match hear(stream, address)? {
        FromRoot::Challenge { protocol, nonce } => (protocol, nonce),
        other => return Err(stranger(address, &format!("it said {other:?}"))),
    };
    let nonce = proof::nonce().map_err(Attempt::Final)?;
    let proof = proof::prove(&call.secret, Prover::Caller, &roots_nonce, &nonce);
    let expected = proof::prove(&call.secret, Prover::Root, &roots_nonce, &nonce);
    let (ours, seat) = (Protocol::OURS, call.seat.clone());
    frame::send(stream, &ToRoot::Hello { protocol: ours, nonce, proof, seat }).map_err(Attempt::Nobody)?;
    match hear(stream, address)? {
        FromRoot::Welcome { proof } if proof::is_right(&proof, &expected) => Ok(()),
        FromRoot::Welcome { .. } => Err(stranger(address, "it does not know RSUM_SECRET")),
        FromRoot::Refused { why } => {
            let text = format!("the rendezvous {address} (RSUM_ROOT) refuses this process: {why}");
            Err(Attempt::Final(Error::InvalidUsage(text)))
        }
        FromRoot::Over { .. } => {
            let error = io::Error::other("the job that was there has just ended");
            Err(Attempt::Nobody(error))
        }
        other => Err(stranger(
            address,
            &format!("it speaks protocol {protocol}, this is {ours}, and said {other:?}"),
        )),
    }
}

/// The end of a connection is that of a rendezvous that is about to end.
fn hear(stream: &TcpStream, address: &str) -> std::result::Result<FromRoot, Attempt> {
    frame::recv(stream).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => stranger(address, &error.to_string()),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => stranger(address, "it says nothing"),
        _ => Attempt::Nobody(error),
    })
}

fn stranger(address: &str, why: &str) -> Attempt {
    let text = format!("what listens at {address} (RSUM_ROOT) is no rendezvous of this job: {why}");
    Attempt::Final(Error::InvalidUsage(text))
}
