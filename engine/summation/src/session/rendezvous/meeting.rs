//! A process's side of the rendezvous: how it is let in, waits for groups, and leaves.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::super::keepalive::keep_alive;
use super::majority::Gone;
use super::message::{ANOTHER, FORSAKEN, FromRoot, Membership, Protocol, Seat, ToRoot, Wanted};
use super::proof::{self, Prover};
use rsccl_collective::clock::Deadline;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::fork;
use rsccl_collective::lock::lock;
use rsccl_collective::net::frame;

/// How long one attempt to connect, and each step of the greeting, may take.
const STEP_WAIT: Duration = Duration::from_secs(5);
/// Between two attempts: soon at first, later so that nobody is flooded.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// Who is to give the next rendezvous may be in the middle of a long piece of work. As long as it lives, who has no limit waits.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A connection to the rendezvous.
#[derive(Debug)]
pub(crate) struct Meeting {
    stream: TcpStream,
    address: String,
}

/// How long a process waits for a group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// A server that no job needs: until it leaves.
    Idle(Duration),
    /// A worker. The rendezvous says before that if there is no group: a silent one is stopped, or cut off.
    Silence(Duration),
}

/// What a process is told that waits for a group.
#[derive(Debug)]
pub(crate) enum Met {
    /// One begins.
    Group(Box<Membership>),
    /// No more will: with it, the process whose loss was the end.
    Over(Option<String>),
}

/// Why a process is told of no group.
#[derive(Debug)]
pub(super) enum Unmet {
    /// The process that gives the rendezvous is lost, as far as that is known.
    Lost(Error, Gone),
    /// There will be none.
    Refused(Error),
    /// There will never be one with this process.
    Forsaken(Error),
}

/// Why an attempt to join has failed.
enum Attempt {
    /// Nobody is there yet, or not any more.
    Nobody(io::Error),
    /// Another job is.
    Another(Error),
    /// There is no use in another one.
    Final(Error),
}

/// Who is at a process's door.
pub(super) enum Door {
    /// The process itself, which gives the rendezvous.
    Open(Meeting),
    /// Not the process, any more.
    Gone(Gone),
}

/// Where and as whom to join.
#[derive(Debug)]
pub(crate) struct Call {
    /// Host and port of each place where the rendezvous may be.
    pub(crate) addresses: Vec<String>,
    /// Of the job.
    pub(crate) secret: String,
    /// Who calls.
    pub(crate) seat: Seat,
    /// The rendezvous' number of the job, where it is known: at the same place another job may meet by now.
    pub(crate) session: Option<u64>,
    /// Of the last group that it was in, where it comes to the next rendezvous of the same job.
    pub(crate) epoch: Option<u32>,
    /// How long it tries; none: without end.
    pub(crate) patience: Option<Duration>,
    /// Where it would give the rendezvous itself, once it has come to one.
    pub(crate) door: Option<TcpListener>,
}

/// What ends a process's wait at the rendezvous from another thread.
#[derive(Debug, Default)]
pub(crate) struct CallOff {
    is_set: AtomicBool,
    /// What it waits on.
    line: Mutex<Option<TcpStream>>,
    /// It is set.
    changed: Condvar,
}

impl CallOff {
    /// Ends the wait, and each that comes.
    pub(crate) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        if let Some(line) = lock(&self.line).as_ref() {
            let _ = line.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    /// Waits so long, or until it is set.
    pub(crate) fn sleep(&self, most: Duration) {
        let is_open = |_: &mut Option<TcpStream>| !self.is_set();
        drop(self.changed.wait_timeout_while(lock(&self.line), most, is_open));
    }

    /// Lets go of a server that waits for a group, unless the next one has begun with it.
    pub(crate) fn withdraw(&self) {
        if let Some(line) = lock(&self.line).as_ref() {
            let _ = frame::send(line, &ToRoot::Withdraw);
        }
    }

    /// Whether that has happened.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    fn waits_on(&self, stream: &TcpStream) -> Result<()> {
        let line = stream.try_clone().inspect(|line| fork::keep_from_children(line));
        let line = line.map_err(|error| Error::system("dup of the rendezvous' connection", &error))?;
        *lock(&self.line) = Some(line);
        if self.is_set() {
            self.set();
        }
        Ok(())
    }
}

impl Call {
    /// Who calls, from this machine's address; with a door where a loss is not to end the job, or is not known to.
    fn from(&mut self, here: IpAddr) -> io::Result<Seat> {
        if self.seat.door.is_none() && self.seat.needs_door() {
            let door = TcpListener::bind((here, 0))?;
            fork::keep_from_children(&door);
            self.seat.door = Some(door.local_addr()?);
            self.door = Some(door);
        }
        Ok(self.seat.clone())
    }
}

impl Meeting {
    /// Comes to the rendezvous, unless that is called off.
    ///
    /// # Errors
    /// Nobody is there for as long as that, or one does not let it in: why.
    pub(crate) fn join(call: &mut Call, call_off: &CallOff) -> Result<Self> {
        let deadline = call.patience.map(Deadline::after);
        let mut pause = FIRST_PAUSE;
        loop {
            for address in call.addresses.clone() {
                match attempt(&address, call, call_off, (STEP_WAIT, STEP_WAIT)) {
                    Ok(stream) => return Ok(Self { stream, address }),
                    Err(Attempt::Final(error) | Attempt::Another(error)) => return Err(error),
                    Err(Attempt::Nobody(error)) if deadline.is_some_and(Deadline::passed) => {
                        let text = format!(
                            "nobody is at the rendezvous {} (RSUM_ROOT): {error}; worker 0, or a ringscope-sumd with --root, listens there",
                            call.addresses.join(", ")
                        );
                        return Err(Error::Remote(text));
                    }
                    Err(Attempt::Nobody(_)) => {}
                }
                if call_off.is_set() {
                    return Err(Error::InvalidUsage(format!("called off the way to {address}")));
                }
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Comes to the door of a process that is to give the rendezvous. It may take its time, as long as it lives; who is not
    /// reached is tried for so long.
    ///
    /// # Errors
    /// It does not let this process in, or has not come for too long.
    pub(super) fn join_next(
        call: &mut Call,
        door: SocketAddr,
        call_off: &CallOff,
        most: Duration,
    ) -> Result<Door> {
        let (address, deadline) = (door.to_string(), Deadline::after(most));
        let step = call.patience.unwrap_or(LONGEST_WAIT);
        let mut pause = FIRST_PAUSE;
        loop {
            let connect = deadline.left().clamp(FIRST_PAUSE, STEP_WAIT);
            let error = match attempt(&address, call, call_off, (connect, step)) {
                Ok(stream) => return Ok(Door::Open(Self { stream, address })),
                Err(Attempt::Nobody(error)) => error,
                // The port is a later process's.
                Err(Attempt::Another(_)) => return Ok(Door::Gone(Gone::Dead)),
                Err(Attempt::Final(error)) => return Err(error),
            };
            if Gone::of(&error) == Gone::Dead || deadline.passed() || call_off.is_set() {
                return Ok(Door::Gone(Gone::of(&error)));
            }
            std::thread::sleep(pause.min(deadline.left()));
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Waits for a group, not longer than this; `tell` is called once the rendezvous knows.
    pub(super) fn meet(
        &self,
        wanted: Wanted,
        limit: Option<Limit>,
        call_off: &CallOff,
        tell: &dyn Fn(),
    ) -> std::result::Result<Met, Unmet> {
        call_off.waits_on(&self.stream).map_err(Unmet::Refused)?;
        let sent = self
            .stream
            .set_read_timeout(limit.map(|(Limit::Idle(most) | Limit::Silence(most))| most))
            .and_then(|()| frame::send(&self.stream, &ToRoot::Ready(wanted)));
        tell();
        let answer = match frame::recv(&self.stream) {
            Err(error) if is_timeout(&error) => match limit {
                Some(Limit::Idle(most)) => {
                    let text =
                        format!("no job has met at {} for {} s (RSUM_IDLE_S)", self.address, most.as_secs());
                    return Err(Unmet::Refused(Error::Remote(text)));
                }
                Some(Limit::Silence(most)) => {
                    let text =
                        format!("it has said nothing for {} s (twice RSCCL_TIMEOUT_S)", most.as_secs());
                    Err(io::Error::new(error.kind(), text))
                }
                None => Err(error),
            },
            answer => answer,
        };
        let lost = |error: io::Error| {
            let error = sent.err().unwrap_or(error);
            Unmet::Lost(self.lost(&error), Gone::of(&error))
        };
        match answer.map_err(lost)? {
            FromRoot::Membership(membership) => Ok(Met::Group(membership)),
            FromRoot::Over { lost } => Ok(Met::Over(lost)),
            FromRoot::Overruled => {
                let text =
                    "a process was lost while the group changed its servers: the others go on without it";
                Err(Unmet::Refused(Error::Remote(text.to_owned())))
            }
            FromRoot::Refused { why } => {
                let error = Error::Remote(format!("there is no summation group: {why}"));
                Err(if why == FORSAKEN { Unmet::Forsaken(error) } else { Unmet::Refused(error) })
            }
            other => Err(Unmet::Refused(Error::Internal(format!(
                "the rendezvous {} said {other:?}",
                self.address
            )))),
        }
    }

    /// Leaves.
    pub(crate) fn leave(&self) {
        self.end(&ToRoot::Leave);
    }

    /// Meets the others elsewhere: who gives this rendezvous was silent.
    pub(super) fn go_on(&self) {
        // It may never read that.
        let _ = self.stream.set_write_timeout(Some(STEP_WAIT));
        self.end(&ToRoot::GoneOn);
    }

    fn end(&self, last: &ToRoot) {
        let _ = frame::send(&self.stream, last);
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn lost(&self, error: &io::Error) -> Error {
        let at = &self.address;
        let why = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
            _ => error.to_string(),
        };
        Error::Remote(format!(
            "the process that gives the rendezvous {at} is lost, and the job with it: {why}"
        ))
    }
}

fn attempt(
    address: &str,
    call: &mut Call,
    call_off: &CallOff,
    (connect, step): (Duration, Duration),
) -> std::result::Result<TcpStream, Attempt> {
    let mut addresses = address.to_socket_addrs().map_err(Attempt::Nobody)?;
    let connect = |address: SocketAddr| TcpStream::connect_timeout(&address, connect);
    let none = io::Error::new(io::ErrorKind::NotFound, "there is no such host");
    let first = addresses.next().ok_or(none).and_then(connect);
    let stream = first.or_else(|error| addresses.find_map(|address| connect(address).ok()).ok_or(error));
    let stream = stream.map_err(Attempt::Nobody)?;
    fork::keep_from_children(&stream);
    prepare(&stream, step).map_err(Attempt::Nobody)?;
    if meets_itself(&stream) {
        return Err(Attempt::Nobody(io::ErrorKind::ConnectionRefused.into()));
    }
    call_off.waits_on(&stream).map_err(Attempt::Final)?;
    greet(&stream, address, call)?;
    stream.set_read_timeout(None).map_err(Attempt::Nobody)?;
    Ok(stream)
}

/// Whether both ends are this one: where nobody listens, the port that is asked for may become the asking end's own.
fn meets_itself(stream: &TcpStream) -> bool {
    let ends = (stream.local_addr(), stream.peer_addr());
    matches!(ends, (Ok(local), Ok(peer)) if local == peer)
}

fn prepare(stream: &TcpStream, step: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(step))?;
    keep_alive(stream)
}

fn greet(stream: &TcpStream, address: &str, call: &mut Call) -> std::result::Result<(), Attempt> {
    let (protocol, roots_nonce) = match hear(stream, address)? {
        FromRoot::Challenge { protocol, nonce } => (protocol, nonce),
        other => return Err(stranger(address, &format!("it said {other:?}"))),
    };
    let nonce = proof::nonce().map_err(Attempt::Final)?;
    let proof = proof::prove(&call.secret, Prover::Caller, &roots_nonce, &nonce);
    let expected = proof::prove(&call.secret, Prover::Root, &roots_nonce, &nonce);
    let here = stream.local_addr().map_err(Attempt::Nobody)?.ip();
    let seat = call.from(here);
    let seat =
        seat.map_err(|error| Attempt::Final(Error::system(format_args!("listen on {here}"), &error)))?;
    let (ours, session, epoch) = (Protocol::OURS, call.session, call.epoch);
    let seat = Box::new(seat);
    let hello = ToRoot::Hello { protocol: ours, nonce, proof, seat, session, epoch };
    frame::send(stream, &hello).map_err(Attempt::Nobody)?;
    match hear(stream, address)? {
        FromRoot::Welcome { proof } if proof::is_right(&proof, &expected) => Ok(()),
        FromRoot::Welcome { .. } => Err(stranger(address, "it does not know RSUM_SECRET")),
        FromRoot::Refused { why } => {
            let text = format!("the rendezvous {address} (RSUM_ROOT) refuses this process: {why}");
            let error = Error::InvalidUsage(text);
            Err(if why == ANOTHER { Attempt::Another(error) } else { Attempt::Final(error) })
        }
        FromRoot::Over { .. } => {
            let text = "the job that was there has just ended";
            Err(Attempt::Nobody(io::Error::new(io::ErrorKind::ConnectionAborted, text)))
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
        _ if is_timeout(&error) => stranger(address, "it says nothing"),
        _ => Attempt::Nobody(error),
    })
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn stranger(address: &str, why: &str) -> Attempt {
    let text = format!("what listens at {address} (RSUM_ROOT) is no rendezvous of this job: {why}");
    Attempt::Final(Error::InvalidUsage(text))
}
