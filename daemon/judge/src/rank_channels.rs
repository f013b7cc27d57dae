//! The channels of one rank, as its collector and its log tell.

use std::sync::Arc;

use ringscope_api as api;
use ringscope_api::Fnv;
use ringscope_model::{Evidence, Name, RankRef};

use super::channels::{Bounds, Cause};
use super::version::Version;

/// The channels of one rank.
#[derive(Clone, Debug)]
pub struct RankChannels {
    /// Rank.
    pub rank: u32,
    /// Its host.
    pub host: Name,
    /// Channels that its node's own search found.
    pub init: Option<u32>,
    /// Channels that it runs on.
    pub final_channels: Option<u32>,
    /// Its settings.
    pub bounds: Bounds,
    /// What has to be the same for two communicators to be compared: its host, its GPU, and all settings that the library
    /// took.
    pub likeness: u64,
    /// Why it runs on as many, the strongest first. Never empty.
    pub causes: Vec<Cause>,
    /// Index of its NCCL node.
    pub node: Option<u32>,
    /// Its library.
    pub version: Option<Version>,
    /// Of its GPU, times ten.
    pub compute_capability: Option<u32>,
    /// GB/s inside the node.
    pub ring_bw_intra: Option<f64>,
    /// Its search fell back to one channel in simple order.
    pub search_fell_back: bool,
    /// Lines of its log.
    pub evidence: Arc<[Evidence]>,
}

impl RankChannels {
    pub(super) fn of(rank: &RankRef<'_>, node: Option<u32>) -> Self {
        let facts = rank.facts;
        Self {
            rank: rank.rank,
            host: rank.identity.host.clone(),
            init: facts.init_channels,
            final_channels: facts.final_channels,
            bounds: Bounds::of(&facts.settings),
            likeness: likeness(rank),
            causes: vec![Cause::Unknown],
            node,
            version: Version::of(&facts.log_version, rank.identity.library_version),
            compute_capability: facts.compute_capability,
            ring_bw_intra: facts.ring_bw_intra,
            search_fell_back: facts.search_fell_back,
            evidence: Arc::clone(&facts.evidence),
        }
    }

    /// The lines that prove a fact of this rank.
    pub fn proof<'a>(&'a self, facts: &'a [&str]) -> impl Iterator<Item = api::Evidence> + 'a {
        facts.iter().flat_map(move |fact| {
            let lines = self.evidence.iter().filter(move |line| &&*line.fact == fact);
            lines.map(|line| api::Evidence {
                file: line.file.to_string(),
                line: line.line,
                text: line.text.to_string(),
            })
        })
    }

    /// The strongest cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.causes.first().copied().unwrap_or(Cause::Unknown)
    }
}

/// See [`RankChannels::likeness`]. A GPU that nobody names is known by the rank in the job of its process.
fn likeness(rank: &RankRef<'_>) -> u64 {
    let facts = rank.facts;
    let of = Fnv::new().text(&rank.identity.host).text(&facts.gpu);
    let unnamed = rank.identity.global_rank.filter(|_| facts.gpu.is_empty());
    let of = unnamed.map_or(of, |rank| of.number(u64::from(rank)));
    let settings = facts.settings.iter();
    settings.fold(of, |hash, (name, value)| hash.text(name).number(value.cast_unsigned())).finish()
}
