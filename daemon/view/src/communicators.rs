//! Communicators, in lists and whole.

use std::collections::{BTreeSet, HashSet};

use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use ringscope_judge::{Diagnosis, RankChannels};
use ringscope_model::{Communicator, CommunicatorId, Model, Name, RankRef};
use ringscope_wire::batch;

use super::bandwidth::{self, Bytes};
use super::findings::{count, is_degraded};
use super::graphs::graphs;
use super::purpose::purpose;
use super::text;
use super::{Part, operations};
use ringscope_judge::standings::Standings;

/// Which communicators to list. A field that is `None` admits all.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of api::CommunicatorSummary")]
pub struct CommunicatorFilter {
    pub job: Option<String>,
    /// A host that has a rank in it.
    pub host: Option<String>,
    pub degraded: Option<bool>,
    pub state: Option<api::CommunicatorState>,
    /// Part of its id, hash, name or job.
    pub part: Option<Part>,
}

impl CommunicatorFilter {
    fn admits(&self, known: &api::CommunicatorSummary) -> bool {
        let texts = || [Some(&known.id), Some(&known.comm_hash), Some(&known.job), known.name.as_ref()];
        self.host.as_ref().is_none_or(|host| known.hosts.contains(host))
            && self.degraded.is_none_or(|degraded| known.degraded == degraded)
            && self.state.is_none_or(|state| known.state == state)
            && self
                .part
                .as_ref()
                .is_none_or(|part| texts().into_iter().flatten().any(|text| part.is_in(text)))
    }
}

/// The communicators that the filter admits, newest first.
#[must_use]
pub fn communicators(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    filter: &CommunicatorFilter,
) -> Vec<api::CommunicatorSummary> {
    let standings = Standings::of(model, diagnosis, now);
    let mut found: Vec<api::CommunicatorSummary> = model
        .communicators()
        .filter(|known| filter.job.as_ref().is_none_or(|job| **known.job() == **job))
        .map(|known| summary(model, diagnosis, &standings, now, known))
        .filter(|known| filter.admits(known))
        .collect();
    found.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| one.id.cmp(&other.id)));
    found
}

/// One communicator with its ranks.
#[must_use]
pub fn communicator(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    id: &str,
) -> Option<api::CommunicatorDetail> {
    communicators_of(model, diagnosis, now, &[id.parse().ok()?]).pop()
}

/// Several communicators with their ranks, those of them that are known.
#[must_use]
pub fn communicators_of(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    ids: &[CommunicatorId],
) -> Vec<api::CommunicatorDetail> {
    let standings = Standings::of(model, diagnosis, now);
    let known = ids.iter().filter_map(|id| model.communicator(*id));
    known.map(|known| detail(model, diagnosis, &standings, now, known)).collect()
}

fn detail(
    model: &Model,
    diagnosis: &Diagnosis,
    standings: &Standings<'_>,
    now: Timestamp,
    known: &Communicator,
) -> api::CommunicatorDetail {
    let channels = diagnosis.channels(known, model);
    let refs: Vec<RankRef<'_>> = known.ranks(model).collect();
    let ranks = refs.iter().zip(&channels.ranks);
    let ranks = ranks.map(|(one, channels)| rank(model, standings, now, one, channels));
    api::CommunicatorDetail {
        summary: summary(model, diagnosis, standings, now, known),
        prediction: channels.prediction(),
        ranks: ranks.collect(),
        graphs: graphs(&refs, &channels),
    }
}

fn rank(
    model: &Model,
    standings: &Standings<'_>,
    now: Timestamp,
    rank: &RankRef<'_>,
    channels: &RankChannels,
) -> api::Rank {
    let (facts, collector) = (rank.facts, rank.process.collector());
    let sources =
        [("calls", facts.sources.calls), ("plugin", facts.sources.plugin), ("log", facts.sources.log)];
    let over_network = || facts.rings.values().filter(|place| place.transport.starts_with("NET"));
    api::Rank {
        rank: rank.rank,
        global_rank: rank.identity.global_rank,
        host: rank.identity.host.to_string(),
        pid: rank.identity.pid,
        place: rank.identity.scheduled.place(),
        gpu: text(&facts.gpu),
        state: model.rank_state(rank.process, now),
        standing: standings.rank(rank),
        init_channels: facts.init_channels,
        final_channels: facts.final_channels,
        cause: channels.cause().label().to_owned(),
        causes: channels.causes.iter().map(|cause| cause.label().to_owned()).collect(),
        node: channels.node,
        library_version: channels.version.map(|version| version.to_string()),
        compute_capability: facts.compute_capability,
        ring_bw_intra: facts.ring_bw_intra,
        ring_bw_inter: facts.ring_bw_inter,
        gpu_direct: over_network().next().map(|_| over_network().all(|place| place.gpu_direct)),
        sources: sources.into_iter().filter(|(_, told)| *told).map(|(word, _)| word.to_owned()).collect(),
        completion: if facts.completion_lost.is_empty() {
            completion(facts.completion)
        } else {
            api::Completion::Unknown
        },
        level: match collector.level {
            batch::Level::Unspecified => None,
            batch::Level::Counters => Some("counters".to_owned()),
            batch::Level::Channels => Some("channels".to_owned()),
            batch::Level::Steps => Some("steps".to_owned()),
            batch::Level::Events => Some("events".to_owned()),
        },
        profiler_version: Some(collector.profiler_version).filter(|version| *version > 0),
        operation: operations::current(model, rank, now),
    }
}

fn completion(told: batch::Completion) -> api::Completion {
    match told {
        batch::Completion::Unspecified => api::Completion::Unknown,
        batch::Completion::None => api::Completion::None,
        batch::Completion::Profiler => api::Completion::Profiler,
        batch::Completion::Events => api::Completion::Events,
    }
}

fn summary(
    model: &Model,
    diagnosis: &Diagnosis,
    standings: &Standings<'_>,
    now: Timestamp,
    known: &Communicator,
) -> api::CommunicatorSummary {
    let (mut hosts, mut seen): (Vec<String>, HashSet<&Name>) = (Vec::new(), HashSet::new());
    let (name, mut n_nodes) = (known.name(model).map(ToString::to_string), None);
    let (mut bytes, mut completions) = (Bytes::default(), BTreeSet::new());
    for rank in known.ranks(model) {
        if seen.insert(&rank.identity.host) {
            hosts.push(rank.identity.host.to_string());
        }
        n_nodes = n_nodes.max(rank.facts.n_nodes);
        let is_lost = !rank.facts.completion_lost.is_empty();
        let told = if is_lost { batch::Completion::Unspecified } else { rank.facts.completion };
        completions.insert(told as i32);
        bytes.add(&bandwidth::bytes(&rank, now));
    }
    let channels = diagnosis.judged_channels(known, model);
    let findings = count(diagnosis.firing_of(known.id()));
    let (state, ended) = known.state(model);
    api::CommunicatorSummary {
        id: known.id().to_string(),
        comm_hash: format!("{:#x}", known.comm_hash()),
        job: known.job().to_string(),
        purpose: purpose(model, known, name.as_deref()),
        name,
        state,
        standing: standings.communicator(known),
        created: known.created(model),
        ended,
        n_ranks: known.n_ranks(),
        n_ranks_seen: known.n_ranks_seen(),
        n_nodes: n_nodes.unwrap_or_else(|| u32::try_from(hosts.len()).unwrap_or(u32::MAX)),
        hosts,
        base: channels.base,
        final_channels: channels.final_channels,
        culprits: channels.culprits().iter().map(ToString::to_string).collect(),
        degraded: is_degraded(findings),
        findings,
        coverage: channels.coverage.to_api(),
        completion: match (completions.len(), completions.first()) {
            (0 | 1, told) => completion(told.copied().unwrap_or_default().try_into().unwrap_or_default()),
            _ => api::Completion::Mixed,
        },
        issued_bytes: bytes.issued,
        completed_bytes: bytes.completed,
        completed_bytes_per_s: bytes.completed_per_s,
    }
}
