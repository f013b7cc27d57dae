//! What a forked child must forget: everything that it has of its parent's.

#![expect(unsafe_code, reason = "registers handlers and maps memory")]

use std::io;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicPtr};

use ringscope_wire::segment::Segment;

use crate::calls::{linker_scope, order};
use crate::cuda_events::follow;
use crate::exports::nonblocking;
use crate::profiler::{adopt, asked, contexts, plugin, replay, seen, steps};
use crate::segment::forks::wait_for;
use crate::segment::own::forks;
use crate::segment::{closers, communicators, local, own, places, switch};
use crate::summation::{group, watcher};

/// Where this process's segment lies, for its children.
static MAPPED: AtomicPtr<Segment> = AtomicPtr::new(ptr::null_mut());

/// The process that mapped it.
static MAKER: AtomicI32 = AtomicI32::new(0);

/// How often something is done again because a child was forked meanwhile. A program that forks without a pause gets
/// the last.
const MAX_TRIES: u32 = 8;

/// From now on children know that they are children, also where the kernel does not tell them ([`own`]).
///
/// What a child runs, each page of code that it needs for it, and each page that it writes, makes the program's fork some
/// microseconds longer. So what it would have to forget of its thread is laid by before it is made, and taken back after.
pub(super) fn watch() {
    let child = if own::is_wiped() { cover } else { begin_child };
    // SAFETY: the handlers are functions of an object that is never unloaded (-z nodelete).
    unsafe { libc::pthread_atfork(Some(begin), Some(end), Some(child)) };
}

/// The segment lies here: children find zeros in its place.
pub(super) fn note_mapped(segment: *mut Segment) {
    MAPPED.store(segment, Relaxed);
    // SAFETY: no preconditions.
    MAKER.store(unsafe { libc::getpid() }, Relaxed);
}

/// Whether this process made the segment that it has. Where the kernel wipes nothing, a child that was not forked by the C
/// library takes its parent's for its own, and has nothing mapped there.
pub(super) fn is_maker() -> bool {
    // SAFETY: no preconditions.
    own::is_wiped() || MAKER.load(Relaxed) == unsafe { libc::getpid() }
}

/// Does something once more, and drops what came of it before, if a child was forked meanwhile.
pub(super) fn undisturbed<T>(mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..MAX_TRIES {
        wait_for(&forks().under_way);
        let before = forks().ended.load(SeqCst);
        let result = f()?;
        if forks().under_way.load(SeqCst) == 0 && forks().ended.load(SeqCst) == before {
            return Ok(result);
        }
    }
    f()
}

extern "C" fn begin() {
    forks().under_way.fetch_add(1, SeqCst);
    local::with(local::Local::lay_by);
}

extern "C" fn end() {
    local::with(local::Local::take_back);
    forks().ended.fetch_add(1, SeqCst);
    // The fork may have begun before it was watched.
    let _ = forks().under_way.fetch_update(SeqCst, SeqCst, |under_way| under_way.checked_sub(1));
}

/// In a forked child, where the kernel does not know how to wipe. Most children never call: all else is forgotten when it does.
extern "C" fn begin_child() {
    cover();
    own::forget();
}

/// In a forked child that calls: all that it has is the parent's. A [`own::set_forget`].
pub(super) fn forget_parent() {
    // For one that was not forked by the C library.
    cover();
    closers::forget();
    communicators::forget().for_each(order::forget);
    follow::forget();
    linker_scope::forget();
    nonblocking::forget();
    adopt::forget();
    places::forget();
    contexts::forget();
    plugin::forget();
    replay::forget();
    seen::forget();
    steps::forget();
    group::forget();
    watcher::forget();
    switch::disobey();
    asked::forget();
    local::with(local::Local::forget);
}

/// The child does not have its parent's segment, but it may have been forked in the middle of a call that goes on with
/// it: it finds zeros there, of which no page exists before it is written.
extern "C" fn cover() {
    let segment = MAPPED.load(Relaxed);
    if segment.is_null() {
        return;
    }
    let (access, length) = (libc::PROT_READ | libc::PROT_WRITE, size_of::<Segment>());
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let place = segment.cast();
    // SAFETY: nothing is replaced; a kernel that does not know the flag takes another place.
    let memory = unsafe { libc::mmap(place, length, access, flags, -1, 0) };
    if memory != libc::MAP_FAILED && memory != place {
        // SAFETY: the mapping just made.
        unsafe { libc::munmap(memory, length) };
    }
}
