//! Communicators: how they begin and end.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::api::config::{self, Config};
use crate::api::fence::{export, guard};
use crate::api::place::{self, Out};
use crate::comm::init::{self, Request};
use crate::comm::pending::Pending;
use crate::comm::split::{self, Choice, NO_COLOR};
use crate::comm::{Comm, CommConfig, registry, shrink};
use crate::config::Settings;
use crate::error::{Error, Progress, Result};
use crate::net::hello::MAX_RANKS;
use crate::net::nic;
use crate::net::root::{self, Manner};
use crate::net::unique_id::UNIQUE_ID_BYTES;
use crate::run::group;

/// `ncclComm_t`
type Handle = *mut c_void;

/// `NCCL_SHRINK_ABORT`; the default is 0.
const SHRINK_ABORT: c_int = 1;
/// Communicators of one `ncclCommInitAll` at most: each has threads of its own.
const MAX_ALL: usize = 1024;

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
            place.set(UniqueId { internal: unique_id(&Settings::from_env()?)? });
            Ok(())
        })
    }

    /// Joins a communicator.
    fn ncclCommInitRank / pncclCommInitRank(comm: *mut Handle, n_ranks: c_int, id: UniqueId, rank: c_int) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(comm, "comm") }?;
            init_rank("ncclCommInitRank", place, n_ranks, id, rank, CommConfig::default())
        })
    }

    /// Joins a communicator; returns at once if the configuration says so.
    fn ncclCommInitRankConfig / pncclCommInitRankConfig(
        comm: *mut Handle, n_ranks: c_int, id: UniqueId, rank: c_int, config: *const Config,
    ) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(comm, "comm") }?;
            // SAFETY: the caller's configuration.
            let config = unsafe { config::read(config) }?.unwrap_or_default();
            init_rank("ncclCommInitRankConfig", place, n_ranks, id, rank, config)
        })
    }

    /// Joins a communicator that has several ids. One root serves all ranks here: the first id's.
    fn ncclCommInitRankScalable / pncclCommInitRankScalable(
        comm: *mut Handle, n_ranks: c_int, rank: c_int, n_ids: c_int, ids: *const UniqueId, config: *const Config,
    ) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(comm, "newcomm") }?;
            if n_ids < 1 || n_ids > n_ranks.max(1) {
                return Err(Error::InvalidArgument(format!("nId {n_ids}: give 1 to nranks ({n_ranks}) ids")));
            }
            // SAFETY: the caller's array of `n_ids`.
            let ids = unsafe { place::array(ids, n_ids, "commIds") }?;
            // SAFETY: the caller's configuration.
            let config = unsafe { config::read(config) }?.unwrap_or_default();
            init_rank("ncclCommInitRankScalable", place, n_ranks, ids[0], rank, config)
        })
    }

    /// Makes all ranks of a communicator in this process. A device is an index among its ranks on a host, so the list
    /// names every one of 0 to `n_devices` - 1; NULL names them in order.
    fn ncclCommInitAll / pncclCommInitAll(comms: *mut Handle, n_devices: c_int, devices: *const c_int) -> c_int {
        guard(|| {
            // SAFETY: the caller's array of `n_devices`; `init_all` writes no more.
            unsafe { init_all(comms, n_devices, devices) }
        })
    }

    /// Waits for all issued work, in the background on a communicator that does not block. Nothing can be issued after.
    fn ncclCommFinalize / pncclCommFinalize(comm: Handle) -> c_int {
        guard(|| {
            group::refuse_with_calls(comm.addr(), "ncclCommFinalize")?;
            let found = registry::finalize(comm.addr())?;
            if found.is_blocking() {
                found.flush();
                return found.check().map(|()| Progress::Done);
            }
            let busy = registry::busy(comm.addr());
            group::init_in_background(Box::new(move |begin| {
                begin?;
                found.flush();
                drop(busy);
                Ok(())
            }))
        })
    }

    /// Waits for all issued work, then frees. Never hangs on a communicator that has failed; with silent faults as NCCL's.
    fn ncclCommDestroy / pncclCommDestroy(comm: Handle) -> c_int {
        guard(|| group::refuse_with_calls(comm.addr(), "ncclCommDestroy").and_then(|()| end(comm, Comm::destroy)))
    }

    /// Ends what is in flight, or an init that is in progress, with an error, and frees.
    fn ncclCommAbort / pncclCommAbort(comm: Handle) -> c_int {
        guard(|| end(comm, Comm::abort))
    }

    /// Ends what is in flight with an error, here and on the peers; then only destroy, split and shrink are left.
    fn ncclCommRevoke / pncclCommRevoke(comm: Handle, flags: c_int) -> c_int {
        guard(|| {
            let comm = registry::find(comm.addr())?;
            if flags != 0 {
                return Err(Error::InvalidArgument(format!("revokeFlags {flags}: only NCCL_REVOKE_DEFAULT (0) exists")));
            }
            comm.revoke();
            if comm.is_blocking() {
                comm.flush();
            }
            Ok(if comm.turns.is_idle() { Progress::Done } else { Progress::Started })
        })
    }

    /// Splits by color; collective over the parent.
    fn ncclCommSplit / pncclCommSplit(
        comm: Handle, color: c_int, key: c_int, new_comm: *mut Handle, config: *const Config,
    ) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(new_comm, "newcomm") }?;
            let parent = registry::find(comm.addr())?;
            // SAFETY: the caller's configuration.
            let config = unsafe { config::read(config) }?.unwrap_or_else(|| parent.config().clone());
            let (choice, settings) = (Choice::new(color, key)?, parent.settings_of_child()?);
            let child = Child { place, parent: Some(comm.addr()), blocking: config.blocking, none: color == NO_COLOR };
            child.make(move |pending| split::split(&parent, choice, config, settings, pending))
        })
    }

    /// A communicator of the ranks that are not excluded; only those call it.
    fn ncclCommShrink / pncclCommShrink(
        comm: Handle, excluded: *const c_int, n_excluded: c_int, new_comm: *mut Handle, config: *const Config,
        flags: c_int,
    ) -> c_int {
        guard(|| {
            // SAFETY: the caller's place.
            let place = unsafe { Out::new(new_comm, "newcomm") }?;
            let parent = registry::find(comm.addr())?;
            if flags & !SHRINK_ABORT != 0 {
                return Err(Error::InvalidArgument(format!(
                    "shrinkFlags {flags}: use NCCL_SHRINK_DEFAULT (0) or NCCL_SHRINK_ABORT (1)"
                )));
            }
            if n_excluded < 1 {
                return Err(Error::InvalidArgument(format!("excludeRanksCount {n_excluded}: name at least one rank")));
            }
            // SAFETY: the caller's array of `n_excluded`.
            let members = shrink::survivors(&parent, unsafe { place::array(excluded, n_excluded, "excludeRanksList") }?)?;
            // SAFETY: the caller's configuration.
            let config = unsafe { config::read(config) }?.unwrap_or_else(|| parent.config().clone());
            let (settings, abort) = (parent.settings_of_child()?, flags == SHRINK_ABORT);
            let child = Child { place, parent: Some(comm.addr()), blocking: config.blocking, none: false };
            child.make(move |pending| shrink::shrink(&parent, &members, abort, config, settings, pending).map(Some))
        })
    }
}

fn unique_id(settings: &Settings) -> Result<[u8; UNIQUE_ID_BYTES]> {
    Ok(root::start(nic::bootstrap_address(settings)?, Manner::of(settings))?.to_bytes())
}

fn end(comm: Handle, how: impl FnOnce(&Comm)) -> Result<()> {
    if comm.is_null() {
        return Ok(());
    }
    if let Some(comm) = registry::remove(comm.addr())? {
        how(&comm);
    }
    Ok(())
}

fn init_rank(
    api: &'static str,
    place: Out<Handle>,
    n_ranks: c_int,
    id: UniqueId,
    rank: c_int,
    config: CommConfig,
) -> Result<Progress> {
    let out_of_range = || Error::InvalidArgument(format!("rank {rank} of {n_ranks} ranks"));
    let n_ranks = usize::try_from(n_ranks).map_err(|_| out_of_range())?;
    if n_ranks > MAX_RANKS {
        return Err(Error::InvalidArgument(format!(
            "{n_ranks} ranks: a communicator has {MAX_RANKS} at most"
        )));
    }
    let rank = usize::try_from(rank).ok().filter(|rank| *rank < n_ranks).ok_or_else(out_of_range)?;
    let settings = Settings::from_env()?;
    let child = Child { place, parent: None, blocking: config.blocking, none: false };
    let request =
        Request { api, id: id.internal, rank, n_ranks, config, device: None, split: None, kin: None };
    child.make(move |pending| init::init_as(request, settings, pending).map(Some))
}

/// # Safety
/// `comms`, and `devices` unless it is NULL, are arrays of `n_devices`.
unsafe fn init_all(comms: *mut Handle, n_devices: c_int, devices: *const c_int) -> Result<Progress> {
    let n_ranks = usize::try_from(n_devices).ok().filter(|count| (1..=MAX_ALL).contains(count));
    let n_ranks = n_ranks.ok_or_else(|| {
        Error::InvalidArgument(format!("ndev {n_devices}: a process makes 1 to {MAX_ALL} ranks"))
    })?;
    if !devices.is_null() {
        // SAFETY: the caller's array.
        let devices = unsafe { place::array(devices, n_devices, "devlist") }?;
        let named = |device: c_int| devices.contains(&device);
        if !(0..n_devices).all(named) {
            let text = format!("devlist {devices:?}: name each of 0 to {} once", n_devices - 1);
            return Err(Error::InvalidArgument(text));
        }
    }
    // SAFETY: the caller's array.
    let places = unsafe { place::places(comms, n_ranks, "comms") }?;
    let id = UniqueId { internal: unique_id(&Settings::from_env()?)? };
    group::start();
    for (rank, place) in (0..n_devices).zip(places) {
        if let Err(error) = init_rank("ncclCommInitAll", place, n_devices, id, rank, CommConfig::default()) {
            group::poison(error);
        }
    }
    group::end()
}

/// A communicator that a call is to make.
struct Child {
    /// For its handle.
    place: Out<Handle>,
    parent: Option<usize>,
    blocking: Option<bool>,
    /// Whether this rank gets none.
    none: bool,
}

impl Child {
    /// Makes it now, or at the end of the thread's group, or in the background.
    fn make(
        self,
        make: impl FnOnce(&Arc<Pending>) -> Result<Option<Arc<Comm>>> + Send + 'static,
    ) -> Result<Progress> {
        let pending = Pending::new();
        if self.blocking.unwrap_or(true) {
            let made = move |begin: Result<()>| {
                begin?;
                let child = make(&pending)?;
                self.place.set(std::ptr::without_provenance_mut(child.map_or(0, registry::insert)));
                Ok(())
            };
            return group::init(Box::new(made)).map(|()| Progress::Done);
        }
        let busy = self.parent.map(registry::busy);
        let handle = if self.none { 0 } else { registry::reserve(Arc::clone(&pending)) };
        self.place.set(std::ptr::without_provenance_mut(handle));
        group::init_in_background(Box::new(move |begin| {
            let panicked = |_| Err(Error::Internal("an initialisation panicked".to_owned()));
            let make = || begin.and_then(|()| make(&pending));
            let made = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(panicked);
            busy.iter().for_each(|busy| busy.tell(&made));
            match made {
                Ok(Some(comm)) => registry::settle(&pending, Ok(comm)),
                Ok(None) => {}
                Err(error) => registry::settle(&pending, Err(error)),
            }
            drop(busy);
            Ok(())
        }))
    }
}
