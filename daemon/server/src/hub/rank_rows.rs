//! The rows of ranks and of their hops, for those who read the database with SQL: only what is not written already. A
//! communicator that forms changes with each of its hosts, and one that works says the same for weeks.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ringscope_api::clock::Timestamp;
use ringscope_judge::Channels;
use ringscope_model::{Communicator, CommunicatorId, Model, RankRef};
use ringscope_store::{HopsRow, RankRow, WriteSet};

/// What the store has of each communicator.
#[derive(Debug, Default)]
pub(super) struct RankRows(HashMap<CommunicatorId, Written>);

#[derive(Debug, Default)]
struct Written {
    /// When its rows had their last turn.
    turn: Timestamp,
    /// Hashes of the rows of each rank.
    ranks: HashMap<u32, (u64, u64)>,
}

impl RankRows {
    /// When the rows of a communicator had their last turn.
    pub(super) fn turn(&self, id: CommunicatorId) -> Option<Timestamp> {
        self.0.get(&id).map(|written| written.turn)
    }

    /// They have one now.
    pub(super) fn has_turn(&mut self, id: CommunicatorId, now: Timestamp) {
        self.0.entry(id).or_default().turn = now;
    }

    /// The store did not take what it was given of this one.
    pub(super) fn forget(&mut self, id: CommunicatorId) {
        self.0.remove(&id);
    }

    /// Forgets those that the model has forgotten.
    pub(super) fn keep_known(&mut self, model: &Model) {
        self.0.retain(|id, _| model.communicator(*id).is_some());
    }

    /// Adds the rows that changed of at most `n` ranks, beginning with `from`. Returns the rank to go on with, if there are more.
    pub(super) fn add(
        &mut self,
        (model, known, channels): (&Model, &Communicator, &Channels),
        (from, n): (u32, usize),
        now: Timestamp,
        set: &mut WriteSet,
    ) -> Option<u32> {
        let written = &mut self.0.entry(known.id()).or_default().ranks;
        let mut ranks = known.ranks_from(from, model);
        for rank in ranks.by_ref().take(n) {
            let row = rank_row(known, &rank, channels, now);
            let hashes = (hash_of_row(&row), hash_of_hops(&rank));
            let before = written.insert(rank.rank, hashes);
            if before.is_none_or(|before| before.0 != hashes.0) {
                set.ranks.push(row);
            }
            if !rank.facts.rings.is_empty() && before.is_none_or(|before| before.1 != hashes.1) {
                set.hops.push(hops_row(known, &rank));
            }
        }
        ranks.next().map(|rank| rank.rank)
    }
}

fn rank_row(known: &Communicator, rank: &RankRef<'_>, channels: &Channels, now: Timestamp) -> RankRow {
    let cause = channels.rank(rank.rank).map_or("unknown", |judged| judged.cause().label());
    RankRow {
        comm: known.id_str().to_owned(),
        rank: i64::from(rank.rank),
        host: rank.identity.host.to_string(),
        pid: i64::from(rank.identity.pid),
        gpu: some(&rank.facts.gpu),
        init_channels: rank.facts.init_channels.map(i64::from),
        final_channels: rank.facts.final_channels.map(i64::from),
        cause: cause.to_owned(),
        updated_ns: now.0.cast_signed(),
    }
}

/// JSON of `[channel, prev, next, transport, nic]` of each channel.
fn hops_row(known: &Communicator, rank: &RankRef<'_>) -> HopsRow {
    let hops: Vec<_> = rank
        .facts
        .rings
        .iter()
        .map(|(channel, place)| (channel, place.prev, place.next, some(&place.transport), some(&place.nic)))
        .collect();
    HopsRow {
        comm: known.id_str().to_owned(),
        rank: i64::from(rank.rank),
        hops: serde_json::to_string(&hops).unwrap_or_default(),
    }
}

fn hash_of_row(row: &RankRow) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&row.host, row.pid, &row.gpu, row.init_channels, row.final_channels, &row.cause).hash(&mut hasher);
    hasher.finish()
}

fn hash_of_hops(rank: &RankRef<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (channel, place) in rank.facts.rings.iter() {
        (channel, place.prev, place.next, &place.transport, &place.nic).hash(&mut hasher);
    }
    hasher.finish()
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
