//! How everything stands, or one job or host of it.

use super::incidents::{IncidentFilter, incidents};
use super::{hosts, jobs};
use crate::api::{FindingState, Health, HostSummary};
use crate::clock::Timestamp;
use crate::diagnose::Diagnosis;
use crate::health;
use crate::model::Model;

/// The one sentence. `job` and `host`: only of these.
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
    health::health(&jobs, &hosts, &incidents(model, diagnosis, &filter), now)
}
