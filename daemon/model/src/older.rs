//! Ids that releases up to 0.1 gave to what is still stored. History, findings and links are kept under them, so what is
//! stored keeps its id until it is forgotten; what is new never gets one of theirs.

use std::collections::HashMap;

use super::summation::GroupId;
use super::{CommunicatorId, Model};

/// The older ids that are in use.
#[derive(Debug, Default)]
pub struct OlderIds {
    /// Each with all that it was made of but the place among its likes: another communicator whose id would be the same is
    /// another one.
    communicators: HashMap<CommunicatorId, (String, u64, u32)>,
    /// Each with its session.
    groups: HashMap<GroupId, u64>,
}

impl OlderIds {
    /// Takes in a communicator that is stored, if its id is an older one.
    pub fn communicator(&mut self, id: &str, job: &str, comm_hash: u64, n_ranks: u32) {
        let Ok(id) = id.parse() else { return };
        let is_older = |sequence| CommunicatorId::older(job, comm_hash, n_ranks, sequence) == id;
        if (0..SEQUENCES).any(is_older) {
            self.communicators.insert(id, (job.to_owned(), comm_hash, n_ranks));
        }
    }

    /// Takes in a summation group that is stored.
    pub fn group(&mut self, id: &str, session: u64) {
        if let Ok(id) = id.parse() {
            self.groups.insert(id, session);
        }
    }

    /// The id of a communicator.
    pub(super) fn id_of(&self, job: &str, comm_hash: u64, n_ranks: u32, sequence: u32) -> CommunicatorId {
        if !self.communicators.is_empty() {
            let older = CommunicatorId::older(job, comm_hash, n_ranks, sequence);
            let known = self.communicators.get(&older);
            if known.is_some_and(|known| (&*known.0, known.1, known.2) == (job, comm_hash, n_ranks)) {
                return older;
            }
        }
        CommunicatorId::nth(job, comm_hash, n_ranks, sequence)
    }

    /// The id of a summation group.
    pub(super) fn id_of_group(&self, session: u64, group: u64) -> GroupId {
        let older = GroupId::older(session, group);
        if self.groups.get(&older) == Some(&session) { older } else { GroupId::new(session, group) }
    }
}

impl Model {
    /// Keeps the ids of what is stored.
    pub fn keep_ids(&mut self, older: OlderIds) {
        self.older = older;
    }
}

/// Communicators of one hash in one job that are known again: more come from splits in a loop.
const SEQUENCES: u32 = 16;
