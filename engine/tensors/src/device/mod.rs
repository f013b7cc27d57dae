//! A remote machine as a device with memory: allocate, register, write, read. No message from the receiver, no receive call.
//!
//! The same files in every folder: `connect.rs` brings two ends together, `frame.rs` has what travels beside the tensors,
//! `device.rs` is the [`Device`]. [`local`] maps the memory of a process of this host and copies straight into it; [`tcp`]
//! sends messages with serialisation, which is the baseline; `verbs` has a NIC do it, where the crate is built with that
//! feature.

mod addresses;
pub mod local;
mod meeting;
pub mod tcp;
#[cfg(feature = "verbs")]
pub mod verbs;

use std::fmt;

use crate::clock::Deadline;
use crate::error::{Error, Result};
use crate::memory::{Address, Part, Region};

/// Bytes of a control message at most: what two ends tell each other at set-up.
pub const MAX_CONTROL_BYTES: usize = 16 << 20;

/// One end of a connection to one peer, whose registered memory it can write and read.
///
/// Writes and flags take effect at the peer in the order of their calls. Nothing here waits, except for room in a queue of the
/// device's own.
pub trait Device: Send {
    /// What errors call the peer.
    fn peer(&self) -> &str;

    /// How a transfer has to end so that its flag is never seen before its data: what this device promises.
    fn form(&self) -> FlagForm;

    /// Has the peer write and read this memory, and this end write from it and read into it. The result is the same memory
    /// under the key that this connection has for it.
    ///
    /// # Errors
    /// The device registers no more.
    fn register(&mut self, region: &Region) -> Result<Region>;

    /// New memory, registered.
    ///
    /// # Errors
    /// There is no memory, or the device registers no more.
    fn allocate(&mut self, size_bytes: u64) -> Result<Region> {
        let region = Region::new(size_bytes)?;
        self.register(&region)
    }

    /// Takes a region back: what the peer does with its key from now on is an error of the peer's.
    ///
    /// # Errors
    /// The region is not one of this device's.
    fn release(&mut self, region: &Region) -> Result<()>;

    /// Writes `from` to the peer's memory; it is to stay as it is until [`Device::sent`] has come to the number returned. What
    /// is seen of it before all of it is there depends on [`Device::form`].
    ///
    /// # Errors
    /// The device is broken, or it knows already that there is no such memory.
    fn write(&mut self, from: &Part, to: Address) -> Result<u64>;

    /// Writes one word, which is seen after everything that was written before.
    ///
    /// # Errors
    /// As of [`Device::write`].
    fn write_flag(&mut self, value: u64, to: Address) -> Result<u64>;

    /// Writes, and has the peer's [`Device::poll`] tell of `number` once all of it is there.
    ///
    /// # Errors
    /// As of [`Device::write`], and the device cannot do this.
    fn write_immediate(&mut self, from: &Part, to: Address, number: u32) -> Result<u64> {
        let _ = (from, to, number);
        Err(Error::Usage(format!("the device to {} has no writes with an immediate", self.peer())))
    }

    /// Reads the peer's memory into `into`; [`Device::poll`] tells of `work` once it is there.
    ///
    /// # Errors
    /// As of [`Device::write`].
    fn read(&mut self, from: Address, into: &Part, work: u64) -> Result<()>;

    /// Moves on what does not move by itself, and adds what is over to `events`. Never waits.
    ///
    /// # Errors
    /// A write or read was refused, or the device is broken.
    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()>;

    /// Up to which number writes have left their memory.
    fn sent(&self) -> u64;

    /// Whether nothing is left that [`Device::poll`] would have to send.
    fn is_idle(&self) -> bool {
        true
    }

    /// Whether bytes moved when it was polled last, of a device whose bytes move only then: it wants to be polled again soon.
    fn is_moving(&self) -> bool {
        false
    }

    /// What the device itself waits for before it can do all that it was asked for, in words, where it knows that.
    fn waits_for(&self) -> Option<String> {
        None
    }

    /// Looks whether the peer is still there. Costs a system call: for those who have polled in vain for a while.
    ///
    /// # Errors
    /// It is gone.
    fn check_peer(&mut self) -> Result<()>;

    /// Tells the peer something, at set-up and at the end. What finds no room goes with later calls of [`Device::poll`] and
    /// [`Device::receive_control`]; [`Device::is_idle`] says when all of it is gone.
    ///
    /// # Errors
    /// The peer is gone.
    fn send_control(&mut self, bytes: &[u8]) -> Result<()>;

    /// What the peer tells next, at set-up and at the end, if it has come.
    ///
    /// # Errors
    /// The peer is gone, and has told nothing more before.
    fn receive_control(&mut self) -> Result<Option<Vec<u8>>>;

    /// What was done so far.
    fn counts(&self) -> Counts;
}

/// How a transfer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagForm {
    /// The flag is the last word of the payload: one work request. Right only on devices that place it last.
    Tail,
    /// The flag is a second small write behind the payload. Right on devices that place one write after the other. InfiniBand
    /// does not say that of two writes: what it names (o9-20) as behind a write's data is an immediate, a SEND or an atomic.
    Behind,
    /// The flag is the last word of the payload, and believed once the write's immediate has come. Right on all devices
    /// that have immediates, by InfiniBand's words (o9-20); one work request.
    Immediate,
}

/// Something that [`Device::poll`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The read of this number is over.
    Read(u64),
    /// The peer's write with this immediate is there.
    Immediate(u32),
}

/// What a device has done, counted. After set-up only the first four grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests to the device: writes, flags, reads.
    pub work_requests: u64,
    /// Bytes that writes and reads have moved, flags not counted.
    pub moved_bytes: u64,
    /// Messages, in which a peer's program had to take part to get them.
    pub messages: u64,
    /// Bytes that were copied in this process on their way, beside the transfer itself.
    pub copied_bytes: u64,
    /// Registrations.
    pub registrations: u64,
    /// Control messages.
    pub controls: u64,
}

/// Which device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A process of this host: its memory is mapped.
    Local,
    /// Messages over TCP.
    Tcp,
    #[cfg(feature = "verbs")]
    /// RDMA.
    Verbs,
}

/// Which of two ends: one waits to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits at the address.
    Listen,
    /// Calls it, again and again until the deadline.
    Call,
}

impl Kind {
    /// Those that this build has.
    pub const ALL: &[Self] = &[
        Self::Local,
        Self::Tcp,
        #[cfg(feature = "verbs")]
        Self::Verbs,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Tcp => "tcp",
            #[cfg(feature = "verbs")]
            Self::Verbs => "verbs",
        })
    }
}

impl std::str::FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|kind| kind.to_string() == text).copied();
        found.ok_or_else(|| {
            let others: Vec<String> = Self::ALL.iter().map(Self::to_string).collect();
            let why = match text {
                "verbs" => "this build has no device verbs, which --features verbs adds".to_owned(),
                other => format!("there is no device {other:?}"),
            };
            Error::Usage(format!("{why}; there are {}", others.join(" and ")))
        })
    }
}

/// Connects to a peer. The address is a name without meaning for `local`, and host:port otherwise.
///
/// # Errors
/// The address is none, nobody is there until the deadline, or it is somebody else.
pub fn connect(kind: Kind, role: Role, address: &str, deadline: Deadline) -> Result<Box<dyn Device>> {
    if address.is_empty() {
        let why = "the address is empty: local takes any name, other devices host:port";
        return Err(Error::Usage(why.to_owned()));
    }
    Ok(match kind {
        Kind::Local => Box::new(local::connect(role, address, deadline)?),
        Kind::Tcp => Box::new(tcp::connect(role, address, deadline)?),
        #[cfg(feature = "verbs")]
        Kind::Verbs => Box::new(verbs::connect(role, address, &verbs::Settings::from_env()?, deadline)?),
    })
}

/// The region of a key that a peer used, and the part of it that was meant.
fn meant(
    regions: &std::collections::BTreeMap<u64, Region>,
    whose: &str,
    at: Address,
    bytes: u64,
) -> Result<Part> {
    let region = regions.get(&at.key).filter(|region| !region.is_revoked());
    let region = region.ok_or_else(|| Error::StaleKey { peer: whose.to_owned(), key: at.key })?;
    region.part(at.offset, bytes).map_err(|_| Error::OutOfBounds {
        peer: whose.to_owned(),
        key: at.key,
        offset: at.offset,
        bytes,
        size_bytes: region.size_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_its_name_and_those_of_this_build_are_told() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse::<Kind>().ok(), Some(*kind));
        }
        let text = "pigeon".parse::<Kind>().unwrap_err().to_string();
        let told = Kind::ALL.iter().all(|kind| text.contains(&kind.to_string()));
        assert!(told && text.starts_with("there is no device \"pigeon\"; there are local"), "{text}");
        assert_eq!(text.contains("verbs"), cfg!(feature = "verbs"), "{text}");
    }

    #[test]
    fn an_empty_address_is_refused() {
        for kind in Kind::ALL {
            let refused = connect(*kind, Role::Call, "", Deadline::after(std::time::Duration::ZERO));
            assert!(matches!(refused.err(), Some(Error::Usage(why)) if why.contains("is empty")));
        }
    }
}
