//! Two processes of a host meet at an abstract name. The caller must be the same user's.

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred};

use crate::clock::Deadline;
use crate::device::local::Local;
use crate::device::{Role, meeting};
use crate::error::{Error, Result};

/// Callers that may wait until they are looked at: more than one, for some may be other users'.
const BACKLOG: i32 = 64;

/// Connects to a process of this host that uses the same name.
///
/// # Errors
/// Nobody is there until the deadline, or it is another user's process.
pub fn connect(role: Role, name: &str, deadline: Deadline) -> Result<Local> {
    let failed = |error: Errno| Error::system(format!("meeting a process of this host at {name}"), error);
    let place = format!("the name {name} of this host");
    let cannot_listen = |error: Errno| meeting::cannot_listen(&place, error.into());
    let nobody = |error| meeting::nobody(role, &place, "", error);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let new = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let address = SocketAddrUnix::new_abstract_name(format!("rtensor/{name}").as_bytes()).map_err(failed)?;
    let (socket, user) = match role {
        Role::Listen => {
            let listener = new().map_err(failed)?;
            rustix::net::bind(&listener, &address)
                .and_then(|()| rustix::net::listen(&listener, BACKLOG))
                .map_err(cannot_listen)?;
            meeting::until(deadline, "", || match rustix::net::accept_with(&listener, flags) {
                // Another user's process is hung up on, and does not keep this one's away.
                Ok(socket) => {
                    let user = socket_peercred(&socket).map_err(failed)?;
                    Ok(is_own(&user).then_some((socket, user)))
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
                Err(error) => Err(failed(error)),
            })
            .map_err(nobody)?
        }
        Role::Call => meeting::until(deadline, "", || {
            let socket = new().map_err(failed)?;
            match rustix::net::connect(&socket, &address) {
                Ok(()) => {
                    let user = socket_peercred(&socket).map_err(failed)?;
                    Ok(Some((socket, user)))
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => Ok(None),
                Err(error) => Err(failed(error)),
            }
        })
        .map_err(nobody)?,
    };
    if !is_own(&user) {
        return Err(Error::Usage(format!("the process at {name} is another user's")));
    }
    Ok(Local::new(socket, format!("process {} at {name}", user.pid.as_raw_nonzero())))
}

/// Whether it is this user's.
fn is_own(peer: &UCred) -> bool {
    peer.uid == rustix::process::geteuid()
}
