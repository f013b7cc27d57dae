//! Fence: `ncclGroupSimulateEnd` and the caller's `ncclSimInfo_t`, of whatever version.

#![expect(unsafe_code, reason = "the structure is as long as its first member says")]

use std::ffi::{c_int, c_void};
use std::mem::offset_of;

use crate::api::fence::{export, guard};
use crate::error::{Error, Progress, Result};
use crate::run::group;

/// `ncclSimInfo_t`
#[repr(C)]
struct SimInfo {
    size: usize,
    magic: u32,
    version: u32,
    estimated_time: f32,
}

/// What `NCCL_SIM_INFO_INITIALIZER` writes.
const MAGIC: u32 = 0x7468_5283;
/// Bytes that every version has.
const LEAST_BYTES: usize = offset_of!(SimInfo, estimated_time) + size_of::<f32>();

export! {
    /// Ends a group; the outermost end predicts what its last collective would take, in microseconds, and nothing of the group
    /// is done. NULL is `ncclGroupEnd`, as in NCCL.
    fn ncclGroupSimulateEnd / pncclGroupSimulateEnd(info: *mut c_void) -> c_int {
        guard(|| simulate(info.cast()))
    }
}

fn simulate(info: *mut SimInfo) -> Result<Progress> {
    if info.is_null() {
        return group::end();
    }
    let Some(group) = group::take()? else { return Ok(Progress::Done) };
    let member = |at: usize| info.cast::<u8>().wrapping_add(at);
    // SAFETY: the caller's structure begins with its size, by NCCL's interface.
    let size = unsafe { info.cast::<usize>().read_unaligned() };
    let magic = member(offset_of!(SimInfo, magic)).cast::<u32>();
    // SAFETY: the structure has this member, by its size.
    let magic = (size >= LEAST_BYTES).then(|| unsafe { magic.read_unaligned() });
    if magic != Some(MAGIC) {
        let text = "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER";
        return Err(Error::InvalidArgument(text.to_owned()));
    }
    let (progress, estimate) = group.simulate()?;
    if let Some(microseconds) = estimate {
        let time = member(offset_of!(SimInfo, estimated_time)).cast::<f32>();
        // SAFETY: the structure has this member, by its size.
        unsafe { time.write_unaligned(microseconds) };
    }
    Ok(progress)
}
