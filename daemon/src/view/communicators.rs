//! Communicators, in lists and whole.

use std::collections::HashSet;

use super::bandwidth::{self, Bytes};
use super::findings::{count, is_degraded};
use super::operations;
use crate::api;
use crate::clock::Timestamp;
use crate::diagnose::Diagnosis;
use crate::model::{Communicator, Model, Name};

/// Which communicators to list. A field that is `None` admits all.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of api::CommunicatorSummary")]
pub struct CommunicatorFilter {
    pub job: Option<String>,
    /// A host that has a rank in it.
    pub host: Option<String>,
    pub degraded: Option<bool>,
    pub state: Option<api::CommunicatorState>,
}

/// The communicators that the filter admits, newest first.
#[must_use]
pub fn communicators(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    filter: &CommunicatorFilter,
) -> Vec<api::CommunicatorSummary> {
    let mut found: Vec<api::CommunicatorSummary> = model
        .communicators()
        .filter(|known| filter.job.as_ref().is_none_or(|job| **known.job() == **job))
        .map(|known| summary(model, diagnosis, now, known))
        .filter(|known| filter.host.as_ref().is_none_or(|host| known.hosts.contains(host)))
        .filter(|known| filter.degraded.is_none_or(|degraded| known.degraded == degraded))
        .filter(|known| filter.state.is_none_or(|state| known.state == state))
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
    let known = model.communicator(id.parse().ok()?)?;
    let channels = diagnosis.channels(known, model);
    let ranks = known.ranks(model).zip(&channels.ranks).map(|(rank, channels)| api::Rank {
        rank: rank.rank,
        global_rank: rank.identity.global_rank,
        host: rank.identity.host.to_string(),
        pid: rank.identity.pid,
        gpu: text(&rank.facts.gpu),
        state: model.rank_state(rank.process, now),
        init_channels: rank.facts.init_channels,
        final_channels: rank.facts.final_channels,
        cause: channels.cause.label().to_owned(),
        operation: operations::current(&rank, now),
    });
    Some(api::CommunicatorDetail { summary: summary(model, diagnosis, now, known), ranks: ranks.collect() })
}

fn summary(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    known: &Communicator,
) -> api::CommunicatorSummary {
    let (mut hosts, mut seen): (Vec<String>, HashSet<&Name>) = (Vec::new(), HashSet::new());
    let (mut name, mut n_nodes) = (None, None);
    let mut bytes = Bytes::default();
    for rank in known.ranks(model) {
        if seen.insert(&rank.identity.host) {
            hosts.push(rank.identity.host.to_string());
        }
        name = name.or_else(|| text(&rank.facts.name));
        n_nodes = n_nodes.max(rank.facts.n_nodes);
        bytes.add(&bandwidth::bytes(&rank, now));
    }
    let channels = diagnosis.channels(known, model);
    let findings = count(diagnosis.firing_of(known.id()));
    let (state, ended) = known.state(model);
    api::CommunicatorSummary {
        id: known.id().to_string(),
        comm_hash: format!("{:#x}", known.comm_hash()),
        job: known.job().to_string(),
        name,
        state,
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
        issued_bytes: bytes.issued,
        completed_bytes: bytes.completed,
        completed_bytes_per_s: bytes.completed_per_s,
    }
}

/// A name, if there is one.
pub(super) fn text(name: &Name) -> Option<String> {
    (!name.is_empty()).then(|| name.to_string())
}
