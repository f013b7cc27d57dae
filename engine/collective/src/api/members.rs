//! What a communicator tells about itself, and the memory that is registered with it.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_int, c_void};

use crate::api::fence::{export, guard};
use crate::api::place::Out;
use crate::comm::registry;
use crate::error::{Error, Result};

/// `ncclComm_t`
type Handle = *mut c_void;

/// `NCCL_WIN_COLL_SYMMETRIC`; the default is 0.
const WIN_COLL_SYMMETRIC: c_int = 1;

export! {
    /// Whether the communicator has failed, or is still at something.
    fn ncclCommGetAsyncError / pncclCommGetAsyncError(comm: Handle, error: *mut c_int) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(error, "asyncError") }?;
            place.set(registry::state(comm.addr())?);
            Ok(())
        })
    }

    /// The number of ranks.
    fn ncclCommCount / pncclCommCount(comm: Handle, count: *mut c_int) -> c_int {
        // SAFETY: the caller's place.
        guard(|| tell(unsafe { Out::new(count, "count") }?, registry::look(comm.addr())?.n_ranks))
    }

    /// The rank's index on its host, which stands for its device.
    fn ncclCommCuDevice / pncclCommCuDevice(comm: Handle, device: *mut c_int) -> c_int {
        // SAFETY: the caller's place.
        guard(|| tell(unsafe { Out::new(device, "device") }?, registry::look(comm.addr())?.device()))
    }

    /// This process's rank.
    fn ncclCommUserRank / pncclCommUserRank(comm: Handle, rank: *mut c_int) -> c_int {
        // SAFETY: the caller's place.
        guard(|| tell(unsafe { Out::new(rank, "rank") }?, registry::look(comm.addr())?.rank))
    }

    /// Nothing to register on a CPU; the handle is the buffer.
    fn ncclCommRegister / pncclCommRegister(
        comm: Handle, buffer: *mut c_void, size: usize, handle: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: the caller's place.
        guard(|| register(comm, buffer, size, unsafe { Out::new(handle, "handle") }?))
    }

    /// Nothing to deregister.
    fn ncclCommDeregister / pncclCommDeregister(comm: Handle, _handle: *mut c_void) -> c_int {
        guard(|| registry::look(comm.addr()).map(drop))
    }

    /// A window is the buffer itself: the ranks' memory is as near as it can be without it.
    fn ncclCommWindowRegister / pncclCommWindowRegister(
        comm: Handle, buffer: *mut c_void, size: usize, window: *mut *mut c_void, flags: c_int,
    ) -> c_int {
        guard(|| {
            if flags & !WIN_COLL_SYMMETRIC != 0 {
                return Err(Error::InvalidArgument(format!(
                    "winFlags {flags}: use NCCL_WIN_DEFAULT (0) or NCCL_WIN_COLL_SYMMETRIC (1)"
                )));
            }
            // SAFETY: the caller's place.
            register(comm, buffer, size, unsafe { Out::new(window, "win") }?)
        })
    }

    /// Nothing to deregister; NULL is fine.
    fn ncclCommWindowDeregister / pncclCommWindowDeregister(comm: Handle, _window: *mut c_void) -> c_int {
        guard(|| registry::look(comm.addr()).map(drop))
    }
}

fn tell(place: Out<c_int>, value: usize) -> Result<()> {
    place.set(c_int::try_from(value).unwrap_or(c_int::MAX));
    Ok(())
}

fn register(comm: Handle, buffer: *mut c_void, size: usize, place: Out<*mut c_void>) -> Result<()> {
    registry::find(comm.addr())?;
    if buffer.is_null() || size == 0 {
        return Err(Error::InvalidArgument(format!("buff {buffer:?} of {size} bytes: nothing to register")));
    }
    place.set(buffer);
    Ok(())
}
