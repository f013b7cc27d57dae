use super::*;
use crate::api::{Coverage, FindingCounts};

pub(crate) const NOW: Timestamp = Timestamp(1_769_860_800_000_000_000);

pub(crate) fn host(name: &str, critical: u32) -> HostSummary {
    HostSummary {
        host: name.into(),
        degraded: critical > 0,
        reasons: if critical > 0 {
            vec![format!("{name} found 2 channels where others found 8.")]
        } else {
            vec![]
        },
        findings: FindingCounts { critical, ..FindingCounts::default() },
        jobs: vec!["train".into()],
        n_processes: 8,
        init_channels: Some(8),
        final_channels: Some(16),
        completed_bytes_per_s: 1e9,
        n_nics: Some(4),
        n_nics_down: Some(critical),
        n_gpus: Some(8),
        last_seen: NOW,
    }
}

pub(crate) fn job(id: &str, state: JobState, n_killed: u32) -> Job {
    Job {
        id: id.into(),
        state,
        first_seen: Timestamp(NOW.0 - 3_600_000_000_000),
        last_seen: Timestamp(NOW.0 - 840_000_000_000),
        world_size: Some(16),
        n_processes: 16,
        n_killed,
        hosts: vec!["node-1".into(), "node-2".into()],
        active_communicators: 1,
        n_communicators: 2,
        findings: FindingCounts::default(),
        coverage: Coverage::default(),
        issued_bytes: 3 << 30,
        completed_bytes: 2 << 30,
        completed_bytes_per_s: 2e9,
        dropped: BTreeMap::default(),
    }
}

fn check(jobs: &[Job], hosts: &[HostSummary], level: Level, sentence: &str) {
    let health = health(jobs, hosts, &[], NOW);
    assert_eq!((health.level, health.sentence.as_str()), (level, sentence));
}

#[test]
fn the_sentence_is_that_of_the_page() {
    let running = [job("train", JobState::Running, 0)];
    let (one, two) = (host("node-1", 0), host("node-2", 0));
    check(&[], &[], Level::Empty, "No job yet");
    check(&[], std::slice::from_ref(&one), Level::Empty, "No job yet; 1 host reporting");
    check(&running, &[one.clone(), two.clone()], Level::Ok, "All 2 hosts healthy");
    check(&running, std::slice::from_ref(&one), Level::Ok, "The only host is healthy");
    check(
        &running,
        &[one.clone(), host("node-10", 1), host("node-2", 1)],
        Level::Critical,
        "2 of 3 hosts degraded: node-2 found 2 channels where others found 8; and node-10",
    );
    check(
        &[job("train", JobState::Running, 2)],
        &[one.clone(), two],
        Level::Critical,
        "2 of 16 processes of train were killed",
    );
    check(
        &[job("train", JobState::Stale, 0)],
        std::slice::from_ref(&one),
        Level::Warning,
        "Nothing heard of train for 14 min",
    );
    check(
        &[job("train", JobState::Ended, 0)],
        &[one],
        Level::Idle,
        "No job is running; the last, train, ended at 11:46:00Z",
    );
}
