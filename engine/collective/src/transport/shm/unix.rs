//! Abstract unix sockets that carry descriptors. Messages keep their borders; nothing blocks.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, UCred,
};

use crate::error::{Error, Result};
use crate::fork;

/// Descriptors of a message at most.
pub(crate) const MAX_FDS: usize = 2;
/// Ranks of a host that may call at once; the kernel lowers it to its own limit.
const BACKLOG: i32 = 1024;

/// A listener on `name`.
pub(crate) fn listen(name: &[u8]) -> Result<OwnedFd> {
    let listen = || -> rustix::io::Result<OwnedFd> {
        let socket = socket()?;
        rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    listen().map_err(|error| Error::system("listening on a unix socket", &error.into()))
}

/// A connection to `name`; none while the listener has no room for it.
pub(crate) fn call(name: &[u8]) -> rustix::io::Result<Option<OwnedFd>> {
    let socket = socket()?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name)?) {
        Ok(()) => Ok(Some(socket)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The next caller, if there is one.
pub(crate) fn accept(listener: impl AsFd) -> rustix::io::Result<Option<OwnedFd>> {
    match rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(socket) => {
            fork::keep_from_children(&socket);
            Ok(Some(socket))
        }
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whose process is at the other end.
pub(crate) fn credentials(socket: impl AsFd) -> Option<UCred> {
    rustix::net::sockopt::socket_peercred(socket).ok()
}

/// Sends one message; false if there is no room for it.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<bool> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    match rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR | Errno::TOOMANYREFS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The next message: its length and descriptors; none if there is none. The end of the connection is an error, and so are
/// descriptors for which this process has no room (`EMFILE`).
pub(crate) fn recv(socket: impl AsFd, bytes: &mut [u8]) -> rustix::io::Result<Option<(usize, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags) {
        Ok(got) if got.bytes == 0 => return Err(Errno::CONNRESET),
        Ok(got) if got.flags.contains(ReturnFlags::CTRUNC) => return Err(Errno::MFILE),
        Ok(got) => got.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok(Some((got, fds)))
}

fn socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .inspect(|socket| fork::keep_from_children(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_travel_with_their_message() {
        let listener = listen(b"rsccl-unix-test").unwrap();
        assert!(accept(&listener).unwrap().is_none());
        let caller = call(b"rsccl-unix-test").unwrap().unwrap();
        let called = accept(&listener).unwrap().unwrap();
        assert!(recv(&called, &mut [0; 8]).unwrap().is_none());
        let sent = crate::transport::shm::map::memfd("a test").unwrap();
        assert!(send(&caller, b"take", &[sent.as_fd(), sent.as_fd()]).unwrap());
        let mut bytes = [0; 8];
        let (len, fds) = recv(&called, &mut bytes).unwrap().unwrap();
        assert_eq!((&bytes[..len], fds.len()), (&b"take"[..], 2));
        assert_eq!(credentials(&called).unwrap().pid, rustix::process::getpid());
        drop(caller);
        assert_eq!(recv(&called, &mut bytes).unwrap_err(), Errno::CONNRESET);
    }

    #[test]
    fn nobody_listens_on_a_name_that_is_gone() {
        drop(listen(b"rsccl-unix-gone").unwrap());
        assert!(call(b"rsccl-unix-gone").is_err());
    }
}
