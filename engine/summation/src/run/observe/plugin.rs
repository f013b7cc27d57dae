//! Fence: finds a watcher and calls it.

#![expect(unsafe_code, reason = "a watcher is foreign code behind a table of C functions")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use rsccl_collective::lock::lock;
use rsccl_collective::log::{self, Level, subsystem};
use rsum_observer::{Finished, Group, ObserverVtable, Round, Sample};

const SYMBOL: &CStr = c"rsumObserver_v1";

/// The one of this process, and the setting that named it. It is never unloaded: what it has seen outlives the group.
static LOADED: Mutex<Option<(String, Option<Arc<Observer>>)>> = Mutex::new(None);

/// A watcher.
#[derive(Debug)]
pub(in crate::run) struct Observer {
    table: *const ObserverVtable,
    /// It has the table.
    _library: Option<Library>,
}

// SAFETY: the table is never written, and its functions are called by one thread at a time for each group.
unsafe impl Send for Observer {}
// SAFETY: as above.
unsafe impl Sync for Observer {}

/// A watcher's context of one group.
#[derive(Debug)]
pub(super) struct Context {
    observer: Arc<Observer>,
    pointer: *mut c_void,
}

// SAFETY: a token that the watcher made and that only the watcher looks into.
unsafe impl Send for Context {}
// SAFETY: as above; calls are made by the group's thread alone.
unsafe impl Sync for Context {}

/// That a library is not there, or is none, and what the loader says of it.
fn not_loaded(path: &str, error: &(dyn std::error::Error + 'static)) -> String {
    let cause = error.source().unwrap_or(error);
    format!("RSUM_OBSERVER: {path} is not loaded, and nobody watches the group: {cause}")
}

impl Observer {
    /// The watcher that `RSUM_OBSERVER` names: of a process the first one that is named.
    pub(in crate::run) fn load(path: &str) -> Option<Arc<Self>> {
        let mut loaded = lock(&LOADED);
        let (_, observer) = loaded.get_or_insert_with(|| (path.to_owned(), Self::open(path).map(Arc::new)));
        observer.clone()
    }

    fn open(path: &str) -> Option<Self> {
        let warn = |text: String| log::write(Level::Warn, subsystem::PROFILE, 0, &text);
        // SAFETY: the user names this library to be loaded into the process; its initialisers run as for any dlopen.
        let library = unsafe { Library::open(Some(Path::new(path)), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| warn(not_loaded(path, &error))).ok()?;
        // SAFETY: by rsum_observer.h, the symbol of this name is a table of this version.
        let symbol = unsafe { library.get::<*const ObserverVtable>(SYMBOL.to_bytes_with_nul()) };
        let symbol =
            symbol.map_err(|_| warn(format!("RSUM_OBSERVER: {path} exports no rsumObserver_v1"))).ok()?;
        // The address of the symbol is the table itself, not a pointer to it.
        let table = symbol.as_raw_ptr().cast();
        Some(Self { table, _library: Some(library) })
    }

    /// One that is in this process.
    #[cfg(test)]
    pub(super) fn of_table(table: &'static ObserverVtable) -> Arc<Self> {
        Arc::new(Self { table, _library: None })
    }

    fn table(&self) -> &ObserverVtable {
        // SAFETY: a static of the library, which is never unloaded.
        unsafe { &*self.table }
    }

    /// A context before the group begins.
    #[cfg(test)]
    pub(super) fn context(self: &Arc<Self>, pointer: *mut c_void) -> Context {
        Context { observer: Arc::clone(self), pointer }
    }

    /// Begins a group, or goes on with one; nothing if the watcher declines.
    pub(super) fn begin(self: &Arc<Self>, before: Option<&Context>, group: &Group) -> Option<Context> {
        let begin = self.table().begin?;
        let mut pointer = before.map_or(std::ptr::null_mut(), |context| context.pointer);
        // SAFETY: the arguments are what the interface asks for, and outlive the call.
        let code = unsafe { begin(&raw mut pointer, group) };
        (code == 0).then(|| Context { observer: Arc::clone(self), pointer })
    }
}

impl Context {
    /// Tells of the present state.
    pub(super) fn sample(&self, sample: &Sample) {
        if let Some(function) = self.observer.table().sample {
            // SAFETY: the context is this watcher's; the sample and what it points to outlive the call.
            unsafe { function(self.pointer, sample) };
        }
    }

    /// Tells of a result.
    pub(super) fn round(&self, round: &Round) {
        if let Some(function) = self.observer.table().round {
            // SAFETY: as above.
            unsafe { function(self.pointer, round) };
        }
    }

    /// Tells of a round of a whole tensor.
    pub(super) fn finished(&self, finished: &Finished) {
        if let Some(function) = self.observer.table().finished {
            // SAFETY: as above.
            unsafe { function(self.pointer, finished) };
        }
    }

    /// Tells of the end.
    pub(super) fn end(&self, how: c_int, lost_rank: Option<usize>, why: &str) {
        let lost_rank = lost_rank.and_then(|rank| c_int::try_from(rank).ok()).unwrap_or(-1);
        let why = CString::new(why.replace('\0', " ")).unwrap_or_default();
        if let Some(function) = self.observer.table().end {
            // SAFETY: as above; the text is terminated.
            unsafe { function(self.pointer, how, lost_rank, why.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_that_is_not_there_is_named_with_what_the_loader_says() {
        // SAFETY: there is no such library, so nothing runs.
        let error = unsafe { Library::open(Some("/nowhere/watcher.so"), RTLD_NOW) }.unwrap_err();
        let text = not_loaded("/nowhere/watcher.so", &error);
        assert!(text.starts_with("RSUM_OBSERVER: /nowhere/watcher.so is not loaded"), "{text}");
        assert!(text.contains("cannot open shared object file"), "{text}");
    }
}
