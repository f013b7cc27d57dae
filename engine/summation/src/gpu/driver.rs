//! Fence: the CUDA driver that the process has loaded. It is never loaded here: who has memory on a GPU has loaded it.
//! Contexts are entered for one call and left again, and no call can disturb a capture of another thread
//! ([`Driver::relaxed`]).

#![expect(unsafe_code, reason = "calls the CUDA driver with the caller's pointers")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_PORTABLE, CUdeviceptr, CUevent_flags, CUmemorytype, CUpointer_attribute, CUresult,
    CUstream_flags, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use libloading::os::unix::{Library, RTLD_NOW};

use super::functions::{Code, Functions};
use rsccl_collective::error::{Error, Result};
use rsccl_collective::memory::Region;

/// The driver, by the name under which every program finds it.
pub(crate) const LIBRARY: &str = "libcuda.so.1";

/// The process's driver, once it was found.
static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
/// How many libraries the process had loaded when the driver was last looked for.
static LOOKED_AT: AtomicU64 = AtomicU64::new(u64::MAX);

/// The driver.
#[derive(Debug)]
pub(crate) struct Driver {
    functions: Functions,
    /// A driver that went away would take the functions with it.
    _library: Library,
}

/// A `CUcontext`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Context(usize);

/// A `CUstream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream(usize);

/// A `CUevent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event(usize);

/// An address in a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DevicePointer(CUdeviceptr);

/// Pinned memory of this machine, that GPUs of all contexts reach.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pinned {
    address: usize,
    size_bytes: usize,
}

/// Where memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Where this machine's processors reach it.
    Host,
    /// On the GPU of this number.
    Device(c_int, DevicePointer),
}

impl Stream {
    /// A stream of the caller's; NULL is the default stream.
    ///
    /// # Safety
    /// It stays there until the call that it is given to has returned.
    pub(crate) unsafe fn of_caller(stream: *mut c_void) -> Self {
        Self(stream.addr())
    }
}

impl Pinned {
    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Its first bytes. Who asks keeps the memory until nobody uses them.
    pub(super) fn region(&self, size_bytes: usize) -> Result<Region> {
        let address = std::ptr::with_exposed_provenance::<c_void>(self.address);
        // SAFETY: the driver's memory, of which nobody else knows; the caller keeps it.
        unsafe { Region::new(address, size_bytes.min(self.size_bytes), "pinned memory") }
    }

    #[cfg(test)]
    pub(super) fn of_test(address: usize, size_bytes: usize) -> Self {
        Self { address, size_bytes }
    }
}

/// The process's driver; nothing while it has loaded none, which is asked for in nanoseconds.
pub(crate) fn loaded() -> Option<&'static Result<Driver>> {
    if let Some(driver) = DRIVER.get() {
        return Some(driver);
    }
    let n_loaded = n_loaded();
    if LOOKED_AT.load(Relaxed) == n_loaded {
        return None;
    }
    // SAFETY: with RTLD_NOLOAD nothing is loaded, no code of others runs.
    let library = unsafe { Library::open(Some(LIBRARY), RTLD_NOW | libc::RTLD_NOLOAD) };
    LOOKED_AT.store(n_loaded, Relaxed);
    let library = library.ok()?;
    Some(DRIVER.get_or_init(|| Ok(Driver { functions: Functions::of(&library)?, _library: library })))
}

/// Refuses what lies on a GPU where only this machine's memory will do. Costs nothing where there is no driver.
///
/// # Errors
/// The address is on a GPU.
pub(crate) fn refuse_device(address: *const c_void, name: &str) -> Result<()> {
    let Some(Ok(driver)) = loaded() else { return Ok(()) };
    match driver.place_of(address) {
        Place::Host => Ok(()),
        Place::Device(device, _) => Err(Error::InvalidArgument(format!(
            "{name} lies in the memory of GPU {device}: call rsum_push_pull_on_stream"
        ))),
    }
}

impl Driver {
    /// Where an address of the caller's lies. What the driver does not know is this machine's, as is managed memory.
    pub(super) fn place_of(&self, address: *const c_void) -> Place {
        let pointer = address.expose_provenance() as CUdeviceptr;
        let ask = |attribute: CUpointer_attribute| {
            let mut answer: u64 = 0;
            let place = (&raw mut answer).cast();
            // SAFETY: a place that is as large as the largest answer that is asked for here.
            let code = unsafe { (self.functions.pointer_get_attribute)(place, attribute as u32, pointer) };
            // Answers are ints, of which some are negative, or booleans: the low bytes.
            (code == CUresult::CUDA_SUCCESS as Code).then_some((answer & 0xffff_ffff) as u32)
        };
        let kind = ask(CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
        if kind != Some(CUmemorytype::CU_MEMORYTYPE_DEVICE as u32)
            || ask(CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED).is_some_and(|is| is & 0xff != 0)
        {
            return Place::Host;
        }
        let ordinal = ask(CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
        Place::Device(ordinal.map_or(-1, u32::cast_signed), DevicePointer(pointer))
    }

    /// Whether a stream is being captured into a graph.
    pub(super) fn is_capturing(&self, stream: Stream) -> Result<bool> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32;
        // SAFETY: the caller's stream, and a place for the answer.
        let code = unsafe { (self.functions.stream_is_capturing)(stream.raw(), &raw mut status) };
        // The default stream, while another one is captured that it would have to wait for.
        if code == CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT as Code {
            return Ok(true);
        }
        self.check("cuStreamIsCapturing", code)?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32)
    }

    /// The context of a stream; of the default one, the thread's.
    pub(super) fn context_of(&self, stream: Stream) -> Result<Context> {
        let mut context = null_mut();
        // SAFETY: the caller's stream, and a place for the answer.
        let code = unsafe { (self.functions.stream_get_ctx)(stream.raw(), &raw mut context) };
        self.check("cuStreamGetCtx", code)?;
        Ok(Context(context.expose_provenance()))
    }

    /// The number of a context's GPU.
    pub(super) fn device_of(&self, context: Context) -> Result<c_int> {
        let mut device = -1;
        // SAFETY: a place for the answer.
        self.within(context, "cuCtxGetDevice", || unsafe {
            (self.functions.ctx_get_device)(&raw mut device)
        })?;
        Ok(device)
    }

    /// New pinned memory.
    pub(super) fn pin(&self, context: Context, size_bytes: usize) -> Result<Pinned> {
        let mut memory = null_mut();
        // SAFETY: a place for the answer.
        self.within(context, "cuMemHostAlloc", || unsafe {
            (self.functions.mem_host_alloc)(&raw mut memory, size_bytes, CU_MEMHOSTALLOC_PORTABLE)
        })?;
        Ok(Pinned { address: memory.expose_provenance(), size_bytes })
    }

    /// Gives pinned memory back, which nothing uses.
    pub(super) fn unpin(&self, context: Context, memory: &Pinned) -> Result<()> {
        let address = std::ptr::with_exposed_provenance_mut(memory.address);
        // SAFETY: the driver's memory, once: who has it gives it away.
        self.within(context, "cuMemFreeHost", || unsafe { (self.functions.mem_free_host)(address) })
    }

    /// A stream of our own, which waits for no other.
    pub(super) fn create_stream(&self, context: Context) -> Result<Stream> {
        let mut stream = null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a place for the answer.
        self.within(context, "cuStreamCreate", || unsafe {
            (self.functions.stream_create)(&raw mut stream, flags)
        })?;
        Ok(Stream(stream.expose_provenance()))
    }

    /// Ends a stream of our own.
    pub(super) fn destroy_stream(&self, context: Context, stream: Stream) -> Result<()> {
        // SAFETY: a stream of ours, which nobody uses any more.
        self.within(context, "cuStreamDestroy", || unsafe { (self.functions.stream_destroy)(stream.raw()) })
    }

    /// Waits until all work of a stream is over.
    pub(super) fn synchronize(&self, context: Context, stream: Stream) -> Result<()> {
        // SAFETY: a stream that is there.
        self.within(context, "cuStreamSynchronize", || unsafe {
            (self.functions.stream_synchronize)(stream.raw())
        })
    }

    /// A new event, of the cheap kind.
    pub(super) fn create_event(&self, context: Context) -> Result<Event> {
        let mut event = null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: a place for the answer.
        self.within(context, "cuEventCreate", || unsafe {
            (self.functions.event_create)(&raw mut event, flags)
        })?;
        Ok(Event(event.expose_provenance()))
    }

    /// Ends an event.
    pub(super) fn destroy_event(&self, context: Context, event: Event) -> Result<()> {
        // SAFETY: an event of ours, which nobody uses any more.
        self.within(context, "cuEventDestroy", || unsafe { (self.functions.event_destroy)(event.raw()) })
    }

    /// Puts an event behind the work of a stream.
    pub(super) fn record(&self, context: Context, event: Event, stream: Stream) -> Result<()> {
        // SAFETY: an event of ours, and a stream of its context.
        self.within(context, "cuEventRecord", || unsafe {
            (self.functions.event_record)(event.raw(), stream.raw())
        })
    }

    /// Whether all is over that an event stands behind.
    ///
    /// # Errors
    /// Some of it has failed.
    pub(super) fn is_over(&self, context: Context, event: Event) -> Result<bool> {
        let mut is_over = true;
        self.within(context, "what was put on the stream before, by cuEventQuery", || {
            // SAFETY: an event of ours.
            let code = unsafe { (self.functions.event_query)(event.raw()) };
            is_over = code != CUresult::CUDA_ERROR_NOT_READY as Code;
            if is_over { code } else { CUresult::CUDA_SUCCESS as Code }
        })?;
        Ok(is_over)
    }

    /// Puts a copy of device memory to pinned memory on a stream, which both outlast.
    pub(super) fn copy_out(
        &self,
        (context, stream): (Context, Stream),
        from: DevicePointer,
        to: &Pinned,
        size_bytes: usize,
    ) -> Result<()> {
        let size_bytes = size_bytes.min(to.size_bytes);
        let address = std::ptr::with_exposed_provenance_mut(to.address);
        // SAFETY: pinned memory of this size, and the caller's device memory, which is as large.
        self.within(context, "cuMemcpyDtoHAsync", || unsafe {
            (self.functions.memcpy_dtoh_async)(address, from.0, size_bytes, stream.raw())
        })
    }

    /// The same, back.
    pub(super) fn copy_in(
        &self,
        (context, stream): (Context, Stream),
        from: &Pinned,
        to: DevicePointer,
        size_bytes: usize,
    ) -> Result<()> {
        let size_bytes = size_bytes.min(from.size_bytes);
        let address = std::ptr::with_exposed_provenance(from.address);
        // SAFETY: pinned memory of this size, and the caller's device memory, which is as large.
        self.within(context, "cuMemcpyHtoDAsync", || unsafe {
            (self.functions.memcpy_htod_async)(to.0, address, size_bytes, stream.raw())
        })
    }

    /// Runs `f` while this thread's calls cannot disturb a capture, whatever mode that is in.
    pub(super) fn relaxed<R>(&self, f: impl FnOnce() -> R) -> R {
        let exchange = self.functions.thread_exchange_stream_capture_mode;
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_int;
        // SAFETY: a valid place, which gets the mode that was.
        let is_exchanged = unsafe { exchange(&raw mut mode) } == CUresult::CUDA_SUCCESS as Code;
        let result = f();
        if is_exchanged {
            // SAFETY: gives the thread its own mode back.
            unsafe { exchange(&raw mut mode) };
        }
        result
    }

    /// Calls the driver with the context current, and gives the thread its own back.
    fn within(&self, context: Context, what: &str, f: impl FnOnce() -> Code) -> Result<()> {
        let wanted = std::ptr::with_exposed_provenance_mut(context.0);
        let mut current = null_mut();
        // SAFETY: a place for the answer.
        let code = unsafe { (self.functions.ctx_get_current)(&raw mut current) };
        if code == CUresult::CUDA_SUCCESS as Code && current == wanted {
            return self.check(what, f());
        }
        // SAFETY: the context of a stream that was in use in it.
        self.check("cuCtxPushCurrent", unsafe { (self.functions.ctx_push_current)(wanted) })?;
        let code = f();
        // SAFETY: a place for the answer; undoes the push.
        unsafe { (self.functions.ctx_pop_current)(&raw mut current) };
        self.check(what, code)
    }

    fn check(&self, what: &str, code: Code) -> Result<()> {
        if code == CUresult::CUDA_SUCCESS as Code {
            return Ok(());
        }
        let mut name = null();
        // SAFETY: a place for the answer.
        unsafe { (self.functions.get_error_name)(code, &raw mut name) };
        let name = if name.is_null() {
            "an unknown error".into()
        } else {
            // SAFETY: a constant text of the driver's.
            unsafe { CStr::from_ptr(name) }.to_string_lossy()
        };
        Err(Error::System(format!("CUDA: {what} failed with {code} ({name})")))
    }
}

impl Stream {
    fn raw(self) -> cudarc::driver::sys::CUstream {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

impl Event {
    fn raw(self) -> cudarc::driver::sys::CUevent {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

/// How many libraries the process has loaded so far.
fn n_loaded() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, n_loaded: *mut c_void) -> c_int {
        // SAFETY: the linker's description of a library.
        let n = unsafe { (*info).dlpi_adds };
        // SAFETY: the place that is handed over below.
        unsafe { n_loaded.cast::<u64>().write(n) };
        1
    }
    let mut n_loaded: u64 = 0;
    // SAFETY: the function gets a place that outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut n_loaded).cast()) };
    n_loaded
}
