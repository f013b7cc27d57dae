//! Hosts.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use ringscope_api::clock::Timestamp;
use ringscope_api::{
    CommunicatorState, Finding, FindingKind, HostDetail, HostRank, HostSummary, RankState, Severity,
};
use ringscope_judge::{Diagnosis, NIC_DOWN, NIC_MISSING};
use ringscope_model::{Communicator, CommunicatorId, Hardware, Model, Name, Process, ProcessState};

use super::bandwidth;
use super::clocks::host_clock;
use super::findings::{count, firing_by, is_degraded};
use super::hardware::hardware;
use super::number;
use ringscope_judge::standings::{Standings, is_past};

/// The hosts that `keep` says by their name and whether they are degraded, by name. The others cost next to nothing.
#[must_use]
pub fn hosts(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    keep: impl Fn(&str, bool) -> bool,
) -> Vec<HostSummary> {
    let firing = firing_by(diagnosis, subject);
    let seen = (&Ages::of(model), &Standings::of(model, diagnosis, now));
    kept(model, &firing, keep)
        .map(|(name, processes)| summary(model, seen, &firing, now, name, &processes))
        .collect()
}

/// The same without channels and rates, which take a look at each communicator: how they stand costs half without them.
pub(super) fn hosts_as_they_stand(
    model: &Model,
    diagnosis: &Diagnosis,
    standings: &Standings<'_>,
    now: Timestamp,
    keep: impl Fn(&str, bool) -> bool,
) -> Vec<HostSummary> {
    let firing = firing_by(diagnosis, subject);
    kept(model, &firing, keep)
        .map(|(name, processes)| as_it_stands(model, standings, &firing, now, name, &processes))
        .collect()
}

/// The same for who asks about one job: they stand as its processes there do, and what is found about others is left out.
#[must_use]
pub fn hosts_of_job(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    job: &str,
    keep: impl Fn(&str, bool) -> bool,
) -> Vec<HostSummary> {
    let mut firing = firing_by(diagnosis, subject);
    for found in firing.values_mut() {
        found.retain(|finding| finding.job.is_empty() || finding.job == job);
    }
    let standings = Standings::of_job(model, diagnosis, now, job);
    let seen = (&Ages::of(model), &standings);
    let is_its = |process: &&Process| process.identity().is_some_and(|identity| &*identity.job == job);
    let of_host = |(name, processes): (&Name, Vec<&Process>)| {
        let mut host = summary(model, seen, &firing, now, name, &processes);
        host.standing = standings.host(name, &processes.into_iter().filter(is_its).collect::<Vec<_>>());
        host
    };
    kept(model, &firing, keep).map(of_host).collect()
}

/// The hosts that are asked for, with their processes.
fn kept<'m>(
    model: &'m Model,
    firing: &HashMap<&str, Vec<&Finding>>,
    keep: impl Fn(&str, bool) -> bool,
) -> impl Iterator<Item = (&'m Name, Vec<&'m Process>)> {
    let has_bad =
        |name: &str| firing.get(name).is_some_and(|firing| is_degraded(count(firing.iter().copied())));
    let asked = move |(name, _): &(&'m Name, _)| keep(name, has_bad(name));
    model.hosts().map(|(name, processes)| (name, processes.collect())).filter(asked)
}

/// One host.
#[must_use]
pub fn host(model: &Model, diagnosis: &Diagnosis, now: Timestamp, name: &str) -> Option<HostDetail> {
    let (name, processes) = model.host(name)?;
    let processes: Vec<&Process> = processes.collect();
    let firing = firing_by(diagnosis, subject);
    let ages = Ages::of(model);
    let standings = Standings::of(model, diagnosis, now);
    let summary = summary(model, (&ages, &standings), &firing, now, name, &processes);
    let in_use = |comm| ages.get(comm).is_some_and(|age| age.0);
    let about = firing.get(&**name).map(Vec::as_slice).unwrap_or_default();
    Some(HostDetail {
        hardware: hardware(model, name, &processes, in_use, about, now),
        summary,
        ranks: ranks(model, (&ages, &standings), now, &processes),
        firing: newest_first(about),
        clock: host_clock(model, name, now),
    })
}

/// The host that a finding is about; none if it is about a communicator as a whole.
fn subject(finding: &Finding) -> &str {
    match finding.finding {
        FindingKind::FinalDisagrees | FindingKind::FinalUnexplained | FindingKind::PartlySeen => "",
        _ => &finding.host,
    }
}

fn newest_first(firing: &[&Finding]) -> Vec<Finding> {
    let mut firing: Vec<Finding> = firing.iter().map(|finding| (*finding).clone()).collect();
    firing.sort_by_key(|finding| Reverse(finding.first_seen));
    firing
}

/// What the choice of a host's communicator needs of each, looked at once: all its ranks ask for it.
struct Ages<'a> {
    model: &'a Model,
    known: RefCell<HashMap<CommunicatorId, Age>>,
}

/// Orders communicators by how well they tell what their hosts can do: in use, over several hosts, new.
type Age = (bool, bool, Timestamp, CommunicatorId);

impl<'a> Ages<'a> {
    fn of(model: &'a Model) -> Self {
        Self { model, known: RefCell::default() }
    }

    fn get(&self, id: CommunicatorId) -> Option<Age> {
        if let Some(age) = self.known.borrow().get(&id) {
            return Some(*age);
        }
        let age = self.look_at(self.model.communicator(id)?);
        self.known.borrow_mut().insert(id, age);
        Some(age)
    }

    fn look_at(&self, known: &Communicator) -> Age {
        let model = self.model;
        let is_in_use = matches!(known.state(model).0, CommunicatorState::Active | CommunicatorState::Broken);
        (is_in_use, !known.is_one_host(model), known.created(model), known.id())
    }
}

fn summary(
    model: &Model,
    (ages, standings): (&Ages<'_>, &Standings<'_>),
    firing: &HashMap<&str, Vec<&Finding>>,
    now: Timestamp,
    name: &Name,
    processes: &[&Process],
) -> HostSummary {
    let (init_channels, final_channels) = channels(ages, processes);
    HostSummary {
        init_channels,
        final_channels,
        completed_bytes_per_s: processes.iter().map(|process| rate(process, now)).sum(),
        ..as_it_stands(model, standings, firing, now, name, processes)
    }
}

/// What is known of a host without a look at communicators.
fn as_it_stands(
    model: &Model,
    standings: &Standings<'_>,
    firing: &HashMap<&str, Vec<&Finding>>,
    now: Timestamp,
    name: &Name,
    processes: &[&Process],
) -> HostSummary {
    let is_past = is_past(model, name, processes);
    let firing = firing.get(&**name).into_iter().flatten().copied();
    let firing: Vec<&Finding> = firing.filter(|finding| finding.imported == is_past).collect();
    let findings = count(firing.iter().copied());
    let lives =
        |process: &&&Process| matches!(model.rank_state(process, now), RankState::Running | RankState::Stale);
    let is_imported = |process: &Process| process.state() == ProcessState::Imported;
    let jobs: BTreeSet<&Name> = processes
        .iter()
        .filter(|process| lives(process) || is_past && is_imported(process))
        .filter_map(|process| process.identity())
        .map(|identity| &identity.job)
        .collect();
    let hardware = model.hardware_of(name);
    let n_down = firing.iter().filter(|finding| is_nic_down(finding)).count();
    let heard = processes.iter().map(|process| model.last_word(process)).max().unwrap_or_default();
    HostSummary {
        host: name.to_string(),
        standing: standings.host(name, processes),
        degraded: is_degraded(findings),
        reasons: reasons(&firing),
        findings,
        jobs: jobs.into_iter().map(ToString::to_string).collect(),
        n_processes: number(processes.iter().filter(lives).count()),
        init_channels: None,
        final_channels: None,
        completed_bytes_per_s: 0.0,
        n_nics: hardware.map(|hardware| number(hardware.nics.len())),
        n_nics_down: hardware.map(|_| number(n_down)),
        n_gpus: hardware.and_then(|hardware| hardware.gpus.as_ref()).map(|gpus| number(gpus.len())),
        last_seen: heard.max(hardware.map(Hardware::heard).unwrap_or_default()),
    }
}

fn is_nic_down(finding: &Finding) -> bool {
    finding.finding == FindingKind::NicDegraded && [NIC_DOWN, NIC_MISSING].contains(&finding.cause.as_str())
}

/// The messages that make a host degraded, each once: several communicators of a job say the same.
fn reasons(firing: &[&Finding]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for finding in firing.iter().filter(|finding| finding.severity >= Severity::Warning) {
        if !reasons.contains(&finding.message) {
            reasons.push(finding.message.clone());
        }
    }
    reasons
}

/// Completed bytes per second of a process.
fn rate(process: &Process, now: Timestamp) -> f64 {
    process
        .ranks()
        .flat_map(|rank| {
            rank.local.counters().values().map(move |counted| bandwidth::rate(&rank, counted, now))
        })
        .sum()
}

/// Init and final channels of a host in the communicator that tells best.
fn channels(ages: &Ages<'_>, processes: &[&Process]) -> (Option<u32>, Option<u32>) {
    let ranks = || processes.iter().flat_map(|process| process.ranks());
    // One of which the channels are not known tells nothing.
    let told = ranks().filter(|rank| rank.facts.init_channels.is_some());
    let told = told.filter_map(|rank| ages.get(rank.local.communicator()?));
    let Some((.., best)) = told.max() else { return (None, None) };
    let here = || ranks().filter(|rank| rank.local.communicator() == Some(best)).map(|rank| rank.facts);
    (
        here().filter_map(|facts| facts.init_channels).min(),
        here().filter_map(|facts| facts.final_channels).min(),
    )
}

/// The host's ranks in communicators in use, by job, newest communicator first, and rank.
fn ranks(
    model: &Model,
    (ages, standings): (&Ages<'_>, &Standings<'_>),
    now: Timestamp,
    processes: &[&Process],
) -> Vec<HostRank> {
    let mut found: Vec<(Age, HostRank)> = Vec::new();
    for process in processes {
        for rank in process.ranks() {
            let Some(known) = rank.local.communicator().and_then(|id| model.communicator(id)) else {
                continue;
            };
            let Some(age) = ages.get(known.id()).filter(|age| age.0) else { continue };
            found.push((
                age,
                HostRank {
                    job: known.job().to_string(),
                    comm: known.id().to_string(),
                    rank: rank.rank,
                    pid: rank.identity.pid,
                    place: rank.identity.scheduled.place(),
                    state: model.rank_state(process, now),
                    standing: standings.rank(&rank),
                    init_channels: rank.facts.init_channels,
                    final_channels: rank.facts.final_channels,
                },
            ));
        }
    }
    found.sort_by(|(age, one), (other_age, other)| {
        (&one.job, Reverse(age), one.rank).cmp(&(&other.job, Reverse(other_age), other.rank))
    });
    found.into_iter().map(|(_, rank)| rank).collect()
}
