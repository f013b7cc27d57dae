//! What an agent and its starter say to each other: one message each, in JSON, on a socket that keeps them apart. An answer may
//! bring a descriptor: the output of what was started, or an open file.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::wanted::Wanted;

/// No message is longer: an answer holds an error at most.
const MAX_MESSAGE_BYTES: usize = 4096;

/// What an agent asks for. `number` stands in the answer too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    Start(Wanted),
    /// Which namespace of host names a process is in.
    HostNames(u32),
    /// One of a process's files that are for everybody.
    File(u32, ProcessFile),
    /// Numbers of all processes, at most so many, in four bytes each.
    Processes(usize),
}

/// What `/proc` shows of a process to everybody, unless it hides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ProcessFile {
    Stat,
    Status,
    UidMap,
}

impl ProcessFile {
    const ALL: [(Self, &str); 3] =
        [(Self::Stat, "stat"), (Self::Status, "status"), (Self::UidMap, "uid_map")];

    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(file, _)| *file)
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(file, _)| *file == self).map_or("", |(_, name)| name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) number: u64,
    /// Why not.
    pub(super) error: Option<String>,
    /// The namespace, as the kernel writes it.
    pub(super) host_names: Option<String>,
}

pub(super) fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    output: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let outputs: Vec<BorrowedFd<'_>> = output.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !outputs.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&outputs));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message; `None`: the other end is closed.
pub(super) fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut bytes = [0; MAX_MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut output = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            output = descriptors.last().or(output);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    let message = bytes.get(..received.bytes).map(serde_json::from_slice::<T>).transpose()?;
    Ok(message.map(|message| (message, output)))
}
