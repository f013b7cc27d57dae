//! The profiler plugin that the program had configured: the library loads one, so the collector loads the other and
//! passes on what that one asked for, in the words of the version that it speaks. No thread is cancelled inside it: the end
//! of a cancelled thread must not pass through our frames.

#![expect(unsafe_code, reason = "loads and calls a foreign plugin")]

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use std::time::Duration;

use ringscope_wire::segment::layout::DropReason;

use crate::abi::nccl::SUCCESS;
use crate::calls::linker_scope;
use crate::profiler::contexts::MAX_CONTEXTS;
use crate::profiler::layout::{
    Args, CE_BATCH, CE_COLL, CE_SYNC, COLL, COLL_API, Descriptor, Finalize, GROUP, GROUP_API, InitBlank,
    InitById, InitNamed, KERNEL_CH, KERNEL_LAUNCH, KERNEL_PHASE, NET_PLUGIN, P2P, P2P_API, PROXY_CTRL,
    PROXY_OP, PROXY_STEP, RecordEventState, StartEvent, StopEvent,
};
use crate::profiler::retell::retell;
use crate::profiler::versions::{VERSIONS, Version};
use crate::profiler::{lost, masks, pairs};
use crate::segment::busy::Busy;
use crate::segment::forks::{between_forks, is_linker_stuck};
use crate::segment::handle::{Entry, Handle};
use crate::segment::{segment, switch, uncancelled};

/// A foreign table of any version: what may be NULL there is an option here.
#[repr(C)]
struct Table {
    name: *const c_char,
    init: *const c_void,
    start_event: Option<StartEvent>,
    stop_event: Option<StopEvent>,
    record_event_state: Option<RecordEventState>,
    finalize: Option<Finalize>,
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());
/// Version of that table.
static VERSION: AtomicU32 = AtomicU32::new(0);
/// It has been looked for, and there is one or none.
static IS_LOOKED_FOR: AtomicBool = AtomicBool::new(false);
/// Some thread is loading it.
static LOADING: Busy = Busy::new();
/// How long another thread's loading is waited for: the library itself would wait for ever. A communicator that has waited in
/// vain is not told to it.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Its contexts, by the numbers of ours.
static CONTEXTS: [AtomicUsize; MAX_CONTEXTS + 1] = [const { AtomicUsize::new(0) }; MAX_CONTEXTS + 1];
static HAS_CONTEXT: [AtomicBool; MAX_CONTEXTS + 1] = [const { AtomicBool::new(false) }; MAX_CONTEXTS + 1];

static NAME: OnceLock<Name> = OnceLock::new();

/// Gives the plugin that the program had configured, if there is one.
pub(crate) type Name = fn() -> Option<OsString>;

/// Leaves the function that knows the plugin's name: this layer reads no settings.
pub(crate) fn set_name(name: Name) {
    let _ = NAME.set(name);
}

/// What the library said at init; zero where its version says nothing.
pub(super) struct Init {
    pub(super) comm_hash: u64,
    pub(super) name: *const c_char,
    pub(super) n_nodes: c_int,
    pub(super) n_ranks: c_int,
    pub(super) rank: c_int,
    pub(super) log: *const c_void,
}

/// Whether there is such a plugin.
#[inline(always)]
pub(super) fn is_on() -> bool {
    !TABLE.load(Relaxed).is_null()
}

fn table() -> Option<&'static Table> {
    // SAFETY: NULL, or the table of an object that is linked to the program, or that we hold open.
    unsafe { TABLE.load(Acquire).as_ref() }
}

/// Tells it of a communicator, under the number of our context. It is looked for at the first one.
pub(super) fn init(version: u32, context: usize, said: &Init) {
    if !IS_LOOKED_FOR.load(Acquire) {
        look_for(version);
    }
    let (Some(table), Some(theirs)) = (table(), CONTEXTS.get(context)) else { return };
    let mut place = null_mut();
    let result = call_init(table, &raw mut place, said);
    theirs.store(place.expose_provenance(), Relaxed);
    // A plugin that refuses a communicator hears no more of it.
    HAS_CONTEXT[context].store(result == SUCCESS, Release);
}

fn call_init(table: &Table, place: *mut *mut c_void, said: &Init) -> c_int {
    if table.init.is_null() {
        return SUCCESS;
    }
    let mask = masks::place_of_theirs();
    match VERSION.load(Relaxed) {
        1..=3 => {
            // SAFETY: what `init` of these versions is.
            let init: InitBlank = unsafe { std::mem::transmute(table.init) };
            // SAFETY: both places are valid; the mask's for good.
            uncancelled(|| unsafe { init(place, mask) })
        }
        4 => {
            // SAFETY: what `init` of this version is.
            let init: InitNamed = unsafe { std::mem::transmute(table.init) };
            // SAFETY: as above; the rest is as the library gave it.
            uncancelled(|| unsafe {
                init(place, mask, said.name, said.comm_hash, said.n_nodes, said.n_ranks, said.rank, said.log)
            })
        }
        _ => {
            // SAFETY: what `init` of these versions is.
            let init: InitById = unsafe { std::mem::transmute(table.init) };
            // SAFETY: as above; the rest is as the library gave it.
            uncancelled(|| unsafe {
                init(place, said.comm_hash, mask, said.name, said.n_nodes, said.n_ranks, said.rank, said.log)
            })
        }
    }
}

/// An event has begun: passes it on if it was asked for. The handle for the library: of both, or only ours.
///
/// # Safety
/// A descriptor of this version and kind.
#[cold]
#[inline(never)]
pub(super) unsafe fn start(
    version: &Version,
    context: usize,
    descriptor: *const Descriptor,
    kind: u64,
    ours: u64,
    is_foreign: bool,
) -> u64 {
    let wanted = u64::from(masks::theirs()) & askers(kind) != 0;
    let has_context = HAS_CONTEXT.get(context).is_some_and(|has| has.load(Acquire));
    let Some(start_event) = table().and_then(|table| table.start_event) else { return ours };
    let to = spoken();
    if !wanted || !has_context || kind & to.kinds == 0 {
        return ours;
    }
    let is_leaf = kind & (KERNEL_CH | PROXY_STEP | NET_PLUGIN | PROXY_CTRL) != 0;
    let Some(pairs::Taken { entry: pair, given_up }) = pairs::take(is_leaf) else {
        if let Some(segment) = segment() {
            switch::dropped(segment, DropReason::ChainedEvent, 1);
        }
        return ours;
    };
    if let Some(segment) = segment().filter(|_| given_up != 0) {
        lost::end(segment, given_up);
    }
    // SAFETY: the caller's promise; the other's version is not newer, and has this kind.
    let buffer = unsafe { retell(descriptor, (version, to), kind, is_foreign, theirs_of) };
    let mut theirs = null_mut();
    let place = std::ptr::with_exposed_provenance_mut(CONTEXTS[context].load(Relaxed));
    // SAFETY: its own context, a valid place, and a descriptor of its version.
    uncancelled(|| unsafe { start_event(place, &raw mut theirs, (&raw const buffer).cast()) });
    if theirs.is_null() {
        pairs::stop(pair);
        return ours;
    }
    pairs::put(pair, ours, theirs.expose_provenance());
    Handle::Pair(pair).encode()
}

/// The version that it speaks.
fn spoken() -> &'static Version {
    let newest = VERSIONS.len() - 1;
    &VERSIONS[(VERSION.load(Relaxed) as usize).wrapping_sub(1).min(newest)]
}

/// Event types that make the library report `kind`: asked for a type, it reports what that hangs below too.
fn askers(kind: u64) -> u64 {
    const TRANSFERS: u64 = PROXY_OP | PROXY_STEP | NET_PLUGIN;
    const BELOW_TASK: u64 = KERNEL_CH | KERNEL_PHASE | TRANSFERS;
    const COPY_ENGINE: u64 = CE_COLL | CE_SYNC | CE_BATCH;
    match kind {
        GROUP => GROUP | COLL | P2P | BELOW_TASK,
        COLL => COLL | BELOW_TASK,
        P2P => P2P | BELOW_TASK,
        PROXY_OP => TRANSFERS,
        PROXY_STEP => PROXY_STEP | NET_PLUGIN,
        KERNEL_CH => KERNEL_CH | KERNEL_PHASE,
        GROUP_API => {
            GROUP_API | COLL_API | P2P_API | KERNEL_LAUNCH | GROUP | COLL | P2P | BELOW_TASK | COPY_ENGINE
        }
        COLL_API => COLL_API | COLL | BELOW_TASK | COPY_ENGINE,
        P2P_API => P2P_API | P2P | BELOW_TASK,
        CE_COLL => COPY_ENGINE,
        other => other,
    }
}

fn theirs_of(number: u64) -> usize {
    match Handle::decode(number) {
        Some(Handle::Pair(entry)) => pairs::get(entry).map_or(0, |(_, theirs)| theirs),
        _ => 0,
    }
}

/// The event has ended; gives our handle, 0 if it was not under way.
pub(super) fn stop(pair: Entry) -> Option<u64> {
    let (ours, theirs) = pairs::stop(pair)?;
    if let Some(stop_event) = table().and_then(|table| table.stop_event) {
        // SAFETY: its own handle, ended once.
        uncancelled(|| unsafe { stop_event(std::ptr::with_exposed_provenance_mut(theirs)) });
    }
    Some(ours)
}

/// A state of an event: passes it on if the other's version has it. Gives our handle.
pub(super) fn record(version: u32, pair: Entry, state: c_int, args: *const Args) -> Option<u64> {
    let (ours, theirs) = pairs::get(pair)?;
    let to = spoken();
    if let Some(record) = table().and_then(|table| table.record_event_state)
        && (to.number == version || (to.states.0..=to.states.1).contains(&state))
    {
        let theirs = std::ptr::with_exposed_provenance_mut(theirs);
        if to.number < 4 && version >= 4 {
            // Only the proxy thread's count is told in both; the bytes of a step no longer belong to its operation.
            let mut words = [0_u64; 2];
            if matches!(state, 13..=18) && !args.is_null() {
                // SAFETY: not NULL, and the union's first word is there in every version.
                words[0] = unsafe { (*args).trans_size } & 0xffff_ffff;
            }
            // SAFETY: its own handle; arguments as long as that version's.
            uncancelled(|| unsafe { record(theirs, state, words.as_ptr().cast()) });
        } else {
            // SAFETY: its own handle; the arguments are alike in both versions.
            uncancelled(|| unsafe { record(theirs, state, args) });
        }
    }
    Some(ours)
}

/// The communicator has ended.
pub(super) fn finalize(context: usize) {
    let has_context = HAS_CONTEXT.get(context).is_some_and(|has| has.swap(false, AcqRel));
    let Some(finalize) = table().and_then(|table| table.finalize).filter(|_| has_context) else { return };
    let theirs = CONTEXTS[context].swap(0, Relaxed);
    if theirs != 0 {
        // SAFETY: its own context, ended once.
        uncancelled(|| unsafe { finalize(std::ptr::with_exposed_provenance_mut(theirs)) });
    }
}

/// Loads it, once in the life of the process. Of its tables it is the newest that the library itself could speak.
fn look_for(version: u32) {
    let Some(_held) = LOADING.take_within(MAX_WAIT) else { return };
    if IS_LOOKED_FOR.load(Acquire) {
        return;
    }
    if let Some((number, table)) = NAME.get().and_then(|name| name()).and_then(|name| find(&name, version)) {
        VERSION.store(number, Relaxed);
        TABLE.store(table, Release);
    }
    IS_LOOKED_FOR.store(true, Release);
}

/// By the library's own rules: a path or a name as it is, a beginning of `STATIC_PLUGIN` for what is in the process
/// already, `none`, or the middle of `libnccl-profiler-….so`.
fn find(name: &OsStr, version: u32) -> Option<(u32, *mut Table)> {
    let bytes = name.as_bytes();
    if bytes.eq_ignore_ascii_case(b"none") {
        return None;
    }
    if b"STATIC_PLUGIN".get(..bytes.len()).is_some_and(|start| start.eq_ignore_ascii_case(bytes)) {
        // The first of the process; where that is ours, the one behind it.
        return newest(libc::RTLD_DEFAULT, version).or_else(|| newest(libc::RTLD_NEXT, version));
    }
    let is_file = bytes.contains(&b'/') || bytes.starts_with(b"lib") && bytes.ends_with(b".so");
    let long = (!is_file).then(|| [b"libnccl-profiler-", bytes, b".so"].concat());
    let handle = [Some(bytes.to_owned()), long].into_iter().flatten().find_map(open)?;
    newest(handle, version)
}

fn open(name: Vec<u8>) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // A child that is forked meanwhile would have half of it.
    let handle = uncancelled(|| between_forks(|| open_named(&name)));
    (!handle.is_null()).then_some(handle)
}

fn open_named(name: &CStr) -> *mut c_void {
    if is_linker_stuck() {
        return null_mut();
    }
    // SAFETY: the user names this object as one to be loaded; it is never unloaded.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
}

fn newest(handle: *mut c_void, version: u32) -> Option<(u32, *mut Table)> {
    VERSIONS.iter().rev().filter(|known| known.number <= version).find_map(|known| {
        // SAFETY: an open object, and a terminated name.
        let table = unsafe { libc::dlsym(handle, known.symbol.as_ptr()) };
        (!table.is_null() && !linker_scope::is_ours(table.addr())).then(|| (known.number, table.cast()))
    })
}

/// In a forked child: its communicators are the parent's.
pub(super) fn forget() {
    for has_context in &HAS_CONTEXT {
        has_context.store(false, Relaxed);
    }
    LOADING.forget();
}

const _: () = assert!(size_of::<Table>() == 48);
