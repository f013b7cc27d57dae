//! The structures of NCCL's network interface, field by field, versions 8 to 11 (NVIDIA/nccl, `src/include/plugin/net/net_v8.h`
//! to `net_v11.h`, `plugins/net/README.md`). Types and numbers, and no code.
//!
//! A plugin is a library with a symbol `ncclNetPlugin_vN`, which is a table of functions. Sizes and counts are C's; results are
//! `ncclResult_t` as numbers, for a later library may have others. What a function does, when it may say "not yet", and who
//! frees what stands in NVIDIA's README.

#![expect(missing_docs, reason = "what each field means stands in NCCL's headers")]

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::mem::offset_of;

/// `ncclResult_t`
pub type Code = c_int;
pub const SUCCESS: Code = 0;
pub const UNHANDLED_CUDA_ERROR: Code = 1;
pub const SYSTEM_ERROR: Code = 2;
pub const INTERNAL_ERROR: Code = 3;
pub const INVALID_ARGUMENT: Code = 4;
pub const INVALID_USAGE: Code = 5;
pub const REMOTE_ERROR: Code = 6;

/// Bytes of a handle, by which a sender finds who listens.
pub const HANDLE_BYTES: usize = 128;
/// Requests that each connection must be able to hold.
pub const MAX_REQUESTS: usize = 32;
/// Devices that a fused one may be made of.
pub const MAX_DEVICES_PER_NIC: usize = 4;
/// Kinds of memory: bits of `ptr_support`, and `type` of registrations.
pub const PTR_HOST: c_int = 1;
pub const PTR_CUDA: c_int = 2;
pub const PTR_DMABUF: c_int = 4;
/// What a receive may have in place of a request: its end need not be told, for the data say it themselves.
pub const OPTIONAL_RECV_COMPLETION: usize = 1;
/// A traffic class that nobody asked for.
pub const TRAFFIC_CLASS_UNDEFINED: c_int = -1;

/// Levels and subsystems of the log.
pub const LOG_WARN: c_int = 2;
pub const LOG_INFO: c_int = 3;
pub const SUBSYSTEM_INIT: c_ulong = 0x1;
pub const SUBSYSTEM_NET: c_ulong = 0x10;
pub const SUBSYSTEM_ALL: c_ulong = c_ulong::MAX;

/// `ncclDebugLogger_t`: level, subsystems, file, line, a format of `printf` and what it needs.
pub type Logger = Option<unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...)>;
/// `ncclProfilerCallback_t`: handle of the event, type, handle of the parent, the plugin's id, what it tells.
pub type ProfilerCallback =
    Option<unsafe extern "C" fn(*mut *mut c_void, c_int, *mut c_void, i64, *mut c_void) -> Code>;

/// `ncclNetProperties_v8_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PropertiesV8 {
    pub name: *mut c_char,
    pub pci_path: *mut c_char,
    pub guid: u64,
    pub ptr_support: c_int,
    pub reg_is_global: c_int,
    pub speed: c_int,
    pub port: c_int,
    pub latency: f32,
    pub max_comms: c_int,
    pub max_recvs: c_int,
    pub net_device_type: c_int,
    pub net_device_version: c_int,
}

/// `ncclNetVDeviceProps_v9_t`, the same up to version 11
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VirtualDevice {
    pub n_devices: c_int,
    pub devices: [c_int; MAX_DEVICES_PER_NIC],
}

/// `ncclNetProperties_v9_t`, the same in version 10
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PropertiesV9 {
    pub name: *mut c_char,
    pub pci_path: *mut c_char,
    pub guid: u64,
    pub ptr_support: c_int,
    pub reg_is_global: c_int,
    pub force_flush: c_int,
    pub speed: c_int,
    pub port: c_int,
    pub latency: f32,
    pub max_comms: c_int,
    pub max_recvs: c_int,
    pub net_device_type: c_int,
    pub net_device_version: c_int,
    pub virtual_device: VirtualDevice,
    pub max_p2p_bytes: usize,
    pub max_coll_bytes: usize,
}

/// `ncclNetProperties_v11_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PropertiesV11 {
    pub v9: PropertiesV9,
    pub max_multi_request_size: c_int,
}

/// `ncclNetCommConfig_v10_t`, the same in version 11
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Config {
    pub traffic_class: c_int,
}

/// Functions that all versions have alike.
pub type Devices = unsafe extern "C" fn(*mut c_int) -> Code;
pub type Properties<P> = unsafe extern "C" fn(c_int, *mut P) -> Code;
pub type Accept = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut *mut c_void) -> Code;
pub type Register = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int, *mut *mut c_void) -> Code;
pub type RegisterDmaBuf =
    unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int, u64, c_int, *mut *mut c_void) -> Code;
pub type Deregister = unsafe extern "C" fn(*mut c_void, *mut c_void) -> Code;
pub type Flush = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut *mut c_void,
    *mut c_int,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Code;
pub type Test = unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int) -> Code;
pub type Close = unsafe extern "C" fn(*mut c_void) -> Code;
pub type DeviceMemory = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut c_void) -> Code;
pub type Consumed = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> Code;
pub type MakeVirtualDevice = unsafe extern "C" fn(*mut c_int, *mut VirtualDevice) -> Code;

/// Functions that differ by version.
pub type ListenV8 = unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void) -> Code;
pub type ListenV11 = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, *mut *mut c_void) -> Code;
pub type ConnectV8 = unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void, *mut *mut c_void) -> Code;
pub type ConnectV10 =
    unsafe extern "C" fn(c_int, *mut Config, *mut c_void, *mut *mut c_void, *mut *mut c_void) -> Code;
pub type ConnectV11 =
    unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, *mut *mut c_void, *mut *mut c_void) -> Code;
pub type SendV8 =
    unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, c_int, *mut c_void, *mut *mut c_void) -> Code;
pub type SendV9 =
    unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int, *mut c_void, *mut *mut c_void) -> Code;
pub type SendV10 = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    usize,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut *mut c_void,
) -> Code;
pub type ReceiveV8 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut *mut c_void,
    *mut c_int,
    *mut c_int,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Code;
pub type ReceiveV9 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut *mut c_void,
    *mut usize,
    *mut c_int,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Code;
pub type ReceiveV10 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut *mut c_void,
    *mut usize,
    *mut c_int,
    *mut *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Code;

/// `ncclNet_v8_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NetV8 {
    pub name: *const c_char,
    pub init: Option<unsafe extern "C" fn(Logger) -> Code>,
    pub devices: Option<Devices>,
    pub properties: Option<Properties<PropertiesV8>>,
    pub listen: Option<ListenV8>,
    pub connect: Option<ConnectV8>,
    pub accept: Option<Accept>,
    pub register: Option<Register>,
    pub register_dma_buf: Option<RegisterDmaBuf>,
    pub deregister: Option<Deregister>,
    pub send: Option<SendV8>,
    pub receive: Option<ReceiveV8>,
    pub flush: Option<Flush>,
    pub test: Option<Test>,
    pub close_send: Option<Close>,
    pub close_receive: Option<Close>,
    pub close_listen: Option<Close>,
    pub device_memory: Option<DeviceMemory>,
    pub consumed: Option<Consumed>,
}

/// `ncclNet_v9_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NetV9 {
    pub name: *const c_char,
    pub init: Option<unsafe extern "C" fn(Logger) -> Code>,
    pub devices: Option<Devices>,
    pub properties: Option<Properties<PropertiesV9>>,
    pub listen: Option<ListenV8>,
    pub connect: Option<ConnectV8>,
    pub accept: Option<Accept>,
    pub register: Option<Register>,
    pub register_dma_buf: Option<RegisterDmaBuf>,
    pub deregister: Option<Deregister>,
    pub send: Option<SendV9>,
    pub receive: Option<ReceiveV9>,
    pub flush: Option<Flush>,
    pub test: Option<Test>,
    pub close_send: Option<Close>,
    pub close_receive: Option<Close>,
    pub close_listen: Option<Close>,
    pub device_memory: Option<DeviceMemory>,
    pub consumed: Option<Consumed>,
    pub make_virtual_device: Option<MakeVirtualDevice>,
}

/// `ncclNet_v10_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NetV10 {
    pub name: *const c_char,
    pub init: Option<unsafe extern "C" fn(Logger, ProfilerCallback) -> Code>,
    pub devices: Option<Devices>,
    pub properties: Option<Properties<PropertiesV9>>,
    pub listen: Option<ListenV8>,
    pub connect: Option<ConnectV10>,
    pub accept: Option<Accept>,
    pub register: Option<Register>,
    pub register_dma_buf: Option<RegisterDmaBuf>,
    pub deregister: Option<Deregister>,
    pub send: Option<SendV10>,
    pub receive: Option<ReceiveV10>,
    pub flush: Option<Flush>,
    pub test: Option<Test>,
    pub close_send: Option<Close>,
    pub close_receive: Option<Close>,
    pub close_listen: Option<Close>,
    pub device_memory: Option<DeviceMemory>,
    pub consumed: Option<Consumed>,
    pub make_virtual_device: Option<MakeVirtualDevice>,
}

/// `init` of version 11: where its context goes, the communicator's hash, its configuration
pub type InitV11 = unsafe extern "C" fn(*mut *mut c_void, u64, *mut Config, Logger, ProfilerCallback) -> Code;

/// `ncclNet_v11_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NetV11 {
    pub name: *const c_char,
    pub init: Option<InitV11>,
    pub devices: Option<Devices>,
    pub properties: Option<Properties<PropertiesV11>>,
    pub listen: Option<ListenV11>,
    pub connect: Option<ConnectV11>,
    pub accept: Option<Accept>,
    pub register: Option<Register>,
    pub register_dma_buf: Option<RegisterDmaBuf>,
    pub deregister: Option<Deregister>,
    pub send: Option<SendV10>,
    pub receive: Option<ReceiveV10>,
    pub flush: Option<Flush>,
    pub test: Option<Test>,
    pub close_send: Option<Close>,
    pub close_receive: Option<Close>,
    pub close_listen: Option<Close>,
    pub device_memory: Option<DeviceMemory>,
    pub consumed: Option<Consumed>,
    pub make_virtual_device: Option<MakeVirtualDevice>,
    pub finalize: Option<Close>,
    pub set_attributes: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> Code>,
}

// As a C compiler lays NVIDIA's headers out on 64 bits.
const _: () = assert!(size_of::<PropertiesV8>() == 64 && offset_of!(PropertiesV8, latency) == 40);
const _: () = assert!(size_of::<PropertiesV9>() == 104 && offset_of!(PropertiesV9, virtual_device) == 64);
const _: () = assert!(offset_of!(PropertiesV9, max_p2p_bytes) == 88);
const _: () = assert!(size_of::<PropertiesV11>() == 112);
const _: () = assert!(size_of::<NetV8>() == 19 * 8 && size_of::<NetV9>() == 20 * 8);
const _: () = assert!(size_of::<NetV10>() == 20 * 8 && size_of::<NetV11>() == 22 * 8);
