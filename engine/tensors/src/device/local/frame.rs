//! What travels over the unix socket: regions that come and go, and control messages.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// Bytes of a control message that go into one frame: well below what a socket's buffer has room for.
pub(super) const PIECE_BYTES: usize = 32 << 10;
const HEAD_BYTES: usize = 24;

/// A frame.
#[derive(Debug)]
pub(super) enum Frame {
    /// The sender has registered memory, whose descriptor comes along.
    Region { key: u64, size_bytes: u64, fd: OwnedFd },
    /// The sender has taken it back.
    Revoke { key: u64 },
    /// A piece of a control message: so many bytes of the buffer.
    Control { is_last: bool, bytes: usize },
}

/// Sends a frame; whether there was room for it.
pub(super) fn send(
    socket: impl AsFd,
    kind: u64,
    fields: [u64; 2],
    bytes: &[u8],
    fd: Option<BorrowedFd<'_>>,
) -> Result<bool, Errno> {
    let mut head = [0; HEAD_BYTES];
    for (place, field) in head.chunks_exact_mut(8).zip([kind, fields[0], fields[1]]) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = fd.as_slice();
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    let parts = [IoSlice::new(&head), IoSlice::new(bytes)];
    match rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR | Errno::TOOMANYREFS) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) const REGION: u64 = 1;
pub(super) const REVOKE: u64 = 2;
pub(super) const CONTROL: u64 = 3;

/// The next frame, if there is one; `bytes` is room for a piece. The end of the connection and a frame that makes no sense are errors.
pub(super) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> Result<Option<Frame>, Errno> {
    let mut head = [0; HEAD_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut parts = [IoSliceMut::new(&mut head), IoSliceMut::new(bytes)];
    let got = match rustix::net::recvmsg(socket, &mut parts, &mut control, flags) {
        Ok(got) if got.bytes == 0 => return Err(Errno::CONNRESET),
        Ok(got) => got.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut fd = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fd = rights.into_iter().next();
        }
    }
    let bytes = got.checked_sub(HEAD_BYTES).ok_or(Errno::PROTO)?;
    let mut fields = head.chunks_exact(8).map(|field| field.try_into().map_or(0, u64::from_le_bytes));
    let mut next = || fields.next().unwrap_or(0);
    match (next(), next(), next(), fd) {
        (REGION, key, size_bytes, Some(fd)) => Ok(Some(Frame::Region { key, size_bytes, fd })),
        (REGION, _, _, None) => Err(Errno::MFILE),
        (REVOKE, key, _, _) => Ok(Some(Frame::Revoke { key })),
        (CONTROL, is_last, _, _) => Ok(Some(Frame::Control { is_last: is_last == 1, bytes })),
        _ => Err(Errno::PROTO),
    }
}
