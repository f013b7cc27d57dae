//! The real library's functions, found once and kept: a table for each copy of the library in the process.
//!
//! A call on a communicator goes to the copy that made it. Any other goes to the copy that its caller would have got
//! without us ([`linker_scope`]), which is asked once per calling object. Readers take no lock: a table is whole before its
//! number is known.

#![expect(unsafe_code, reason = "calls what the dynamic linker found")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};

use ringscope_wire::segment::layout::DropReason;

use crate::abi::nccl::{Comm, SYSTEM_ERROR};
use crate::calls::linker_scope;
use crate::calls::linker_scope::{Kept, Scope};
use crate::segment::forks::{between_forks, is_linker_stuck};
use crate::segment::local::Local;
use crate::segment::{communicators, guard, segment, switch, uncancelled, uninterrupted};

macro_rules! functions {
    ($($name:ident)*) => {
        /// A function of the library.
        #[derive(Clone, Copy)]
        #[expect(non_camel_case_types, reason = "the names of nccl.h")]
        #[expect(clippy::enum_variant_names, reason = "the names of nccl.h")]
        pub(crate) enum Function { $($name),* }

        impl Function {
            const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name with the `p` that profilers may call it by.
            fn profiled_name(self) -> &'static CStr {
                const NAMES: &[&str] = &[$(concat!("p", stringify!($name), "\0")),*];
                NAMES
                    .get(self as usize)
                    .and_then(|name| CStr::from_bytes_with_nul(name.as_bytes()).ok())
                    .unwrap_or_default()
            }
        }
    };
}

functions! {
    ncclGetVersion ncclCommCount ncclCommUserRank ncclCommCuDevice
    ncclCommInitRank ncclCommInitRankConfig ncclCommInitRankScalable ncclCommInitAll
    ncclCommSplit ncclCommShrink ncclCommGrow
    ncclCommDestroy ncclCommAbort ncclCommRevoke ncclCommFinalize ncclCommGetAsyncError
    ncclGroupStart ncclGroupEnd ncclGroupSimulateEnd
    ncclCommRegister ncclCommWindowRegister ncclMemAlloc
    ncclAllReduce ncclBroadcast ncclBcast ncclReduce ncclAllGather ncclReduceScatter
    ncclSend ncclRecv ncclAlltoAll ncclGather ncclScatter
    ncclAllReduceConfig ncclBroadcastConfig ncclReduceConfig ncclAllGatherConfig ncclReduceScatterConfig
    ncclAlltoAllConfig ncclGatherConfig ncclScatterConfig
    ncclPutSignal ncclSignal ncclWaitSignal
    ncclCommDeregister ncclCommWindowDeregister
}

impl Function {
    /// Its number in the segment (`ringscope_wire::segment::calls::layout::FUNCTIONS`).
    #[inline(always)]
    pub(crate) const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Its name.
    fn name(self) -> &'static CStr {
        CStr::from_bytes_with_nul(&self.profiled_name().to_bytes_with_nul()[1..]).unwrap_or_default()
    }
}

const N_FUNCTIONS: usize = Function::ALL.len();

/// Copies of the library that one process can have; a framework with its own and one beside it are two, and each is
/// some hundred megabytes. Calls to more are refused (`DropReason::NoLibrary`). A power of two.
const MAX_LIBRARIES: usize = 16;
/// Calling objects that are remembered. Others are looked up at each call without a communicator.
const MAX_CALLERS: usize = 64;

/// One copy of the library.
struct Library {
    /// Where the object that has its `ncclGetVersion` is loaded: its identity. Null while free.
    base: AtomicPtr<c_void>,
    /// The rest is filled.
    is_whole: AtomicBool,
    version: AtomicU32,
    functions: [AtomicPtr<c_void>; N_FUNCTIONS],
}

static LIBRARIES: [Library; MAX_LIBRARIES] = [const {
    Library {
        base: AtomicPtr::new(null_mut()),
        is_whole: AtomicBool::new(false),
        version: AtomicU32::new(0),
        functions: [const { AtomicPtr::new(null_mut()) }; N_FUNCTIONS],
    }
}; MAX_LIBRARIES];
static N_LIBRARIES: AtomicUsize = AtomicUsize::new(0);

/// An object that has called, and the number of the copy that it gets. `end` is written last.
struct Caller {
    start: AtomicUsize,
    end: AtomicUsize,
    library: AtomicUsize,
}

static CALLERS: [Caller; MAX_CALLERS] =
    [const { Caller { start: AtomicUsize::new(0), end: AtomicUsize::new(0), library: AtomicUsize::new(0) } };
        MAX_CALLERS];
static N_CALLERS: AtomicUsize = AtomicUsize::new(0);

/// The function of a copy; null if it has none of this name.
#[inline(always)]
pub(crate) fn real(function: Function, library: usize) -> *mut c_void {
    LIBRARIES[library & (MAX_LIBRARIES - 1)].functions[function as usize].load(Acquire)
}

/// Whether there is exactly one copy so far, which then is number 0.
#[inline(always)]
pub(crate) fn is_single() -> bool {
    N_LIBRARIES.load(Acquire) == 1
}

/// Copies that calls have been forwarded to.
pub(crate) fn n_libraries() -> u32 {
    u32::try_from(N_LIBRARIES.load(Acquire)).unwrap_or_default()
}

/// `ncclGetVersion` of a copy, 0 if it does not say.
pub(crate) fn version(library: usize) -> u32 {
    LIBRARIES[library & (MAX_LIBRARIES - 1)].version.load(Relaxed)
}

/// `ncclGetVersion` of the copy that was called first, or while none has been called of one that is loaded.
pub(crate) fn library_version() -> u32 {
    if n_libraries() > 0 {
        return version(0);
    }
    between_forks(|| {
        let function = Function::ncclGetVersion;
        let scope = linker_scope::of_caller(0, function.name(), function.profiled_name());
        let found = scope.and_then(|scope| scope.find(function.name(), function.profiled_name()));
        let version = found.map_or(0, ask_version);
        scope.inspect(|scope| scope.close());
        version
    })
}

/// The copy for a call on a communicator.
#[inline(always)]
pub(crate) fn library_of(local: &Local, comm: Comm) -> Option<usize> {
    if is_single() { Some(0) } else { library_of_one_of_several(local, comm) }
}

#[cold]
fn library_of_one_of_several(local: &Local, comm: Comm) -> Option<usize> {
    let known = segment().and_then(|segment| {
        let slot = communicators::find(segment, local, comm as u64)?;
        Some(communicators::at(segment, slot).library.load(Relaxed) as usize)
    });
    known.or_else(|| library_of_caller(guard(|| between_forks(linker_scope::caller)).unwrap_or(0)))
}

/// The copy for a call without a communicator, whose wrapper has said where it returns to.
pub(crate) fn library_of_outside() -> Option<usize> {
    library_of_caller(linker_scope::remembered_caller())
}

/// The copy for a call that returns to this address.
#[inline(always)]
pub(crate) fn library_of_caller(caller: usize) -> Option<usize> {
    let used = N_CALLERS.load(Relaxed).min(MAX_CALLERS);
    for known in &CALLERS[..used] {
        if caller < known.end.load(Acquire) && caller >= known.start.load(Relaxed) {
            return Some(known.library.load(Relaxed));
        }
    }
    guard(|| uncancelled(|| uninterrupted(|| between_forks(|| meet(caller))))).flatten()
}

/// Finds the copy of a caller that is not known yet, and remembers both.
#[cold]
fn meet(caller: usize) -> Option<usize> {
    let function = Function::ncclGetVersion;
    let found = linker_scope::of_caller(caller, function.name(), function.profiled_name());
    let library = found.and_then(|found| adopt(found, function));
    let Some(library) = library else {
        lacks();
        return None;
    };
    if let Some(object) = linker_scope::object_at(caller)
        && let Ok(at) =
            N_CALLERS.fetch_update(AcqRel, Relaxed, |used| (used < MAX_CALLERS).then_some(used + 1))
    {
        CALLERS[at].start.store(object.start, Relaxed);
        CALLERS[at].library.store(library, Relaxed);
        CALLERS[at].end.store(object.end, Release);
    }
    Some(library)
}

/// The number of the copy that a scope leads to, by a function that every copy has. The copy stays loaded from now on, not the
/// caller: a plugin that has called is unloaded as without us.
fn adopt(found: Scope, function: Function) -> Option<usize> {
    let probe = found.find(function.name(), function.profiled_name())?;
    let (number, is_kept) = enter(found, probe)?;
    if is_kept {
        found.close();
    }
    N_LIBRARIES.fetch_max(number + 1, AcqRel);
    if let Some(segment) = segment() {
        segment.live.n_libraries.fetch_max(n_libraries(), Relaxed);
    }
    Some(number)
}

/// The number of the copy that has the function `probe`, and whether all is kept that was found of it. Two threads that meet the
/// same copy at once both write the same table.
fn enter(found: Scope, probe: *mut c_void) -> Option<(usize, bool)> {
    let (base, path) = linker_scope::base_of(probe)?;
    let taken = LIBRARIES.iter().position(|library| {
        let known = library.base.compare_exchange(null_mut(), base, AcqRel, Acquire);
        known.is_ok() || known == Err(base)
    });
    let number = taken?;
    let library = &LIBRARIES[number];
    if library.is_whole.load(Acquire) {
        return Some((number, true));
    }
    let mut kept = Kept::default();
    let mut is_kept = kept.keep(probe);
    // For what an interposer before the library does not have.
    let object = if is_linker_stuck() { None } else { linker_scope::open(&path, |_| true) };
    for (place, function) in library.functions.iter().zip(Function::ALL) {
        let (name, profiled) = (function.name(), function.profiled_name());
        let real =
            found.find(name, profiled).or_else(|| object.and_then(|object| object.find(name, profiled)));
        if let Some(real) = real {
            is_kept &= kept.keep(real);
            place.store(real, Release);
        }
    }
    object.inspect(|object| object.close());
    library.version.store(ask_version(probe), Relaxed);
    library.is_whole.store(true, Release);
    Some((number, is_kept))
}

fn ask_version(real: *mut c_void) -> u32 {
    // SAFETY: the signature of `ncclGetVersion` since 2.3.
    let real: unsafe extern "C-unwind" fn(*mut c_int) -> c_int = unsafe { std::mem::transmute(real) };
    let mut version = 0;
    // SAFETY: `version` is a valid place for the answer.
    let result = unsafe { real(&raw mut version) };
    if result == 0 { u32::try_from(version).unwrap_or_default() } else { 0 }
}

/// Counts a call for which there is no function, and gives the answer to it. Without us the program would not have
/// started, or found the symbol missing.
#[cold]
pub(crate) fn lacks() -> c_int {
    if let Some(segment) = segment() {
        switch::dropped(segment, DropReason::NoLibrary, 1);
    }
    SYSTEM_ERROR
}

#[cfg(test)]
mod tests {
    use ringscope_wire::segment::calls::layout::FUNCTIONS;

    use super::Function;

    #[test]
    fn readers_know_each_function_by_its_number() {
        let names = Function::ALL.iter().map(|function| function.name().to_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), FUNCTIONS);
        for (function, number) in Function::ALL.iter().zip(1..) {
            assert_eq!(function.number(), number);
        }
    }
}
