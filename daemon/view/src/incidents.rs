//! Incidents, in lists and whole.

use std::cmp::Reverse;

use ringscope_api::{FindingState, Incident, IncidentDetail};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;

/// Which incidents to list. A field that is `None` admits all.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of api::Incident")]
pub struct IncidentFilter {
    pub state: Option<FindingState>,
    /// Of this job, or about the hardware of one of its hosts.
    pub job: Option<String>,
    /// About this host.
    pub host: Option<String>,
}

/// The incidents that the filter admits: open ones first, those of jobs that have ended behind the others; then the worst, then
/// the newest.
#[must_use]
pub fn incidents(model: &Model, diagnosis: &Diagnosis, filter: &IncidentFilter) -> Vec<Incident> {
    let mut found: Vec<Incident> = admitted(model, diagnosis, filter).cloned().collect();
    found.sort_by(|one, other| order(one).cmp(&order(other)));
    found
}

/// The same in no order.
pub(super) fn admitted<'a>(
    model: &'a Model,
    diagnosis: &'a Diagnosis,
    filter: &'a IncidentFilter,
) -> impl Iterator<Item = &'a Incident> {
    let hosts: Option<Vec<&str>> = filter.job.as_ref().map(|job| {
        let processes = model.job(job).map(|(_, job)| job.processes(model));
        processes.into_iter().flatten().filter_map(|one| Some(&*one.identity()?.host)).collect()
    });
    let admits = move |incident: &&Incident| {
        let is_of_job = |job: &String| {
            let of_host = || hosts.as_ref().is_some_and(|hosts| hosts.contains(&incident.host.as_str()));
            incident.job == *job || incident.job.is_empty() && of_host()
        };
        filter.state.is_none_or(|state| incident.state == state)
            && filter.job.as_ref().is_none_or(is_of_job)
            && filter.host.as_ref().is_none_or(|host| {
                incident.host == *host || incident.culprits.iter().any(|one| one.host == *host)
            })
    };
    diagnosis.incidents().all().filter(admits)
}

/// Open first, of these what is about jobs that have ended last; worst first, newest first.
fn order(incident: &Incident) -> impl Ord + '_ {
    let is_over = incident.state == FindingState::Resolved;
    let newest = incident.resolved_at.unwrap_or(incident.began_at);
    let has_ended = !is_over && incident.job_ended_at.is_some();
    (is_over, has_ended, Reverse(incident.severity), Reverse(newest), &incident.id)
}

/// One incident with its findings, as far as they are remembered.
#[must_use]
pub fn incident(_model: &Model, diagnosis: &Diagnosis, id: &str) -> Option<IncidentDetail> {
    let incident = diagnosis.incidents().get(id)?.clone();
    let members = incident.findings.iter().filter_map(|id| diagnosis.finding(id)).cloned().collect();
    Some(IncidentDetail { incident, members })
}
