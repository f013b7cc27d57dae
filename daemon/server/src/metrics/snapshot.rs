//! What a scrape reads, taken under one hold of the hub's lock or two.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use ringscope_judge::Diagnosis;
use ringscope_model::{Communicator, CommunicatorId, ErrorCount, Facts, Model, ProcessState, Sample};
use ringscope_view as view;

use super::family::Row;
use super::jobs_seen::{self, JobSeen};
use super::summations::{self, Summing};
use crate::hub::{CollectorCount, Hub};

/// The model at one moment.
pub(super) struct Snapshot {
    /// Communicators in use, the newest first, at most the limit.
    pub(super) communicators: Vec<api::CommunicatorSummary>,
    /// Communicators in use beyond the limit.
    pub(super) omitted: usize,
    /// By communicator and host, both channel counts of the rank that is worst off.
    pub(super) channels: Vec<HostChannels>,
    pub(super) samples: Vec<Sample>,
    pub(super) findings: Vec<api::Finding>,
    /// Open incidents, worst first, at most [`INCIDENTS_MAX`].
    pub(super) incidents: Vec<api::Incident>,
    /// Open incidents beyond that.
    pub(super) incidents_omitted: usize,
    /// Ids of all open incidents that are silenced.
    pub(super) silenced: BTreeSet<String>,
    pub(super) health: api::Health,
    pub(super) dropped: api::Dropped,
    pub(super) collectors: Vec<CollectorCount>,
    /// Ports of NICs of all hosts.
    pub(super) nics: Vec<NicPort>,
    /// GPUs by host, where a driver told.
    pub(super) gpus: Vec<(String, u64)>,
    pub(super) jobs_seen: Vec<JobSeen>,
    /// When the agent of each host was last heard.
    pub(super) agents: BTreeMap<String, Timestamp>,
    /// Summation groups in use.
    pub(super) summations: Vec<Summing>,
    /// Those beyond the limit.
    pub(super) summations_omitted: usize,
    /// How long the communicator that waits longest has changed and not been judged.
    pub(super) judgement_lag: Duration,
    jobs: HashMap<CommunicatorId, String>,
}

/// One port of a NIC.
pub(super) struct NicPort {
    pub(super) host: String,
    pub(super) nic: String,
    pub(super) port: String,
    pub(super) up: bool,
    pub(super) rate_bits_per_s: Option<u64>,
    pub(super) sent_bytes: Option<u64>,
    pub(super) received_bytes: Option<u64>,
    pub(super) link_downs: Option<u64>,
    pub(super) errors: Vec<ErrorCount>,
}

/// Channels of a communicator on a host.
pub(super) struct HostChannels {
    pub(super) job: String,
    pub(super) comm: String,
    pub(super) host: String,
    pub(super) init: Option<u32>,
    pub(super) last: Option<u32>,
}

impl Snapshot {
    pub(super) fn take(hub: &Hub, now: Timestamp, communicators_max: usize) -> Self {
        let mut snapshot = hub.read(|model, diagnosis| {
            let filter = view::CommunicatorFilter::default();
            let mut communicators = view::communicators(model, diagnosis, now, &filter);
            // What was imported is the past: no alert is to come of it.
            let lives = |id: &str| {
                let known = id.parse().ok().and_then(|id| model.communicator(id));
                known.is_some_and(|known| {
                    let mut processes = known.ranks(model).map(|rank| rank.process.state());
                    processes.any(|state| state != ProcessState::Imported)
                })
            };
            communicators
                .retain(|summary| summary.state != api::CommunicatorState::Ended && lives(&summary.id));
            let omitted = communicators.len().saturating_sub(communicators_max);
            communicators.truncate(communicators_max);
            let jobs: HashMap<CommunicatorId, String> = communicators
                .iter()
                .filter_map(|summary| Some((summary.id.parse().ok()?, summary.job.clone())))
                .collect();
            let ids: BTreeSet<CommunicatorId> = jobs.keys().copied().collect();
            let channels = communicators
                .iter()
                .filter_map(|summary| model.communicator(summary.id.parse().ok()?))
                .flat_map(|communicator| host_channels(communicator, model))
                .collect();
            let firing = view::FindingFilter {
                state: Some(api::FindingState::Firing),
                ..view::FindingFilter::default()
            };
            let open = view::IncidentFilter { state: Some(api::FindingState::Firing), ..Default::default() };
            let mut incidents = view::incidents(model, diagnosis, &open);
            incidents.retain(|incident| !incident.imported);
            let silenced = incidents.iter().filter(|incident| incident.silenced_until.is_some());
            let silenced = silenced.map(|incident| incident.id.clone()).collect();
            let incidents_omitted = incidents.len().saturating_sub(INCIDENTS_MAX);
            incidents.truncate(INCIDENTS_MAX);
            let (summations, summations_omitted) = summations::take(model, now);
            let mut findings = view::findings(model, diagnosis, now, &firing);
            findings.retain(|finding| !finding.imported);
            Self {
                communicators,
                omitted,
                channels,
                samples: model.samples(&ids),
                findings,
                incidents,
                incidents_omitted,
                silenced,
                health: view::health_now(model, diagnosis, now),
                dropped: dropped(model, diagnosis),
                collectors: Vec::new(),
                nics: nics(model),
                gpus: gpus(model),
                jobs_seen: jobs_seen::take(model, now),
                agents: BTreeMap::new(),
                summations,
                summations_omitted,
                judgement_lag: diagnosis.behind(now),
                jobs,
            }
        });
        hub.read_agents(|agents, collectors| {
            add(&mut snapshot.dropped, &agents.dropped());
            snapshot.collectors = collectors.to_vec();
            snapshot.agents = agents.heard(now);
        });
        snapshot
    }

    /// One row per (communicator, host, primitive).
    pub(super) fn rows(&self, value: impl Fn(&Sample) -> u64) -> impl Iterator<Item = Row<'_>> {
        self.rows_of(|_| true, value)
    }

    /// The same, of those that `applies` picks.
    pub(super) fn rows_of(
        &self,
        applies: impl Fn(&Sample) -> bool,
        value: impl Fn(&Sample) -> u64,
    ) -> impl Iterator<Item = Row<'_>> {
        self.samples.iter().filter(move |sample| applies(sample)).map(move |sample| {
            let labels = vec![
                ("comm", sample.comm.as_str()),
                ("host", sample.host.as_str()),
                ("job", self.job(sample.comm)),
                ("primitive", sample.primitive.label()),
            ];
            (labels, super::family::number(value(sample)))
        })
    }

    /// One row per port of a NIC that has the value.
    pub(super) fn nics(&self, value: impl Fn(&NicPort) -> Option<f64>) -> impl Iterator<Item = Row<'_>> {
        self.nics.iter().filter_map(move |nic| {
            let labels =
                vec![("host", nic.host.as_str()), ("nic", nic.nic.as_str()), ("port", nic.port.as_str())];
            Some((labels, value(nic)?))
        })
    }

    pub(super) fn job(&self, comm: CommunicatorId) -> &str {
        self.jobs.get(&comm).map_or("", String::as_str)
    }
}

/// What was lost or left out, by reason, beside what agents lost.
fn dropped(model: &Model, diagnosis: &Diagnosis) -> api::Dropped {
    let mut dropped = model.dropped();
    add(&mut dropped, &diagnosis.dropped());
    for process in model.jobs().flat_map(|(_, job)| job.processes(model)) {
        add(&mut dropped, process.dropped());
    }
    dropped
}

/// The two counts of one host are those of one rank, the one with the least init for its final: so that an
/// expression over both is true of a host exactly if it is true of one of its ranks.
fn host_channels(communicator: &Communicator, model: &Model) -> Vec<HostChannels> {
    let mut hosts: BTreeMap<&str, &Facts> = BTreeMap::new();
    for rank in communicator.ranks(model) {
        hosts
            .entry(&rank.identity.host)
            .and_modify(|worst| {
                if share(rank.facts) < share(worst) {
                    *worst = rank.facts;
                }
            })
            .or_insert(rank.facts);
    }
    let channels = hosts.into_iter().map(|(host, facts)| HostChannels {
        job: communicator.job().to_string(),
        comm: communicator.id().to_string(),
        host: host.to_owned(),
        init: facts.init_channels,
        last: facts.final_channels,
    });
    channels.collect()
}

fn nics(model: &Model) -> Vec<NicPort> {
    let ports = model.hardware().flat_map(|(host, hardware)| {
        hardware.nics.iter().map(|(port, nic)| {
            let (sent_bytes, received_bytes) = nic.bytes();
            NicPort {
                host: host.to_string(),
                nic: port.nic.to_string(),
                port: port.number.to_string(),
                up: nic.up,
                rate_bits_per_s: nic.rate_bits_per_s,
                sent_bytes,
                received_bytes,
                link_downs: nic.link_downs(),
                errors: nic.errors().collect(),
            }
        })
    });
    ports.collect()
}

fn gpus(model: &Model) -> Vec<(String, u64)> {
    let known = model.hardware();
    known.filter_map(|(host, of)| Some((host.to_string(), of.gpus.as_ref()?.len() as u64))).collect()
}

/// `init / final`; a rank that says less comes after those that say both.
fn share(rank: &Facts) -> f64 {
    match (rank.init_channels, rank.final_channels) {
        (Some(init), Some(last)) => f64::from(init) / f64::from(last.max(1)),
        (Some(_), None) | (None, Some(_)) => f64::MAX,
        (None, None) => f64::INFINITY,
    }
}

fn add(sum: &mut api::Dropped, dropped: &api::Dropped) {
    for (reason, events) in dropped {
        let total = sum.entry(reason.clone()).or_default();
        *total = total.saturating_add(*events);
    }
}

/// Open incidents that have a series: more are not told apart by people, and each makes alerts.
const INCIDENTS_MAX: usize = 256;
