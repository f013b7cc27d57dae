//! Fence: calls a profiler plugin.
//!
//! Words of the log as in NCCL (`src/plugin/profiler.cc`).

#![expect(unsafe_code, reason = "a plugin is foreign code behind a table of C functions")]

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libloading::os::unix::Library;

use crate::faithful::Version;
use crate::log::{self, Level, subsystem};
use crate::profiler::event::{Descriptor, State, kind};
use crate::profiler::layout::{Encoded, EncodedState};

/// `ncclDebugLogger_t`, declared without its variable arguments, which stable Rust cannot define. On the ABIs of Linux
/// a variadic call of a function with these fixed arguments is compatible; the format is logged as it is.
type Logger = extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char);

/// `ncclProfiler_vN_t`: six words in all versions. What `init` takes depends on the version.
#[repr(C)]
pub(crate) struct ProfilerVtable {
    name: *const c_char,
    init: *const c_void,
    start_event: Option<unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> c_int>,
    stop_event: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    record_event_state: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut EncodedState) -> c_int>,
    finalize: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

/// `init` of versions 1 to 3.
type InitV1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
/// `init` of version 4.
type InitV4 = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    Logger,
) -> c_int;
/// `init` of versions 5 to 7.
type InitV5 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    Logger,
) -> c_int;

/// The mask that every communicator's init hands to the plugin, which may write to it at any time: one for the process,
/// as in NCCL.
static ACTIVATION_MASK: AtomicI32 = AtomicI32::new(0);
/// Whether 2.27 has forgotten its plugin, whose init had failed: it asks none again, as long as the process lives.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// A loaded plugin.
#[derive(Debug)]
pub(crate) struct Plugin {
    table: *const ProfilerVtable,
    name: String,
    /// The version of the interface that it is driven by.
    interface: u32,
    /// The version of NCCL as which the library behaves, in the faithful mode.
    nccl: Option<Version>,
    _library: Library,
}

// SAFETY: NCCL's contract with plugins: every function of the table may be called from any thread.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// A plugin's context of one communicator.
#[derive(Debug)]
pub(crate) struct Context {
    plugin: Arc<Plugin>,
    pointer: *mut c_void,
    /// Whether the plugin has been told of its end, after which it is told nothing more.
    is_over: AtomicBool,
}

// SAFETY: the context is a token that the plugin made and that only the plugin looks into, from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// A plugin's handle of an event; null where the plugin does not want the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: as for `Context`.
unsafe impl Send for Handle {}
// SAFETY: as for `Context`.
unsafe impl Sync for Handle {}

impl Handle {
    /// No event.
    pub(crate) const NONE: Self = Self(std::ptr::null_mut());

    /// For a descriptor's `parent`.
    pub(crate) fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// What a plugin is told about a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    /// Its hash.
    pub(crate) comm_hash: u64,
    /// The name from its configuration.
    pub(crate) name: Option<&'a CStr>,
    /// Nodes.
    pub(crate) n_nodes: c_int,
    /// Ranks.
    pub(crate) n_ranks: c_int,
    /// This rank.
    pub(crate) rank: c_int,
}

impl Plugin {
    /// Of this table.
    ///
    /// # Safety
    /// A table of this version of the interface, in this library.
    pub(crate) unsafe fn new(
        table: *const ProfilerVtable,
        interface: u32,
        nccl: Option<Version>,
        library: Library,
    ) -> Self {
        // SAFETY: the caller's promise.
        let name = unsafe { (*table).name };
        let name = if name.is_null() {
            String::from("unnamed")
        } else {
            // SAFETY: by NCCL's interface, a NUL-terminated string.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        };
        Self { table, name, interface, nccl, _library: library }
    }

    /// As it calls itself.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn table(&self) -> &ProfilerVtable {
        // SAFETY: the symbol is a static of the library, which stays loaded while `self` lives.
        unsafe { &*self.table }
    }

    /// Begins a communicator; nothing if the plugin declines, which the log says. NCCL 2.28 goes on to tell such a plugin of
    /// events all the same; 2.27 asks it no more; later ones unload it, and ask again.
    pub(crate) fn init(self: &Arc<Self>, about: About<'_>) -> Option<Context> {
        if self.table().init.is_null() || IS_REFUSED.load(Ordering::Relaxed) {
            return None;
        }
        let mut pointer = std::ptr::null_mut();
        let code = self.call_init(&mut pointer, about);
        let is_refused = code != 0;
        if is_refused {
            self.say_refusal(code);
            IS_REFUSED.store(self.nccl == Some(Version::V2_27), Ordering::Relaxed);
        }
        if self.nccl >= Some(Version::V2_30) {
            say_mask(ACTIVATION_MASK.load(Ordering::Relaxed));
        }
        let is_told = !is_refused || self.nccl == Some(Version::V2_28);
        is_told.then(|| Context { plugin: Arc::clone(self), pointer, is_over: AtomicBool::new(false) })
    }

    fn call_init(&self, pointer: &mut *mut c_void, about: About<'_>) -> c_int {
        let init = self.table().init;
        let name = about.name.map_or(std::ptr::null(), CStr::as_ptr);
        let mask = ACTIVATION_MASK.as_ptr();
        let About { comm_hash, n_nodes, n_ranks, rank, .. } = about;
        match self.interface {
            1..=3 => {
                // SAFETY: by NCCL's interface, tables of these versions have this function.
                let init: InitV1 = unsafe { std::mem::transmute(init) };
                // SAFETY: both places outlive the call; the mask is static.
                unsafe { init(pointer, mask) }
            }
            4 => {
                // SAFETY: as above.
                let init: InitV4 = unsafe { std::mem::transmute(init) };
                // SAFETY: the arguments are what the interface asks for, and outlive the call; the mask is static.
                unsafe { init(pointer, mask, name, comm_hash, n_nodes, n_ranks, rank, LOGGER) }
            }
            _ => {
                // SAFETY: as above.
                let init: InitV5 = unsafe { std::mem::transmute(init) };
                // SAFETY: as above.
                unsafe { init(pointer, comm_hash, mask, name, n_nodes, n_ranks, rank, LOGGER) }
            }
        }
    }

    /// In NCCL's words.
    fn say_refusal(&self, code: c_int) {
        if self.nccl == Some(Version::V2_27) {
            let text = format!("Profiler init failed with error ({code}). Continue without profiler.");
            return log::write(Level::Warn, subsystem::ALL, 0, &text);
        }
        let why = std::io::Error::last_os_error().to_string();
        let why = why.split(" (os error").next().unwrap_or_default();
        info(&format!("Profiler init failed with error '{code}': {why}. Continue without profiler."));
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let subsystem = match self.nccl {
            Some(Version::V2_27) => subsystem::ENV,
            Some(Version::V2_30 | Version::V2_32) => subsystem::DESTROY,
            Some(Version::V2_28) | None => subsystem::INIT,
        };
        let text = format!("PROFILER/Plugin: Closing profiler plugin {}", self.name);
        log::write(Level::Info, subsystem, 0, &text);
    }
}

/// The line of 2.30 and later (`printProfilerEventMask`).
fn say_mask(mask: c_int) {
    let bits = u64::from(mask.cast_unsigned());
    let enabled = kind::NAMES.iter().filter(|(kind, _)| bits & kind != 0);
    let names: String = enabled.map(|(_, name)| format!("{name} ")).collect();
    if mask != 0 {
        info(&format!("Profiler event mask: {mask:#x} ({mask}) - Enabled: {names}"));
    }
}

fn info(text: &str) {
    log::write(Level::Info, subsystem::INIT, 0, text);
}

impl Context {
    /// The event types that the plugin wants now.
    pub(crate) fn mask(&self) -> u64 {
        u64::from(ACTIVATION_MASK.load(Ordering::Relaxed).cast_unsigned())
    }

    /// Begins an event; none where the plugin's version has no such event.
    pub(crate) fn start(&self, descriptor: &Descriptor) -> Handle {
        let Some(start) = self.plugin.table().start_event.filter(|_| !self.is_over()) else {
            return Handle::NONE;
        };
        let Plugin { interface, nccl, .. } = &*self.plugin;
        let Some(mut encoded) = Encoded::new(*interface, nccl.unwrap_or_default(), descriptor) else {
            return Handle::NONE;
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context came from this plugin's init; descriptor and handle are valid for the call.
        unsafe { start(self.pointer, &raw mut handle, encoded.as_mut_ptr()) };
        Handle(handle)
    }

    /// Ends an event.
    pub(crate) fn stop(&self, handle: Handle) {
        if let (Some(stop), false) = (self.plugin.table().stop_event, handle.0.is_null() || self.is_over()) {
            // SAFETY: the handle came from this plugin's startEvent, and is stopped once.
            unsafe { stop(handle.0) };
        }
    }

    /// Tells of a state of an event.
    pub(crate) fn record(&self, handle: Handle, state: State) {
        if handle.0.is_null() || self.is_over() {
            return;
        }
        let Some(record) = self.plugin.table().record_event_state else { return };
        let Some((number, mut arguments)) = state.encode(self.plugin.interface) else { return };
        let arguments = arguments.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        // SAFETY: the handle came from this plugin's startEvent; the arguments are null or valid for the call.
        unsafe { record(handle.0, number, arguments) };
    }

    /// The communicator ends; nobody tells of its events any more. What an aborted operation still holds is not told.
    pub(crate) fn finalize(&self) {
        if self.is_over.swap(true, Ordering::AcqRel) {
            return;
        }
        // Since 2.28 not for a plugin that has given no context.
        let is_asked = !self.pointer.is_null() || self.plugin.nccl == Some(Version::V2_27);
        if let Some(finalize) = self.plugin.table().finalize.filter(|_| is_asked) {
            // SAFETY: the context came from this plugin's init, and is finalized once.
            unsafe { finalize(self.pointer) };
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.finalize();
    }
}

/// The logger that plugins get. Its variable arguments cannot be read in stable Rust, so the format itself is logged.
const LOGGER: Logger = log_for_plugin;

extern "C" fn log_for_plugin(
    level: c_int,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    text: *const c_char,
) {
    if text.is_null() {
        return;
    }
    // SAFETY: a plugin's format is a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let level = if level <= 2 { Level::Warn } else { Level::Info };
    log::write(level, subsystem::PROFILE, 0, &text);
}

/// A communicator's name for the plugin.
pub(crate) fn comm_name(name: Option<&str>) -> Option<CString> {
    name.and_then(|name| CString::new(name).ok())
}
