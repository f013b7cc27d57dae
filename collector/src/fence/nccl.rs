//! The types of `nccl.h`. Enums come in as `c_int`: newer libraries have values that no Rust enum here would know.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `ncclComm_t`.
pub(super) type Comm = *mut c_void;
/// `cudaStream_t`.
pub(super) type Stream = *mut c_void;

/// `ncclSuccess`.
pub(super) const SUCCESS: c_int = 0;
/// `ncclInProgress`: a non-blocking communicator is still busy with what it was asked.
pub(super) const IN_PROGRESS: c_int = 7;
/// `ncclSystemError`: what a wrapper returns when there is no library behind it.
pub(super) const SYSTEM_ERROR: c_int = 2;

/// `ncclUniqueId`, passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct UniqueId {
    pub(super) internal: [u8; 128],
}

/// What every version of `ncclConfig_t` begins with.
#[repr(C)]
pub(super) struct ConfigHead {
    /// How much of the whole the caller has.
    pub(super) size: usize,
    pub(super) magic: c_uint,
    pub(super) version: c_uint,
}

/// The beginning of `ncclConfig_t`, up to the field that is wanted.
#[repr(C)]
pub(super) struct Config {
    head: ConfigHead,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
    /// Since 2.27.
    pub(super) comm_name: *const c_char,
}

/// `NCCL_CONFIG_INITIALIZER`'s magic.
pub(super) const CONFIG_MAGIC: c_uint = 0xcafe_beef;
/// First library version whose `ncclConfig_t` has `commName`.
pub(super) const COMM_NAME_SINCE: c_uint = 22_700;

const _: () = {
    assert!(std::mem::offset_of!(Config, net_name) == 32);
    assert!(std::mem::offset_of!(Config, comm_name) == 48);
};
