//! Fence: the memory that messages lie in while they travel, registered once.

#![expect(
    unsafe_code,
    reason = "hands a plugin memory that it reads and writes while requests are in flight"
)]

use std::ptr::NonNull;

use crate::error::{Error, Result};
use crate::transport::plugin::network::{End, Registration, Request};

/// Messages in flight of a connection: NCCL's steps (`NCCL_STEPS`).
pub(super) const N_SLOTS: usize = 8;
/// Bytes of a message at most: enough to be worth a request, few enough that a part of 512 KiB is reduced while it comes.
pub(super) const SLOT_BYTES: usize = 128 * 1024;

const LEN: usize = N_SLOTS * SLOT_BYTES;

/// A connection's slots. Of a slot with a request in flight there is no reference.
#[derive(Debug)]
pub(super) struct Staging {
    registration: Registration,
    // Closed after the registration was given back, in `drop`, and before the memory goes.
    end: End,
    memory: Mapping,
    requests: [Option<Request>; N_SLOTS],
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    /// Whether it stays mapped for good.
    is_lent: bool,
}

// SAFETY: the memory is its own, and all of it is reached through its owner alone.
unsafe impl Send for Mapping {}

impl Staging {
    /// For one end of a connection.
    pub(super) fn new(end: End) -> Result<Self> {
        let (prot, flags) =
            (rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE, rustix::mm::MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapped = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), LEN, prot, flags) };
        let failed =
            |error: std::io::Error| Error::system(format_args!("map {LEN} bytes for a connection"), &error);
        let mapped = mapped.map_err(|error| failed(error.into()))?;
        let memory = NonNull::new(mapped.cast::<u8>())
            .ok_or_else(|| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        let memory = Mapping { start: memory, is_lent: false };
        // SAFETY: mapped until `drop` has given it back.
        let registration = unsafe { end.register(memory.start, LEN) }?;
        Ok(Self { registration, end, memory, requests: [None; N_SLOTS] })
    }

    fn slot(&self, slot: usize) -> NonNull<u8> {
        let offset = (slot % N_SLOTS) * SLOT_BYTES;
        // SAFETY: inside the mapping.
        unsafe { self.memory.start.add(offset) }
    }

    /// Whether a request is in flight there.
    pub(super) fn is_busy(&self, slot: usize) -> bool {
        self.requests[slot % N_SLOTS].is_some()
    }

    /// The bytes of a slot without a request; none while there is one.
    pub(super) fn bytes(&mut self, slot: usize) -> Option<&mut [u8]> {
        if self.is_busy(slot) {
            return None;
        }
        // SAFETY: inside the mapping; no request is in flight there, and the borrow is of `self`.
        Some(unsafe { std::slice::from_raw_parts_mut(self.slot(slot).as_ptr(), SLOT_BYTES) })
    }

    /// Begins to send what lies in a slot; whether it has begun.
    pub(super) fn send(&mut self, slot: usize, len: usize) -> Result<bool> {
        debug_assert!(!self.is_busy(slot) && len <= SLOT_BYTES, "a free slot");
        // SAFETY: inside of what is registered; the slot is not touched while it has a request.
        let request = unsafe { self.end.send(self.slot(slot), len, &self.registration) }?;
        self.requests[slot % N_SLOTS] = request;
        Ok(request.is_some())
    }

    /// Begins to receive into a slot; whether it has begun.
    pub(super) fn receive(&mut self, slot: usize) -> Result<bool> {
        debug_assert!(!self.is_busy(slot), "a free slot");
        // SAFETY: as in `send`.
        let request = unsafe { self.end.receive(self.slot(slot), SLOT_BYTES, &self.registration) }?;
        self.requests[slot % N_SLOTS] = request;
        Ok(request.is_some())
    }

    /// Goes on with the request of a slot; its bytes if it is done now.
    pub(super) fn test(&mut self, slot: usize) -> Result<Option<usize>> {
        let Some(request) = self.requests[slot % N_SLOTS] else { return Ok(None) };
        let done = self.end.test(request)?;
        if done.is_some() {
            self.requests[slot % N_SLOTS] = None;
        }
        Ok(done)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Nobody knows what a plugin does with memory of a request that it had no chance to end.
        self.memory.is_lent = self.requests.iter().any(Option::is_some);
        self.end.deregister(&self.registration);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        // SAFETY: mapped by `Staging::new`, of that length; the connection that knew it is closed.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), LEN) };
    }
}
