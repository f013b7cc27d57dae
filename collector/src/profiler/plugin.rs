//! The tables by which the library finds the profiler plugin, and the functions behind them for each version.

#![expect(unsafe_code, reason = "called by the library with its own structures")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::layout::LIVE_CHAINED;

use crate::abi::nccl::SUCCESS;
use crate::profiler::chain::Init;
use crate::profiler::contexts::Announcement;
use crate::profiler::event::Event;
use crate::profiler::layout::{
    Args, Descriptor, InitBlank, InitById, InitNamed, STATE_SEND_DONE, STATE_SEND_WAIT, Table, decode, kind,
};
use crate::profiler::tasks::Speaker;
use crate::profiler::versions::version;
use crate::profiler::{adopt, asked, chain, contexts, masks, pairs, tasks};
use crate::segment::handle::Handle;
use crate::segment::maker::segment_or_create;
use crate::segment::names::name_of_c;
use crate::segment::{guard, own, segment, switch};

/// Defines the tables of the plugin, which the library finds by their names: an `init` for each version.
macro_rules! tables {
    ($($symbol:ident: $Init:ident = $init:ident::<$version:literal>;)*) => {$(
        #[unsafe(no_mangle)]
        static $symbol: Table<$Init> = Table {
            name: c"ringscope".as_ptr(),
            init: $init::<$version>,
            start_event: start_event::<$version>,
            stop_event,
            record_event_state: record_event_state::<$version>,
            finalize,
        };
    )*};
}

tables! {
    ncclProfiler_v1: InitBlank = init_blank::<1>;
    ncclProfiler_v2: InitBlank = init_blank::<2>;
    ncclProfiler_v3: InitBlank = init_blank::<3>;
    ncclProfiler_v4: InitNamed = init_named::<4>;
    ncclProfiler_v5: InitById = init_by_id::<5>;
    ncclProfiler_v6: InitById = init_by_id::<6>;
    ncclProfiler_v7: InitById = init_by_id::<7>;
}

/// Our process id, for comparison with that of a proxy operation.
static PID: AtomicI32 = AtomicI32::new(0);

/// Remembers the process id, again in each process that makes a segment.
pub(crate) fn note_pid() {
    PID.store(std::process::id().cast_signed(), Relaxed);
}

/// In a forked child: communicators, and the library's places for its masks, are the parent's.
pub(crate) fn forget() {
    masks::forget();
    chain::forget();
}

/// `init` of versions 1 to 3, which say nothing of the communicator.
unsafe extern "C" fn init_blank<const V: usize>(context: *mut *mut c_void, mask: *mut c_int) -> c_int {
    let said = Init {
        comm_hash: 0,
        name: std::ptr::null(),
        n_nodes: 0,
        n_ranks: 0,
        rank: -1,
        log: std::ptr::null(),
    };
    // SAFETY: the library's own places.
    unsafe { init::<V>(context, mask, &said) }
}

/// `init` of version 4.
unsafe extern "C" fn init_named<const V: usize>(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    comm_hash: u64,
    n_nodes: c_int,
    n_ranks: c_int,
    rank: c_int,
    log: *const c_void,
) -> c_int {
    // SAFETY: the library's own places.
    unsafe { init::<V>(context, mask, &Init { comm_hash, name, n_nodes, n_ranks, rank, log }) }
}

/// `init` of versions 5 and later.
unsafe extern "C" fn init_by_id<const V: usize>(
    context: *mut *mut c_void,
    comm_hash: u64,
    mask: *mut c_int,
    name: *const c_char,
    n_nodes: c_int,
    n_ranks: c_int,
    rank: c_int,
    log: *const c_void,
) -> c_int {
    // SAFETY: the library's own places.
    unsafe { init::<V>(context, mask, &Init { comm_hash, name, n_nodes, n_ranks, rank, log }) }
}

/// A communicator is being made; `mask` is the library's until its `finalize`.
///
/// # Safety
/// Valid places for context and mask; a name that is NULL or terminated.
unsafe fn init<const V: usize>(context: *mut *mut c_void, mask: *mut c_int, said: &Init) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { name_of_c(said.name) };
    let number = guard(|| {
        own::settle();
        let number = contexts::open(|| masks::enter(mask));
        let segment = segment_or_create().filter(|segment| !switch::is_faulty(segment));
        if let Some(segment) = segment {
            let Init { comm_hash, n_nodes, n_ranks, rank, .. } = *said;
            adopt::introduce(segment, number, &Announcement { comm_hash, n_nodes, n_ranks, rank, name });
        } else {
            switch::no_segment();
        }
        chain::init(version::<V>().number, number, said);
        if let Some(segment) = segment.filter(|_| chain::is_on()) {
            segment.live.flags.fetch_or(LIVE_CHAINED, Relaxed);
        }
        if let Some(segment) = segment {
            asked::begin_version(segment, version::<V>().number, contexts::slot(segment, number));
        } else {
            masks::ask();
        }
        number
    });
    let number = number.unwrap_or(contexts::UNFOLLOWED);
    if !context.is_null() {
        // SAFETY: the library gives a valid place for the context.
        unsafe { context.write(std::ptr::without_provenance_mut(number)) };
    }
    SUCCESS
}

unsafe extern "C" fn start_event<const V: usize>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const Descriptor,
) -> c_int {
    if handle.is_null() || descriptor.is_null() {
        return SUCCESS;
    }
    // SAFETY: the library passes a valid descriptor of its version.
    let number = guard(|| unsafe { begun::<V>(context.addr(), descriptor) }).unwrap_or(0);
    let number = usize::try_from(number).unwrap_or(0);
    // SAFETY: the library gives a valid place for the handle.
    unsafe { handle.write(std::ptr::without_provenance_mut(number)) };
    SUCCESS
}

/// # Safety
/// A descriptor of version `V`.
#[inline(always)]
unsafe fn begun<const V: usize>(context: usize, descriptor: *const Descriptor) -> u64 {
    // SAFETY: the caller's promise.
    let kind = unsafe { kind(descriptor, version::<V>()) };
    // SAFETY: the caller's promise.
    let event = unsafe { decode(descriptor, kind, version::<V>()) };
    // SAFETY: the caller's promise.
    let Descriptor { parent, rank, .. } = unsafe { descriptor.read() };
    let pid = PID.load(Relaxed);
    let is_chained = chain::is_on();
    let parent = if is_chained { ours_of(parent as u64) } else { parent as u64 };
    let speaker = Speaker { version: version::<V>().number, context, parent, rank, pid };
    let ours = segment()
        .filter(|segment| !switch::is_faulty(segment))
        .and_then(|segment| tasks::start(segment, speaker, &event));
    // Not `map_or`, which is a call of its own, through memory.
    let ours = if let Some(handle) = ours { handle.encode() } else { 0 };
    if !is_chained {
        return ours;
    }
    let is_foreign = matches!(&event, Event::ProxyOp(proxy) if proxy.pid != pid);
    // SAFETY: the caller's promise.
    unsafe { chain::start(version::<V>(), context, descriptor, kind, ours, is_foreign) }
}

/// Our part of a handle that two plugins share.
fn ours_of(number: u64) -> u64 {
    match Handle::decode(number) {
        Some(Handle::Pair(entry)) => pairs::get(entry).map_or(number, |(ours, _)| ours),
        _ => number,
    }
}

unsafe extern "C" fn stop_event(handle: *mut c_void) -> c_int {
    guard(|| {
        let number = handle.addr() as u64;
        let number = match Handle::decode(number) {
            // One that is not under way stays as it is, to be counted.
            Some(Handle::Pair(entry)) => chain::stop(entry).unwrap_or(number),
            _ => number,
        };
        let segment = segment().filter(|segment| !switch::is_faulty(segment))?;
        tasks::stop(segment, number);
        Some(())
    });
    SUCCESS
}

unsafe extern "C" fn record_event_state<const V: usize>(
    handle: *mut c_void,
    state: c_int,
    args: *const Args,
) -> c_int {
    let is_ours = state == if version::<V>().number < 4 { STATE_SEND_DONE } else { STATE_SEND_WAIT };
    if !is_ours && !chain::is_on() {
        return SUCCESS;
    }
    guard(|| {
        let mut number = handle.addr() as u64;
        if let Some(Handle::Pair(entry)) = Handle::decode(number) {
            number = chain::record(version::<V>().number, entry, state, args).unwrap_or(number);
        }
        if is_ours && !args.is_null() {
            // SAFETY: not NULL, and in this state it is a proxy step's or operation's.
            let bytes = unsafe { (*args).trans_size };
            let segment = segment().filter(|segment| !switch::is_faulty(segment))?;
            tasks::sent(segment, number, bytes, version::<V>().number < 4);
        }
        Some(())
    });
    SUCCESS
}

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    guard(|| {
        masks::leave(contexts::take_mask(context.addr()));
        chain::finalize(context.addr());
        if let Some(segment) = segment().filter(|segment| !switch::is_faulty(segment)) {
            tasks::finalize(segment, context.addr());
        } else {
            contexts::close(context.addr());
        }
    });
    SUCCESS
}
