//! Wishes for a level, from the daemon's answer to the control word.

use std::mem::offset_of;

use ringscope_agent::write_level;
use ringscope_api::LevelChoice;
use ringscope_wire::Primitive;
use ringscope_wire::batch::{Level, Wish};
use ringscope_wire::segment::layout::{
    CONTROL_CHANNELS, CONTROL_COUNTERS, CONTROL_OFF, CONTROL_ON, CONTROL_RAISED, CONTROL_STEPS, LEVEL_STEPS,
    Live,
};

use crate::daemon::{Answer, FakeDaemon, key};
use crate::segment::{SegmentWriter, fixed};
use crate::{Host, issued};

pub fn of_job(host: &Host, pid: u32, job: &str) -> SegmentWriter {
    let mut fixed = fixed(pid, "");
    fixed.job[..job.len()].copy_from_slice(job.as_bytes());
    let segment = SegmentWriter::create_from(host.dir(), &fixed);
    segment.communicator(0, 1, 0xa0, 1);
    segment
}

fn wish(job: &str, level: Level, off: bool) -> Wish {
    Wish { job: job.to_owned(), level: level.into(), off, user: None }
}

/// Lets the agent hear three answers: the second batch is sent after the first answer was heard, and what is read for the
/// third is read after that.
pub async fn hear(daemon: &mut FakeDaemon, segment: &SegmentWriter, calls: &mut u64) {
    for _ in 0..3 {
        *calls += 1;
        segment.calls(0, Primitive::AllReduce, *calls, *calls);
        let wanted = *calls;
        daemon
            .until(|all| {
                all.get(&key(1)).is_some_and(|one| one.counters.iter().any(|c| c.issued_calls == wanted))
            })
            .await;
    }
}

#[tokio::test]
async fn a_wish_reaches_every_process_of_its_job_once() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let (first, other) = (of_job(&host, 1, "train"), of_job(&host, 2, "other"));
    let agent = host.agent();
    let mut calls = 0;
    hear(&mut daemon, &first, &mut calls).await;
    assert_eq!(first.control(), CONTROL_ON, "nothing is wished for");

    daemon.wish(vec![wish("train", Level::Steps, false)]);
    hear(&mut daemon, &first, &mut calls).await;
    assert_eq!((first.control(), other.control()), (CONTROL_STEPS, CONTROL_ON));

    // By hand it may be overruled, and stays so.
    first.live(offset_of!(Live, control), CONTROL_OFF);
    hear(&mut daemon, &first, &mut calls).await;
    assert_eq!(first.control(), CONTROL_OFF);

    // A process that starts later is told too.
    let later = of_job(&host, 3, "train");
    daemon.until(|processes| processes.contains_key(&key(3))).await;
    hear(&mut daemon, &first, &mut calls).await;
    assert_eq!((later.control(), first.control()), (CONTROL_STEPS, CONTROL_OFF));

    for (next, expected) in [
        (wish("train", Level::Channels, false), CONTROL_CHANNELS),
        (wish("train", Level::Unspecified, true), CONTROL_OFF),
        (wish("train", Level::Unspecified, false), CONTROL_ON),
        (wish("train", Level::Counters, false), CONTROL_COUNTERS),
    ] {
        daemon.wish(vec![next]);
        hear(&mut daemon, &first, &mut calls).await;
        assert_eq!((first.control(), later.control(), other.control()), (expected, expected, CONTROL_ON));
    }

    // No wish any more, as after a restart of the daemon: what was told stays.
    daemon.wish(Vec::new());
    hear(&mut daemon, &first, &mut calls).await;
    assert_eq!(first.control(), CONTROL_COUNTERS);
    agent.stop().await;
}

#[tokio::test]
async fn diagnosis_raises_nobody_of_whom_somebody_has_said_a_level() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let all = [1, 2, 3].map(|pid| of_job(&host, pid, "train"));
    all[1].live(offset_of!(Live, control), CONTROL_OFF);
    all[2].live(offset_of!(Live, control), CONTROL_COUNTERS);
    let words = || [&all[0], &all[1], &all[2]].map(SegmentWriter::control);
    let agent = host.agent();
    let mut calls = 0;
    daemon.raise(&["train"]);
    hear(&mut daemon, &all[0], &mut calls).await;
    assert_eq!(words(), [CONTROL_RAISED, CONTROL_OFF, CONTROL_COUNTERS]);
    // By hand while it is raised.
    all[1].live(offset_of!(Live, control), CONTROL_ON);
    all[2].live(offset_of!(Live, control), CONTROL_STEPS);
    hear(&mut daemon, &all[0], &mut calls).await;
    assert_eq!(words(), [CONTROL_RAISED, CONTROL_RAISED, CONTROL_STEPS]);
    all[0].live(offset_of!(Live, control), CONTROL_OFF);
    daemon.raise(&[]);
    hear(&mut daemon, &all[0], &mut calls).await;
    assert_eq!(words(), [CONTROL_OFF, CONTROL_ON, CONTROL_STEPS]);
    agent.stop().await;
}

#[tokio::test]
async fn what_a_process_does_is_told() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let host = Host::new(&daemon.url);
    let segment = of_job(&host, 1, "train");
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(1))).await;
    segment.live(offset_of!(Live, level), LEVEL_STEPS);
    daemon.until(|processes| processes[&key(1)].level() == Level::Steps).await;
    assert_eq!(issued(&daemon, 1), 0);
    agent.stop().await;
}

#[test]
fn by_hand_the_living_are_told_and_what_is_none_is_named() {
    let host = Host::new("http://127.0.0.1:1");
    let (one, two) = (of_job(&host, 1, "train"), of_job(&host, 2, "train"));
    let dead = of_job(&host, 3, "train");
    let dead_path = dead.path.clone();
    drop(dead);
    let before = std::fs::read(&dead_path).expect("read");
    std::fs::write(host.dir().join("text.seg"), "x").expect("write");
    let holder = std::fs::File::open(host.dir().join("text.seg")).expect("open");
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).expect("lock");

    let all = write_level(host.dir(), None, LevelChoice::Channels).expect("a folder");
    assert_eq!(all.pids, [1, 2]);
    assert!(all.failed.len() == 1 && all.failed[0].0.ends_with("text.seg"), "{:?}", all.failed);
    assert_eq!((one.control(), two.control()), (CONTROL_CHANNELS, CONTROL_CHANNELS));
    let second = write_level(host.dir(), Some(2), LevelChoice::Default).expect("a folder");
    assert_eq!(second.pids, [2]);
    assert_eq!((one.control(), two.control()), (CONTROL_CHANNELS, CONTROL_ON));
    assert_eq!(std::fs::read(&dead_path).expect("read"), before, "the dead are left alone");
    assert!(write_level(&host.dir().join("nowhere"), None, LevelChoice::Off).is_err());
}
