//! Segments that somebody else has made or damaged: the folder is open to all users of the machine.

use std::fs::OpenOptions;
use std::os::unix::fs::symlink;
use std::time::Duration;

use ringscope_wire::batch::{CollectorState, ProcessState};
use ringscope_wire::segment::layout::OPERATION_ISSUED;

use crate::daemon::{Answer, FakeDaemon, key};
use crate::segment::SegmentWriter;
use crate::{Host, SLOT_0};

/// A witness that comes shows that the agent has read again.
async fn read_again(daemon: &mut FakeDaemon, host: &Host, pid: u32) -> SegmentWriter {
    let witness = SegmentWriter::create(host.dir(), pid, "");
    daemon.until(|processes| processes.contains_key(&key(pid))).await;
    witness
}

#[tokio::test]
async fn no_link_leads_the_agent_to_another_s_file() {
    let mut daemon = FakeDaemon::start(Answer::Away).await;
    let mut host = Host::new(&daemon.url);
    host.config.keep_dead = Duration::ZERO;
    let (own, link) = (host.root.path().join("own"), host.root.path().join("link"));
    std::fs::create_dir(&own).expect("folder");
    std::fs::write(own.join("victim.txt"), "x\n").expect("write");
    let victim = host.dir().join("victim.txt");
    std::fs::write(&victim, "x\n").expect("write");
    symlink(&own, &link).expect("link");
    let beside = host.dir().join("beside.txt");
    std::fs::write(&beside, "x\n").expect("write");
    drop(SegmentWriter::create(host.dir(), 1, &format!("{}/victim.txt", link.display())));
    drop(SegmentWriter::create(host.dir(), 2, &beside.display().to_string()));
    let agent = host.agent();
    daemon.until_batch(Answer::Away, |batch| batch.processes.len() == 2).await;
    // The log has been read; now its folder leads into that of segments, and the other log is another file.
    std::fs::remove_file(&link).expect("remove");
    symlink(host.dir(), &link).expect("link");
    std::fs::write(host.dir().join("new.txt"), "x\n").expect("write");
    std::fs::rename(host.dir().join("new.txt"), &beside).expect("rename");
    daemon.answer(Answer::Take);
    let witness = read_again(&mut daemon, &host, 3).await;
    witness.communicator(0, 1, 0xa0, 1);
    daemon.until(|processes| !processes[&key(3)].communicators.is_empty()).await;
    agent.stop().await;
    assert!(victim.exists(), "the agent followed a link");
    assert!(beside.exists(), "another file has the name of the log that was read");
    assert!(!host.dir().join("1-77.seg").exists(), "the segment goes");
}

#[tokio::test]
async fn a_segment_that_was_cut_says_nothing_of_its_process() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let mut segment = SegmentWriter::create(host.dir(), 1, "");
    segment.communicator(0, 1, 0xa0, 1);
    segment.record(0, OPERATION_ISSUED);
    let agent = host.agent();
    daemon.until(|processes| processes.get(&key(1)).is_some_and(|one| one.in_flight.len() == 1)).await;
    OpenOptions::new().write(true).open(&segment.path).expect("open").set_len(0).expect("cut");
    daemon.until(|processes| processes[&key(1)].collector_state() == CollectorState::Removed).await;
    let process = daemon.process(1);
    assert_eq!((process.state(), process.in_flight.len()), (ProcessState::Running, 0));
    assert!(process.collector_off_since_ns.is_some());
    assert_eq!(daemon.communicator(1, SLOT_0).n_ranks, 2, "what was known stays");

    drop(segment);
    daemon.until(|processes| processes[&key(1)].ended_at_ns.is_some()).await;
    assert_eq!(daemon.process(1).state(), ProcessState::Exited, "nobody knows how");
    agent.stop().await;
}
