//! Which jobs and hosts to list. A field that is `None` admits all.

use std::collections::HashSet;

use ringscope_api::{self as api, JobState};
use ringscope_model::Model;

/// Text to be found anywhere in another, whatever the case.
#[derive(Clone, Debug)]
pub struct Part(String);

/// Which jobs to list.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Only in this state.
    pub state: Option<JobState>,
    /// Part of the id.
    pub part: Option<Part>,
}

/// Which hosts to list.
#[derive(Clone, Debug, Default)]
pub struct HostFilter {
    /// Only those on which this job has, or had, a process.
    pub job: Option<String>,
    /// Only degraded ones, or only others.
    pub degraded: Option<bool>,
    /// Part of the name.
    pub part: Option<Part>,
}

impl Part {
    /// Looks for `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.0)
    }
}

impl JobFilter {
    /// Leaves in the list what is asked for.
    pub fn keep(&self, jobs: &mut Vec<api::Job>) {
        jobs.retain(|job| {
            self.state.is_none_or(|state| job.state == state)
                && self.part.as_ref().is_none_or(|part| part.is_in(&job.id))
        });
    }
}

impl HostFilter {
    /// Whether a host is to be listed, by its name and whether it is degraded.
    pub fn keeps(&self, model: &Model) -> impl Fn(&str, bool) -> bool {
        let of_job: Option<HashSet<&str>> = self.job.as_ref().map(|job| {
            let processes = model.job(job).into_iter().flat_map(|(_, job)| job.processes(model));
            processes.filter_map(|process| Some(&*process.identity()?.host)).collect()
        });
        move |host, is_degraded| {
            of_job.as_ref().is_none_or(|hosts| hosts.contains(host))
                && self.degraded.is_none_or(|degraded| is_degraded == degraded)
                && self.part.as_ref().is_none_or(|part| part.is_in(host))
        }
    }
}
