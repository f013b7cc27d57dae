//! Two processes of a host meet at an abstract name. The caller must be the same user's.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::clock::Deadline;
use crate::device::local::Local;
use crate::device::{Role, meeting};
use crate::error::{Error, Result};

/// Connects to a process of this host that uses the same name.
///
/// # Errors
/// Nobody is there until the deadline, or it is another user's process.
pub fn connect(role: Role, name: &str, deadline: Deadline) -> Result<Local> {
    let failed = |error: Errno| Error::system(format!("meeting a process of this host at {name}"), error);
    let waiting_for = format!("a process of this host at {name}");
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let new = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let address = SocketAddrUnix::new_abstract_name(format!("rtensor/{name}").as_bytes()).map_err(failed)?;
    let socket = match role {
        Role::Listen => {
            let listener = new().map_err(failed)?;
            rustix::net::bind(&listener, &address)
                .and_then(|()| rustix::net::listen(&listener, 1))
                .map_err(failed)?;
            meeting::until(deadline, &waiting_for, || match rustix::net::accept_with(&listener, flags) {
                Ok(socket) => Ok(Some(socket)),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
                Err(error) => Err(failed(error)),
            })?
        }
        Role::Call => meeting::until(deadline, &waiting_for, || {
            let socket = new().map_err(failed)?;
            match rustix::net::connect(&socket, &address) {
                Ok(()) => Ok(Some(socket)),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => Ok(None),
                Err(error) => Err(failed(error)),
            }
        })?,
    };
    let user = rustix::net::sockopt::socket_peercred(&socket).map_err(failed)?;
    if user.uid != rustix::process::geteuid() {
        return Err(Error::Usage(format!("the process at {name} is another user's")));
    }
    Ok(Local::new(socket, format!("process {} at {name}", user.pid.as_raw_nonzero())))
}
