//! What `ringscope demo --json` prints: the objects of the REST API, joined per communicator.

use ringscope_api::clock::Timestamp;
use ringscope_api::{
    CommunicatorState, Dropped, Finding, FindingState, PrimitiveTotals, Rank, RankPrimitives, Ring, Severity,
};
use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientError};

/// The whole report.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// Every communicator of every job, by job and creation.
    pub communicators: Vec<ReportedCommunicator>,
    /// Every finding, firing and resolved.
    pub findings: Vec<Finding>,
    /// What ringscope lost, by reason; empty if nothing.
    pub dropped: Dropped,
    /// When each phase was.
    pub phases: Vec<Phase>,
}

/// One communicator with all that is known of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ReportedCommunicator {
    /// Short id.
    pub id: String,
    /// The library's own hash.
    pub comm_hash: String,
    /// Job.
    pub job: String,
    /// Name that the job gave it.
    pub name: Option<String>,
    /// Whether it is in use.
    pub state: CommunicatorState,
    /// Number of ranks.
    pub n_ranks: u32,
    /// Number of NCCL nodes.
    pub n_nodes: u32,
    /// Lowest init channel count.
    pub base: Option<u32>,
    /// The demo's phase in which it was made. Absent: its job has no phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Its ranks.
    pub ranks: Vec<Rank>,
    /// Its rings, by channel.
    pub rings: Vec<Ring>,
    /// Its counters, summed over ranks.
    pub primitives: Vec<PrimitiveTotals>,
    /// Its counters per rank.
    pub rank_primitives: Vec<RankPrimitives>,
}

/// One phase of the demo.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Phase {
    /// `healthy`, `degraded` or `healed`.
    pub phase: String,
    /// When it began.
    pub started: Timestamp,
    /// When it was over.
    pub ended: Timestamp,
    /// Findings of severity warning or above that were firing at its end.
    pub firing: Vec<Finding>,
}

/// Asks the daemon for everything.
///
/// # Errors
/// [`ClientError`].
pub async fn collect(client: &Client, phases: Vec<Phase>) -> Result<Report, ClientError> {
    let mut communicators = Vec::new();
    for summary in client.communicators().await? {
        let detail = client.communicator(&summary.id).await?;
        let primitives = client.primitives(&summary.id).await?;
        let phase = phases.iter().rev().find(|phase| summary.created >= phase.started).or(phases.first());
        communicators.push(ReportedCommunicator {
            phase: phase.filter(|_| summary.job == super::TRAINING_JOB).map(|phase| phase.phase.clone()),
            rings: client.rings(&summary.id).await?.rings,
            id: summary.id,
            comm_hash: summary.comm_hash,
            job: summary.job,
            name: summary.name,
            state: summary.state,
            n_ranks: summary.n_ranks,
            n_nodes: summary.n_nodes,
            base: summary.base,
            ranks: detail.ranks,
            primitives: primitives.primitives,
            rank_primitives: primitives.ranks,
        });
    }
    let mut dropped = Dropped::new();
    for job in client.jobs().await? {
        for (reason, events) in job.dropped {
            *dropped.entry(reason).or_default() += events;
        }
    }
    Ok(Report { communicators, findings: client.findings().await?, dropped, phases })
}

/// The findings that make a host degraded, firing now.
///
/// # Errors
/// [`ClientError`].
pub async fn firing(client: &Client) -> Result<Vec<Finding>, ClientError> {
    let findings = client.findings().await?;
    Ok(findings
        .into_iter()
        .filter(|finding| finding.state == FindingState::Firing && finding.severity >= Severity::Warning)
        .collect())
}
