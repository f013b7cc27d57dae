//! A page of the segment that cannot be had: its file was cut by somebody, or its file system is full. The kernel's word for
//! it is SIGBUS, which would end the job; here the page becomes one of zeros, and the collector is off from then on.
//!
//! For every other address all is as the program has it: its handler is called with what it would have got, or the signal
//! does what it does where there is none. A handler that the program sets later takes our place, and for a thread that holds
//! SIGBUS back no handler is asked: the kernel ends the process.

#![expect(unsafe_code, reason = "handles a signal")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::STATE_FAULT;

use crate::segment::{map, switch};

/// What the program had before, as far as it is needed in a handler.
struct Before {
    /// Its handler, `SIG_DFL` or `SIG_IGN`.
    handler: AtomicUsize,
    flags: AtomicUsize,
    /// Its mask: the signals that exist fit in a word.
    mask: AtomicU64,
}

static BEFORE: Before =
    Before { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicUsize::new(0), mask: AtomicU64::new(0) };
static IS_SET: AtomicBool = AtomicBool::new(false);

type Simple = unsafe extern "C" fn(c_int);
type Full = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Takes the signal, once. Children inherit that; what follows by exec does not.
pub(super) fn watch() {
    if IS_SET.swap(true, Relaxed) {
        return;
    }
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a valid place for the answer.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled by the call that succeeded.
    let mut action = unsafe { before.assume_init() };
    note(&action);
    let handle: Full = handle;
    action.sa_sigaction = handle as usize;
    // Not deferred: the handler itself writes to the segment. Without a mask, for the same reason.
    action.sa_flags =
        libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | action.sa_flags & libc::SA_RESTART;
    // SAFETY: a valid set.
    unsafe { libc::sigemptyset(&raw mut action.sa_mask) };
    // SAFETY: the handler is a function of an object that is never unloaded (-z nodelete); a valid place for the answer.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr()) } == 0 {
        // Another thread may have set one since.
        // SAFETY: filled by the call that succeeded.
        note(unsafe { before.assume_init_ref() });
    }
}

/// Keeps what the program has.
fn note(action: &libc::sigaction) {
    BEFORE.handler.store(action.sa_sigaction, Relaxed);
    BEFORE.flags.store(usize::try_from(action.sa_flags).unwrap_or_default(), Relaxed);
    // SAFETY: a set has at least 64 bits, one for each signal.
    BEFORE.mask.store(unsafe { ptr::from_ref(&action.sa_mask).cast::<u64>().read() }, Release);
}

unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives it with the flag that was asked for.
    let said = unsafe { &*info };
    let code = said.si_code;
    // SAFETY: with a code above 0 it is a fault, which has an address.
    let address = if code > 0 { unsafe { said.si_addr() }.addr() } else { 0 };
    if code <= 0 || !replace(address) {
        // SAFETY: as the kernel gave them.
        unsafe { pass_on(signal, info, context, code) };
    }
}

/// Puts a page of zeros in the place of one of the segment's, and switches the collector off.
fn replace(address: usize) -> bool {
    let Some(segment) = map::existing() else { return false };
    let from = ptr::from_ref(segment).addr();
    if !(from..from + size_of::<Segment>()).contains(&address) {
        return false;
    }
    // SAFETY: no arguments but the name.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let place = ptr::with_exposed_provenance_mut(address & !(page - 1));
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    // The other pages stay the file's, and with them its lock.
    // SAFETY: a page of our own mapping, which the kernel has just said it cannot give.
    let memory = unsafe { libc::mmap(place, page, access, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return false;
    }
    // As the rest of the segment: a child has zeros there.
    // SAFETY: the page just mapped.
    unsafe { libc::madvise(memory, page, libc::MADV_DONTFORK) };
    // Where this page is missing too, the handler is called in the middle of it.
    segment.live.state.store(STATE_FAULT, Relaxed);
    // The next call sees to it that the library is asked for nothing more.
    switch::disobey();
    true
}

/// Does what would have been done without us.
///
/// # Safety
/// What the kernel gave the handler.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, code: c_int) {
    let mask = BEFORE.mask.load(Acquire);
    let flags = c_int::try_from(BEFORE.flags.load(Relaxed)).unwrap_or_default();
    let handler = BEFORE.handler.load(Relaxed);
    let is_default = handler == libc::SIG_DFL || handler == libc::SIG_IGN;
    if handler == libc::SIG_IGN && code <= 0 {
        return;
    }
    if is_default || flags & libc::SA_RESETHAND != 0 {
        // A fault happens again as soon as the handler returns, and then ends the process where it happened.
        // SAFETY: the usual action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    if is_default {
        if code <= 0 {
            // SAFETY: only to this thread.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    block(mask, (flags & libc::SA_NODEFER == 0).then_some(signal));
    if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program set it with this flag: it is of this type.
        let handler: Full = unsafe { std::mem::transmute(handler) };
        // SAFETY: as the kernel gave them.
        unsafe { handler(signal, info, context) };
    } else {
        // SAFETY: the program set it without that flag: it is of this type.
        let handler: Simple = unsafe { std::mem::transmute(handler) };
        // SAFETY: as the kernel gave it.
        unsafe { handler(signal) };
    }
}

/// Blocks what the kernel would have blocked for the program's handler. The return from the signal undoes it.
fn block(mask: u64, signal: Option<c_int>) {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: a valid place for a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for number in (1..=64).filter(|number| mask >> (number - 1) & 1 != 0 || Some(*number) == signal) {
        // SAFETY: the set is filled above.
        unsafe { libc::sigaddset(set.as_mut_ptr(), number) };
    }
    // SAFETY: the set, and no place for the old mask.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut()) };
}
