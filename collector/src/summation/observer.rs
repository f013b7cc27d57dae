//! What the engine finds under the name of a watcher: passes on what it tells, as long as there is a segment and nothing is at
//! fault. All but the first runs on the group's own thread.

#![expect(unsafe_code, reason = "a table that the engine reads, and pointers that are passed on")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::from_ref;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::DropReason;
use ringscope_wire::segment::summation::layout::Area;

use crate::segment::maker::segment_or_create;
use crate::segment::{guard, room, segment, switch};
use crate::summation::watcher::{watcher, watcher_or_open};

/// `rsumObserver_v1_t` of rsum_observer.h. The structures are known to the watcher.
#[repr(C)]
struct Table {
    name: *const c_char,
    begin: unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> c_int,
    sample: unsafe extern "C" fn(*mut c_void, *const c_void),
    round: unsafe extern "C" fn(*mut c_void, *const c_void),
    finished: unsafe extern "C" fn(*mut c_void, *const c_void),
    end: unsafe extern "C" fn(*mut c_void, c_int, c_int, *const c_char),
}

// SAFETY: never written; the name is static.
unsafe impl Sync for Table {}

/// Found by the engine by this name.
#[unsafe(no_mangle)]
static rsumObserver_v1: Table = Table { name: c"ringscope".as_ptr(), begin, sample, round, finished, end };

/// [`begin`]'s answer: the group is not followed.
const DECLINED: c_int = 1;

unsafe extern "C" fn begin(_: *mut *mut c_void, group: *const c_void) -> c_int {
    let ready = guard(|| {
        let segment = segment_or_create().filter(|segment| !switch::is_faulty(segment))?;
        let watcher = watcher_or_open();
        if watcher.is_none() {
            switch::dropped(segment, DropReason::NoSummationWatcher, 1);
        }
        let watcher = watcher?;
        if !room::ensure(segment, &segment.summation) {
            switch::dropped(segment, DropReason::SummationGroupTooLarge, 1);
            return None;
        }
        Some((watcher, area(segment)))
    });
    let Some((watcher, area)) = ready.flatten() else { return DECLINED };
    // SAFETY: the area is never unmapped; by the interface, NULL or a group that is valid during the call.
    unsafe { (watcher.begin)(area, group) }
}

unsafe extern "C" fn sample(_: *mut c_void, sample: *const c_void) {
    let segment = guard(|| segment().filter(|segment| switch::is_on(segment))).flatten();
    if let Some((segment, watcher)) = segment.zip(watcher()) {
        // SAFETY: the area is never unmapped; by the interface, NULL or a sample that is valid during the call.
        unsafe { (watcher.sample)(area(segment), sample) };
    }
}

unsafe extern "C" fn round(_: *mut c_void, round: *const c_void) {
    let segment = guard(|| segment().filter(|segment| switch::is_on(segment))).flatten();
    if let Some((segment, watcher)) = segment.zip(watcher()) {
        // SAFETY: the area is never unmapped; by the interface, NULL or a result that is valid during the call.
        unsafe { (watcher.round)(area(segment), round) };
    }
}

unsafe extern "C" fn finished(_: *mut c_void, finished: *const c_void) {
    if segment().is_some_and(|segment| !switch::is_faulty(segment))
        && let Some(watcher) = watcher()
    {
        // SAFETY: by the interface, NULL or valid during the call.
        unsafe { (watcher.finished)(finished) };
    }
}

unsafe extern "C" fn end(_: *mut c_void, how: c_int, lost_rank: c_int, why: *const c_char) {
    let segment = segment().filter(|segment| !switch::is_faulty(segment));
    if let Some((segment, watcher)) = segment.zip(watcher()) {
        // SAFETY: the area is never unmapped; by the interface, NULL or a terminated text.
        unsafe { (watcher.end)(area(segment), how, lost_rank, why) };
    }
}

/// Where the watcher writes.
fn area(segment: &'static Segment) -> *const Area {
    from_ref(&segment.summation)
}
