//! Summation groups.

mod comparison;
mod members;
mod rounds;

#[cfg(test)]
mod tests;

pub use rounds::summation_rounds;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::{
    Severity, SummationGroup, SummationGroupDetail, SummationGroupState, SummationKeyClass, SummationLost,
    SummationWait,
};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;
use ringscope_model::summation::{Group, Service, Wait, add_staleness};
use ringscope_wire::batch::SummationKeyClass as KeyClass;

/// Which groups to list. A field that is `None` admits all.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of api::SummationGroup")]
pub struct SummationFilter {
    pub job: Option<String>,
    /// Of any member.
    pub host: Option<String>,
    pub state: Option<SummationGroupState>,
}

/// The groups that the filter admits, the newest first.
#[must_use]
pub fn summation_groups(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    filter: &SummationFilter,
) -> Vec<SummationGroup> {
    let groups = model.summations();
    let groups = groups.filter(|group| filter.job.as_ref().is_none_or(|job| job == group.job(model)));
    let groups = groups.filter(|group| filter.host.as_ref().is_none_or(|host| is_on(group, host, model)));
    let groups = groups.filter_map(|group| summary(group, model, diagnosis, &group.waits(model, now), now));
    let mut groups: Vec<SummationGroup> =
        groups.filter(|group| filter.state.is_none_or(|state| state == group.state)).collect();
    groups.sort_by(|one, other| {
        let order = |group: &SummationGroup| (Reverse(group.started_at), Reverse(group.membership_epoch));
        order(one).cmp(&order(other)).then_with(|| one.id.cmp(&other.id))
    });
    groups
}

/// One group. `None`: not known.
#[must_use]
pub fn summation_group(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    id: &str,
) -> Option<SummationGroupDetail> {
    let group = model.summation(id.parse().ok()?)?;
    let facts = group.facts()?;
    let lateness = group.lateness(now).filter(|lateness| lateness.rounds > 0);
    let lateness = lateness.unwrap_or_else(|| group.lateness_ever(now));
    let waits = group.waits(model, now);
    let mut findings: Vec<String> =
        diagnosis.firing_of_summation(group.id()).map(|finding| finding.id.clone()).collect();
    findings.sort_unstable();
    Some(SummationGroupDetail {
        group: summary(group, model, diagnosis, &waits, now)?,
        n_tensors: facts.n_tensors,
        n_parts: facts.n_parts,
        partition_bytes: facts.partition_bytes,
        staleness_bound: facts.staleness_bound.filter(|_| facts.asynchronous),
        lost: lost(group, model, now),
        comparison: group.comparison().map(comparison::shown),
        services: group.services().map(|service| members::service(group, &service, model, now)).collect(),
        workers: members::workers(group, model, &lateness, now),
        flows: members::flows(group, now),
        waits: waits.iter().map(wait).collect(),
        staleness: staleness(group),
        key_classes: key_classes(group),
        findings,
    })
}

/// Whether any of its members is on this host.
fn is_on(group: &Group, host: &str, model: &Model) -> bool {
    let identities = group.members().filter_map(|(place, _)| group.process(place, model)?.identity());
    group.services().any(|service| service.told_host() == host)
        || identities.map(|identity| &*identity.host).any(|known| known == host)
}

fn summary(
    group: &Group,
    model: &Model,
    diagnosis: &Diagnosis,
    waits: &[Wait<'_>],
    now: Timestamp,
) -> Option<SummationGroup> {
    let facts = group.facts()?;
    let ratios = group.services().filter_map(|service| service.over_optimum());
    let sum = |of: fn(&_, Timestamp) -> f64| group.services().map(|service| of(&service, now)).sum();
    let firing = diagnosis.firing_of_summation(group.id());
    let worth_a_look = firing.filter(|finding| finding.severity != Severity::Info);
    Some(SummationGroup {
        id: group.id().to_string(),
        session: format!("{:016x}", group.session()),
        job: group.job(model).to_owned(),
        membership_epoch: facts.membership_epoch,
        placement_epoch: facts.placement_epoch,
        state: group.state(model, now),
        n_workers: facts.n_workers,
        n_servers: facts.n_servers,
        asynchronous: facts.asynchronous,
        model_bytes: facts.model_bytes,
        started_at: group.started(),
        push_bytes_per_s: sum(Service::pushed_bytes_per_s),
        pull_bytes_per_s: sum(Service::pulled_bytes_per_s),
        rounds_per_s: group.rounds_per_s(now),
        oldest_wait: waits.first().map(wait),
        worst_share_ratio: ratios.fold(0.0, f64::max),
        n_findings: super::number(worth_a_look.count()),
    })
}

fn lost(group: &Group, model: &Model, now: Timestamp) -> Option<SummationLost> {
    let lost = group.lost(model, now)?;
    let (role, index) = lost.place;
    let host = group.host(lost.place, model).to_owned();
    Some(SummationLost { rank: lost.rank, role, index, host, why: lost.why })
}

fn wait(known: &Wait<'_>) -> SummationWait {
    SummationWait {
        service: super::number(known.service),
        key: known.key,
        tensor: known.tensor.to_owned(),
        round: known.round,
        for_push: known.for_push,
        workers: known.workers.to_vec(),
        age_ns: members::ns(known.age),
    }
}

/// Over all services.
fn staleness(group: &Group) -> Vec<u64> {
    let mut steps = Vec::new();
    group.members().for_each(|(_, member)| add_staleness(&mut steps, &member.told().staleness));
    steps
}

/// Bytes by what tensors are for: every class, whether there are any of it or not.
pub(super) fn key_classes(group: &Group) -> Vec<SummationKeyClass> {
    let classes =
        [(KeyClass::Gradient, "gradient"), (KeyClass::Parameter, "parameter"), (KeyClass::Other, "other")];
    let mut totals: BTreeMap<i32, [u64; 4]> = BTreeMap::new();
    let services = group.workers().flat_map(|(_, worker)| &worker.told().services);
    for told in services.flat_map(|service| &service.traffic) {
        let more = [
            told.push_issued_bytes,
            told.push_completed_bytes,
            told.pull_issued_bytes,
            told.pull_completed_bytes,
        ];
        let sums = totals.entry(told.key_class).or_default();
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum = sum.saturating_add(more);
        }
    }
    let class = |(class, word): (KeyClass, &str)| {
        let [push_issued_bytes, push_completed_bytes, pull_issued_bytes, pull_completed_bytes] =
            totals.get(&i32::from(class)).copied().unwrap_or_default();
        SummationKeyClass {
            key_class: word.to_owned(),
            push_issued_bytes,
            push_completed_bytes,
            pull_issued_bytes,
            pull_completed_bytes,
        }
    };
    classes.into_iter().map(class).collect()
}
