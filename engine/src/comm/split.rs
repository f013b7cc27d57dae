//! `ncclCommSplit`: the parent's own all-gather carries colors and keys, then each new communicator's unique id.

use std::sync::Arc;

use crate::collective::operation::{Operation, Primitive};
use crate::collective::reduction::Reduction;
use crate::comm::init::{self, Request};
use crate::comm::{Comm, CommConfig, lock};
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::hash;
use crate::memory::Region;
use crate::net::nic;
use crate::net::root;
use crate::net::unique_id::UNIQUE_ID_BYTES;
use crate::profiler::emit::OperationEvents;
use crate::run::launch::{self, Launch};
use crate::types::{DataType, RedOp};

/// `NCCL_SPLIT_NOCOLOR`
pub(crate) const NO_COLOR: i32 = -1;

/// What a rank tells the others: color and key.
const CHOICE_BYTES: usize = 8;

/// Makes this rank's new communicator; none for [`NO_COLOR`].
pub(crate) fn split(
    parent: &Arc<Comm>,
    color: i32,
    key: i32,
    config: Option<CommConfig>,
    settings: Settings,
) -> Result<Option<Arc<Comm>>> {
    if color < 0 && color != NO_COLOR {
        return Err(Error::InvalidArgument(format!(
            "color {color}: colors are 0 or more, or NCCL_SPLIT_NOCOLOR"
        )));
    }
    parent.check()?;
    let mut counters = lock(&parent.counters);
    counters.splits += 1;
    let count = counters.splits;
    drop(counters);
    let mut choice = [0_u8; CHOICE_BYTES];
    choice[..4].copy_from_slice(&color.to_le_bytes());
    choice[4..].copy_from_slice(&key.to_le_bytes());
    let choices: Vec<(i32, i32)> =
        gather(parent, &choice)?.chunks_exact(CHOICE_BYTES).map(parse_choice).collect();
    let members = members(&choices, color);
    let rank = members.iter().position(|member| *member == parent.rank).filter(|_| color != NO_COLOR);
    let own_id = match rank {
        Some(0) => root::start(nic::bootstrap_address(&settings)?, settings.timeout)?.to_bytes(),
        _ => [0; UNIQUE_ID_BYTES],
    };
    let ids = gather(parent, &own_id)?;
    let Some(rank) = rank else { return Ok(None) };
    let id = ids.chunks_exact(UNIQUE_ID_BYTES).nth(members[0]).and_then(|id| id.try_into().ok());
    let id = id.ok_or_else(|| Error::Internal("a split's id is missing".to_owned()))?;
    let comm_hash = hash::split_hash(parent.identity.comm_hash, count, color);
    let request = Request {
        api: "ncclCommSplit",
        id,
        rank,
        n_ranks: members.len(),
        config: config.unwrap_or_else(|| parent.config.clone()),
        split: Some((parent.identity.handle, count, color, key, comm_hash)),
    };
    init::init(request, settings).map(Some)
}

/// The ranks of a color, by key and then by rank.
fn members(choices: &[(i32, i32)], color: i32) -> Vec<usize> {
    let mut members: Vec<usize> = (0..choices.len()).filter(|rank| choices[*rank].0 == color).collect();
    members.sort_by_key(|rank| (choices[*rank].1, *rank));
    members
}

fn parse_choice(bytes: &[u8]) -> (i32, i32) {
    let word =
        |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| i32::from_le_bytes(*word));
    (word(0), word(4))
}

/// An all-gather over the parent, on this thread, unseen by profilers.
fn gather(parent: &Arc<Comm>, own: &[u8]) -> Result<Vec<u8>> {
    let mut all = vec![0_u8; own.len() * parent.n_ranks];
    let mut operation = Operation {
        primitive: Primitive::AllGather,
        count: own.len(),
        reduction: Reduction { data_type: DataType::U8, op: RedOp::Sum, n_ranks: parent.n_ranks },
        send: Region::of_slice(own),
        recv: Region::of_slice_mut(&mut all),
        sequence: 0,
        events: OperationEvents::default(),
    };
    operation.sequence = parent.next_collective();
    let ticket = parent.turns.issue();
    launch::run(&[Launch { comm: Arc::clone(parent), ticket, operations: vec![operation] }])?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_ordered_by_key_then_rank() {
        assert_eq!(members(&[(1, 5), (0, 0), (1, 5), (1, -1)], 1), [3, 0, 2]);
    }
}
