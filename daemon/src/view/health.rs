//! How everything stands, or one job or host of it.

use super::incidents::{IncidentFilter, incidents};
use super::{hosts, jobs};
use crate::api::{FindingState, Health, HostSummary, Incident, Job, JobState};
use crate::clock::Timestamp;
use crate::diagnose::Diagnosis;
use crate::health;
use crate::model::Model;

/// The one sentence. `job` and `host`: only of these. While anything runs, or is wrong, what was imported is left out of the
/// sentence about all: it is the past.
#[must_use]
pub fn health(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    job: Option<&str>,
    host: Option<&str>,
) -> Health {
    let mut jobs = jobs(model, diagnosis, now);
    jobs.retain(|one| {
        job.is_none_or(|job| one.id == job) && host.is_none_or(|host| one.hosts.iter().any(|on| on == host))
    });
    let of_job = job.map(|_| jobs.iter().flat_map(|job| &job.hosts).cloned().collect::<Vec<_>>());
    let keep = |name: &str, _| {
        host.is_none_or(|host| name == host)
            && of_job.as_ref().is_none_or(|hosts| hosts.iter().any(|host| host == name))
    };
    let mut hosts = hosts(model, diagnosis, now, keep);
    if let Some(job) = job {
        // What other jobs do on the same hosts is not asked for.
        let others = incidents(
            model,
            diagnosis,
            &IncidentFilter { state: Some(FindingState::Firing), ..Default::default() },
        );
        let others: Vec<_> = others.iter().filter(|one| !one.job.is_empty() && one.job != job).collect();
        let is_theirs = |host: &&mut HostSummary| others.iter().any(|one| host.jobs.contains(&one.job));
        let own = jobs.first().map(|job| job.standing.clone()).unwrap_or_default();
        hosts.iter_mut().filter(is_theirs).for_each(|host| host.standing = own.clone());
    }
    let filter = IncidentFilter {
        state: Some(FindingState::Firing),
        job: job.map(str::to_owned),
        host: host.map(str::to_owned),
    };
    let mut open = incidents(model, diagnosis, &filter);
    let runs = |job: &Job| matches!(job.state, JobState::Running | JobState::Stale);
    let is_present = jobs.iter().any(runs) || open.iter().any(|incident| !incident.imported);
    if job.is_none() && host.is_none() && is_present {
        leave_out_past(&mut jobs, &mut hosts, &mut open);
    }
    health::health(&jobs, &hosts, &open, now)
}

/// The same of what is there now, for those who wake people.
#[must_use]
pub fn health_now(model: &Model, diagnosis: &Diagnosis, now: Timestamp) -> Health {
    let (mut jobs, mut hosts) = (jobs(model, diagnosis, now), hosts(model, diagnosis, now, |_, _| true));
    let filter = IncidentFilter { state: Some(FindingState::Firing), ..Default::default() };
    let mut open = incidents(model, diagnosis, &filter);
    leave_out_past(&mut jobs, &mut hosts, &mut open);
    health::health(&jobs, &hosts, &open, now)
}

/// Leaves out what is known from files alone.
fn leave_out_past(jobs: &mut Vec<Job>, hosts: &mut Vec<HostSummary>, open: &mut Vec<Incident>) {
    let is_past = |id: &String| jobs.iter().any(|job| job.id == *id && job.state == JobState::Imported);
    let is_there = |host: &HostSummary| host.n_processes > 0 || host.n_nics.is_some();
    hosts.retain(|host| is_there(host) || host.jobs.is_empty() || !host.jobs.iter().all(is_past));
    jobs.retain(|job| job.state != JobState::Imported);
    open.retain(|incident| !incident.imported);
}
