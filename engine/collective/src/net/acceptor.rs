//! Where a process takes connections: one listener on each address that its communicators use, one thread that takes who calls
//! there and reads who it is, and the callees, by secret.
//!
//! All communicators of a process, and the roots of those that begin in it, share it. A caller that knows no secret of this
//! process's waits a little, since its root or rank may be about to begin; such callers are bounded in number, and nobody who
//! has shown a known secret gives way to them. Nothing here blocks on what a caller says.

mod callees;
mod caller;
mod inbox;
mod joins;
mod taking;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Error, Result};
use crate::fork;
use crate::lock::lock;
use crate::net::secret::Secret;
use crate::net::wake::Wake;
use callees::Callees;
pub(crate) use inbox::Inbox;
use joins::Joined;
pub(crate) use joins::Joins;
use taking::Taking;

/// Connections that may wait to be taken on an address: more than a host's ranks make to another's at once; the kernel lowers it
/// to `somaxconn`.
const BACKLOG: i32 = 4096;
/// Ranks that have joined and not been counted yet at most.
const MAX_JOINED: usize = 4096;

/// Of this process, and which that is: a forked child has none of its parent's threads, and needs one of its own.
static CURRENT: Mutex<Option<(u32, Arc<Acceptor>)>> = Mutex::new(None);

/// A process's.
#[derive(Debug)]
pub(crate) struct Acceptor {
    callees: Mutex<Callees>,
    /// Wakes the thread: the callees have changed.
    wake: Wake,
}

/// A use of a listener, which is closed with the last of them.
#[derive(Debug)]
pub(crate) struct Listening {
    acceptor: Arc<Acceptor>,
    address: SocketAddr,
}

/// A root's place among the callees: as long as it lives, ranks can join.
#[derive(Debug)]
pub(crate) struct Door {
    acceptor: Arc<Acceptor>,
    secret: Secret,
}

impl Acceptor {
    /// This process's.
    pub(crate) fn of_process() -> Result<Arc<Self>> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some((_, acceptor)) = current.as_ref().filter(|(owner, _)| *owner == process) {
            return Ok(Arc::clone(acceptor));
        }
        let acceptor = Arc::new(Self { callees: Mutex::default(), wake: Wake::new()? });
        *current = Some((process, Arc::clone(&acceptor)));
        Ok(acceptor)
    }

    /// Listens on `address`, on `port` if there is no listener there yet and the port is free.
    pub(crate) fn listen(self: &Arc<Self>, address: IpAddr, port: u16) -> std::io::Result<Listening> {
        let mut callees = lock(&self.callees);
        let bound = match callees.listeners.get_mut(&address) {
            Some(open) => {
                open.uses += 1;
                open.address
            }
            None => {
                let listener = bind(address, port).or_else(|_| bind(address, 0))?;
                listener.set_nonblocking(true)?;
                let bound = listener.local_addr()?;
                callees.add_listener(address, bound, listener);
                bound
            }
        };
        if !callees.is_served {
            let mut taking = Taking::new(Arc::clone(self));
            let thread = std::thread::Builder::new().name("rsccl-accept".to_owned());
            if let Err(error) = thread.spawn(move || taking.run()) {
                callees.end_use(address);
                return Err(error);
            }
            callees.is_served = true;
        }
        drop(callees);
        self.wake.set();
        Ok(Listening { acceptor: Arc::clone(self), address: bound })
    }

    /// Expects calls to `rank` of the communicator with this secret; each sets `wake`.
    pub(crate) fn expect_calls(self: &Arc<Self>, secret: &Secret, rank: usize, wake: Wake) -> Inbox {
        let inbox = Inbox::new(Arc::clone(self), *secret, wake);
        lock(&self.callees).add_inbox(*secret, rank, inbox.shared());
        self.wake.set();
        inbox
    }

    /// Expects ranks that join the root with this secret.
    pub(crate) fn expect_joins(self: &Arc<Self>, secret: &Secret) -> (Door, Joins) {
        let (joined, joins) = mpsc::sync_channel(MAX_JOINED);
        lock(&self.callees).roots.insert(*secret, joined);
        self.wake.set();
        (Door { acceptor: Arc::clone(self), secret: *secret }, Joins::new(joins))
    }

    /// Tells the root with this secret, if it is still open, why there is no use in it.
    pub(crate) fn give_up(&self, secret: &Secret, why: String) {
        if let Some(joined) = lock(&self.callees).roots.get(secret) {
            let _ = joined.try_send(Err(why));
        }
    }

    /// Ends the root with this secret, if it is still open: no more ranks come, and who calls is told that it has ended.
    pub(crate) fn end_root(&self, secret: &Secret) {
        lock(&self.callees).end_root(secret);
    }
}

impl Listening {
    /// Where.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The thread closes it.
        if lock(&self.acceptor.callees).end_use(self.address.ip()) {
            self.acceptor.wake.set();
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.acceptor.end_root(&self.secret);
    }
}

fn bind(address: IpAddr, port: u16) -> std::io::Result<TcpListener> {
    let address = SocketAddr::new(address, port);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    fork::keep_from_children(&socket);
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What is said where a process can open no more files, or a listener is broken.
fn refusal(error: &std::io::Error) -> Error {
    Error::system("taking a rank's connection", error)
}

#[cfg(test)]
#[path = "acceptor/tests.rs"]
mod tests;
