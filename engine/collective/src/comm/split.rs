//! `ncclCommSplit`: the parent's ranks meet at its rank 0 to tell colors and keys; then each color meets at its first
//! rank.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::comm::init::{self, Request};
use crate::comm::pending::Pending;
use crate::comm::{Comm, CommConfig};
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::net::bootstrap::Bootstrap;

/// `NCCL_SPLIT_NOCOLOR`
pub(crate) const NO_COLOR: i32 = -1;

/// What a rank asks for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Choice {
    /// Ranks of one color become one communicator.
    pub(crate) color: i32,
    /// Orders them.
    pub(crate) key: i32,
}

impl Choice {
    /// Checked arguments.
    pub(crate) fn new(color: i32, key: i32) -> Result<Self> {
        if color < 0 && color != NO_COLOR {
            let text = format!("color {color}: colors are 0 or more, or NCCL_SPLIT_NOCOLOR");
            return Err(Error::InvalidArgument(text));
        }
        Ok(Self { color, key })
    }
}

/// Makes this rank's new communicator; none for [`NO_COLOR`].
pub(crate) fn split(
    parent: &Comm,
    choice: Choice,
    config: CommConfig,
    settings: Settings,
    pending: &Arc<Pending>,
) -> Result<Option<Arc<Comm>>> {
    parent.health.aborts_with(pending);
    if parent.is_revoked() {
        return split_by(parent, choice, config, settings, pending);
    }
    parent.check()?;
    parent.health.needed_by(pending);
    // A parent that failed meanwhile says more than the connections that its failure cut.
    split_by(parent, choice, config, settings, pending).map_err(|error| parent.check().err().unwrap_or(error))
}

fn split_by(
    parent: &Comm,
    choice: Choice,
    config: CommConfig,
    settings: Settings,
    pending: &Arc<Pending>,
) -> Result<Option<Arc<Comm>>> {
    let Choice { color, key } = choice;
    let count = parent.next_split();
    let id = parent.meet(0, &format!("split {count}"))?;
    let meeting = Bootstrap::join(id, parent.rank, parent.n_ranks, settings.timeout, pending)
        .inspect_err(|error| parent.call_off_meeting(0, &id, error))?;
    let choices = meeting.all_gather_last(&choice).inspect_err(|_| {
        // NCCL's ranks gather over the parent's ring: of the death of rank 0 its neighbours there hear, and nobody else.
        let is_neighbour = [1, parent.n_ranks - 1].contains(&parent.rank);
        if parent.is_silent() && !is_neighbour && meeting.failure().is_none() {
            pending.wait_until_called_off();
        }
    })?;
    drop(meeting);
    let members = members(&choices, color);
    let rank = members.iter().position(|member| *member == parent.rank).filter(|_| color != NO_COLOR);
    let Some(rank) = rank else { return Ok(None) };
    let id = parent.meet(members[0], &format!("split {count} color {color}"))?;
    let request = Request {
        api: "ncclCommSplit",
        id: id.to_bytes(),
        rank,
        n_ranks: members.len(),
        config,
        device: parent.given_device(),
        split: Some(parent.lineage(count, color, key)),
        kin: parent.kin(&members),
    };
    let made = init::init_as(request, settings, pending);
    made.inspect_err(|error| parent.call_off_meeting(members[0], &id, error)).map(Some)
}

/// The ranks of a color, by key and then by rank.
fn members(choices: &[Choice], color: i32) -> Vec<usize> {
    let mut members: Vec<usize> = (0..choices.len()).filter(|rank| choices[*rank].color == color).collect();
    members.sort_by_key(|rank| (choices[*rank].key, *rank));
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_ordered_by_key_then_rank() {
        let choices = [(1, 5), (0, 0), (1, 5), (1, -1)].map(|(color, key)| Choice { color, key });
        assert_eq!(members(&choices, 1), [3, 0, 2]);
    }

    #[test]
    fn colors_are_not_negative() {
        assert!(Choice::new(NO_COLOR, -7).is_ok() && Choice::new(0, 0).is_ok());
        assert!(Choice::new(-2, 0).is_err());
    }
}
