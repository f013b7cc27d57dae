//! What one rank says of a communicator: taken from a batch, merged with what was said before.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{self, CommunicatorState, Completion};

use super::calls::CommError;
use super::graphs::Graphs;
use super::limits::{MAX_CHANNELS, MAX_EVIDENCE, MAX_EVIDENCE_BYTES, MAX_RANKS, MAX_SETTINGS, MAX_WARNINGS};
use super::names::Name;
use super::places::{Places, Position, Way};
use super::word::Word;

/// What one rank says of a communicator.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Communicator")]
pub struct Facts {
    pub comm_hash: u64,
    pub name: Name,
    pub rank: u32,
    pub n_ranks: u32,
    pub n_nodes: Option<u32>,
    pub parent_hash: Option<u64>,
    pub state: LocalState,
    pub created: Timestamp,
    /// By our clock.
    pub ended: Option<Timestamp>,
    pub gpu: Name,
    pub init_channels: Option<u32>,
    pub final_channels: Option<u32>,
    pub rings: Places,
    pub settings: BTreeMap<Name, i64>,
    pub sources: Sources,
    pub completion: Completion,
    /// Why it will not be known of all its operations whether they are over; empty where it will.
    pub completion_lost: Name,
    pub compute_capability: Option<u32>,
    pub ring_bw_intra: Option<f64>,
    pub ring_bw_inter: Option<f64>,
    pub local_ranks: Option<u32>,
    pub local_rank: Option<u32>,
    pub mnnvl: Option<bool>,
    pub collnet_channels: Option<u32>,
    pub nvls_channels: Option<u32>,
    pub shares_resources: Option<bool>,
    pub log_version: Name,
    pub search_fell_back: bool,
    pub net_unpack: Option<bool>,
    pub made_by: Name,
    pub graphs: Option<Arc<Graphs>>,
    /// Shared: facts are copied with every word about them.
    pub evidence: Arc<[Evidence]>,
    pub error: Option<CommError>,
    pub warnings: Arc<[Evidence]>,
}

/// A communicator as one rank sees it; later states come later here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of batch.proto's CommunicatorState")]
pub enum LocalState {
    Forming,
    Active,
    Destroyed,
    Aborted,
    Failed,
}

/// Who has spoken of a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Its init went through the collector's functions.
    pub calls: bool,
    /// The library told the profiler plugin.
    pub plugin: bool,
    /// The library's log.
    pub log: bool,
}

/// A log line that proves a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Which, in the words of batch.proto.
    pub fact: Name,
    /// Path of the log.
    pub file: Name,
    /// Number of the line, counting from 1.
    pub line: u64,
    /// The line, cut.
    pub text: Arc<str>,
}

impl LocalState {
    /// Whether the communicator is not in use any more.
    #[must_use]
    pub fn is_end(self) -> bool {
        self >= Self::Destroyed
    }

    fn told(told: i32, forming: bool, word: &mut Word<'_>) -> Self {
        match CommunicatorState::try_from(told) {
            Ok(CommunicatorState::Forming) => Self::Forming,
            Ok(CommunicatorState::Active) => Self::Active,
            Ok(CommunicatorState::Destroyed) => Self::Destroyed,
            Ok(CommunicatorState::Aborted) => Self::Aborted,
            Ok(CommunicatorState::Failed) => Self::Failed,
            Ok(CommunicatorState::Unspecified) if forming => Self::Forming,
            Ok(CommunicatorState::Unspecified) => Self::Active,
            Err(_) => {
                word.losses.add("unknown_communicator_state");
                if forming { Self::Forming } else { Self::Active }
            }
        }
    }
}

impl Facts {
    /// What is told of a communicator; `None` if its ranks cannot be.
    pub(super) fn told(told: &batch::Communicator, word: &mut Word<'_>) -> Option<Self> {
        // Of a split, the collector knows the hash before the library says how many ranks it has.
        let is_split = told.n_ranks == 0 && told.state() == CommunicatorState::Forming;
        let forming = told.comm_hash == 0 || is_split;
        if !forming && (told.n_ranks == 0 || told.n_ranks > MAX_RANKS || told.rank >= told.n_ranks) {
            word.losses.add("rank_out_of_range");
            return None;
        }
        let state = LocalState::told(told.state, forming, word);
        let sources = told.sources.unwrap_or_default();
        Some(Self {
            comm_hash: if forming { 0 } else { told.comm_hash },
            name: word.names.intern(&told.name),
            rank: told.rank,
            n_ranks: told.n_ranks,
            n_nodes: told.n_nodes.filter(|n_nodes| *n_nodes > 0),
            parent_hash: told.parent_hash,
            state,
            created: Timestamp(told.created_at_ns),
            ended: told.ended_at_ns.map(|ended| word.ended(ended)),
            gpu: word.names.intern(&told.gpu),
            init_channels: told.init_channels,
            final_channels: told.final_channels,
            rings: rings(&told.rings, word),
            settings: settings(&told.channel_settings, word),
            sources: Sources { calls: sources.calls, plugin: sources.plugin, log: sources.log },
            completion: Completion::try_from(told.completion).unwrap_or_default(),
            completion_lost: word.names.intern(&told.completion_lost),
            compute_capability: told.compute_capability,
            // What is no number is not equal to itself and would be news for ever.
            ring_bw_intra: told.ring_bw_intra.filter(|bw| bw.is_finite()),
            ring_bw_inter: told.ring_bw_inter.filter(|bw| bw.is_finite()),
            local_ranks: told.local_ranks,
            local_rank: told.local_rank,
            mnnvl: told.mnnvl,
            collnet_channels: told.collnet_channels,
            nvls_channels: told.nvls_channels,
            shares_resources: told.shares_resources,
            log_version: word.names.intern(&told.log_version),
            search_fell_back: told.search_fell_back,
            net_unpack: told.net_unpack,
            made_by: word.names.intern(&told.made_by),
            graphs: told.graphs.as_ref().and_then(|graphs| Graphs::told(graphs, word)),
            evidence: evidence(&told.evidence, MAX_EVIDENCE, "evidence_limit", word),
            error: CommError::told(told, word),
            warnings: evidence(&told.warnings, MAX_WARNINGS, "warning_limit", word),
        })
    }

    /// Whether the library gave it up, or said that something is wrong with it.
    pub(super) fn went_wrong(&self) -> bool {
        self.error.is_some() || self.state >= LocalState::Aborted
    }

    /// This, the newer word, over an older one: what it leaves open stays as it was, and nothing ends twice.
    pub(super) fn over(self, older: Self) -> Self {
        let created = match (self.created, older.created) {
            (Timestamp(0), known) | (known, Timestamp(0)) => known,
            (one, other) => one.min(other),
        };
        let identified = if self.comm_hash == 0 { &older } else { &self };
        let (comm_hash, rank, n_ranks) = (identified.comm_hash, identified.rank, identified.n_ranks);
        let named = |newer: Name, older: Name| if newer.is_empty() { older } else { newer };
        Self {
            comm_hash,
            rank,
            n_ranks,
            name: named(self.name, older.name),
            n_nodes: self.n_nodes.or(older.n_nodes),
            parent_hash: self.parent_hash.or(older.parent_hash),
            state: self.state.max(older.state),
            created,
            ended: [self.ended, older.ended].into_iter().flatten().min(),
            gpu: named(self.gpu, older.gpu),
            init_channels: self.init_channels.or(older.init_channels),
            final_channels: self.final_channels.or(older.final_channels),
            rings: if self.rings.is_empty() { older.rings } else { self.rings },
            settings: if self.settings.is_empty() { older.settings } else { self.settings },
            sources: Sources {
                calls: self.sources.calls | older.sources.calls,
                plugin: self.sources.plugin | older.sources.plugin,
                log: self.sources.log | older.sources.log,
            },
            completion: match self.completion {
                Completion::Unspecified => older.completion,
                told => told,
            },
            // Over, once something that was called later has completed.
            completion_lost: self.completion_lost,
            compute_capability: self.compute_capability.or(older.compute_capability),
            ring_bw_intra: self.ring_bw_intra.or(older.ring_bw_intra),
            ring_bw_inter: self.ring_bw_inter.or(older.ring_bw_inter),
            local_ranks: self.local_ranks.or(older.local_ranks),
            local_rank: self.local_rank.or(older.local_rank),
            mnnvl: self.mnnvl.or(older.mnnvl),
            collnet_channels: self.collnet_channels.or(older.collnet_channels),
            nvls_channels: self.nvls_channels.or(older.nvls_channels),
            shares_resources: self.shares_resources.or(older.shares_resources),
            log_version: named(self.log_version, older.log_version),
            search_fell_back: self.search_fell_back | older.search_fell_back,
            net_unpack: self.net_unpack.or(older.net_unpack),
            made_by: named(self.made_by, older.made_by),
            graphs: self.graphs.or(older.graphs),
            evidence: if self.evidence.is_empty() { older.evidence } else { self.evidence },
            error: self.error.or(older.error),
            warnings: if self.warnings.is_empty() { older.warnings } else { self.warnings },
        }
    }
}

fn settings(told: &BTreeMap<String, i64>, word: &mut Word<'_>) -> BTreeMap<Name, i64> {
    word.losses.add_many("setting_limit", told.len().saturating_sub(MAX_SETTINGS));
    told.iter().take(MAX_SETTINGS).map(|(name, value)| (word.names.intern(name), *value)).collect()
}

fn rings(told: &[batch::RingPosition], word: &mut Word<'_>) -> Places {
    let mut places = Vec::with_capacity(told.len());
    for place in told {
        if place.channel >= MAX_CHANNELS {
            word.losses.add("channel_out_of_range");
            continue;
        }
        let way = Way {
            transport: word.names.intern(&place.transport),
            nic: word.names.intern(&place.nic),
            gpu_direct: place.gpu_direct,
            recv_nic: word.names.intern(&place.recv_nic),
            nic_index: place.nic_index,
            recv_nic_index: place.recv_nic_index,
        };
        let (prev, next, proxy_rank) = (place.prev, place.next, place.proxy_rank);
        places.push((place.channel, Position { prev, next, proxy_rank, way: word.ways.share(way) }));
    }
    Places::of(places)
}

fn evidence(
    told: &[batch::Evidence],
    limit: usize,
    reason: &'static str,
    word: &mut Word<'_>,
) -> Arc<[Evidence]> {
    word.losses.add_many(reason, told.len().saturating_sub(limit));
    told.iter()
        .take(limit)
        .map(|line| Evidence {
            fact: word.names.intern(&line.fact),
            file: word.names.intern(&line.file),
            line: line.line,
            text: line.text[..line.text.floor_char_boundary(MAX_EVIDENCE_BYTES)].into(),
        })
        .collect()
}
