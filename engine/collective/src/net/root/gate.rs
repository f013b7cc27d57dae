//! The gate of a root: takes connections, lets in who knows the secret and says who it is, and drops all others.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::{Join, LONG_WAIT};
use crate::error::{Error, Result};
use crate::log::{self, Level, subsystem};
use crate::net::frame;
use crate::net::secret::{SECRET_BYTES, Secret, is_secret};
use crate::net::wake::{self, Wake};

/// A rank that has joined, or why no more can be taken.
pub(super) type Greeted = std::result::Result<(Join, TcpStream), String>;

/// A stranger who connects and says nothing is dropped after this.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// Tells a rank that it is known.
const WELCOME: u8 = 1;
/// Ranks that have been greeted and not been counted yet at most.
const MAX_GREETED: usize = 1024;
/// Connections being greeted at once at most; the oldest gives way. Below the usual limit of a process's open files, 1024.
const MAX_GREETING: usize = 512;
/// Descriptors that a gate keeps back: a rank of its own process may take two of them on its way to the gate, where it then
/// waits to be taken.
const N_SPARES: usize = 4;
/// Between two attempts to take a caller where this process can open no more files.
const FULL_WAIT: Duration = Duration::from_millis(10);

/// An open gate: a thread that takes connections.
pub(super) struct Gate {
    stop: Arc<Wake>,
    thread: JoinHandle<()>,
}

impl Gate {
    /// Opens it on `listener`; also returns whom it lets in. All that it needs is made here, so that what cannot be had is
    /// the caller's error.
    pub(super) fn open(listener: TcpListener, secret: Secret) -> Result<(Self, mpsc::Receiver<Greeted>)> {
        // Several roots may have the listener: who is woken for a caller that another one takes must not wait for the next.
        let nonblocking = listener.set_nonblocking(true);
        nonblocking.map_err(|error| Error::system("setting a listener non-blocking", &error))?;
        let spares = (0..N_SPARES).map(|_| listener.try_clone()).collect::<std::io::Result<_>>();
        let spares = spares.map_err(|error| Error::system("dup of a listener", &error))?;
        let stop = Arc::new(Wake::new()?);
        let (greeted, joined) = mpsc::sync_channel(MAX_GREETED);
        let mut callers = Callers { listener, spares, is_full: false, stop: Arc::clone(&stop), greeted };
        let thread = std::thread::Builder::new().name("rsccl-gate".to_owned());
        let thread = thread.spawn(move || callers.greet_all(secret));
        let thread = thread.map_err(|error| Error::system("starting the bootstrap's gate", &error))?;
        Ok((Self { stop, thread }, joined))
    }

    /// Takes nobody from now on.
    pub(super) fn shut(self) {
        self.stop.set();
        let _ = self.thread.join();
    }
}

/// Those who call at a listener.
struct Callers {
    listener: TcpListener,
    /// Given up one by one where this process can open no more files, so that those who call can be told.
    spares: Vec<TcpListener>,
    /// Whether it has been said that no more can be taken.
    is_full: bool,
    stop: Arc<Wake>,
    greeted: mpsc::SyncSender<Greeted>,
}

impl Callers {
    fn greet_all(&mut self, secret: Secret) {
        let mut greeting: VecDeque<Weak<TcpStream>> = VecDeque::new();
        while let Some(stream) = self.next() {
            greeting.retain(|stream| stream.strong_count() > 0);
            if greeting.len() >= MAX_GREETING {
                greeting.pop_front().iter().for_each(hang_up);
            }
            let stream = Arc::new(stream);
            greeting.push_back(Arc::downgrade(&stream));
            let greeted = self.greeted.clone();
            let greeter = std::thread::Builder::new().name("rsccl-greet".to_owned());
            let greeter = greeter.spawn(move || {
                if let Some(joined) = greet(stream, &secret) {
                    let _ = greeted.try_send(Ok(joined));
                }
            });
            drop(greeter);
        }
        // Whoever has not said who it is by now is a stranger, or another root's.
        greeting.iter().for_each(hang_up);
    }

    /// Nothing when the gate is to be shut, or its listener is broken.
    fn next(&mut self) -> Option<TcpStream> {
        loop {
            let mut fds =
                [PollFd::new(&*self.stop, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
            wake::sleep(&mut fds, LONG_WAIT).ok()?;
            if !fds[0].revents().is_empty() {
                return None;
            }
            // Another root on the same listener may have taken who was there, and who was there may have hung up.
            match self.listener.accept() {
                Ok((stream, _)) => return Some(stream),
                Err(error) if passes(error.kind()) => {}
                Err(error) => {
                    // Who is turned away makes room.
                    if self.spares.pop().is_none() {
                        wake::sleep(&mut fds[..1], FULL_WAIT).ok()?;
                    }
                    if !std::mem::replace(&mut self.is_full, true) {
                        let why = format!("the bootstrap root can take no more ranks: {error}");
                        log::write(Level::Warn, subsystem::INIT, 0, &why);
                        let _ = self.greeted.try_send(Err(why));
                    }
                }
            }
        }
    }
}

fn passes(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// Ends the wait for what a caller may say.
fn hang_up(stream: &Weak<TcpStream>) {
    let _ = stream.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
}

fn greet(stream: Arc<TcpStream>, secret: &Secret) -> Option<(Join, TcpStream)> {
    let mut own = &*stream;
    own.set_read_timeout(Some(HELLO_WAIT)).ok()?;
    let mut shown = [0_u8; SECRET_BYTES];
    own.read_exact(&mut shown).ok()?;
    if !is_secret(&shown, secret) {
        return None;
    }
    let join = frame::recv(own).ok()?;
    own.set_nodelay(true).ok()?;
    own.write_all(&[WELCOME]).ok()?;
    // None if it has just given way.
    Some((join, Arc::into_inner(stream)?))
}
