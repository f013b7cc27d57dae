//! Counts that a daemon of many hosts lets wait.

use std::time::Duration;

use ringscope_wire::Primitive;
use ringscope_wire::batch::Batch;

use crate::daemon::{Answer, FakeDaemon, key};
use crate::segment::SegmentWriter;
use crate::{Host, SLOT_0};

/// The next batch that has counts, while these go on all the time.
async fn next_counts(daemon: &mut FakeDaemon, segment: &SegmentWriter, calls: &mut u64) -> Batch {
    let mut steps = tokio::time::interval(Duration::from_millis(2));
    loop {
        tokio::select! {
            (_, batch) = daemon.next() => {
                if batch.processes.iter().any(|process| !process.counters.is_empty()) {
                    return batch;
                }
            }
            _ = steps.tick() => {
                *calls += 1;
                segment.calls(0, Primitive::AllReduce, *calls, *calls);
            }
        }
    }
}

#[tokio::test]
async fn counts_wait_as_the_daemon_says_and_news_do_not() {
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    daemon.let_counts_wait(2_000);
    let host = Host::new(&daemon.url);
    let (segment, mut calls) = (SegmentWriter::create(host.dir(), 42, ""), 1);
    segment.communicator(0, 1, 0xa0, 0xfeed);
    segment.calls(0, Primitive::AllReduce, calls, calls);
    let agent = host.agent();
    daemon.until(|processes| processes.contains_key(&key(42))).await;
    assert_eq!(daemon.communicator(42, SLOT_0).comm_hash, 0xfeed);

    let waited_ms = |one: &Batch, other: &Batch| (other.sent_at_ns - one.sent_at_ns) / 1_000_000;
    let mut before = next_counts(&mut daemon, &segment, &mut calls).await;
    let mut waits_ms = Vec::new();
    // Some are on their way before the first answer is there.
    while !waits_ms.ends_with(&[true, true]) {
        assert!(waits_ms.len() < 1_000, "counts do not wait");
        let after = next_counts(&mut daemon, &segment, &mut calls).await;
        waits_ms.push(waited_ms(&before, &after) >= 1_900);
        before = after;
    }

    // A busy machine may take its time once.
    for events in 1.. {
        segment.drop_event(1, events);
        let with_news = next_counts(&mut daemon, &segment, &mut calls).await;
        if waited_ms(&before, &with_news) < 1_900 {
            assert_eq!(with_news.processes[0].dropped[0].events, events);
            break;
        }
        before = with_news;
    }
    agent.stop().await;
    let issued = |batch: &Batch| batch.processes[0].counters[0].issued_calls;
    let last = daemon.until_batch(Answer::Take, |batch| batch.ending).await;
    assert!(last.processes.is_empty() || issued(&last) == calls, "its last word has the last count");
}
