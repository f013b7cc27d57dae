//! What the hook in a program's framework says (`collector/python`): which ranks of the job are a group, and what it is called.
//! No function of the library's.

#![expect(unsafe_code, reason = "exports a C function and reads its arguments")]

use std::ffi::{c_char, c_int};

use ringscope_wire::segment::groups::ranks_hash;

use crate::abi::nccl::{SUCCESS, SYSTEM_ERROR};
use crate::segment::maker::segment_or_create;
use crate::segment::names::name_of_c;
use crate::segment::{guard, rank_groups, switch};

/// More ranks than any job has: what says so is no group.
const MAX_RANKS: u32 = 1 << 20;

/// Writes down a group of ranks of the job. One that is told again, by the same `id`, may have another name. 0, or where it cannot
/// be written down `ncclSystemError`, of which the program needs no notice.
///
/// # Safety
/// NULL or a terminated text; NULL or `n_ranks` ranks.
#[unsafe(no_mangle)]
unsafe extern "C" fn ringscope_group(id: u64, name: *const c_char, ranks: *const u32, n_ranks: u32) -> c_int {
    let noted = guard(|| {
        if ranks.is_null() || n_ranks == 0 || n_ranks > MAX_RANKS {
            return None;
        }
        let segment = segment_or_create().filter(|segment| !switch::is_faulty(segment))?;
        // SAFETY: the caller's promise.
        let name = unsafe { name_of_c(name) };
        // SAFETY: the caller's promise.
        let ranks = unsafe { std::slice::from_raw_parts(ranks, n_ranks as usize) };
        let hash = ranks_hash(ranks.iter().copied());
        rank_groups::note(segment, id, &name, hash, n_ranks.into()).then_some(())
    });
    if noted.flatten().is_some() { SUCCESS } else { SYSTEM_ERROR }
}
