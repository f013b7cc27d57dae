//! Fence: what became of work requests.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::ffi::CStr;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_mummy_sys as sys;

use crate::context::{Context, Open};
use crate::error::{Error, Result, check};

/// Completions that one call of the device's takes.
const BATCH: usize = 16;

/// Where work requests complete. Clones are the same one.
#[derive(Clone, Debug)]
pub struct CompletionQueue {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) queue: NonNull<sys::ibv_cq>,
    _open: Arc<Open>,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// What became of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number that it was posted with.
    pub id: u64,
    /// How it ended.
    pub status: Status,
    /// Where it ended well: what it was.
    pub kind: Kind,
    /// Bytes that came, of what was received or read.
    pub bytes: u32,
    /// The number that came with a write.
    pub immediate: Option<u32>,
    /// Of which queue pair.
    pub queue_pair: u32,
    /// The driver's own number for an error.
    pub vendor_error: u32,
}

/// What a work request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This end wrote.
    Write,
    /// This end read.
    Read,
    /// The other end wrote with a number, or sent.
    Receive,
    /// Anything else, and whatever failed.
    Other,
}

/// How a work request ended: a number of `enum ibv_wc_status`. Shown in libibverbs' words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// It is done.
    pub const SUCCESS: Self = Self(sys::ibv_wc_status::IBV_WC_SUCCESS);
    /// It was not begun: the queue pair had failed before.
    pub const FLUSHED: Self = Self(sys::ibv_wc_status::IBV_WC_WR_FLUSH_ERR);
    /// The other end never answered.
    pub const RETRIES_EXCEEDED: Self = Self(sys::ibv_wc_status::IBV_WC_RETRY_EXC_ERR);
    /// The other end does not allow it: a wrong key, or outside of its region.
    pub const REMOTE_ACCESS: Self = Self(sys::ibv_wc_status::IBV_WC_REM_ACCESS_ERR);

    /// Whether it is done.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: takes any number and gives a static string, or null without a library.
        let words = unsafe { sys::ibv_wc_status_str(self.0) };
        if words.is_null() {
            return write!(f, "status {}", self.0);
        }
        // SAFETY: a static string.
        let words = unsafe { CStr::from_ptr(words) };
        write!(f, "{} (status {})", words.to_string_lossy(), self.0)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Context {
    /// A queue with room for so many completions that nobody has asked for yet.
    pub fn completion_queue(&self, room: u32) -> Result<CompletionQueue> {
        let null = std::ptr::null_mut();
        let entries = i32::try_from(room).unwrap_or(i32::MAX);
        // SAFETY: an open device; no channel.
        let queue = unsafe { sys::ibv_create_cq(self.raw(), entries, null, std::ptr::null_mut(), 0) };
        let what = || format!("make a completion queue of {room} entries on {}", self.name());
        let queue = NonNull::new(queue).ok_or_else(|| Error::last(what()))?;
        Ok(CompletionQueue { inner: Arc::new(Inner { queue, _open: Arc::clone(&self.open) }) })
    }
}

impl CompletionQueue {
    /// Takes the completions that there are, in their order, until there are none; how many. Allocates nothing.
    pub fn poll(&self, mut take: impl FnMut(Completion)) -> Result<usize> {
        let mut taken = 0;
        loop {
            // SAFETY: numbers alone, for which zero is a value.
            let mut batch: [sys::ibv_wc; BATCH] = unsafe { std::mem::zeroed() };
            let room = i32::try_from(BATCH).unwrap_or(1);
            // SAFETY: our queue, and room for so many.
            let count = unsafe { sys::ibv_poll_cq(self.inner.queue.as_ptr(), room, batch.as_mut_ptr()) };
            let count = usize::try_from(count).map_err(|_| Error::last("poll a completion queue"))?;
            batch.iter().take(count).for_each(|entry| take(completion(entry)));
            taken += count;
            if count < BATCH {
                return Ok(taken);
            }
        }
    }

    pub(crate) fn raw(&self) -> *mut sys::ibv_cq {
        self.inner.queue.as_ptr()
    }
}

/// Of a completion with an error, only its number, status, queue pair and vendor's number have a meaning.
fn completion(entry: &sys::ibv_wc) -> Completion {
    let status = Status(entry.status);
    let kind = match entry.opcode {
        _ if !status.is_success() => Kind::Other,
        sys::ibv_wc_opcode::IBV_WC_RDMA_WRITE => Kind::Write,
        sys::ibv_wc_opcode::IBV_WC_RDMA_READ => Kind::Read,
        sys::ibv_wc_opcode::IBV_WC_RECV | sys::ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM => Kind::Receive,
        _ => Kind::Other,
    };
    let has_number = kind == Kind::Receive && entry.wc_flags & sys::ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0;
    // SAFETY: either field is a number.
    let number = unsafe { entry.imm_data_invalidated_rkey_union.imm_data };
    Completion {
        id: entry.wr_id,
        status,
        kind,
        bytes: entry.byte_len,
        immediate: has_number.then(|| u32::from_be(number)),
        queue_pair: entry.qp_num,
        vendor_error: entry.vendor_err,
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: made by us; queue pairs hold it, so none is left. What cannot be destroyed stays.
        let _ = check(unsafe { sys::ibv_destroy_cq(self.queue.as_ptr()) }, String::new);
    }
}
