//! Which payloads are not copied through a slot.

use crate::transport::shm::peer::Peer;

/// From which payload sizes on, in bytes, the receiver reads the sender's memory instead of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Between ranks of one process.
    pub(crate) own_bytes: usize,
    /// Memory of `ncclMemAlloc`, which the receiver maps.
    pub(crate) map_bytes: usize,
    /// Any memory, which the receiver has the kernel read, where it may.
    pub(crate) read_bytes: usize,
}

impl Default for Tuning {
    /// Measured between two cores of a Sapphire Rapids, both ranks sending to each other and summing f32, medians in µs:
    /// slots 3.8, 7.0, 27, 128 at 32 KiB, 64 KiB, 256 KiB, 1 MiB; mapped 3.8, 5.5, 14, 70; read by the kernel 6.4, 10.6,
    /// 33, 195. Copies read by the kernel are better than slots from 128 KiB on, but by a seventh at most, and a sender
    /// does not know whether its part will be summed: so the kernel does not read unless it is asked to.
    fn default() -> Self {
        Self { own_bytes: 32 * 1024, map_bytes: 32 * 1024, read_bytes: usize::MAX }
    }
}

impl Tuning {
    /// Whether payloads in any memory of `peer` and of this rank may go without a copy.
    pub(crate) fn is_direct(self, peer: &Peer, readable: bool) -> bool {
        let threshold = if peer.is_own_process() { self.own_bytes } else { self.read_bytes };
        threshold < usize::MAX && (peer.is_own_process() || readable)
    }
}
