//! Memory of a GPU as a region: data are read straight into it, while metadata and flags stay in this machine's memory, where
//! polling costs nothing.
//!
//! Whoever has a driver allocates: this crate loads none. A NIC reaches the memory itself, by its dma-buf; the other devices
//! hand over what has come for the driver to copy.

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::error::Result;

/// Memory that this machine's processors do not reach. Its bytes are never touched through addresses here.
pub trait GpuMemory: fmt::Debug + Send + Sync {
    /// Its bytes.
    fn size_bytes(&self) -> u64;

    /// What its driver calls its first byte: a `CUdeviceptr`.
    fn address(&self) -> u64;

    /// By which a NIC reaches it (`cuMemGetHandleForAddressRange`), and where it begins in that; none where the driver has no
    /// such thing.
    fn dma_buf(&self) -> Option<(BorrowedFd<'_>, u64)>;

    /// Copies bytes of this machine into it (`cuMemcpyHtoD`); they are there when it returns.
    ///
    /// # Errors
    /// The driver's.
    fn copy_in(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Copies bytes of it to this machine (`cuMemcpyDtoH`).
    ///
    /// # Errors
    /// The driver's.
    fn copy_out(&self, offset: u64, bytes: &mut [u8]) -> Result<()>;
}
