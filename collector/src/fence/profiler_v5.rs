//! The profiler plugin, `ncclProfiler_v5` (NCCL 2.28 and later).

#![expect(unsafe_code, reason = "called by the library with its own structures")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicI32, AtomicPtr};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::DropReason;

use super::nccl::SUCCESS;
use super::profiler_abi::{
    COLL, COLL_API, Descriptor, KERNEL_CH, P2P, P2P_API, PROXY_OP, PROXY_STEP, ProxyOp, STATE_SEND_WAIT,
    StateArgs, Table,
};
use super::{guard, segment};
use crate::adopt::{self, Announcement};
use crate::communicators::Name;
use crate::handle::{Handle, Operation};
use crate::{complete, issue, links, local, steps, switch};

/// The events that completion and network bytes need.
const MASK: c_int = 0x65e;
const _: () = assert!(
    MASK.cast_unsigned() as u64 == COLL | P2P | PROXY_OP | PROXY_STEP | KERNEL_CH | COLL_API | P2P_API
);
/// Where the library keeps its activation mask: one place per process.
static MASK_PLACE: AtomicPtr<c_int> = AtomicPtr::new(null_mut());
/// Communicators between `init` and `finalize`: the mask's place is the library's while there is one.
static N_CONTEXTS: AtomicI32 = AtomicI32::new(0);
/// Our process id, for comparison with that of a proxy operation.
static PID: AtomicI32 = AtomicI32::new(0);

// SAFETY: never written; its pointer is to a constant.
unsafe impl Sync for Table {}

/// The plugin, found by the library by this name.
#[unsafe(no_mangle)]
static ncclProfiler_v5: Table =
    Table { name: c"ringscope".as_ptr(), init, start_event, stop_event, record_event_state, finalize };

/// Asks the library for events, or for none.
pub(crate) fn set_mask(is_on: bool) {
    let place = MASK_PLACE.load(Acquire);
    if !place.is_null() {
        // SAFETY: the library's own int, which lives as long as a communicator does; it expects this write.
        unsafe { place.write_volatile(if is_on { MASK } else { 0 }) };
    }
}

/// Remembers the process id, again in each process that makes a segment.
pub(super) fn note_pid() {
    PID.store(std::process::id().cast_signed(), Relaxed);
}

/// A communicator is being made; `mask` stays the library's for good.
unsafe extern "C" fn init(
    context: *mut *mut c_void,
    comm_hash: u64,
    mask: *mut c_int,
    name: *const c_char,
    n_nodes: c_int,
    n_ranks: c_int,
    rank: c_int,
    _log: *const c_void,
) -> c_int {
    // SAFETY: NULL or a terminated text, says the interface.
    let name = unsafe { text(name) };
    let slot = guard(|| {
        N_CONTEXTS.fetch_add(1, AcqRel);
        MASK_PLACE.store(mask, Relaxed);
        let segment = segment().filter(|segment| !switch::is_faulty(segment))?;
        let forming = local::with(|local| local.forming.get().checked_sub(1));
        let slot = adopt::adopt(segment, forming, &Announcement { comm_hash, n_nodes, n_ranks, rank, name });
        set_mask(switch::is_on(segment));
        slot
    });
    // A slot plus one; NULL for a communicator that is not followed.
    let encoded = slot.flatten().map_or(0, |slot| slot + 1);
    // SAFETY: the library gives a valid place for the context.
    unsafe { context.write(std::ptr::without_provenance_mut(encoded)) };
    SUCCESS
}

unsafe extern "C" fn start_event(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const Descriptor,
) -> c_int {
    let number = guard(|| {
        let segment = segment().filter(|segment| !switch::is_faulty(segment))?;
        // SAFETY: the library passes a valid descriptor of its version.
        let descriptor = unsafe { &*descriptor };
        start(segment, context.addr().checked_sub(1), descriptor).map(Handle::encode)
    });
    let number = usize::try_from(number.flatten().unwrap_or(0)).unwrap_or(0);
    // SAFETY: the library gives a valid place for the handle.
    unsafe { handle.write(std::ptr::without_provenance_mut(number)) };
    SUCCESS
}

fn start(segment: &Segment, slot: Option<usize>, descriptor: &Descriptor) -> Option<Handle> {
    match descriptor.kind {
        COLL_API | P2P_API => start_api(segment, slot),
        COLL => {
            // SAFETY: the kind says which member is set.
            let coll = unsafe { descriptor.detail.coll };
            start_task(segment, parent(descriptor), coll.n_channels)
        }
        P2P => {
            // SAFETY: the kind says which member is set.
            let p2p = unsafe { descriptor.detail.p2p };
            start_task(segment, parent(descriptor), p2p.n_channels)
        }
        KERNEL_CH => match parent(descriptor)? {
            Handle::Task(operation) => Some(Handle::Channel(operation)),
            _ => None,
        },
        PROXY_OP => {
            // SAFETY: the kind says which member is set.
            let proxy = unsafe { descriptor.detail.proxy_op };
            start_proxy(segment, descriptor, proxy)
        }
        PROXY_STEP => match parent(descriptor)? {
            Handle::Link(index) => Some(steps::start(segment, index)),
            _ => None,
        },
        _ => None,
    }
}

fn parent(descriptor: &Descriptor) -> Option<Handle> {
    Handle::decode(descriptor.parent.addr() as u64)
}

/// On the caller's thread, inside our wrapper: the record is the one being forwarded.
fn start_api(segment: &Segment, slot: Option<usize>) -> Option<Handle> {
    let ticket = local::with(|local| local.current.get()).checked_sub(1)?;
    let (slot_of_call, primitive) = issue::subject(issue::record(segment, ticket));
    if slot.is_some_and(|slot| slot != slot_of_call) {
        switch::dropped(segment, DropReason::UnmatchedEvent, 1);
        return None;
    }
    Some(Handle::Api(Operation { ticket, slot: slot_of_call, primitive }))
}

fn start_task(segment: &Segment, parent: Option<Handle>, n_channels: u8) -> Option<Handle> {
    let Handle::Api(operation) = parent? else { return None };
    let is_followed = complete::expect_channels(segment, operation.ticket, n_channels);
    Some(if is_followed { Handle::Task(operation) } else { Handle::Replay(operation) })
}

/// Only sends count, and only of this process: through a proxy in another one (PXN) the parent is that one's handle.
fn start_proxy(segment: &Segment, descriptor: &Descriptor, proxy: ProxyOp) -> Option<Handle> {
    if proxy.is_send != 1 || proxy.pid != PID.load(Relaxed) {
        return None;
    }
    match parent(descriptor)? {
        Handle::Task(operation) | Handle::Replay(operation) => {
            links::find_or_insert(segment, operation, u32::try_from(proxy.peer).ok()?).map(Handle::Link)
        }
        _ => None,
    }
}

unsafe extern "C" fn stop_event(handle: *mut c_void) -> c_int {
    guard(|| {
        let segment = segment().filter(|segment| !switch::is_faulty(segment))?;
        match Handle::decode(handle.addr() as u64)? {
            Handle::Channel(operation) => complete::channel_done(segment, operation.ticket),
            Handle::Step(index) => steps::stop(segment, index),
            // The API's and the task's end say nothing of completion.
            Handle::Api(_) | Handle::Task(_) | Handle::Replay(_) | Handle::Link(_) | Handle::LooseStep(_) => {
            }
        }
        Some(())
    });
    SUCCESS
}

unsafe extern "C" fn record_event_state(handle: *mut c_void, state: c_int, args: *const StateArgs) -> c_int {
    if state != STATE_SEND_WAIT || args.is_null() {
        return SUCCESS;
    }
    guard(|| {
        let segment = segment().filter(|segment| !switch::is_faulty(segment))?;
        // SAFETY: not NULL, and in this state it is a proxy step's.
        let bytes = unsafe { (*args).trans_size } as u64;
        match Handle::decode(handle.addr() as u64)? {
            Handle::Step(index) => steps::sent(index, bytes),
            Handle::LooseStep(link) => links::count(segment, link, bytes),
            _ => {}
        }
        Some(())
    });
    SUCCESS
}

unsafe extern "C" fn finalize(_context: *mut c_void) -> c_int {
    if N_CONTEXTS.fetch_sub(1, AcqRel) == 1 {
        MASK_PLACE.store(null_mut(), Relaxed);
    }
    SUCCESS
}

/// A C text as the segment holds names: cut to 64 bytes, NUL-padded, little-endian words.
///
/// # Safety
/// NULL or a terminated text.
pub(super) unsafe fn text(text: *const c_char) -> Name {
    let mut name = Name::default();
    if text.is_null() {
        return name;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    let length = bytes.len().min(size_of::<Name>());
    for (word, chunk) in name.iter_mut().zip(bytes[..length].chunks(8)) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(padded);
    }
    name
}
