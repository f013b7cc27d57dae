//! Fence: finds a profiler plugin and calls it.
//!
//! Lookup and words of the log as in NCCL (`src/plugin/plugin_open.cc`, `src/plugin/profiler.cc`).

#![expect(unsafe_code, reason = "a plugin is foreign code behind a table of C functions")]

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::faithful::Version;
use crate::lock::lock;
use crate::log::{self, Level, subsystem};
use crate::profiler::event::{Descriptor, State};
use crate::profiler::layout::{Encoded, EncodedState, NEWEST};

/// What NCCL calls a plugin that is linked into the process.
const STATIC_PLUGIN: &str = "STATIC_PLUGIN";
/// The tables that a plugin may offer, the oldest first.
const SYMBOLS: [&CStr; NEWEST as usize] = [
    c"ncclProfiler_v1",
    c"ncclProfiler_v2",
    c"ncclProfiler_v3",
    c"ncclProfiler_v4",
    c"ncclProfiler_v5",
    c"ncclProfiler_v6",
    c"ncclProfiler_v7",
];

/// `ncclDebugLogger_t`, declared without its variable arguments, which stable Rust cannot define. On the ABIs of Linux
/// a variadic call of a function with these fixed arguments is compatible; the format is logged as it is.
type Logger = extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char);

/// `ncclProfiler_vN_t`: six words in all versions. What `init` takes depends on the version.
#[repr(C)]
struct Table {
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
/// Whether NCCL would not look for a plugin again in this process.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
/// The plugin that is loaded now; unloaded with its last communicator.
static LOADED: Mutex<Weak<Plugin>> = Mutex::new(Weak::new());

/// A loaded plugin.
#[derive(Debug)]
pub(crate) struct Plugin {
    table: *const Table,
    name: String,
    /// The version of the interface that it is driven by.
    interface: u32,
    /// The version of NCCL whose words the log has.
    nccl: Version,
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
    /// The plugin that the setting names: a path, a soname, a suffix of `libnccl-profiler-…so`, a prefix of
    /// `STATIC_PLUGIN` (any case) for one that is in the process already, or `none`. Without a setting,
    /// `libnccl-profiler.so` where the loader finds it. Of the tables that it offers, the newest that `nccl` knows.
    pub(crate) fn load(setting: Option<&str>, nccl: Option<Version>) -> Option<Arc<Self>> {
        let knows_none = nccl.is_none_or(|version| version >= Version::V2_28);
        if knows_none && setting.is_some_and(|value| value.eq_ignore_ascii_case("none")) {
            return None;
        }
        let mut loaded = lock(&LOADED);
        if let Some(plugin) = loaded.upgrade() {
            return Some(plugin);
        }
        if nccl.is_some() && HAS_FAILED.load(Ordering::Relaxed) {
            return None;
        }
        let found = open_any(setting, nccl);
        HAS_FAILED.store(found.is_none(), Ordering::Relaxed);
        let plugin = Arc::new(found?);
        *loaded = Arc::downgrade(&plugin);
        Some(plugin)
    }

    fn table(&self) -> &Table {
        // SAFETY: the symbol is a static of the library, which stays loaded while `self` lives.
        unsafe { &*self.table }
    }

    /// Begins a communicator; nothing if the plugin declines, which the log says.
    pub(crate) fn init(self: &Arc<Self>, about: About<'_>) -> Option<Context> {
        let init = self.table().init;
        if init.is_null() {
            return None;
        }
        let mut pointer = std::ptr::null_mut();
        let name = about.name.map_or(std::ptr::null(), CStr::as_ptr);
        let mask = ACTIVATION_MASK.as_ptr();
        let About { comm_hash, n_nodes, n_ranks, rank, .. } = about;
        let code = match self.interface {
            1..=3 => {
                // SAFETY: by NCCL's interface, tables of these versions have this function.
                let init: InitV1 = unsafe { std::mem::transmute(init) };
                // SAFETY: both places outlive the call; the mask is static.
                unsafe { init(&raw mut pointer, mask) }
            }
            4 => {
                // SAFETY: as above.
                let init: InitV4 = unsafe { std::mem::transmute(init) };
                // SAFETY: the arguments are what the interface asks for, and outlive the call; the mask is static.
                unsafe { init(&raw mut pointer, mask, name, comm_hash, n_nodes, n_ranks, rank, LOGGER) }
            }
            _ => {
                // SAFETY: as above.
                let init: InitV5 = unsafe { std::mem::transmute(init) };
                // SAFETY: as above.
                unsafe { init(&raw mut pointer, comm_hash, mask, name, n_nodes, n_ranks, rank, LOGGER) }
            }
        };
        if code != 0 {
            self.say_refusal(code);
            return None;
        }
        Some(Context { plugin: Arc::clone(self), pointer, is_over: AtomicBool::new(false) })
    }

    /// In NCCL's words. NCCL 2.28 goes on to tell the plugin of events all the same; here nobody is told.
    fn say_refusal(&self, code: c_int) {
        if self.nccl == Version::V2_27 {
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
        info(&format!("PROFILER/Plugin: Closing profiler plugin {}", self.name));
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
        let Some(mut encoded) = Encoded::new(*interface, *nccl, descriptor) else { return Handle::NONE };
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
        if let Some(finalize) = self.plugin.table().finalize {
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

/// The first of the names under which the setting may be found, loaded.
fn open_any(setting: Option<&str>, nccl: Option<Version>) -> Option<Plugin> {
    let mut missing = String::new();
    for file in candidates(setting) {
        match open(file.as_deref()) {
            Ok(library) => return plugin(library, file.as_deref(), nccl),
            Err(why) if why.contains("No such file or directory") => {
                missing = format!("{missing} {}", file.unwrap_or_default());
            }
            Err(why) => info(&format!("PROFILER/Plugin: {}: {why}", file.unwrap_or_default())),
        }
    }
    if !missing.is_empty() {
        info(&format!("PROFILER/Plugin: Could not find:{missing}"));
    }
    None
}

/// A path is taken as it is, and so is the name of a library; anything else may be a suffix too.
fn candidates(setting: Option<&str>) -> Vec<Option<String>> {
    let Some(value) = setting else { return vec![Some("libnccl-profiler.so".to_owned())] };
    let is_static = STATIC_PLUGIN.get(..value.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(value));
    if is_static {
        return vec![None];
    }
    let is_whole = value.contains('/') || (value.starts_with("lib") && value.ends_with(".so"));
    let suffixed = (!is_whole).then(|| format!("libnccl-profiler-{value}.so"));
    std::iter::once(value.to_owned()).chain(suffixed).map(Some).collect()
}

fn open(file: Option<&str>) -> Result<Library, String> {
    let Some(file) = file else { return Ok(Library::this()) };
    // SAFETY: the user names this library to be loaded into the process; its initialisers run as for any dlopen.
    let opened = unsafe { Library::open(Some(Path::new(file)), RTLD_NOW | RTLD_LOCAL) };
    opened.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        cause.unwrap_or_else(|| error.to_string())
    })
}

/// The newest table of the interface that NCCL of this version tries; without the faithful mode, all are.
fn plugin(library: Library, file: Option<&str>, nccl: Option<Version>) -> Option<Plugin> {
    let newest = match nccl {
        Some(Version::V2_27) => 4,
        Some(Version::V2_28) => 5,
        Some(Version::V2_30) => 6,
        Some(Version::V2_32) | None => NEWEST,
    };
    let known = (1..).zip(&SYMBOLS[..newest as usize]).collect::<Vec<_>>();
    let found = known.into_iter().rev().find_map(|(interface, symbol)| {
        // SAFETY: by NCCL's interface, the symbol of this name is a table of this version.
        let symbol = unsafe { library.get::<*const Table>(symbol.to_bytes_with_nul()) }.ok()?;
        Some((symbol.as_raw_ptr(), interface))
    });
    let Some((symbol, interface)) = found else {
        file.iter().for_each(|file| info(&format!("External profiler plugin {file} is unsupported")));
        return None;
    };
    // The address of the symbol is the table itself, not a pointer to it.
    let table: *const Table = symbol.cast();
    // SAFETY: as above; the library is loaded.
    let name = unsafe { (*table).name };
    let name = if name.is_null() {
        String::from("unnamed")
    } else {
        // SAFETY: by NCCL's interface, a NUL-terminated string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    };
    info(&format!("PROFILER/Plugin: Loaded {name} (v{interface})"));
    file.iter().for_each(|file| info(&format!("Successfully loaded external profiler plugin {file}")));
    Some(Plugin { table, name, interface, nccl: nccl.unwrap_or_default(), _library: library })
}

/// A communicator's name for the plugin.
pub(crate) fn comm_name(name: Option<&str>) -> Option<CString> {
    name.and_then(|name| CString::new(name).ok())
}
