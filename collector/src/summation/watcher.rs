//! Finds the watcher beside the collector, opens it once, and hands over what it may ask for. A child of a process that has it
//! opens nothing: it begins anew with what it has.

#![expect(unsafe_code, reason = "opens a library and calls it")]

use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::time::Duration;

use ringscope_wire::watcher::{Collector, FILE_NAME, SYMBOL, Start, VERSION, Watcher};

use crate::segment::busy::Busy;
use crate::segment::forks::{between_forks, is_linker_stuck};
use crate::segment::{segment, switch, ticks, uncancelled};
use crate::summation::{group, records};

/// What the watcher may ask for.
static COLLECTOR: Collector = Collector {
    version: VERSION,
    join: group::join,
    keep: group::keep,
    leave: group::leave,
    issue: records::issue,
    settle: records::settle,
    close: records::close,
    add: records::add,
    too_large: group::too_large,
    now_ns,
    fault: switch_off,
};

/// The watcher that has begun in this process; NULL while there is none.
static WATCHER: AtomicPtr<Watcher> = AtomicPtr::new(null_mut());
/// Its [`Start`], NULL until it was opened. A child keeps it.
static START: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// It cannot be opened: nobody tries again.
static IS_MISSING: AtomicBool = AtomicBool::new(false);
/// Some thread is beginning it, which neither waits nor opens anything.
static BEGINNING: Busy = Busy::new();
/// How long that is waited for: it takes some microseconds.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The watcher, if this process has one.
#[inline(always)]
pub(super) fn watcher() -> Option<&'static Watcher> {
    let watcher = WATCHER.load(Acquire);
    // SAFETY: NULL, or a static of a library that is never unloaded.
    unsafe { watcher.as_ref() }
}

/// The watcher; opened now if it is not yet. Not for the path of a call.
pub(super) fn watcher_or_open() -> Option<&'static Watcher> {
    // A child that has not called yet forgets its parent's watcher by this.
    let _ = segment();
    if let Some(watcher) = watcher() {
        return Some(watcher);
    }
    let start = start()?;
    let _held = BEGINNING.take_within(MAX_WAIT)?;
    watcher().or_else(|| begin(start))
}

fn begin(start: Start) -> Option<&'static Watcher> {
    // SAFETY: the table is a static.
    let watcher = unsafe { start(&raw const COLLECTOR) };
    WATCHER.store(watcher.cast_mut(), Release);
    IS_MISSING.fetch_or(watcher.is_null(), Release);
    self::watcher()
}

/// The watcher's function. Two threads may both open the library: it is the same one.
fn start() -> Option<Start> {
    if IS_MISSING.load(Acquire) {
        return None;
    }
    let known = START.load(Acquire);
    let start = if known.is_null() { uncancelled(open).unwrap_or(null_mut()) } else { known };
    if start.is_null() {
        IS_MISSING.store(true, Release);
        return None;
    }
    START.store(start, Release);
    // SAFETY: the function of this name in our own library has this signature.
    Some(unsafe { std::mem::transmute::<*mut c_void, Start>(start) })
}

fn open() -> Option<*mut c_void> {
    between_forks(open_beside_us)
}

fn open_beside_us() -> Option<*mut c_void> {
    if is_linker_stuck() {
        return None;
    }
    let path = beside_us()?;
    // SAFETY: a terminated name; the library is ours, and only its own code runs when it is loaded.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // What went wrong is no business of the program, which may ask for its own errors.
        // SAFETY: no preconditions.
        unsafe { libc::dlerror() };
        return None;
    }
    // SAFETY: a handle from dlopen and a terminated name.
    Some(unsafe { libc::dlsym(library, SYMBOL.as_ptr()) })
}

/// Where the watcher lies: in the collector's folder.
fn beside_us() -> Option<CString> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked about.
    let found = unsafe { libc::dladdr(from_ref(&COLLECTOR).cast(), info.as_mut_ptr()) };
    // SAFETY: zeros are a whole `Dl_info`.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own name of the object, which lives as long as that.
    let ours = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
    let ours = Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(ours.to_bytes()));
    let path = ours.with_file_name(FILE_NAME.to_str().ok()?);
    CString::new(path.into_os_string().into_encoded_bytes()).ok()
}

extern "C" fn now_ns() -> u64 {
    ticks::monotonic_ns()
}

extern "C" fn switch_off() {
    switch::fault();
}

/// In a forked child: the calls are the parent's. The tables are emptied when the child makes a group itself, if ever.
pub(crate) fn forget() {
    WATCHER.store(null_mut(), Release);
    BEGINNING.forget();
}
