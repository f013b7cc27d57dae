//! The queue pairs of this machine, asked of the kernel over its RDMA netlink (`RDMA_NL_NLDEV`, `RES_QP_GET`); needs no right. A
//! kernel without RDMA has no such socket, and then there are none. What the kernel sends is taken apart as if anybody had sent
//! it: nothing is read beyond a message, and what is odd is left out.
//!
//! Statistics by queue pair (`STAT_GET`) are not asked for: they are of counters that an administrator has bound to some, and
//! those of a port are in sysfs. Source: Linux, include/uapi/linux/netlink.h, include/uapi/rdma/rdma_netlink.h and
//! drivers/infiniband/core/nldev.c.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ringscope_wire::batch::QueuePairState;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// A queue pair of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuePair {
    pub(super) device: String,
    /// 0: it has none yet.
    pub(super) port: u32,
    pub(super) number: u32,
    pub(super) remote_number: Option<u32>,
    pub(super) state: QueuePairState,
    pub(super) pid: u32,
}

/// Devices that are asked about, as many as are read from sysfs.
const MAX_DEVICES: usize = 128;
/// Queue pairs that are taken in: 128 ranks with a few hundred each.
const MAX_QUEUE_PAIRS: usize = 65_536;
/// Datagrams of one answer, of at least one queue pair each.
const MAX_DATAGRAMS: usize = 65_536;
/// A datagram of an answer; the kernel makes them as long as who reads lets it, up to 32 KiB.
const DATAGRAM_BYTES: usize = 64 * 1024;
/// The kernel answers at once or not at all.
const PATIENCE: Duration = Duration::from_secs(1);

/// All of all devices.
///
/// # Errors
/// The kernel's; that it has no RDMA is none.
pub(super) fn queue_pairs() -> io::Result<Vec<QueuePair>> {
    let socket = match open() {
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return Ok(Vec::new()),
        socket => socket?,
    };
    let mut devices = Vec::new();
    dump(&socket, &request(CMD_GET, None), |attributes| {
        devices.extend(attributes.number(DEV_INDEX).filter(|_| devices.len() < MAX_DEVICES));
    })?;
    let mut found = Vec::new();
    for device in devices {
        // A device may be gone by now.
        let _ = dump(&socket, &request(CMD_RES_QP_GET, Some(device)), |attributes| {
            take(attributes, &mut found);
        });
    }
    Ok(found)
}

fn open() -> io::Result<OwnedFd> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::RDMA))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    Ok(socket)
}

/// Asks, and hands over the attributes of each message of the answer.
fn dump(socket: &OwnedFd, request: &[u8], mut each: impl FnMut(Attributes<'_>)) -> io::Result<()> {
    send(socket, request, SendFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    for _ in 0..MAX_DATAGRAMS {
        let (n, _) = recv(socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        if is_last(buffer.get(..n).unwrap_or_default(), &mut each)? {
            return Ok(());
        }
    }
    Err(io::Error::other("the kernel's answer has no end"))
}

/// A request for all of a kind.
fn request(command: u16, device: Option<u32>) -> Vec<u8> {
    let attribute = device.map_or_else(Vec::new, |index| {
        [&8_u16.to_ne_bytes()[..], &DEV_INDEX.to_ne_bytes(), &index.to_ne_bytes()].concat()
    });
    let bytes = u32::try_from(HEAD_BYTES + attribute.len()).unwrap_or_default();
    let head = [
        &bytes.to_ne_bytes()[..],
        &(NLDEV << CLIENT_SHIFT | command).to_ne_bytes(),
        &(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes(),
        // One is asked after the other, so nothing has to be told apart.
        &[0; 8],
    ];
    [head.concat(), attribute].concat()
}

/// Takes a datagram apart. Returns whether it ends the answer.
///
/// # Errors
/// What the kernel says.
fn is_last(datagram: &[u8], each: &mut impl FnMut(Attributes<'_>)) -> io::Result<bool> {
    let mut rest = datagram;
    while let Some((bytes, kind)) = word(rest, 0).zip(half(rest, 4)) {
        let bytes = bytes as usize;
        let Some(payload) = rest.get(HEAD_BYTES..bytes) else { return Ok(true) };
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = word(payload, 0).unwrap_or_default().cast_signed();
                return if code == 0 {
                    Ok(true)
                } else {
                    Err(io::Error::from_raw_os_error(code.wrapping_neg()))
                };
            }
            _ if kind >> CLIENT_SHIFT == NLDEV => each(Attributes(payload)),
            _ => {}
        }
        rest = rest.get(aligned(bytes)..).unwrap_or_default();
    }
    Ok(rest.len() == datagram.len())
}

/// The queue pairs that a message tells of, those of programs.
fn take(message: Attributes<'_>, found: &mut Vec<QueuePair>) {
    let Some(device) = message.text(DEV_NAME) else { return };
    let tables = message.filter(|(kind, _)| *kind == RES_QP).map(|(_, table)| Attributes(table));
    let entries = tables.flatten().filter(|(kind, _)| *kind == RES_QP_ENTRY).map(|(_, one)| Attributes(one));
    for entry in entries {
        let (Some(number), Some(pid)) = (entry.number(RES_LQPN), entry.number(RES_PID)) else { continue };
        if found.len() >= MAX_QUEUE_PAIRS {
            return;
        }
        found.push(QueuePair {
            device: device.clone(),
            port: entry.number(PORT_INDEX).unwrap_or_default(),
            number,
            remote_number: entry.number(RES_RQPN).filter(|number| *number != 0),
            state: entry.byte(RES_STATE).map_or(QueuePairState::Unspecified, state),
            pid,
        });
    }
}

/// The batch's numbers are one more than the kernel's (`enum ib_qp_state`).
fn state(number: u8) -> QueuePairState {
    QueuePairState::try_from(i32::from(number) + 1).unwrap_or_default()
}

/// Attributes one after the other: length and kind of two bytes each, then what they hold, each begun at a multiple of four.
#[derive(Clone, Copy)]
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = usize::from(half(self.0, 0)?);
        let kind = half(self.0, 2)? & KIND_MASK;
        let payload = self.0.get(ATTRIBUTE_HEAD_BYTES..bytes)?;
        self.0 = self.0.get(aligned(bytes)..).unwrap_or_default();
        Some((kind, payload))
    }
}

impl<'a> Attributes<'a> {
    fn find(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find_map(|(of, payload)| (of == kind).then_some(payload))
    }

    fn number(self, kind: u16) -> Option<u32> {
        word(self.find(kind)?, 0)
    }

    fn byte(self, kind: u16) -> Option<u8> {
        self.find(kind)?.first().copied()
    }

    /// Up to the first NUL.
    fn text(self, kind: u16) -> Option<String> {
        let bytes = self.find(kind)?.split(|byte| *byte == 0).next()?;
        let text = std::str::from_utf8(bytes).ok()?;
        (!text.is_empty()).then(|| text.to_owned())
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

/// `struct nlmsghdr`, `struct nlattr`.
const HEAD_BYTES: usize = 16;
const ATTRIBUTE_HEAD_BYTES: usize = 4;
/// Without the bits for nesting and byte order.
const KIND_MASK: u16 = 0x3fff;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// The kind of a message is its client, shifted so far, and its command.
const CLIENT_SHIFT: u16 = 10;
const NLDEV: u16 = 5;
const CMD_GET: u16 = 1;
const CMD_RES_QP_GET: u16 = 10;
const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const RES_QP: u16 = 19;
const RES_QP_ENTRY: u16 = 20;
const RES_LQPN: u16 = 21;
const RES_RQPN: u16 = 22;
const RES_STATE: u16 = 27;
const RES_PID: u16 = 28;

#[cfg(test)]
mod tests;
