//! Fence: finds a profiler plugin and calls it.

#![expect(unsafe_code, reason = "a plugin is foreign code behind a table of C functions")]

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::log;
use crate::net::control::lock;
use crate::profiler::abi::{Descriptor, Logger, StateArgs, Table};

/// What NCCL calls a plugin that is linked into the process.
const STATIC_PLUGIN: &str = "STATIC_PLUGIN";
/// The tables that a plugin may offer, the newest first. Version 6 adds events of copy engines, of which a host library
/// has none; the layouts are the same (`profiler_v5.h` and `profiler_v6.h`, NCCL 2.28 to 2.30).
const SYMBOLS: [(&CStr, u32); 2] = [(c"ncclProfiler_v6", 6), (c"ncclProfiler_v5", 5)];

/// The mask that every communicator's init hands to the plugin, which may write to it at any time: one for the process,
/// as in NCCL.
static ACTIVATION_MASK: AtomicI32 = AtomicI32::new(0);
/// The plugin that is loaded now; unloaded with its last communicator.
static LOADED: Mutex<Weak<Plugin>> = Mutex::new(Weak::new());

/// A loaded plugin.
#[derive(Debug)]
pub(crate) struct Plugin {
    table: *const Table,
    name: String,
    version: u32,
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
    /// `libnccl-profiler.so` where the loader finds it.
    pub(crate) fn load(setting: Option<&str>) -> Option<Arc<Self>> {
        if setting.is_some_and(|value| value.eq_ignore_ascii_case("none")) {
            return None;
        }
        let mut loaded = lock(&LOADED);
        if let Some(plugin) = loaded.upgrade() {
            return Some(plugin);
        }
        let plugin = Arc::new(candidates(setting).into_iter().find_map(open)?);
        *loaded = Arc::downgrade(&plugin);
        Some(plugin)
    }

    /// The plugin's own name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The version of the interface that it is driven by.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    fn table(&self) -> &Table {
        // SAFETY: the symbol is a static of the library, which stays loaded while `self` lives.
        unsafe { &*self.table }
    }

    /// Begins a communicator; nothing if the plugin declines.
    pub(crate) fn init(self: &Arc<Self>, about: About<'_>) -> Option<Context> {
        let init = self.table().init?;
        let mut pointer = std::ptr::null_mut();
        let name = about.name.map_or(std::ptr::null(), CStr::as_ptr);
        let mask = ACTIVATION_MASK.as_ptr();
        let About { comm_hash, n_nodes, n_ranks, rank, .. } = about;
        // SAFETY: the arguments are what the interface asks for, and outlive the call; the mask is static.
        let code = unsafe { init(&raw mut pointer, comm_hash, mask, name, n_nodes, n_ranks, rank, LOGGER) };
        (code == 0).then(|| Context { plugin: Arc::clone(self), pointer })
    }
}

impl Context {
    /// The event types that the plugin wants now.
    pub(crate) fn mask(&self) -> u64 {
        u64::from(ACTIVATION_MASK.load(Ordering::Relaxed).cast_unsigned())
    }

    /// Begins an event.
    pub(crate) fn start(&self, mut descriptor: Descriptor) -> Handle {
        let Some(start) = self.plugin.table().start_event else { return Handle::NONE };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context came from this plugin's init; descriptor and handle are valid for the call.
        unsafe { start(self.pointer, &raw mut handle, &raw mut descriptor) };
        Handle(handle)
    }

    /// Ends an event.
    pub(crate) fn stop(&self, handle: Handle) {
        if let (Some(stop), false) = (self.plugin.table().stop_event, handle.0.is_null()) {
            // SAFETY: the handle came from this plugin's startEvent, and is stopped once.
            unsafe { stop(handle.0) };
        }
    }

    /// Tells of a state of an event.
    pub(crate) fn record(&self, handle: Handle, state: c_int, args: Option<StateArgs>) {
        if let (Some(record), false) = (self.plugin.table().record_event_state, handle.0.is_null()) {
            let mut args = args;
            let args = args.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
            // SAFETY: the handle came from this plugin's startEvent; the arguments are null or valid for the call.
            unsafe { record(handle.0, state, args) };
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(finalize) = self.plugin.table().finalize {
            // SAFETY: the context came from this plugin's init, and no thread holds it any more.
            unsafe { finalize(self.pointer) };
        }
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
    let level = if level <= 2 { log::Level::Warn } else { log::Level::Info };
    log::write(level, log::subsystem::PROFILE, 0, &text);
}

fn candidates(setting: Option<&str>) -> Vec<Option<String>> {
    let Some(value) = setting else { return vec![Some("libnccl-profiler.so".to_owned())] };
    let is_static = STATIC_PLUGIN.get(..value.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(value));
    if is_static {
        return vec![None];
    }
    let named = [value.to_owned(), format!("libnccl-profiler-{value}.so")];
    named.into_iter().map(Some).collect()
}

fn open(file: Option<String>) -> Option<Plugin> {
    let library = match &file {
        None => Library::this(),
        // SAFETY: the user names this library to be loaded into the process; its initialisers run as for any dlopen.
        Some(file) => unsafe { Library::open(Some(Path::new(file)), RTLD_NOW | RTLD_LOCAL) }.ok()?,
    };
    let found = SYMBOLS.iter().find_map(|(symbol, version)| {
        // SAFETY: by NCCL's interface, the symbol of this name is a table of this version.
        let symbol = unsafe { library.get::<*const Table>(symbol.to_bytes_with_nul()) }.ok()?;
        Some((symbol, *version))
    });
    let (symbol, version) = found?;
    // The address of the symbol is the table itself, not a pointer to it.
    let table: *const Table = symbol.as_raw_ptr().cast();
    // SAFETY: as above; the library is loaded.
    let name = unsafe { (*table).name };
    let name = if name.is_null() {
        String::from("unnamed")
    } else {
        // SAFETY: by NCCL's interface, a NUL-terminated string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    };
    Some(Plugin { table, name, version, _library: library })
}

/// A communicator's name for the plugin.
pub(crate) fn comm_name(name: Option<&str>) -> Option<CString> {
    name.and_then(|name| CString::new(name).ok())
}
