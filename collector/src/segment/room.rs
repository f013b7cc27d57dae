//! Pages of the segment's file. It is as long as the layout has it, but a page takes memory only once it is written, and a
//! page that a full file system cannot give is a SIGBUS. So whoever begins to use a part of the segment asks for its pages
//! first: then the refusal is an answer.
//!
//! Not asked for are tables that are seldom used: there a page that is missing is met by the process layer, which catches
//! the signal and switches the collector off.

#![expect(unsafe_code, reason = "advises the kernel on pages of the segment")]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ringscope_wire::segment::Segment;

/// The least that a page has.
const PAGE: usize = 4096;
const N_PAGES: usize = size_of::<Segment>().div_ceil(PAGE);
/// `MADV_POPULATE_WRITE`, since Linux 5.14.
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// Pages that have been given, by bit.
static GIVEN: [AtomicU64; N_PAGES.div_ceil(64)] = [const { AtomicU64::new(0) }; N_PAGES.div_ceil(64)];

/// The file system has refused a page of records.
static HAS_REFUSED: AtomicBool = AtomicBool::new(false);

/// The same for a part of one page that may be skipped: once one was refused, no other is asked for.
#[inline(always)]
pub(crate) fn ensure_or_skip<T>(segment: &Segment, part: &T) -> bool {
    let page = std::ptr::from_ref(part).addr().wrapping_sub(std::ptr::from_ref(segment).addr()) / PAGE;
    let is_given = GIVEN.get(page / 64).is_some_and(|word| word.load(Relaxed) & 1 << (page % 64) != 0);
    is_given || ask_once(segment, part)
}

#[cold]
fn ask_once<T>(segment: &Segment, part: &T) -> bool {
    if HAS_REFUSED.load(Relaxed) {
        return false;
    }
    let is_given = ensure(segment, part);
    if !is_given {
        HAS_REFUSED.store(true, Relaxed);
    }
    is_given
}

/// Has the file system give the pages that this part of the segment lies in; false if it cannot, and then the part must
/// not be used. Once for each page it is a system call.
#[inline(always)]
pub(crate) fn ensure<T>(segment: &Segment, part: &T) -> bool {
    let base = std::ptr::from_ref(segment).addr();
    let from = std::ptr::from_ref(part).addr().wrapping_sub(base);
    let to = (from + size_of::<T>()).min(size_of::<Segment>());
    (from / PAGE..to.div_ceil(PAGE)).all(|page| {
        let (word, bit) = (&GIVEN[page / 64], 1 << (page % 64));
        if word.load(Relaxed) & bit != 0 {
            return true;
        }
        let is_given = populate(base + from.max(page * PAGE));
        if is_given {
            word.fetch_or(bit, Relaxed);
        }
        is_given
    })
}

/// Has the page given in which this address of the segment lies, where nothing is in use yet.
fn populate(address: usize) -> bool {
    let page = address / PAGE * PAGE;
    let place: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(page);
    // SAFETY: a page of the segment, which stays as it is.
    if unsafe { libc::madvise(place, PAGE, MADV_POPULATE_WRITE) } == 0 {
        return true;
    }
    if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
        return false;
    }
    // An older kernel. What it cannot write to, it says: eight bytes of signals that are pending, as a rule none.
    let place: *mut u64 = std::ptr::with_exposed_provenance_mut(address / 8 * 8);
    // SAFETY: a part of the segment that nothing is kept in yet, and as many bytes as the kernel writes.
    let is_given = unsafe { libc::syscall(libc::SYS_rt_sigpending, place, size_of::<u64>()) } == 0;
    if is_given {
        // SAFETY: aligned, in the segment, and just written to.
        unsafe { AtomicU64::from_ptr(place) }.store(0, Relaxed);
    }
    is_given
}

/// The process gets a segment, of which no page has been given.
pub(crate) fn begin() {
    HAS_REFUSED.store(false, Relaxed);
    for word in &GIVEN {
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }
}
