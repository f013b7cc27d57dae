//! What ended with jobs that did not end well, and nobody has acknowledged: nobody may have looked while they were there. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::plural;
use ringscope_api::{FindingState, Health, Incident, Severity};

use crate::health::moment;

/// Says of each such job what ended with it, the newest first. `runs`: whether a job was started again, so that this is the past.
pub fn tell<'a>(
    health: &mut Health,
    incidents: impl Iterator<Item = &'a Incident>,
    runs: impl Fn(&str) -> bool,
    now: Timestamp,
) {
    let mut by_job: BTreeMap<&str, (Timestamp, &Incident)> = BTreeMap::new();
    for incident in incidents {
        let Some(ended) = left(incident, now).filter(|_| !runs(&incident.job)) else { continue };
        let known = by_job.entry(&incident.job).or_insert((ended, incident));
        // Of several of one job that which began first, as the cause of the others.
        if (incident.began_at, &incident.id) < (known.1.began_at, &known.1.id) {
            *known = (ended, incident);
        }
    }
    let mut left: Vec<_> = by_job.into_iter().collect();
    left.sort_by_key(|(job, (ended, _))| (Reverse(*ended), *job));
    for (job, (ended, incident)) in left.iter().take(JOBS_TOLD) {
        let sentence = incident.sentence.trim_end_matches('.');
        let how = format!("`ringscope incident {} --acknowledge`", incident.id);
        health.notices.push(if health.sentence.contains(sentence) {
            format!("Nobody has acknowledged what ended {job}: {how}")
        } else {
            format!("{job} ended at {}: {sentence} (nobody has acknowledged it: {how})", moment(*ended, now))
        });
    }
    if let Some(more @ 1..) = left.len().checked_sub(JOBS_TOLD) {
        let jobs = plural(more, "more job");
        health.notices.push(format!("The same of {jobs}: `ringscope incidents --all`"));
    }
}

/// When the job ended with which an incident ended that is still to be told of.
fn left(incident: &Incident, now: Timestamp) -> Option<Timestamp> {
    let is_left = incident.state == FindingState::Resolved
        && incident.severity == Severity::Critical
        && incident.acknowledged.is_none();
    incident.job_ended_at.filter(|ended| is_left && now.since(*ended) < TOLD_FOR)
}

/// Whoever comes in the morning has time to look at what ended the evening before.
const TOLD_FOR: Duration = Duration::from_secs(24 * 3_600);
/// More is not read; all are in the list of incidents.
const JOBS_TOLD: usize = 3;

#[cfg(test)]
mod tests {
    use ringscope_api::Acknowledgement;
    use ringscope_samples::objects::{NOW, incident, job};

    use super::*;
    use ringscope_api::JobState;

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn ended(id: &str, job: &str, hours_ago: u64) -> Incident {
        let at = Timestamp(NOW.0 - hours_ago * HOUR_NS);
        Incident {
            state: FindingState::Resolved,
            job: job.to_owned(),
            resolved_at: Some(at),
            job_ended_at: Some(at),
            ..incident(id, "node-1", Severity::Critical, &format!("{id} was killed."))
        }
    }

    fn told(incidents: &[Incident], running: &[&str]) -> Vec<String> {
        let last = job("idle", JobState::Ended, 0);
        let mut health = crate::health::health(&[last], &[], &[], NOW);
        tell(&mut health, incidents.iter(), |job| running.contains(&job), NOW);
        health.notices
    }

    #[test]
    fn what_ended_with_a_job_is_told_until_somebody_acknowledges_it_or_a_day_has_passed() {
        let one = ended("a", "train", 1);
        let said = "train ended at 11:00:00Z: a was killed (nobody has acknowledged it: `ringscope incident a --acknowledge`)";
        assert_eq!(told(std::slice::from_ref(&one), &[]), [said]);
        assert!(told(std::slice::from_ref(&one), &["train"]).is_empty(), "the job runs again");
        let ann = Acknowledgement { by: "ann".to_owned(), at: NOW };
        let quiet = [
            Incident { acknowledged: Some(ann), ..one.clone() },
            Incident { severity: Severity::Warning, ..one.clone() },
            Incident { job_ended_at: None, ..one.clone() },
            Incident { state: FindingState::Firing, resolved_at: None, ..one.clone() },
            ended("b", "old", 24),
        ];
        assert!(told(&quiet, &[]).is_empty(), "{:?}", told(&quiet, &[]));
    }

    #[test]
    fn it_is_told_once_of_each_of_the_newest_jobs() {
        let cause = Incident { began_at: Timestamp(1), ..ended("b", "j1", 1) };
        let mut all: Vec<Incident> = (1..=5).map(|n| ended(&format!("a{n}"), &format!("j{n}"), n)).collect();
        all.push(cause);
        let told = told(&all, &[]);
        let begins =
            ["j1 ended at 11:00:00Z: b ", "j2 ended at 10:", "j3 ended at 09:", "The same of 2 more jobs: "];
        assert_eq!(told.len(), begins.len(), "{told:?}");
        assert!(told.iter().zip(begins).all(|(told, begin)| told.starts_with(begin)), "{told:?}");
        let mut health = crate::health::health(&[], &[], &[], NOW);
        health.sentence = "train ended at 11:00:00Z, failed: a was killed".to_owned();
        tell(&mut health, [ended("a", "train", 1)].iter(), |_| false, NOW);
        assert_eq!(
            health.notices,
            ["Nobody has acknowledged what ended train: `ringscope incident a --acknowledge`"]
        );
    }
}
