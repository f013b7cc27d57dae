//! What a scrape reads, taken under one hold of the hub's lock or two.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use ringscope_judge::Diagnosis;
use ringscope_model::{Model, Sample};
use ringscope_view as view;

use super::MetricsLimits;
use super::by_host::ByHost;
use super::communicators::{self, Shown};
use super::family::{self, Row};
use super::findings::{self, Fired};
use super::jobs_seen::{self, JobSeen};
use super::kept::Kept;
use super::nics::{self, Count, NicPort};
use super::room::{Choice, Memory};
use super::summations::{self, Summing};
use crate::hub::{CollectorCount, Hub};

/// The model at one moment, as far as there is room for it.
pub(super) struct Snapshot {
    pub(super) series_limit: usize,
    /// What there is no room for, by kind.
    pub(super) left_out: Vec<(&'static str, usize)>,
    /// Communicators in use.
    pub(super) communicators: Vec<Shown>,
    /// Findings that fire.
    pub(super) findings: Vec<Fired>,
    /// Open incidents.
    pub(super) incidents: Vec<api::Incident>,
    /// Ids of all open incidents that are silenced.
    pub(super) silenced: BTreeSet<String>,
    pub(super) health: api::Health,
    pub(super) dropped: api::Dropped,
    pub(super) collectors: Vec<CollectorCount>,
    /// Ports of NICs.
    pub(super) nics: Vec<NicPort>,
    /// GPUs by host, where a driver told.
    pub(super) gpus: Vec<(String, u64)>,
    /// The clocks of hosts, where anything is known of them.
    pub(super) clocks: Vec<api::HostClock>,
    pub(super) jobs_seen: Vec<JobSeen>,
    /// When the agent of each host was last heard.
    pub(super) agents: BTreeMap<String, Timestamp>,
    /// Summation groups in use.
    pub(super) summations: Vec<Summing>,
    /// How long the communicator that waits longest has changed and not been judged.
    pub(super) judgement_lag: Duration,
}

impl Snapshot {
    /// Takes it. `kept`: what stays from scrape to scrape.
    pub(super) fn take(hub: &Hub, now: Timestamp, limits: MetricsLimits, kept: &Kept) -> Self {
        let mut last = kept.last_shown();
        let series = limits.series.saturating_sub(ALWAYS_SERIES);
        let mut room = series;
        let mut snapshot = hub.read(|model, diagnosis| {
            let (findings, findings_left_out) = findings::firing(diagnosis, series / 10);
            room -= findings.len();
            let mut jobs_seen = jobs_seen::take(model, now);
            let jobs = jobs_seen::fit(&mut jobs_seen, &findings, &mut last.jobs, room / 10, now);
            room -= jobs.used;
            let (incidents, silenced, incidents_left_out) = incidents(model, diagnosis);
            let (summations, groups) = summations::take(model, diagnosis, now, &mut last.groups, room / 5);
            room -= groups.used;
            Self {
                series_limit: limits.series,
                left_out: vec![
                    ("findings", findings_left_out),
                    ("incidents", incidents_left_out),
                    ("jobs", jobs.left_out),
                    ("summation_groups", groups.left_out),
                    ("summation_groups_by_host", groups.without_detail),
                ],
                communicators: Vec::new(),
                findings,
                incidents,
                silenced,
                health: kept.health(model, diagnosis, now),
                dropped: dropped(model, diagnosis),
                collectors: Vec::new(),
                nics: nics::nics(model),
                gpus: gpus(model),
                clocks: view::host_clocks(model, now),
                jobs_seen,
                agents: BTreeMap::new(),
                summations,
                judgement_lag: diagnosis.behind(now),
            }
        });
        hub.read_agents(|agents, collectors| {
            add(&mut snapshot.dropped, &agents.dropped());
            snapshot.collectors = collectors.to_vec();
            snapshot.agents = agents.heard(now);
        });
        let hosts = snapshot.fit_hosts(&mut last.hosts, room * 2 / 5, now);
        room -= hosts.used;
        let choice = hub.read(|model, diagnosis| {
            let known = communicators::in_use(model, diagnosis);
            let mut candidates: Vec<_> = known.iter().map(communicators::Known::candidate).collect();
            let beyond = communicators::keep_most(&mut candidates, limits.communicators);
            let mut choice = last.communicators.choose(&candidates, room, 50, now);
            choice.left_out += beyond;
            snapshot.communicators =
                known.into_iter().filter_map(|known| known.shown(model, &choice)).collect();
            choice
        });
        snapshot.left_out.extend([
            ("communicators", choice.left_out),
            ("communicators_by_host", choice.without_detail),
            ("hosts", hosts.left_out),
            ("hosts_nics", hosts.without_detail),
        ]);
        snapshot
    }

    fn fit_hosts(&mut self, memory: &mut Memory<String>, room: usize, now: Timestamp) -> Choice<String> {
        let named = findings::bad_hosts(&self.findings);
        let by_host = ByHost {
            collectors: &mut self.collectors,
            nics: &mut self.nics,
            gpus: &mut self.gpus,
            clocks: &mut self.clocks,
            jobs: &mut self.jobs_seen,
            agents: &mut self.agents,
        };
        by_host.fit(&named, memory, room, now)
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
        let samples =
            self.communicators.iter().flat_map(|one| one.samples.iter().map(move |sample| (one, sample)));
        samples.filter(move |(_, sample)| applies(sample)).map(move |(one, sample)| {
            let mut labels = vec![("comm", one.id.as_str())];
            labels.extend(host_label(&sample.host));
            labels.extend([("job", &*one.job), ("primitive", sample.primitive.label())]);
            (labels, family::number(value(sample)))
        })
    }

    /// One row per (communicator, host) that has the value.
    pub(super) fn channels(
        &self,
        value: impl Fn(&communicators::HostChannels) -> Option<u32>,
    ) -> impl Iterator<Item = Row<'_>> {
        let channels =
            self.communicators.iter().flat_map(|one| one.channels.iter().map(move |host| (one, host)));
        channels.filter_map(move |(one, host)| {
            let labels = vec![("comm", one.id.as_str()), ("host", &*host.host), ("job", &*one.job)];
            Some((labels, f64::from(value(host)?)))
        })
    }

    /// One row per port of a NIC and counter.
    pub(super) fn nic_counters(&self, of: impl Fn(&NicPort) -> &Vec<Count>) -> impl Iterator<Item = Row<'_>> {
        self.nics.iter().flat_map(move |nic| {
            of(nic).iter().map(|(name, value)| {
                let labels = vec![
                    ("counter", &**name),
                    ("host", nic.host.as_str()),
                    ("nic", nic.nic.as_str()),
                    ("port", nic.port.as_str()),
                ];
                (labels, family::number(*value))
            })
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
}

/// What stands for all hosts has no such label; Prometheus takes an empty one for that.
pub(super) fn host_label(host: &str) -> Option<(&'static str, &str)> {
    (!host.is_empty()).then_some(("host", host))
}

/// Open incidents, worst first; the ids of all that are silenced; and how many are not among the first.
fn incidents(model: &Model, diagnosis: &Diagnosis) -> (Vec<api::Incident>, BTreeSet<String>, usize) {
    let open = view::IncidentFilter { state: Some(api::FindingState::Firing), ..Default::default() };
    let mut incidents = view::incidents(model, diagnosis, &open);
    incidents.retain(|incident| !incident.imported);
    let silenced = incidents.iter().filter(|incident| incident.silenced_until.is_some());
    let silenced = silenced.map(|incident| incident.id.clone()).collect();
    let left_out = incidents.len().saturating_sub(INCIDENTS_MAX);
    incidents.truncate(INCIDENTS_MAX);
    (incidents, silenced, left_out)
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

fn gpus(model: &Model) -> Vec<(String, u64)> {
    let known = model.hardware();
    known.filter_map(|(host, of)| Some((host.to_string(), of.gpus.as_ref()?.len() as u64))).collect()
}

fn add(sum: &mut api::Dropped, dropped: &api::Dropped) {
    for (reason, events) in dropped {
        let total = sum.entry(reason.clone()).or_default();
        *total = total.saturating_add(*events);
    }
}

/// Open incidents that have a series: more are not told apart by people, and each makes alerts.
const INCIDENTS_MAX: usize = 256;
/// Room for what there is always: the incidents above, and what the daemon says of itself.
const ALWAYS_SERIES: usize = 512;
