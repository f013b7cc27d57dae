//! An agent between a daemon and collectors of other releases.

use std::time::Duration;

use prost::Message as _;
use ringscope_wire::Primitive;
use ringscope_wire::batch::{self, IngestReply};
use ringscope_wire::segment::layout::{CONTROL_OFF, CONTROL_ON, CONTROL_STEPS, VERSION};

use crate::daemon::{Answer, FakeDaemon};
use crate::levels::{hear, of_job};
use crate::log_only::lines;
use crate::segment::{SegmentWriter, fixed};
use crate::{Host, append, issued};

/// 2026-01-31T12:00:00Z, as the run's own file says below.
const START_NS: u64 = 1_769_860_800_000_000_000;

#[tokio::test]
async fn what_a_daemon_of_another_release_does_not_read_is_kept_until_one_does() {
    let mut daemon = FakeDaemon::start(Answer::OtherVersion).await;
    let host = Host::new(&daemon.url);
    let segment = SegmentWriter::create(host.dir(), 42, "");
    segment.communicator(0, 1, 0xa0, 1);
    let agent = host.agent();
    let first = daemon.until_batch(Answer::OtherVersion, |batch| !batch.processes.is_empty()).await;
    segment.calls(0, Primitive::AllReduce, 7, 7);
    // The same one, again and again: none is given up for the next.
    let again = daemon.until_batch(Answer::OtherVersion, |_| true).await;
    assert_eq!((again.seq_number, &again.processes), (first.seq_number, &first.processes));

    daemon.answer(Answer::Take);
    let taken = daemon.until_batch(Answer::Take, |_| true).await;
    assert_eq!((taken.seq_number, &taken.processes), (first.seq_number, &first.processes));
    daemon
        .until(|processes| {
            processes.values().any(|process| process.counters.iter().any(|c| c.issued_calls == 7))
        })
        .await;
    assert_eq!(issued(&daemon, 42), 7);
    let taken: Vec<_> = daemon.batches.iter().filter(|(answer, _)| *answer == Answer::Take).collect();
    let numbers: Vec<u64> = taken.iter().map(|(_, batch)| batch.seq_number).collect();
    assert!(numbers.is_sorted_by(|one, next| one + 1 == *next), "none is missing: {numbers:?}");
    assert!(taken.iter().all(|(_, batch)| batch.dropped.is_empty()), "nothing was lost");
    agent.stop().await;
    assert_eq!(host.backlogs(), 0);
}

#[tokio::test]
async fn a_process_whose_collector_is_of_another_release_is_told_with_both_versions_and_its_log() {
    for version in [VERSION - 1, VERSION + 1] {
        let mut daemon = FakeDaemon::start(Answer::Take).await;
        let mut host = Host::new(&daemon.url);
        host.config.log_grace = Duration::ZERO;
        let mut other = fixed(42, "");
        (other.version, other.start_time_ns) = (version, START_NS);
        let segment = SegmentWriter::create_from(host.dir(), &other);
        let side = r#"{"job":"llama","command":["/usr/bin/python3"],"started_at":"2026-01-31T12:00:00Z"}"#;
        std::fs::write(host.dir().join("run-run7.json"), side).expect("write");
        append(&host.dir().join("nccl-run7-pod-a-42.log"), &lines("pod-a", 42));
        let agent = host.agent();
        daemon.until(|processes| processes.values().any(|process| process.segment_version == version)).await;
        assert_eq!(daemon.processes.len(), 1, "one process, not two: {:?}", daemon.processes.keys());
        let process = daemon.processes.values().next().expect("one");
        assert!(!process.has_segment, "nothing in it was believed");
        assert_eq!(process.identity.as_ref().map(|identity| identity.job.as_str()), Some("llama"));
        assert_eq!(process.communicators[0].final_channels, Some(2), "what its log says is told");
        assert!(daemon.batches.iter().all(|(_, batch)| batch.reads_segment_version == VERSION));
        agent.stop().await;
        assert!(segment.path.exists(), "it is left for the agent that can read it");
    }
}

/// What a daemon of the first release answered an agent of this one; fixtures/README.md tells how it was recorded.
fn answers() -> Vec<IngestReply> {
    let mut rest: &[u8] = include_bytes!("../../../fixtures/upgrade/first-release.answers");
    let mut answers = Vec::new();
    while !rest.is_empty() {
        answers.push(IngestReply::decode_length_delimited(&mut rest).expect("an answer"));
    }
    answers
}

#[tokio::test]
async fn answers_of_a_daemon_of_the_first_release_are_understood() {
    let answers = answers();
    // It was started with nothing to know at the end, and then wished for nothing.
    let (told, begun_anew) = answers.split_at(answers.iter().position(|one| one.resend_all).expect("one"));
    let wishes: Vec<_> = told.chunk_by(|one, next| one.wishes == next.wishes).collect();
    assert_eq!(wishes.len(), 4, "of none, steps, off and as it was started");

    let mut daemon = FakeDaemon::start(Answer::Away).await;
    let host = Host::new(&daemon.url);
    let (segment, other) = (of_job(&host, 1, "train"), of_job(&host, 2, "other"));
    daemon.replay(wishes[0]);
    let agent = host.agent();
    let mut calls = 0;
    for (answers, expected) in wishes.into_iter().zip([CONTROL_ON, CONTROL_STEPS, CONTROL_OFF, CONTROL_ON]) {
        daemon.replay(answers);
        hear(&mut daemon, &segment, &mut calls).await;
        assert_eq!((segment.control(), other.control()), (expected, CONTROL_ON), "{:?}", answers[0]);
    }

    daemon.replay(begun_anew);
    let whole = |process: &batch::Process| process.identity.is_some() && process.communicators.len() == 1;
    let again = daemon.until_batch(Answer::Recorded, |batch| batch.processes.iter().any(whole)).await;
    assert_eq!(
        again.processes.iter().filter(|process| whole(process)).count(),
        2,
        "everything is sent again"
    );
    hear(&mut daemon, &segment, &mut calls).await;
    assert_eq!(issued(&daemon, 1), calls);
    let numbers: Vec<u64> = daemon.batches.iter().map(|(_, batch)| batch.seq_number).collect();
    assert!(numbers.is_sorted_by(|one, next| one + 1 == *next), "none is missing: {numbers:?}");
    assert!(daemon.batches.iter().all(|(_, batch)| batch.dropped.is_empty()), "nothing was lost");
    agent.stop().await;
    assert_eq!(host.backlogs(), 0, "and nothing waits");
}
