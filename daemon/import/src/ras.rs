//! JSON of `ncclras -f json`: every rank of every communicator with its host, process and GPU, how many collectives it
//! has issued, and the ranks that did not answer. Format: NCCL `src/ras/client_support.cc` (2.28.7 and later).

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use serde::Deserialize;

/// One answer of RAS.
#[derive(Debug, Deserialize)]
pub(super) struct Dump {
    #[serde(default)]
    pub(super) nccl_version: String,
    /// When it was asked, `2026-01-31 12:00:00` by the clock and in the time zone of the host: tells which answer is
    /// the older one, also of files that were copied.
    #[serde(default)]
    pub(super) timestamp: String,
    pub(super) communicators: Vec<RasCommunicator>,
}

impl Dump {
    /// When it was asked, as if its host's clock were UTC.
    pub(super) fn asked(&self) -> Option<Timestamp> {
        format!("{}Z", self.timestamp.replacen(' ', "T", 1)).parse().ok()
    }
}

/// One communicator.
#[derive(Debug, Deserialize)]
pub(super) struct RasCommunicator {
    pub(super) hash: String,
    pub(super) size: u32,
    #[serde(default)]
    pub(super) ranks: Vec<RasRank>,
    #[serde(default)]
    pub(super) missing_ranks: Vec<MissingRank>,
}

/// A rank that answered.
#[derive(Debug, Deserialize)]
pub(super) struct RasRank {
    pub(super) rank: u32,
    #[serde(default)]
    pub(super) host: String,
    #[serde(default)]
    pub(super) pid: i64,
    #[serde(default)]
    pub(super) cuda_dev: i64,
    #[serde(default)]
    pub(super) status: RankStatus,
    /// Collectives issued, by NCCL's name.
    #[serde(default)]
    pub(super) collective_counts: BTreeMap<String, u64>,
}

/// What a rank says of itself.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RankStatus {
    /// `ncclResult_t`; 7 while the init is under way.
    #[serde(default)]
    pub(super) init_state: i64,
    #[serde(default)]
    pub(super) async_error: i64,
    #[serde(default)]
    pub(super) finalize_called: bool,
    #[serde(default)]
    pub(super) destroy_flag: bool,
    #[serde(default)]
    pub(super) abort_flag: bool,
}

/// A rank that did not.
#[derive(Debug, Deserialize)]
pub(super) struct MissingRank {
    pub(super) rank: u32,
    #[serde(default)]
    pub(super) host: String,
    #[serde(default)]
    pub(super) pid: i64,
    #[serde(default)]
    pub(super) status: MissingStatus,
}

/// Why it did not, as its peers see it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MissingStatus {
    #[serde(default)]
    pub(super) unresponsive: bool,
    #[serde(default)]
    pub(super) considered_dead: bool,
}
