//! The queue pairs of this machine, asked of the kernel over its RDMA netlink (`RDMA_NL_NLDEV`, `RES_QP_GET`); needs no right. A
//! kernel without RDMA has no such socket, and then there are none. What the kernel sends is taken apart as if anybody had sent
//! it: nothing is read beyond a message, and what is odd is left out.
//!
//! To answer, some drivers ask their firmware about each queue pair (mlx5), so this is asked rarely, and may block.
//!
//! Statistics by queue pair (`STAT_GET`) are not asked for: they are of counters that an administrator has bound to some, and
//! those of a port are in sysfs. Source: Linux, include/uapi/linux/netlink.h, include/uapi/rdma/rdma_netlink.h and
//! drivers/infiniband/core/nldev.c.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

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
    /// Of the thread that made it.
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
/// For all devices together; what has not been told by then is not waited for.
const ALL_PATIENCE: Duration = Duration::from_secs(5);

/// What the kernel told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) queue_pairs: Vec<QueuePair>,
    /// Devices all of whose queue pairs are there.
    pub(super) whole: BTreeSet<String>,
    /// Why not all are there.
    pub(super) lack: Option<String>,
}

/// All of all devices. That the kernel has no RDMA is no lack.
pub(super) fn queue_pairs() -> Told {
    let until = ringscope_api::clock::monotonic() + ALL_PATIENCE;
    let mut devices = Vec::new();
    let listed = dump(&request(CMD_GET, None), until, |attributes| {
        let name = attributes.text(DEV_NAME).unwrap_or_default();
        devices.extend(attributes.number(DEV_INDEX).map(|index| (index, name)));
    });
    let mut told = Told::default();
    let mut lacks = Vec::new();
    match listed {
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return told,
        Err(error) => lacks.push(error.to_string()),
        Ok(()) if devices.len() > MAX_DEVICES => lacks.push(format!("more than {MAX_DEVICES} devices")),
        Ok(()) => {}
    }
    for (device, name) in devices.into_iter().take(MAX_DEVICES) {
        let all = dump(&request(CMD_RES_QP_GET, Some(device)), until, |attributes| {
            take(attributes, &mut told.queue_pairs);
        });
        match all {
            Ok(()) if told.queue_pairs.len() < MAX_QUEUE_PAIRS => drop(told.whole.insert(name)),
            // A device may be gone by now.
            Err(error) if !is_gone(&error) => lacks.push(format!("{name}: {error}")),
            _ => {}
        }
    }
    if told.queue_pairs.len() >= MAX_QUEUE_PAIRS {
        lacks.push(format!("more than {MAX_QUEUE_PAIRS} of them"));
    }
    told.lack = words(&lacks);
    told
}

/// The first, and how many others there are.
fn words(lacks: &[String]) -> Option<String> {
    let (first, others) = lacks.split_first()?;
    Some(if others.is_empty() { first.clone() } else { format!("{first} (and {} more)", others.len()) })
}

fn is_gone(error: &io::Error) -> bool {
    [libc::ENODEV, libc::EINVAL].map(Some).contains(&error.raw_os_error())
}

fn open() -> io::Result<OwnedFd> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::RDMA))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    Ok(socket)
}

/// Asks, and hands over the attributes of each message of the answer. By a socket of its own: what is left of an answer that is
/// not waited for goes with it.
///
/// # Errors
/// The kernel's, or the answer is not whole.
fn dump(request: &[u8], until: Instant, mut each: impl FnMut(Attributes<'_>)) -> io::Result<()> {
    if ringscope_api::clock::monotonic() >= until {
        return Err(late());
    }
    let socket = open()?;
    send(&socket, request, SendFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    for _ in 0..MAX_DATAGRAMS {
        let (n, whole) = match recv(&socket, buffer.as_mut_slice(), RecvFlags::TRUNC) {
            Err(rustix::io::Errno::AGAIN) => return Err(late()),
            received => received?,
        };
        let datagram = buffer.get(..n).filter(|_| whole <= n).ok_or_else(cut)?;
        if is_last(datagram, &mut each)? {
            return Ok(());
        }
        if ringscope_api::clock::monotonic() >= until {
            return Err(late());
        }
    }
    Err(cut())
}

fn late() -> io::Error {
    io::Error::other("the kernel takes too long to answer")
}

fn cut() -> io::Error {
    io::Error::other("the kernel's answer is not whole")
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
/// What the kernel says, or it is not whole.
fn is_last(datagram: &[u8], each: &mut impl FnMut(Attributes<'_>)) -> io::Result<bool> {
    let mut rest = datagram;
    while let (Some(bytes), Some(kind), Some(flags)) = (word(rest, 0), half(rest, 4), half(rest, 6)) {
        let bytes = bytes as usize;
        let payload = rest.get(HEAD_BYTES..bytes).ok_or_else(cut)?;
        match kind {
            NLMSG_DONE | NLMSG_ERROR => {
                // The kernel ends with how it went, too.
                let code = word(payload, 0).unwrap_or_default().cast_signed();
                return if code < 0 {
                    Err(io::Error::from_raw_os_error(-code.max(-i32::MAX)))
                } else {
                    Ok(true)
                };
            }
            _ if flags & NLM_F_DUMP_INTR != 0 => return Err(cut()),
            _ if kind >> CLIENT_SHIFT == NLDEV => each(Attributes(payload)),
            _ => {}
        }
        rest = rest.get(aligned(bytes)..).unwrap_or_default();
    }
    if rest.len() == datagram.len() { Err(cut()) } else { Ok(false) }
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
/// What is told changed meanwhile.
const NLM_F_DUMP_INTR: u16 = 0x10;
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
