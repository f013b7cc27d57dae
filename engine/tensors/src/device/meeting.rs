//! How two ends find each other: one listens, the other calls until it is heard.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::clock::Deadline;
use crate::device::Role;
use crate::error::{Error, Result};

/// Between two tries to call or to be called.
const RETRY: Duration = Duration::from_millis(5);

/// Tries again until there is a result or the deadline has passed.
pub(super) fn until<T>(
    deadline: Deadline,
    waiting_for: &str,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    loop {
        if let Some(found) = attempt()? {
            return Ok(found);
        }
        if deadline.passed() {
            return Err(Error::NoProgress {
                seconds: deadline.seconds(),
                waiting_for: waiting_for.to_owned(),
            });
        }
        std::thread::sleep(RETRY);
    }
}

/// A TCP connection between two ends.
pub(super) fn over_tcp(role: Role, address: &str, deadline: Deadline) -> Result<(TcpStream, SocketAddr)> {
    let waiting_for = format!("a peer at {address}");
    let stream = match role {
        Role::Listen => {
            let refused = |error| Error::system(format!("listening at {address}"), error);
            let listener: TcpListener = TcpListener::bind(address).map_err(refused)?;
            listener.set_nonblocking(true).map_err(refused)?;
            until(deadline, &waiting_for, || match listener.accept() {
                Ok((stream, _)) => Ok(Some(stream)),
                Err(error) if is_passing(error.kind()) => Ok(None),
                Err(error) => Err(refused(error)),
            })?
        }
        Role::Call => {
            let unknown = |error| Error::system(format!("looking {address} up"), error);
            let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(unknown)?.collect();
            until(deadline, &waiting_for, || match TcpStream::connect(addresses.as_slice()) {
                Ok(stream) => Ok(Some(stream)),
                Err(error) if is_passing(error.kind()) => Ok(None),
                Err(error) => Err(Error::system(format!("calling {address}"), error)),
            })?
        }
    };
    let set = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
    set.map_err(|error| Error::system("setting up a connection", error))?;
    let peer = stream.peer_addr().map_err(|error| Error::system("setting up a connection", error))?;
    Ok((stream, peer))
}

/// Whether it may go better next time: the listener may not be there yet.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionAborted
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}
