//! Why the daemon takes no batches, as the agent's log says it.

use std::time::Duration;

use ringscope_api::clock::monotonic;

use crate::Host;
use crate::daemon::{Answer, FakeDaemon};
use crate::sandbox::Running;
use crate::users::content;

/// What stands in the way may change while the first obstacle hides the second.
#[tokio::test]
async fn each_new_reason_is_said_once() {
    let mut daemon = FakeDaemon::start(Answer::Away).await;
    let host = Host::new(&daemon.url);
    let agent = Running::start(&host, &daemon.url, &[]);
    let said = |reason: &str| {
        let log = content(&agent.said);
        log.lines().filter(|line| line.contains("does not take batches") && line.contains(reason)).count()
    };
    let (away, proxy) = ("503 Service Unavailable", "413 Payload Too Large");
    // Where the next one has come, what was answered to the one before is said.
    for answer in [Answer::Away, Answer::Proxy, Answer::Away, Answer::Proxy, Answer::Away] {
        daemon.answer(answer);
        daemon.until_batch(answer, |_| true).await;
    }
    let started = monotonic();
    while said(away) == 0 || said(proxy) == 0 {
        assert!(monotonic().duration_since(started) < Duration::from_secs(120), "{}", content(&agent.said));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((said(away), said(proxy)), (1, 1), "{}", content(&agent.said));
}
