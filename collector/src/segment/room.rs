//! Pages of the segment's file. It is as long as the layout has it, but a page takes memory only once it is written, and a
//! page that a full file system cannot give is a SIGBUS. So whoever begins to use a part of the segment asks for its pages
//! first: then the refusal is an answer.
//!
//! Before that it asks whether the segments may have more memory at all ([`set_grant`]): beyond what every process may have,
//! that is the process layer's to say. A page that must not be had is as one that cannot be.
//!
//! What is refused is not asked for again for a while. Not asked for are tables that are seldom used: there a page that is
//! missing is met by the process layer, which catches the signal and switches the collector off.

#![expect(unsafe_code, reason = "advises the kernel on pages of the segment")]

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::Segment;

use crate::segment::ticks;

/// The least that a page has.
const PAGE: usize = 4096;
const N_PAGES: usize = size_of::<Segment>().div_ceil(PAGE);
/// `MADV_POPULATE_WRITE`, since Linux 5.14.
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// What every process that has a segment may take of memory: the first pages of each part, and 26 of records (1664).
pub(crate) const FLOOR_BYTES: u64 = 32 * PAGE as u64;

/// How long no page is asked for after one was refused.
const PAUSE_NS: u64 = 10_000_000_000;

/// Pages that have been given, by bit.
static GIVEN: [AtomicU64; N_PAGES.div_ceil(64)] = [const { AtomicU64::new(0) }; N_PAGES.div_ceil(64)];

/// Bytes that may be taken before it is asked again whether more may be.
static CREDIT_BYTES: AtomicU64 = AtomicU64::new(0);

/// When a page was last refused (`CLOCK_MONOTONIC`); 0 if none was.
static REFUSED_NS: AtomicU64 = AtomicU64::new(0);

/// How many more bytes the segment may take now; 0 if none. Called on the job's threads: it neither allocates nor locks.
pub(crate) type Grant = fn() -> u64;

static GRANT: OnceLock<Grant> = OnceLock::new();

/// Leaves the function that is asked whether more memory may be taken, once.
pub(crate) fn set_grant(grant: Grant) {
    let _ = GRANT.set(grant);
}

/// Has the file system give the pages that this part of the segment lies in; false if it cannot or must not, and then the
/// part must not be used. Once for each page it is a system call, seldom some more.
#[inline(always)]
pub(crate) fn ensure<T>(segment: &Segment, part: &T) -> bool {
    let base = std::ptr::from_ref(segment).addr();
    let from = std::ptr::from_ref(part).addr().wrapping_sub(base);
    let to = (from + size_of::<T>()).min(size_of::<Segment>());
    (from / PAGE..to.div_ceil(PAGE)).all(|page| has(page) || take(base, page))
}

/// Whether a part of one page has been given: another may not even be read.
#[inline(always)]
pub(crate) fn is_given<T>(segment: &Segment, part: &T) -> bool {
    has(std::ptr::from_ref(part).addr().wrapping_sub(std::ptr::from_ref(segment).addr()) / PAGE)
}

#[inline(always)]
fn has(page: usize) -> bool {
    GIVEN.get(page / 64).is_some_and(|word| word.load(Relaxed) & 1 << (page % 64) != 0)
}

#[cold]
fn take(base: usize, page: usize) -> bool {
    let refused_ns = REFUSED_NS.load(Relaxed);
    if refused_ns != 0 && ticks::monotonic_ns().saturating_sub(refused_ns) < PAUSE_NS {
        return false;
    }
    let is_given = may_take() && populate(base + page * PAGE);
    if is_given {
        GIVEN[page / 64].fetch_or(1 << (page % 64), Relaxed);
    }
    REFUSED_NS.store(if is_given { 0 } else { ticks::monotonic_ns() }, Relaxed);
    is_given
}

/// Takes a page from the credit, or asks for more of it.
fn may_take() -> bool {
    const COST: u64 = PAGE as u64;
    if CREDIT_BYTES.fetch_update(Relaxed, Relaxed, |credit| credit.checked_sub(COST)).is_ok() {
        return true;
    }
    let Some(rest) = GRANT.get().and_then(|grant| grant().checked_sub(COST)) else { return false };
    CREDIT_BYTES.fetch_add(rest, Relaxed);
    true
}

/// Has the page given that begins at this address of the segment. What is kept there stays.
fn populate(page: usize) -> bool {
    let place: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(page);
    // SAFETY: a page of the segment, which stays as it is.
    if unsafe { libc::madvise(place, PAGE, MADV_POPULATE_WRITE) } == 0 {
        return true;
    }
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) && add_nothing(page)
}

/// The same on an older kernel, by a call that adds nothing to a word of the page and wakes nobody: what it cannot write to,
/// it says.
fn add_nothing(page: usize) -> bool {
    let place: *mut u32 = std::ptr::with_exposed_provenance_mut(page);
    let operation = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    let nothing = libc::FUTEX_OP_ADD << 28;
    // SAFETY: an aligned word, which the kernel changes by an atomic addition of zero, as threads do that use it.
    unsafe { libc::syscall(libc::SYS_futex, place, operation, 0, 0_usize, place, nothing) == 0 }
}

/// The process gets a segment, of which no page has been given.
pub(crate) fn begin() {
    CREDIT_BYTES.store(FLOOR_BYTES, Relaxed);
    REFUSED_NS.store(0, Relaxed);
    for word in &GIVEN {
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn an_older_kernel_says_what_page_it_cannot_give_and_changes_none() {
        // SAFETY: a terminated name.
        let file = unsafe { libc::memfd_create(c"room".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: the file just made.
        assert_eq!(unsafe { libc::ftruncate(file, PAGE.cast_signed() as i64) }, 0);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, of which the second page lies beyond the file's end.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, access, libc::MAP_SHARED, file, 0) };
        let first = pages.expose_provenance();
        // SAFETY: aligned, and in the file.
        let word = unsafe { AtomicU32::from_ptr(pages.cast()) };
        word.store(0x1234_5678, Relaxed);
        assert!(add_nothing(first));
        assert_eq!(word.load(Relaxed), 0x1234_5678);
        assert!(!add_nothing(first + PAGE));
        // SAFETY: the mapping just made, which nobody refers to any more.
        unsafe { libc::munmap(pages, 2 * PAGE) };
        // SAFETY: the file just made.
        unsafe { libc::close(file) };
    }
}
