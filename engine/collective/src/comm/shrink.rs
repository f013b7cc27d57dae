//! `ncclCommShrink`: the ranks that stay meet at the first of them. Those that are excluded take no part, and may be dead.

use std::sync::Arc;

use crate::comm::init::{self, Request};
use crate::comm::pending::Pending;
use crate::comm::{Comm, CommConfig};
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::hash;
use crate::net::control::Failure;

/// The ranks that stay, ascending.
pub(crate) fn survivors(parent: &Comm, excluded: &[i32]) -> Result<Vec<usize>> {
    let mut stays = vec![true; parent.n_ranks];
    for rank in excluded {
        let place = usize::try_from(*rank).ok().and_then(|rank| stays.get_mut(rank));
        let place = place.ok_or_else(|| {
            Error::InvalidArgument(format!("excludeRanksList: {rank} is no rank of {} ranks", parent.n_ranks))
        })?;
        if !std::mem::take(place) {
            return Err(Error::InvalidArgument(format!("excludeRanksList: {rank} is there twice")));
        }
    }
    if !stays[parent.rank] {
        return Err(Error::InvalidUsage(format!(
            "rank {} is in excludeRanksList: the ranks that leave do not call ncclCommShrink",
            parent.rank
        )));
    }
    Ok((0..parent.n_ranks).filter(|rank| stays[*rank]).collect())
}

/// Makes the communicator of the ranks that stay. With `abort`, what is in flight on the parent ends with an error first, and
/// the parent is of no more use, unless faults are silent; without, the parent must not have failed, and its work is waited for.
pub(crate) fn shrink(
    parent: &Comm,
    members: &[usize],
    abort: bool,
    config: CommConfig,
    settings: Settings,
    pending: &Arc<Pending>,
) -> Result<Arc<Comm>> {
    if abort {
        let what = format!("{} shrank the communicator with NCCL_SHRINK_ABORT", parent.names[parent.rank]);
        let failure = Failure::new(6, what);
        if parent.is_silent() {
            // NCCL raises the parent's abort flag, waits for what is in flight, and lowers it again.
            parent.health.interrupt(failure, || parent.flush());
        } else {
            parent.health.fail(failure);
        }
    } else if !parent.is_revoked() {
        parent.check()?;
    }
    parent.health.aborts_with(pending);
    parent.flush();
    let rank = members.iter().position(|member| *member == parent.rank);
    let rank = rank.ok_or_else(|| Error::Internal("a rank shrinks itself away".to_owned()))?;
    let count = parent.next_shrink(members);
    let topic = format!("shrink {count} to {members:?}");
    let color = i32::try_from(hash::hash(topic.as_bytes()) >> 33).unwrap_or_default();
    let key = i32::try_from(parent.rank).unwrap_or_default();
    let id = parent.meet(members[0], &topic)?;
    let request = Request {
        api: "ncclCommShrink",
        id: id.to_bytes(),
        rank,
        n_ranks: members.len(),
        config,
        device: parent.given_device(),
        split: Some(parent.lineage(count, color, key)),
        kin: parent.kin(members),
    };
    let made = init::init_as(request, settings, pending);
    made.inspect_err(|error| parent.call_off_meeting(members[0], &id, error))
}
