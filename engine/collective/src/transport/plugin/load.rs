//! Fence: finds a network plugin and loads it.
//!
//! Lookup and words of the log as in NCCL (`src/plugin/plugin_open.cc`, `src/plugin/net.cc`).

#![expect(unsafe_code, reason = "a plugin is a library that the user names")]

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::config::NetworkSetting;
use crate::error::{Error, Result};
use crate::lock::lock;
use crate::log::{self, Level, subsystem};
use crate::transport::plugin::network::{Network, Table};

/// Our own plugin, for RDMA. Cargo gives a library no name with hyphens, so a folder that it builds into has the other name.
const OWN: [&str; 2] = ["libnccl-net-ringscope.so", "libnccl_net_ringscope.so"];

/// Its own setting names it, or that of another library over it.
const VERBS: &str = "the network verbs";

/// The plugin that is loaded now, and the setting that named it; unloaded with its last communicator.
static LOADED: Mutex<Option<(NetworkSetting, Weak<Network>)>> = Mutex::new(None);

/// The network that the setting names; none for sockets.
///
/// # Errors
/// There is no such plugin, or it does not begin. NCCL goes on with its own networks then, where it was not told to use that
/// one alone (`NCCL_NET`); here who names a network gets it.
pub(crate) fn load(setting: &NetworkSetting) -> Result<Option<Arc<Network>>> {
    let mut loaded = lock(&LOADED);
    if let Some(network) =
        loaded.as_ref().filter(|(of, _)| of == setting).and_then(|(_, weak)| weak.upgrade())
    {
        return Ok(Some(network));
    }
    let network = match setting {
        NetworkSetting::Socket => return Ok(None),
        NetworkSetting::Verbs => open_first(VERBS, &own_files())?,
        NetworkSetting::Plugin(name) => open_first(&format!("NCCL_NET_PLUGIN={name}"), &files(name))?,
    };
    let network = Arc::new(network);
    *loaded = Some((setting.clone(), Arc::downgrade(&network)));
    Ok(Some(network))
}

/// A path is taken as it is; anything else may be a library's name or the end of one.
fn files(name: &str) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![name.into()];
    }
    vec![name.into(), format!("libnccl-net-{name}.so").into()]
}

/// Beside this library, else where the loader finds it.
fn own_files() -> Vec<PathBuf> {
    let beside = own_path().and_then(|path| path.parent().map(Path::to_owned));
    let beside = beside.iter().flat_map(|folder| OWN.map(|name| folder.join(name)));
    beside.chain([PathBuf::from(OWN[0])]).collect()
}

/// The file that this code was loaded from.
fn own_path() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let here: *const () = (own_path as fn() -> Option<PathBuf>) as *const ();
    // SAFETY: an address of this library, and room for what is written.
    if unsafe { libc::dladdr(here.cast(), info.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: written, and pointers alone, for which zero is a value.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a string of the loader's, which lives as long as this library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// The first of the files that is there, loaded and begun.
fn open_first(asked: &str, files: &[PathBuf]) -> Result<Network> {
    let mut missing = Vec::new();
    for file in files {
        match open(file) {
            Ok(library) => return begin(asked, file, library),
            // Of the library itself, and not of one that it needs.
            Err(why) if is_missing(file, &why) => missing.push(file.display().to_string()),
            Err(why) => return Err(Error::System(format!("{asked}: cannot load {}: {why}", file.display()))),
        }
    }
    Err(Error::InvalidUsage(format!("{asked}: there is no {}", missing.join(", nor "))))
}

fn is_missing(file: &Path, why: &str) -> bool {
    why.starts_with(&file.display().to_string()) && why.contains("No such file or directory")
}

fn open(file: &Path) -> std::result::Result<Library, String> {
    // SAFETY: the user names this library to be loaded into the process; its initialisers run as for any dlopen.
    let opened = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
    opened.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        cause.unwrap_or_else(|| error.to_string())
    })
}

fn begin(asked: &str, file: &Path, library: Library) -> Result<Network> {
    let Some(table) = newest(&library) else {
        let text = format!("{asked}: {} has no table of NCCL's network interface 8 to 11", file.display());
        return Err(Error::InvalidUsage(text));
    };
    let (name, version) = (table.name(), table.version());
    info(&format!("NET/Plugin: Loaded net plugin {name} (v{version}) from {}", file.display()));
    Network::begin(table, library).map_err(|error| match error {
        Error::InvalidUsage(text) => Error::InvalidUsage(format!("{asked}: {text}")),
        other => Error::System(format!("{asked}: {other}")),
    })
}

/// The newest table that the library offers.
fn newest(library: &Library) -> Option<Table> {
    let find = |symbol: &CStr| {
        // SAFETY: by NCCL's interface, the symbol of this name is a table of this version; the address of the symbol is the
        // table itself.
        let found = unsafe { library.get::<*const ()>(symbol.to_bytes_with_nul()) };
        found.ok().map(|found| found.as_raw_ptr().cast_const())
    };
    let newest = find(c"ncclNetPlugin_v11").map(|table| Table::V11(table.cast()));
    newest
        .or_else(|| find(c"ncclNetPlugin_v10").map(|table| Table::V10(table.cast())))
        .or_else(|| find(c"ncclNetPlugin_v9").map(|table| Table::V9(table.cast())))
        .or_else(|| find(c"ncclNetPlugin_v8").map(|table| Table::V8(table.cast())))
}

fn info(text: &str) {
    log::write(Level::Info, subsystem::INIT | subsystem::NET, 0, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_be_a_path_a_file_or_the_end_of_one() {
        assert_eq!(files("/opt/net.so"), [PathBuf::from("/opt/net.so")]);
        assert_eq!(files("ofi"), ["ofi", "libnccl-net-ofi.so"].map(PathBuf::from));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let text = load(&NetworkSetting::Plugin("/nowhere/net.so".to_owned())).unwrap_err().to_string();
        assert_eq!(text, "NCCL_NET_PLUGIN=/nowhere/net.so: there is no /nowhere/net.so");
    }
}
