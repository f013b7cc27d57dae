//! What a scrape reads of summation groups in use, and its rows: one for each set of labels.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::clock::Timestamp;
use ringscope_api::{Severity, SummationRole as Role};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;
use ringscope_model::summation::{Group, add_staleness};
use ringscope_wire::batch::{SummationKeyClass, SummationMember, SummationStage, SummationTraffic};

use super::family::{Counts, Row, number};
use super::room::{Candidate, Choice, Level, Memory};

/// One group.
pub(super) struct Summing {
    job: String,
    group: String,
    members: Vec<Member>,
    services: Vec<Service>,
    /// Last arrivals by worker, with its host and number.
    last_arrivals: Vec<(String, String, u64)>,
}

struct Member {
    host: String,
    is_worker: bool,
    oldest_wait_s: f64,
    told: SummationMember,
}

/// A service with its label.
pub(super) struct Service {
    label: String,
    host: String,
    pub(super) share: f64,
    pub(super) optimal_share: f64,
}

/// The groups in use that there is room for, and how many there is none for.
pub(super) fn take(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    memory: &mut Memory<String>,
    room: usize,
) -> (Vec<Summing>, Choice<String>) {
    let is_bad = |group: &Group| {
        diagnosis.firing_of_summation(group.id()).any(|finding| finding.severity >= Severity::Warning)
    };
    let mut groups: Vec<(bool, &Group)> = model
        .summations()
        .filter(|group| group.ended(model).is_none())
        .map(|group| (is_bad(group), group))
        .collect();
    groups.sort_by_key(|(bad, group)| (!bad, Reverse(group.started()), group.id()));
    let beyond = groups.len().saturating_sub(GROUPS_MAX);
    groups.truncate(GROUPS_MAX);
    let known: Vec<(&Group, Summing)> =
        groups.iter().map(|(_, group)| (*group, Summing::of(group, model, now, Level::Detail))).collect();
    let candidate = |((bad, _), (_, summing)): (&(bool, &Group), &(&Group, Summing))| {
        let (whole, in_detail) = (WHOLE_SERIES, summing.n_series());
        Candidate {
            key: summing.group.clone(),
            unhealthy: *bad,
            size: summing.members.len() as u64,
            whole: whole.min(in_detail),
            detail: in_detail.saturating_sub(whole),
        }
    };
    let candidates: Vec<Candidate<String>> = groups.iter().zip(&known).map(candidate).collect();
    let mut choice = memory.choose(&candidates, room, 50, now);
    choice.left_out += beyond;
    let shown = known.into_iter().filter_map(|(group, summing)| match choice.level(&summing.group)? {
        Level::Detail => Some(summing),
        Level::Whole => Some(Summing::of(group, model, now, Level::Whole)),
    });
    (shown.collect(), choice)
}

impl Summing {
    /// As a whole its hosts are one without a name, so that their rows are one.
    fn of(group: &Group, model: &Model, now: Timestamp, level: Level) -> Self {
        let is_whole = level == Level::Whole;
        let host = |place| if is_whole { String::new() } else { group.host(place, model).to_owned() };
        let by_role = is_whole || group.size().0 as usize * group.services().count() > FLOWS_MAX;
        let services: Vec<Service> = group
            .services()
            .map(|service| Service {
                label: if by_role { service.place.0.label().to_owned() } else { service.index.to_string() },
                host: host(service.place),
                share: service.share(),
                optimal_share: service.optimal_share(),
            })
            .collect();
        let waits = group.waits(model, now);
        let oldest_wait = |place| {
            let own = group.services().find(|service| service.place == place).map(|service| service.index);
            waits.iter().find(|wait| Some(wait.service) == own).map_or(0.0, |wait| wait.age.as_secs_f64())
        };
        let members = group.members().map(|(place, member)| Member {
            host: host(place),
            is_worker: place.0 == Role::Worker,
            oldest_wait_s: oldest_wait(place),
            told: member.told().clone(),
        });
        let arrived = (0_u32..).zip(group.arrived());
        Self {
            job: group.job(model).to_owned(),
            group: group.id().to_string(),
            members: members.collect(),
            services,
            last_arrivals: arrived
                .filter(|_| !is_whole)
                .map(|(worker, arrived)| {
                    (host((Role::Worker, worker)), worker.to_string(), arrived.last_arrivals)
                })
                .collect(),
        }
    }
}

impl Summing {
    /// Its series.
    fn n_series(&self) -> usize {
        let this = std::slice::from_ref(self);
        let hosts: BTreeSet<&str> = self.members.iter().map(|member| &*member.host).collect();
        let staleness: usize = staleness(this).iter().map(|(_, counts)| counts.len() + 2).sum();
        let flows = traffic(this, [|told| told.push_issued_bytes, |told| told.pull_issued_bytes]).len();
        let (shares, stages) = (services(this, |service| service.share).len(), stages(this, |_| 0.0).len());
        2 * (flows + shares + stages) + MEMBER_FAMILIES * hosts.len() + last_arrivals(this).len() + staleness
    }
}

/// Of all members that have the value, by host.
pub(super) fn members(
    groups: &[Summing],
    value: impl Fn(bool, &SummationMember) -> Option<f64>,
) -> Vec<Row<'_>> {
    let rows = each_member(groups).filter_map(|(group, member)| {
        let labels = [&*group.group, &*member.host, &*group.job];
        Some((labels, value(member.is_worker, &member.told)?))
    });
    summed(["group", "host", "job"], rows)
}

pub(super) fn oldest_waits(groups: &[Summing]) -> Vec<Row<'_>> {
    let mut oldest: BTreeMap<[&str; 3], f64> = BTreeMap::new();
    for (group, member) in each_member(groups) {
        let age = oldest.entry([&*group.group, &*member.host, &*group.job]).or_default();
        *age = age.max(member.oldest_wait_s);
    }
    summed(["group", "host", "job"], oldest.into_iter())
}

/// By host of the workers, what tensors are for, and service. `values`: of pushes, of pulls.
pub(super) fn traffic(groups: &[Summing], values: [fn(&SummationTraffic) -> u64; 2]) -> Vec<Row<'_>> {
    let rows = each_member(groups).flat_map(|(group, member)| {
        let services = group.services.iter().zip(&member.told.services);
        services.flat_map(move |(service, told)| {
            let all = told.traffic.iter().flat_map(move |told| {
                ["push", "pull"]
                    .into_iter()
                    .zip(values)
                    .map(move |(primitive, of)| (primitive, told, of(told)))
            });
            all.filter(|(_, _, bytes)| *bytes > 0).map(move |(primitive, told, bytes)| {
                let host = &*member.host;
                let labels = [&*group.group, host, &*group.job, key_class(told), primitive, &*service.label];
                (labels, number(bytes))
            })
        })
    });
    summed(["group", "host", "job", "key_class", "primitive", "service"], rows)
}

pub(super) fn services(groups: &[Summing], value: impl Fn(&Service) -> f64) -> Vec<Row<'_>> {
    let rows = groups.iter().flat_map(|group| group.services.iter().map(move |service| (group, service)));
    let rows = rows.map(|(group, service)| {
        ([&*group.group, &*service.host, &*group.job, &*service.label], value(service))
    });
    summed(["group", "host", "job", "service"], rows)
}

pub(super) fn stages(groups: &[Summing], value: impl Fn(&SummationStage) -> f64) -> Vec<Row<'_>> {
    let rows = each_member(groups).flat_map(|(group, member)| {
        member.told.stages.iter().filter_map(move |stage| {
            let word = STAGES.into_iter().find(|word| *word == stage.stage)?;
            Some(([&*group.group, &*member.host, &*group.job, word], stage))
        })
    });
    summed(["group", "host", "job", "stage"], rows.map(|(labels, stage)| (labels, value(stage))))
}

pub(super) fn last_arrivals(groups: &[Summing]) -> Vec<Row<'_>> {
    let rows = groups.iter().flat_map(|group| {
        group.last_arrivals.iter().map(move |(host, worker, rounds)| {
            ([&*group.group, &**host, &*group.job, &**worker], number(*rounds))
        })
    });
    summed(["group", "host", "job", "worker"], rows)
}

/// How many pulls were so far behind, by rounds, from all services of a host.
pub(super) fn staleness(groups: &[Summing]) -> Vec<Counts<'_>> {
    let mut totals: BTreeMap<[&str; 3], Vec<u64>> = BTreeMap::new();
    let rows = each_member(groups).filter(|(_, member)| member.told.asynchronous);
    for (group, member) in rows.filter(|(_, member)| !member.told.staleness.is_empty()) {
        let total = totals.entry([&*group.group, &*member.host, &*group.job]).or_default();
        add_staleness(total, &member.told.staleness);
    }
    let names = ["group", "host", "job"];
    totals.into_iter().map(|(labels, total)| (told(names.into_iter().zip(labels)), total)).collect()
}

/// Of a worker.
pub(super) fn loopback_bytes(is_worker: bool, told: &SummationMember) -> Option<f64> {
    let traffic = told.services.iter().flat_map(|service| &service.traffic);
    let bytes = traffic.fold(0_u64, |sum, traffic| sum.saturating_add(traffic.local_bytes));
    is_worker.then(|| number(bytes))
}

/// The same.
pub(super) fn credits_used_bytes(is_worker: bool, told: &SummationMember) -> Option<f64> {
    is_worker.then(|| number(told.credits_used_bytes))
}

fn each_member(groups: &[Summing]) -> impl Iterator<Item = (&Summing, &Member)> {
    groups.iter().flat_map(|group| group.members.iter().map(move |member| (group, member)))
}

/// Rows of the same labels are one. `names`: in their order.
fn summed<'a, const N: usize>(
    names: [&'static str; N],
    rows: impl Iterator<Item = ([&'a str; N], f64)>,
) -> Vec<Row<'a>> {
    let mut sums: BTreeMap<[&str; N], f64> = BTreeMap::new();
    for (labels, value) in rows {
        *sums.entry(labels).or_default() += value;
    }
    let rows = sums.into_iter().map(|(labels, value)| (told(names.into_iter().zip(labels)), value));
    rows.collect()
}

/// Without those that are empty: what stands for all hosts has no such label.
fn told<'a>(labels: impl Iterator<Item = (&'static str, &'a str)>) -> Vec<(&'static str, &'a str)> {
    labels.filter(|(_, value)| !value.is_empty()).collect()
}

fn key_class(told: &SummationTraffic) -> &'static str {
    match told.key_class() {
        SummationKeyClass::Gradient => "gradient",
        SummationKeyClass::Parameter => "parameter",
        SummationKeyClass::Other | SummationKeyClass::Unspecified => "other",
    }
}

/// What agents may name: labels have few values.
const STAGES: [&str; 5] = ["compress", "push", "sum", "pull", "decompress"];
/// Groups that are looked at: the unhealthy and newest.
const GROUPS_MAX: usize = 32;
/// Series of a group as a whole, at most.
const WHOLE_SERIES: usize = 96;
/// Families with one row of each host of a group: rounds and the oldest wait, bytes summed, in flight and on the host, time.
const MEMBER_FAMILIES: usize = 6;
/// Pairs of a worker and a service; where there are more, services of one role are one series.
const FLOWS_MAX: usize = 4_096;
