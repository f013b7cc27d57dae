use ringscope_samples::objects::{NOW, host, incident, job, standing};

use super::*;

#[track_caller]
fn check(jobs: &[Job], hosts: &[HostSummary], open: &[Incident], level: HealthLevel, sentence: &str) {
    let health = health(jobs, hosts, open, NOW);
    assert_eq!((health.level, health.sentence.as_str()), (level, sentence));
}

#[test]
fn green_needs_evidence_of_every_host() {
    let running = [job("train", JobState::Running, 0)];
    let (one, two) = (host("node-1", 0), host("node-2", 0));
    check(&[], &[], &[], HealthLevel::Empty, "No job yet");
    let idle = HostSummary { jobs: vec![], n_processes: 0, ..one.clone() };
    check(&[], std::slice::from_ref(&idle), &[], HealthLevel::Empty, "No job yet; 1 host reporting");
    let full = HostSummary { standing: standing(Condition::Unknown, "its folder is full"), ..idle };
    let sentence = "0 of 1 host healthy, 1 unknown: node-1: its folder is full";
    check(&[], &[full], &[], HealthLevel::Unknown, sentence);
    check(&running, &[one.clone(), two.clone()], &[], HealthLevel::Ok, "All 2 hosts healthy");
    check(&running, std::slice::from_ref(&one), &[], HealthLevel::Ok, "The only host is healthy");
    let why = "nothing heard of it for 14 min";
    let silent = HostSummary { standing: standing(Condition::Unknown, why), ..two };
    check(
        &running,
        &[one.clone(), silent.clone()],
        &[],
        HealthLevel::Unknown,
        "1 of 2 hosts healthy, 1 unknown: node-2: nothing heard of it for 14 min",
    );
    let health = health(&[job("train", JobState::Stale, 0)], &[one.clone(), silent], &[], NOW);
    assert_eq!(
        health.unknown,
        ["node-2: nothing heard of it for 14 min", "train: nothing heard of it for 14 min"]
    );
    assert_eq!((health.hosts.healthy, health.hosts.unknown, health.jobs.unknown), (1, 1, 1));
    let why = "1 process is not watched, because /scratch lies on a disk";
    let blind = HostSummary { standing: standing(Condition::Unknown, why), ..one.clone() };
    let reason = format!("process 7 on node-1: no call of it is seen; on its host {why}");
    let refused =
        Job { standing: standing(Condition::Unknown, &reason), ..job("train", JobState::Running, 0) };
    let health = crate::health::health(&[refused], &[blind], &[], NOW);
    assert_eq!(health.unknown, [format!("node-1: {why}")], "once");
    let blind = HostSummary { standing: standing(Condition::Unknown, why), ..host("node-3", 0) };
    let silent = HostSummary { standing: standing(Condition::Unknown, "nothing heard"), ..one.clone() };
    let health = crate::health::health(&running, &[silent, blind], &[], NOW);
    assert_eq!(health.unknown, [format!("node-3: {why}"), "node-1: nothing heard".to_owned()]);
    check(
        &[job("train", JobState::Stale, 0)],
        &[one],
        &[],
        HealthLevel::Unknown,
        "It is not known how train does: nothing heard of it for 14 min",
    );
}

#[test]
fn the_worst_incident_comes_first_in_its_own_words() {
    let running = [job("train", JobState::Running, 0)];
    let hosts = [host("node-1", 0), host("node-10", 1), host("node-2", 1)];
    let slow = incident("b", "node-10", Severity::Warning, "node-10 is slow.");
    let mut hung =
        incident("a", "node-2", Severity::Critical, "Rank 5 on node-2 has not called all_reduce #7.");
    let open = [slow.clone(), hung.clone()];
    check(
        &running,
        &hosts,
        &open,
        HealthLevel::Critical,
        "Rank 5 on node-2 has not called all_reduce #7; and 1 more incident",
    );
    let health = health(&running, &hosts, &open, NOW);
    assert_eq!((health.incidents.critical, health.incidents.warning), (1, 1));
    assert_eq!(health.advice.as_deref(), Some("Look at its NICs."));
    assert_eq!(health.since, Some(hung.began_at));
    check(&running, &hosts, std::slice::from_ref(&slow), HealthLevel::Warning, "node-10 is slow");
    hung.acknowledged = Some(ringscope_api::Acknowledgement { by: "Ann".into(), at: NOW });
    hung.silenced_until = Some(Timestamp(NOW.0 + 3_600_000_000_000));
    check(
        &running,
        &hosts,
        &[hung],
        HealthLevel::Critical,
        "Rank 5 on node-2 has not called all_reduce #7 (Ann looks after it) (silenced until 13:00:00Z)",
    );
}

#[test]
fn what_holds_a_job_back_comes_before_what_is_told_of_one_that_has_ended() {
    let jobs = [job("train", JobState::Running, 0), job("old", JobState::Ended, 2)];
    let hosts = [host("node-1", 0), host("node-2", 1)];
    let slow = incident("b", "node-2", Severity::Warning, "node-2 is slow.");
    let dead = Incident {
        job: "old".to_owned(),
        began_at: Timestamp(NOW.0 - 3_600_000_000_000),
        job_ended_at: Some(Timestamp(NOW.0 - 60_000_000_000)),
        advice: "See its output.".to_owned(),
        ..incident("a", "node-1", Severity::Critical, "Rank 3 was killed.")
    };
    let health = health(&jobs, &hosts, &[dead.clone(), slow.clone()], NOW);
    assert_eq!(health.sentence, "node-2 is slow; and 1 more incident");
    assert_eq!(health.advice.as_deref(), Some("Look at its NICs."));
    assert_eq!((health.level, health.since), (HealthLevel::Critical, Some(slow.began_at)));
    // Nor does it hide what no incident tells of.
    let hung = Job { standing: standing(Condition::Hung, "it hangs"), ..jobs[0].clone() };
    check(
        &[hung, jobs[1].clone()],
        &hosts[..1],
        std::slice::from_ref(&dead),
        HealthLevel::Critical,
        "train is hung: it hangs; old: Rank 3 was killed (the job has ended)",
    );
    check(&jobs[1..], &hosts[..1], &[dead], HealthLevel::Critical, "Rank 3 was killed");
}

#[test]
fn of_several_jobs_it_is_said_which_one_an_incident_is_of() {
    let jobs = [job("train", JobState::Running, 0), job("tune", JobState::Running, 0)];
    let hosts = [host("node-1", 0), host("node-2", 1)];
    let slow = incident("a", "node-2", Severity::Warning, "Rank 5 (node-2) is slow.");
    let said = "train: Rank 5 (node-2) is slow";
    check(&jobs, &hosts, std::slice::from_ref(&slow), HealthLevel::Warning, said);
    check(&jobs[..1], &hosts, std::slice::from_ref(&slow), HealthLevel::Warning, "Rank 5 (node-2) is slow");
    let named = Incident { sentence: "Collectives of train take 99 ms.".to_owned(), ..slow.clone() };
    check(&jobs, &hosts, &[named], HealthLevel::Warning, "Collectives of train take 99 ms");
    let of_a_host = Incident { job: String::new(), ..slow };
    check(&jobs, &hosts, &[of_a_host], HealthLevel::Warning, "Rank 5 (node-2) is slow");
}

#[test]
fn what_no_incident_tells_of_is_said_too() {
    let hosts = [host("node-1", 0), host("node-2", 0)];
    check(
        &[job("train", JobState::Running, 2)],
        &hosts,
        &[],
        HealthLevel::Critical,
        "2 of 16 processes of train were killed",
    );
    check(
        &[job("train", JobState::Running, 0)],
        &[host("node-1", 0), host("node-2", 1)],
        &[],
        HealthLevel::Warning,
        "node-2 found 2 channels where others found 8",
    );
    check(
        &[job("train", JobState::Ended, 0)],
        &[host("node-1", 0)],
        &[],
        HealthLevel::Idle,
        "No job is running; the last, train, ended at 11:46:00Z",
    );
}
