//! Communicators.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_int, c_void};

use crate::api::config::{self, Config};
use crate::api::fence::{export, guard};
use crate::api::place::Out;
use crate::comm::init::{self, Request};
use crate::comm::{CommConfig, registry, split};
use crate::config::Settings;
use crate::error::{Error, Result, SUCCESS};
use crate::net::nic;
use crate::net::root;
use crate::net::unique_id::UNIQUE_ID_BYTES;
use crate::run::group;

/// `ncclComm_t`
type Handle = *mut c_void;

/// `ncclUniqueId`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UniqueId {
    internal: [u8; UNIQUE_ID_BYTES],
}

export! {
    /// Starts a bootstrap root in this process; all ranks need its id.
    fn ncclGetUniqueId / pncclGetUniqueId(id: *mut UniqueId) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(id, "uniqueId") }?;
            let settings = Settings::from_env()?;
            let id = root::start(nic::bootstrap_address(&settings)?, settings.timeout)?;
            place.set(UniqueId { internal: id.to_bytes() });
            Ok(())
        })
    }

    /// Joins a communicator.
    fn ncclCommInitRank / pncclCommInitRank(comm: *mut Handle, n_ranks: c_int, id: UniqueId, rank: c_int) -> c_int {
        // SAFETY: the caller's place.
        guard(|| init_rank("ncclCommInitRank", unsafe { Out::new(comm, "comm") }?, n_ranks, id, rank, None))
    }

    /// Joins a communicator. `blocking` of 0 is taken as 1: the call returns when the communicator is ready.
    fn ncclCommInitRankConfig / pncclCommInitRankConfig(
        comm: *mut Handle, n_ranks: c_int, id: UniqueId, rank: c_int, config: *const Config,
    ) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(comm, "comm") }?;
            // SAFETY: the caller's configuration.
            let config = unsafe { config::read(config) }?;
            init_rank("ncclCommInitRankConfig", place, n_ranks, id, rank, config)
        })
    }

    /// Not offered: a CPU process has no devices to make ranks of.
    fn ncclCommInitAll / pncclCommInitAll(_comms: *mut Handle, _n_devices: c_int, _devices: *const c_int) -> c_int {
        guard(|| Err(Error::InvalidUsage("ncclCommInitAll needs devices; use ncclCommInitRank per rank".to_owned())))
    }

    /// Waits for all issued work.
    fn ncclCommFinalize / pncclCommFinalize(comm: Handle) -> c_int {
        guard(|| {
            let comm = registry::find(comm.addr())?;
            comm.flush();
            comm.check()
        })
    }

    /// Waits for all issued work, then frees. Never hangs on a communicator that has failed.
    fn ncclCommDestroy / pncclCommDestroy(comm: Handle) -> c_int {
        guard(|| if comm.is_null() { Ok(()) } else { registry::remove(comm.addr()).map(|comm| comm.destroy()) })
    }

    /// Ends what is in flight with an error, and frees.
    fn ncclCommAbort / pncclCommAbort(comm: Handle) -> c_int {
        guard(|| if comm.is_null() { Ok(()) } else { registry::remove(comm.addr()).map(|comm| comm.abort()) })
    }

    /// Splits by color; collective over the parent.
    fn ncclCommSplit / pncclCommSplit(
        comm: Handle, color: c_int, key: c_int, new_comm: *mut Handle, config: *const Config,
    ) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(new_comm, "newcomm") }?;
            // SAFETY: the caller's configuration.
            let config = unsafe { config::read(config) }?;
            let (parent, settings) = (registry::find(comm.addr())?, Settings::from_env()?);
            group::init(Box::new(move || {
                let child = split::split(&parent, color, key, config, settings)?;
                place.set(std::ptr::without_provenance_mut(child.map_or(0, registry::insert)));
                Ok(())
            }))
        })
    }

    /// Whether the communicator has failed.
    fn ncclCommGetAsyncError / pncclCommGetAsyncError(comm: Handle, error: *mut c_int) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(error, "asyncError") }?;
            place.set(registry::find(comm.addr())?.check().err().map_or(SUCCESS, |error| error.code()));
            Ok(())
        })
    }

    /// The number of ranks.
    fn ncclCommCount / pncclCommCount(comm: Handle, count: *mut c_int) -> c_int {
        // SAFETY: the caller's place.
        guard(|| tell(unsafe { Out::new(count, "count") }?, registry::find(comm.addr())?.n_ranks))
    }

    /// The rank's index on its host, which stands for its device.
    fn ncclCommCuDevice / pncclCommCuDevice(comm: Handle, device: *mut c_int) -> c_int {
        // SAFETY: the caller's place.
        guard(|| tell(unsafe { Out::new(device, "device") }?, registry::find(comm.addr())?.device()))
    }

    /// This process's rank.
    fn ncclCommUserRank / pncclCommUserRank(comm: Handle, rank: *mut c_int) -> c_int {
        // SAFETY: the caller's place.
        guard(|| tell(unsafe { Out::new(rank, "rank") }?, registry::find(comm.addr())?.rank))
    }

    /// Nothing to register on a CPU; the handle is the buffer.
    fn ncclCommRegister / pncclCommRegister(
        comm: Handle, buffer: *mut c_void, _size: usize, handle: *mut *mut c_void,
    ) -> c_int {
        guard(|| {
            registry::find(comm.addr())?;
            // SAFETY: the caller's place.
            unsafe { Out::new(handle, "handle") }?.set(buffer);
            Ok(())
        })
    }

    /// Nothing to deregister.
    fn ncclCommDeregister / pncclCommDeregister(comm: Handle, _handle: *mut c_void) -> c_int {
        guard(|| registry::find(comm.addr()).map(drop))
    }
}

fn tell(place: Out<c_int>, value: usize) -> Result<()> {
    place.set(c_int::try_from(value).unwrap_or(c_int::MAX));
    Ok(())
}

fn init_rank(
    api: &'static str,
    place: Out<Handle>,
    n_ranks: c_int,
    id: UniqueId,
    rank: c_int,
    config: Option<CommConfig>,
) -> Result<()> {
    let out_of_range = || Error::InvalidArgument(format!("rank {rank} of {n_ranks} ranks"));
    let rank = usize::try_from(rank).map_err(|_| out_of_range())?;
    let n_ranks = usize::try_from(n_ranks).map_err(|_| out_of_range())?;
    let settings = Settings::from_env()?;
    let config = config.unwrap_or_default();
    let request = Request { api, id: id.internal, rank, n_ranks, config, split: None };
    group::init(Box::new(move || {
        let handle = registry::insert(init::init(request, settings)?);
        place.set(std::ptr::without_provenance_mut(handle));
        Ok(())
    }))
}
