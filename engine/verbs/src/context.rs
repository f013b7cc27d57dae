//! Fence: devices, opened.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_mummy_sys as sys;

use crate::error::{Error, Result, check};
use crate::library;

/// An open device. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) open: Arc<Open>,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) context: NonNull<sys::ibv_context>,
    name: String,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

/// What a device can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Work requests in flight of each.
    pub work_requests: u32,
    /// Registered regions.
    pub regions: u32,
    /// Reads in flight that a queue pair answers.
    pub reads: u8,
    /// Ports, which are numbered from 1.
    pub ports: u8,
    /// The global identifier of what the device is a part of: the ports of one card have the same.
    pub guid: u64,
}

/// The names of the RDMA devices of this machine, in libibverbs' order; none where the kernel has RDMA and no device.
pub fn devices() -> Result<Vec<String>> {
    Ok(List::read()?.iter().map(name_of).collect())
}

/// The devices as libibverbs lists them, freed with it.
struct List {
    first: NonNull<*mut sys::ibv_device>,
    len: usize,
}

impl List {
    fn read() -> Result<Self> {
        if !library::is_there() {
            return Err(Error::NoLibrary);
        }
        // A child that a fork makes would take pages from under the device, on kernels before 5.12: before anything is registered.
        static FORKS: std::sync::Once = std::sync::Once::new();
        FORKS.call_once(|| {
            // SAFETY: no arguments; where the kernel needs nothing, it does nothing.
            unsafe { sys::ibv_fork_init() };
        });
        let mut len = 0;
        // SAFETY: writes the length, and gives an array of so many devices or null.
        let first = unsafe { sys::ibv_get_device_list(&raw mut len) };
        let Some(first) = NonNull::new(first) else {
            let error = std::io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::ENOSYS) => Error::NoKernel,
                _ => Error::last("list the RDMA devices"),
            });
        };
        Ok(Self { first, len: usize::try_from(len).unwrap_or(0) })
    }

    fn iter(&self) -> impl Iterator<Item = NonNull<sys::ibv_device>> {
        // SAFETY: the array has so many entries until it is freed, which `self` does.
        let devices = unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) };
        devices.iter().filter_map(|device| NonNull::new(*device))
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_get_device_list`; devices that are open stay.
        unsafe { sys::ibv_free_device_list(self.first.as_ptr()) };
    }
}

fn name_of(device: NonNull<sys::ibv_device>) -> String {
    // SAFETY: a device of a list that is not freed yet.
    let name = unsafe { sys::ibv_get_device_name(device.as_ptr()) };
    if name.is_null() {
        return String::new();
    }
    // SAFETY: a string of the device's.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

impl Context {
    /// Opens the device of this name.
    pub fn open(name: &str) -> Result<Self> {
        let list = List::read()?;
        let device = list.iter().find(|device| name_of(*device) == name);
        let device = device.ok_or_else(|| Error::NoDevice(name.to_owned()))?;
        // SAFETY: a device of a list that is not freed yet.
        let context = unsafe { sys::ibv_open_device(device.as_ptr()) };
        let context = NonNull::new(context).ok_or_else(|| Error::last(format!("open {name}")))?;
        let open = Open { context, name: name.to_owned() };
        open.never_block()?;
        Ok(Self { open: Arc::new(open) })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.open.name
    }

    /// What the device can hold.
    pub fn limits(&self) -> Result<Limits> {
        let mut attributes = std::mem::MaybeUninit::<sys::ibv_device_attr>::zeroed();
        // SAFETY: an open device, and room for what is written.
        let code = unsafe { sys::ibv_query_device(self.raw(), attributes.as_mut_ptr()) };
        check(code, || format!("ask {} for its limits", self.name()))?;
        // SAFETY: numbers alone, which were zero before and are written now.
        let told = unsafe { attributes.assume_init() };
        let number = |value: i32| u32::try_from(value).unwrap_or(0);
        Ok(Limits {
            queue_pairs: number(told.max_qp),
            work_requests: number(told.max_qp_wr),
            regions: number(told.max_mr),
            reads: u8::try_from(told.max_qp_rd_atom).unwrap_or(u8::MAX),
            ports: told.phys_port_cnt,
            guid: u64::from_be(told.sys_image_guid),
        })
    }

    pub(crate) fn raw(&self) -> *mut sys::ibv_context {
        self.open.context.as_ptr()
    }
}

impl Open {
    /// Events are asked for and never waited for.
    fn never_block(&self) -> Result<()> {
        // SAFETY: an open device.
        let fd = unsafe { self.context.as_ref() }.async_fd;
        // SAFETY: the device's own descriptor.
        let code = unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
        if code < 0 { Err(Error::last(format!("make {}'s events not block", self.name))) } else { Ok(()) }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: opened by us; everything made of it holds it, so nothing is left. What cannot be closed stays open.
        unsafe { sys::ibv_close_device(self.context.as_ptr()) };
    }
}
