//! The CUDA driver that the process has loaded: a table of the few functions that are needed, with C integers for its
//! enums. It is never loaded here: a process without a driver has no GPU work to wait for. A driver that lacks one of
//! the functions counts as none. Behind a kernel that hangs the driver may hold whoever calls it, and so whoever calls this.
//! Nothing enters another context for longer than one call.

#![expect(unsafe_code, reason = "looks functions up and calls them")]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::LIVE_DRIVER;

use crate::segment::closers;
use crate::segment::forks::{between_forks, is_linker_stuck};

/// `CUDA_SUCCESS`.
const SUCCESS: c_int = 0;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: c_int = 600;
/// `CUDA_ERROR_INVALID_CONTEXT`: the function wants a context to be current.
const INVALID_CONTEXT: c_int = 201;
/// `CU_EVENT_DISABLE_TIMING`: the cheap kind.
pub(crate) const WITHOUT_TIME: c_uint = 2;
/// `CU_EVENT_DEFAULT`: with the time at which the device got to it, and nobody blocks for it.
pub(crate) const WITH_TIME: c_uint = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const CAPTURE_RELAXED: c_int = 2;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const CAPTURE_NONE: c_int = 0;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`, the minor one is the next.
const CAPABILITY_MAJOR: c_int = 75;
/// Handles up to this one (0, `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`) mean a stream of the current context.
const LAST_SPECIAL_STREAM: u64 = 2;

const UNKNOWN: u32 = 0;
const READY: u32 = 1;
/// There is one, and it lacks a function.
const UNFIT: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ident: $type:ty),*);)*) => {
        #[expect(non_camel_case_types, reason = "the names of cuda.h")]
        #[expect(clippy::enum_variant_names, reason = "the names of cuda.h")]
        #[derive(Clone, Copy)]
        enum Function { $($name),* }

        const NAMES: &[&CStr] = &[$($symbol),*];
        static TABLE: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(null_mut()) }; NAMES.len()];

        $(
            /// The driver's function of this name; called only once the table is full.
            #[expect(non_snake_case, reason = "the name of cuda.h")]
            #[inline(always)]
            unsafe fn $name($($arg: $type),*) -> c_int {
                let function = TABLE[Function::$name as usize].load(Relaxed);
                if function.is_null() {
                    return INVALID_CONTEXT;
                }
                // SAFETY: the driver's function of this name has the signature that cuda.h gives it.
                let function: unsafe extern "C" fn($($type),*) -> c_int = unsafe { std::mem::transmute(function) };
                // SAFETY: the caller's promise.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

functions! {
    cuEventCreate = c"cuEventCreate" (event: *mut u64, flags: c_uint);
    cuEventRecord = c"cuEventRecord" (event: u64, stream: u64);
    cuEventQuery = c"cuEventQuery" (event: u64);
    cuStreamIsCapturing = c"cuStreamIsCapturing" (stream: u64, status: *mut c_int);
    cuStreamGetCtx = c"cuStreamGetCtx" (stream: u64, context: *mut u64);
    cuThreadExchangeStreamCaptureMode = c"cuThreadExchangeStreamCaptureMode" (mode: *mut c_int);
    cuCtxGetCurrent = c"cuCtxGetCurrent" (context: *mut u64);
    cuCtxPushCurrent = c"cuCtxPushCurrent_v2" (context: u64);
    cuCtxPopCurrent = c"cuCtxPopCurrent_v2" (context: *mut u64);
    cuCtxGetDevice = c"cuCtxGetDevice" (device: *mut c_int);
    cuDeviceGet = c"cuDeviceGet" (device: *mut c_int, ordinal: c_int);
    cuDeviceGetAttribute = c"cuDeviceGetAttribute" (value: *mut c_int, attribute: c_int, device: c_int);
    // Since 12.0. Before that nothing tells whether a context, and its events with it, has ended in a reset of the device.
    cuCtxGetId = c"cuCtxGetId" (context: u64, id: *mut u64);
    // Optional, so the last one: without it completion works, and times are not told.
    cuEventElapsedTime = c"cuEventElapsedTime" (ms: *mut f32, from: u64, to: u64);
}

/// Whether events can be used.
#[inline(always)]
pub(crate) fn is_ready() -> bool {
    STATE.load(Relaxed) == READY
}

/// Whether events can tell times.
pub(crate) fn can_time() -> bool {
    is_ready() && !TABLE[Function::cuEventElapsedTime as usize].load(Relaxed).is_null()
}

/// Looks for the driver, where none has been found so far: with each communicator, and each time that something else is to be
/// asked of the library.
pub(crate) fn find(segment: &Segment) {
    if STATE.load(Acquire) == UNKNOWN {
        between_forks(ask_linker);
    }
    if is_ready() {
        segment.live.flags.fetch_or(LIVE_DRIVER, Relaxed);
    }
}

fn ask_linker() {
    if is_linker_stuck() {
        return;
    }
    // SAFETY: with RTLD_NOLOAD nothing is loaded, no code of others runs.
    let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return;
    }
    // The reference is kept: a driver that goes away would take the functions with it.
    let is_fit = NAMES.iter().zip(&TABLE).enumerate().all(|(number, (name, place))| {
        // SAFETY: a handle from dlopen and a terminated name.
        place.store(unsafe { libc::dlsym(handle, name.as_ptr()) }, Relaxed);
        !place.load(Relaxed).is_null() || number == Function::cuEventElapsedTime as usize
    });
    STATE.store(if is_fit { READY } else { UNFIT }, Release);
    if is_fit {
        closers::begin();
    }
}

/// In a forked child: the parent's driver cannot be used there.
pub(crate) fn forget() {
    STATE.store(UNKNOWN, Release);
}

/// Whether calls on the stream are being captured into a graph; `None` if the driver does not say (a legacy stream while
/// another one captures): then the stream must be left alone.
#[inline(always)]
pub(crate) fn is_capturing(stream: u64) -> Option<bool> {
    let mut status = CAPTURE_NONE;
    // SAFETY: a stream that is there, as in `record`, and a valid place for the answer.
    let result = unsafe { cuStreamIsCapturing(stream, &raw mut status) };
    (result == SUCCESS).then_some(status != CAPTURE_NONE)
}

/// The context that the stream belongs to, if that is one of the device (an unknown device, -1, is taken on trust).
pub(crate) fn context_of(stream: u64, device: i32) -> Option<u64> {
    let mut context = 0;
    // SAFETY: the caller's own stream, during its call, and a valid place for the answer.
    if unsafe { cuStreamGetCtx(stream, &raw mut context) } != SUCCESS || context == 0 {
        return None;
    }
    let mut current = device;
    within(context, || {
        // SAFETY: a valid place for the answer.
        unsafe { cuCtxGetDevice(&raw mut current) }
    });
    (device < 0 || current == device).then_some(context)
}

/// What tells a context from another that has its place after a reset of the device; `None` if there is no such context.
pub(crate) fn context_id(context: u64) -> Option<u64> {
    let mut id = 0;
    // SAFETY: a handle that was a context's, which the driver tells from others, and a valid place for the answer.
    let result = unsafe { cuCtxGetId(context, &raw mut id) };
    (result == SUCCESS).then_some(id)
}

/// Puts new events of the context where there are none, in one visit to it. False if the driver does not give all of them.
pub(crate) fn create_events<'e>(
    context: u64,
    flags: c_uint,
    handles: impl Iterator<Item = &'e AtomicU64>,
) -> bool {
    let create = |handle: &AtomicU64| {
        let mut event = 0;
        // SAFETY: a valid place for the answer.
        let result = unsafe { cuEventCreate(&raw mut event, flags) };
        if result == SUCCESS {
            handle.store(event, Relaxed);
        }
        result
    };
    let mut missing = handles.filter(|handle| handle.load(Relaxed) == 0).map(create);
    let create_all = || missing.find(|result| *result != SUCCESS).unwrap_or(SUCCESS);
    relaxed(|| within(context, create_all)) == SUCCESS
}

/// Records an event of the context behind all that is on the stream. The stream must not be capturing.
#[inline(always)]
pub(crate) fn record(event: u64, stream: u64, context: u64) -> bool {
    let result = if stream <= LAST_SPECIAL_STREAM {
        // SAFETY: an event of ours, and a stream that each context has.
        within(context, || unsafe { cuEventRecord(event, stream) })
    } else {
        // SAFETY: an event of ours, and a stream that is there: the call on it, the end of its group, or the answer that the
        // library is done with it has not returned to the program yet.
        unsafe { cuEventRecord(event, stream) }
    };
    result == SUCCESS
}

/// What an event says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    NotYet,
    /// It will never say: its context is gone (the device was reset) or has failed.
    Never,
}

/// Asks an event of a context with this id, unless that is gone: the event is then freed memory. Only after
/// [`relax_thread`], or it may invalidate a capture of the program's.
pub(crate) fn query(event: u64, context: u64, id: u64) -> Answer {
    if context_id(context) != Some(id) {
        return Answer::Never;
    }
    // SAFETY: an event of ours, which is never destroyed, in a context that was there just now.
    let mut result = unsafe { cuEventQuery(event) };
    if result == INVALID_CONTEXT {
        // SAFETY: as above.
        result = within(context, || unsafe { cuEventQuery(event) });
    }
    match result {
        SUCCESS => Answer::Done,
        NOT_READY => Answer::NotYet,
        _ => Answer::Never,
    }
}

/// Some thirty years: what is longer, or no number, is no time.
const LONGEST_MS: f32 = 1e12;

/// What two events say of the time between them.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Elapsed {
    Ns(f64),
    /// The device has not got to both.
    NotYet,
    /// It will never say.
    Never,
}

/// Asks two events of a context that is there. Never waits, and only after [`relax_thread`].
pub(crate) fn elapsed(from: u64, to: u64, context: u64) -> Elapsed {
    let mut ms = 0.0;
    // SAFETY: events of ours, which are never destroyed, and a valid place for the answer.
    let mut result = unsafe { cuEventElapsedTime(&raw mut ms, from, to) };
    if result == INVALID_CONTEXT {
        // SAFETY: as above.
        result = within(context, || unsafe { cuEventElapsedTime(&raw mut ms, from, to) });
    }
    match result {
        SUCCESS if ms.abs() < LONGEST_MS => Elapsed::Ns(f64::from(ms) * 1e6),
        NOT_READY => Elapsed::NotYet,
        _ => Elapsed::Never,
    }
}

/// Runs `f` while this thread's calls cannot disturb a capture, whatever mode that is in.
pub(crate) fn relaxed<R>(f: impl FnOnce() -> R) -> R {
    let mut mode = CAPTURE_RELAXED;
    // SAFETY: a valid place, which gets the mode that was.
    let is_exchanged = unsafe { cuThreadExchangeStreamCaptureMode(&raw mut mode) } == SUCCESS;
    let result = f();
    if is_exchanged {
        // SAFETY: gives the thread its own mode back.
        unsafe { cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    }
    result
}

/// From now on this thread's calls cannot disturb a capture.
pub(crate) fn relax_thread() {
    let mut mode = CAPTURE_RELAXED;
    // SAFETY: a valid place, which gets the mode that was.
    unsafe { cuThreadExchangeStreamCaptureMode(&raw mut mode) };
}

/// Compute capability of a device times ten, 0 if the driver does not say.
pub(crate) fn compute_capability(ordinal: i32) -> u32 {
    let (mut device, mut major, mut minor) = (0, 0, 0);
    // SAFETY: a valid place for the answer.
    if unsafe { cuDeviceGet(&raw mut device, ordinal) } != SUCCESS {
        return 0;
    }
    // SAFETY: a valid place for the answer, a device of the driver's.
    let has_major = unsafe { cuDeviceGetAttribute(&raw mut major, CAPABILITY_MAJOR, device) } == SUCCESS;
    // SAFETY: the same.
    let has_minor = unsafe { cuDeviceGetAttribute(&raw mut minor, CAPABILITY_MAJOR + 1, device) } == SUCCESS;
    if has_major && has_minor { u32::try_from(major * 10 + minor).unwrap_or_default() } else { 0 }
}

/// Calls `f` with the context current, and gives back the thread's own.
fn within(context: u64, f: impl FnOnce() -> c_int) -> c_int {
    let mut current = 0;
    // SAFETY: a valid place for the answer.
    let result = unsafe { cuCtxGetCurrent(&raw mut current) };
    if result == SUCCESS && current == context {
        return f();
    }
    // SAFETY: the context of a stream that was in use in it.
    let pushed = unsafe { cuCtxPushCurrent(context) };
    if pushed != SUCCESS {
        return pushed;
    }
    let result = f();
    // SAFETY: a valid place for the answer; undoes the push.
    unsafe { cuCtxPopCurrent(&raw mut current) };
    result
}
