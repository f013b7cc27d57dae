//! How everything stands, or one job or host of it.

use ringscope_api::clock::Timestamp;
use ringscope_api::words::plural;
use ringscope_api::{Condition, FindingState, Health, HostSummary, Incident, Job, JobState};
use ringscope_judge::Diagnosis;
use ringscope_judge::aftermath;
use ringscope_judge::health::{self, Cut};
use ringscope_judge::standings::Standings;
use ringscope_model::limits::STALE_AFTER;
use ringscope_model::{Model, Refusal};

use super::hosts::{hosts_as_they_stand, hosts_of_job};
use super::incidents::{IncidentFilter, admitted, incidents};
use super::jobs::jobs_as_they_stand;

/// The one sentence. `job` and `host`: only of these; a job that is asked for by its name counts also when it has ended. While anything runs, or is wrong, what was imported is left out of the
/// sentence about all: it is the past.
#[must_use]
pub fn health(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    job: Option<&str>,
    host: Option<&str>,
) -> Health {
    let standings = Standings::of(model, diagnosis, now);
    let mut jobs = jobs_as_they_stand(model, diagnosis, &standings, now);
    jobs.retain(|one| {
        job.is_none_or(|job| one.id == job) && host.is_none_or(|host| one.hosts.iter().any(|on| on == host))
    });
    let of_job = job.map(|_| jobs.iter().flat_map(|job| &job.hosts).cloned().collect::<Vec<_>>());
    let keep = |name: &str, _| {
        host.is_none_or(|host| name == host)
            && of_job.as_ref().is_none_or(|hosts| hosts.iter().any(|host| host == name))
    };
    let mut hosts = match job {
        // What other jobs do on the same hosts is not asked for.
        Some(job) => hosts_of_job(model, diagnosis, now, job, keep),
        None => hosts_as_they_stand(model, diagnosis, &standings, now, keep),
    };
    let mut filter = IncidentFilter {
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
    let over = jobs.first().filter(|one| job.is_some() && one.state == JobState::Ended);
    if over.is_some() {
        // What is not known of its hosts now says nothing of how it ended.
        hosts.retain(|host| host.standing.condition != Condition::Unknown);
    }
    let mut health = health::health(&jobs, &hosts, &open, now);
    if let Some(over) = over {
        health::ended(&mut health, over, now);
    }
    filter.state = Some(FindingState::Resolved);
    let runs = |id: &str| jobs.iter().any(|job| job.id == id && job.state != JobState::Ended);
    aftermath::tell(&mut health, admitted(model, diagnosis, &filter), runs, now);
    if job.is_none() && host.is_none() {
        whole(model, &mut health, now);
    }
    health
}

/// What is said of everything together.
fn whole(model: &Model, health: &mut Health, now: Timestamp) {
    health::lacks(health, refused(model, now));
    if let Some(cut) = nobody_heard(model, now) {
        health::cut_off(health, cut);
    }
}

/// That no agent is heard though there is something to tell of: that is no fault of all hosts at once.
fn nobody_heard(model: &Model, now: Timestamp) -> Option<Cut> {
    if model.any_spoke().is_some_and(|at| now.since(at) < STALE_AFTER) {
        return None;
    }
    let mut since = None;
    for process in model.hosts().flat_map(|(_, processes)| processes) {
        if !process.is_living() || model.unwatched_since(process).is_some() {
            continue;
        }
        if now.since(model.last_spoken(process)) < STALE_AFTER {
            return None;
        }
        since = since.max(Some(model.last_word(process)));
    }
    Some(Cut {
        sentence: format!("No agent of any host is heard since {}", health::moment(since?, now)),
        advice: "Look at what all agents share: the network to this daemon, its certificate, their token. \
                 `journalctl -u ringscope-agent` on a host says what its agent meets"
            .to_owned(),
    })
}

/// What is not known because it was refused.
fn refused(model: &Model, now: Timestamp) -> impl Iterator<Item = String> {
    model.refused(now).map(move |(why, Refusal { n, last })| {
        let times = plural(usize::try_from(n).unwrap_or(usize::MAX), "time");
        format!("{why} (refused {times}, last at {})", health::moment(last, now))
    })
}

/// The same of what is there now, for those who wake people.
#[must_use]
pub fn health_now(model: &Model, diagnosis: &Diagnosis, now: Timestamp) -> Health {
    let standings = Standings::of(model, diagnosis, now);
    let mut jobs = jobs_as_they_stand(model, diagnosis, &standings, now);
    let mut hosts = hosts_as_they_stand(model, diagnosis, &standings, now, |_, _| true);
    let filter = IncidentFilter { state: Some(FindingState::Firing), ..Default::default() };
    let mut open = incidents(model, diagnosis, &filter);
    leave_out_past(&mut jobs, &mut hosts, &mut open);
    let mut health = health::health(&jobs, &hosts, &open, now);
    whole(model, &mut health, now);
    health
}

/// Leaves out what is known from files alone.
fn leave_out_past(jobs: &mut Vec<Job>, hosts: &mut Vec<HostSummary>, open: &mut Vec<Incident>) {
    let is_past = |id: &String| jobs.iter().any(|job| job.id == *id && job.state == JobState::Imported);
    let is_there = |host: &HostSummary| host.n_processes > 0 || host.n_nics.is_some();
    hosts.retain(|host| is_there(host) || host.jobs.is_empty() || !host.jobs.iter().all(is_past));
    jobs.retain(|job| job.state != JobState::Imported);
    open.retain(|incident| !incident.imported);
}

#[cfg(test)]
mod tests {
    use ringscope_wire::batch;

    use super::*;
    use ringscope_api::{HealthLevel, Severity};
    use ringscope_samples::cluster::{Cluster, at};
    use ringscope_samples::objects;

    #[test]
    fn a_host_that_cannot_watch_what_starts_there_is_not_green() {
        let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 2);
        let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
        let mut level_with = |why: &str, seq| {
            let batch = batch::Batch { cannot_watch: why.to_owned(), ..cluster.batch(seq, seq) };
            model.apply(&batch, at(seq));
            diagnosis.update(&model, None, at(seq));
            let health = health(&model, &diagnosis, at(seq), None, None);
            (health.level, health.sentence)
        };
        assert_eq!(level_with("", 1).0, HealthLevel::Ok);
        let (level, sentence) = level_with("/dev/shm/ringscope is full", 2);
        assert_eq!(level, HealthLevel::Unknown);
        assert!(
            sentence.contains("host-0: what starts now is not watched, because /dev/shm/ringscope is full"),
            "{sentence}"
        );
        assert_eq!(level_with("", 3).0, HealthLevel::Ok);
        let not_watched = "2 processes are not watched, because /scratch lies on a disk".to_owned();
        let batch = batch::Batch { not_watched, ..cluster.batch(4, 4) };
        model.apply(&batch, at(4));
        diagnosis.update(&model, None, at(4));
        let sentence = health(&model, &diagnosis, at(4), None, None).sentence;
        assert!(sentence.contains("host-0: 2 processes are not watched, because /scratch"), "{sentence}");
    }

    #[test]
    fn what_was_refused_is_said_and_nothing_is_green_meanwhile() {
        let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 2);
        let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
        model.apply(&cluster.batch(1, 1), at(1));
        diagnosis.update(&model, None, at(1));
        let level = |model: &Model, job| health(model, &diagnosis, at(2), job, None).level;
        assert_eq!(level(&model, None), HealthLevel::Ok);
        model.note_refused("the tenant acme has told of 200 jobs", 3, at(2));
        model.note_refused("the tenant acme has told of 200 jobs", 1, at(2));
        let said = health(&model, &diagnosis, at(2), None, None);
        let line = "the tenant acme has told of 200 jobs (refused 2 times, last at ";
        assert_eq!(said.level, HealthLevel::Unknown);
        assert!(said.sentence.starts_with(&format!("Not everything is known: {line}")), "{}", said.sentence);
        assert!(said.unknown[0].starts_with(line), "{:?}", said.unknown);
        assert_eq!(health_now(&model, &diagnosis, at(2)).level, HealthLevel::Unknown);
        assert_eq!(level(&model, Some("train")), HealthLevel::Ok, "of a job that is known all is");
    }

    #[test]
    fn how_a_job_ended_is_said_where_it_is_asked_for_by_name() {
        let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 2);
        let of = |statuses: [Option<u32>; 2], job: Option<&str>| {
            let mut batch = cluster.batch(1, 1);
            for (process, status) in batch.processes.iter_mut().zip(statuses) {
                process.state = batch::ProcessState::Exited.into();
                process.exit_status = status;
            }
            let mut model = Model::new();
            model.apply(&batch, at(1));
            health(&model, &Diagnosis::new(), at(2), job, None)
        };
        let (well, failed, unknown) = ([Some(0); 2], [Some(0), Some(3)], [Some(0), None]);
        let ended = of(well, Some("train"));
        assert_eq!((ended.level, ended.jobs.healthy, ended.jobs.failed), (HealthLevel::Idle, 1, 0));
        assert!(ended.sentence.starts_with("train ended at "), "{}", ended.sentence);
        let ended = of(failed, Some("train"));
        assert_eq!((ended.level, ended.jobs.healthy, ended.jobs.failed), (HealthLevel::Critical, 0, 1));
        assert!(
            ended.sentence.contains(", failed: rank 1 on host-1: it ended with exit status 3"),
            "{ended:?}"
        );
        let ended = of(unknown, Some("train"));
        assert_eq!((ended.level, ended.jobs.unknown), (HealthLevel::Unknown, 1));
        assert!(ended.unknown[0].starts_with("train: ") && ended.unknown.len() == 1, "{ended:?}");
        // Together with all others it is the past, and nobody's trouble now.
        let all = of(failed, None);
        assert_eq!((all.level, all.jobs.failed), (HealthLevel::Idle, 0));
        assert!(
            all.sentence.starts_with("No job is running; the last, train, ended at "),
            "{}",
            all.sentence
        );
        assert!(all.sentence.contains(", failed: rank 1 on host-1"), "{}", all.sentence);
    }

    #[test]
    fn what_ended_with_a_job_is_told_on_and_changes_no_level() {
        let (now, host) = (objects::NOW, "node-1");
        let left = Incident {
            state: FindingState::Resolved,
            resolved_at: Some(now),
            job_ended_at: Some(now),
            ..objects::incident("a", host, Severity::Critical, "Rank 3 was killed.")
        };
        let (model, mut diagnosis) = (Model::new(), Diagnosis::new());
        diagnosis.restore_incidents(vec![left]);
        let of = |diagnosis: &Diagnosis, job, host| health(&model, diagnosis, now, job, host).notices;
        for (job, host) in [(None, None), (Some("train"), None), (None, Some(host))] {
            assert!(of(&diagnosis, job, host)[0].starts_with("train ended at "), "{job:?} {host:?}");
        }
        assert!(of(&diagnosis, Some("other"), None).is_empty());
        assert_eq!(health(&model, &diagnosis, now, None, None).level, HealthLevel::Empty);
        diagnosis.acknowledge("a", "ann", now).unwrap();
        assert!(of(&diagnosis, None, None).is_empty());
    }

    #[test]
    fn while_nobody_is_heard_that_is_said_and_of_no_host() {
        let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 2);
        let (mut model, diagnosis) = (Model::new(), Diagnosis::new());
        model.apply(&cluster.batch(1, 1), at(1));
        assert_eq!(health(&model, &diagnosis, at(14), None, None).level, HealthLevel::Ok);
        let silent = health(&model, &diagnosis, at(20), None, None);
        assert_eq!(silent.level, HealthLevel::Unknown);
        assert!(silent.sentence.starts_with("No agent of any host is heard since "), "{}", silent.sentence);
        assert_eq!(silent.unknown[0], silent.sentence);
        assert_eq!(health_now(&model, &diagnosis, at(20)).sentence, silent.sentence);
        model.hear_again("agent", at(21));
        let refused = health(&model, &diagnosis, at(22), None, None);
        assert!(refused.sentence.contains("the same again and again"), "{}", refused.sentence);
    }

    #[test]
    fn hosts_stand_for_a_job_as_its_own_processes_do() {
        let sick = Cluster::new(&[("host-0", 2, 2), ("host-1", 1, 2), ("host-2", 1, 1)], 2);
        let well = Cluster { job: "other", ..Cluster::new(&[("host-2", 2, 2)], 2).again(5, 1, 9) };
        let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
        model.apply(&sick.batch(1, 2), at(2));
        let mut batch = well.batch(2, 3);
        for (process, pid) in batch.processes.iter_mut().zip(2_000..) {
            process.key = format!("host-2/{pid}/1");
            process.identity.as_mut().unwrap().pid = pid;
        }
        model.apply(&batch, at(3));
        diagnosis.update(&model, None, at(3));
        let level = |job| health(&model, &diagnosis, at(4), job, None).level;
        assert_eq!(level(Some("other")), HealthLevel::Ok);
        assert_eq!(level(Some("train")), HealthLevel::Warning);
        assert_eq!(level(None), HealthLevel::Warning);
        // And the hosts that are listed below that sentence say the same.
        let condition = |job| {
            let hosts = hosts_of_job(&model, &diagnosis, at(4), job, |name, _| name == "host-2");
            (hosts[0].standing.condition, hosts[0].reasons.len())
        };
        assert_eq!(condition("other"), (Condition::Healthy, 0));
        assert_eq!(condition("train").0, Condition::Degraded);
    }
}
