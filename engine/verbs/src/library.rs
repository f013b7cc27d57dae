//! Fence: whether the machine has libibverbs.

#![expect(unsafe_code, reason = "calls libibverbs")]

use rdma_mummy_sys as sys;

/// Whether it was found. What is missing answers with `EOPNOTSUPP`, and so does the word for a status, with none.
pub(crate) fn is_there() -> bool {
    // SAFETY: takes a number and gives a static string, or null without a library.
    let words = unsafe { sys::ibv_wc_status_str(0) };
    !words.is_null()
}
