//! Two users of one machine: one has a job, the other does all that he can think of. What is seen of the first is exact.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use ringscope_wire::batch::{Process, ProcessState};

use crate::Host;
use crate::daemon::{Answer, FakeDaemon};
use crate::users::{HOSTILE, MACHINE, Other, VICTIM, can_be_others, secret, started_ns};

/// For so long the hostile one goes on; `RINGSCOPE_HOSTILE_SECONDS` makes it longer.
const SECONDS: u64 = 20;

#[expect(clippy::disallowed_methods, reason = "a test that can be made longer")]
fn seconds() -> u64 {
    std::env::var("RINGSCOPE_HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS)
}

#[tokio::test]
async fn one_users_counts_are_exact_whatever_the_other_does() {
    if !can_be_others() {
        return;
    }
    let mut daemon = FakeDaemon::start(Answer::Take).await;
    let mut host = Host::new(&daemon.url);
    host.config.other_hosts = false;
    host.config.keep_dead = Duration::ZERO;
    host.config.interval = Duration::from_millis(50);
    let memory = host.dir().parent().expect("parent").to_owned();
    std::fs::set_permissions(memory, Permissions::from_mode(0o755)).expect("mode");
    std::fs::set_permissions(host.dir(), Permissions::from_mode(0o1777)).expect("mode");
    let outside = tempfile::tempdir().expect("folder");
    let hidden = outside.path().join("root.log");
    secret(&hidden, &crate::init_lines(7, 5));

    let mut victim = Other::start(VICTIM, "victim", host.dir(), "");
    let segment = victim.says("segment");
    let argument = format!("{} {} {segment} {}", victim.pid(), seconds(), hidden.display());
    let mut hostile = Other::start(HOSTILE, "everything", host.dir(), &argument);
    hostile.says("planted");
    let agent = host.agent();
    // What it says is waited for beside what the agent tells.
    let over = std::thread::spawn(move || {
        let rounds = hostile.says("over after");
        (hostile, rounds)
    });
    while !over.is_finished() {
        daemon.next().await;
        daemon.batches.clear();
    }
    let (hostile, rounds) = over.join().expect("no panic");
    victim.tell("stop");
    let counted: u64 = victim.says("counted").parse().expect("number");
    let key = format!("{MACHINE}/{}/{}", victim.pid(), started_ns(victim.pid()));
    let calls = |process: &Process| process.counters.iter().map(|one| one.completed_calls).max();
    daemon.until(|processes| processes.get(&key).and_then(calls) >= Some(counted)).await;
    let told = &daemon.processes[&key];
    let identity = told.identity.as_ref().expect("identity");
    assert_eq!(calls(told), Some(counted), "after {rounds}");
    assert_eq!((identity.user, identity.job.as_str()), (Some(VICTIM), "llama"));
    assert_eq!((told.state(), told.ended_at_ns), (ProcessState::Running, None));
    assert_eq!(told.communicators.len(), 1);
    assert_eq!(told.communicators[0].final_channels, Some(4), "by its own log: {:?}", told.log_lacks);
    let others = daemon.processes.values().filter(|one| one.key != key);
    for identity in others.filter_map(|one| one.identity.as_ref()) {
        assert_eq!((identity.user, identity.host.as_str()), (Some(HOSTILE), MACHINE), "{identity:?}");
    }
    let refused = daemon.until_batch(Answer::Take, |batch| !batch.not_watched.is_empty()).await.not_watched;
    assert!(refused.contains("refused, because it is not what it says"), "{refused}");
    drop(hostile);
    agent.stop().await;
    assert!(Path::new(&segment).exists() && hidden.exists());
    println!("{counted} calls of user {VICTIM} told exactly, while user {HOSTILE} went through {rounds}");
}
