//! A launch and the daemon: agents come and go with the job, the job is seen by its name, ranks and hosts, and one that failed is
//! not called well.

use std::process::Command;

use ringscope_api::{Condition, Incident, Job, JobState};
use ringscope_daemon::client::Client;

use crate::common::stage::{Process, Stage};
use crate::common::{eventually, until};
use rustix::process::Signal;

use crate::{Running, end, launch, mark, rounds};

#[test]
fn a_daemon_that_is_away_stops_no_job() {
    let stage = Stage::new("launch-away");
    let mut command = launch(&["--daemon", &stage.url(), "--", "echo", "started"]);
    let ended = end(command.env("RINGSCOPE_DIR", &stage.segment_dir.0));
    ended.check(0, &["the daemon does not say whether a job of this name runs", "started all the same"]);
    assert!(ended.out.contains("started"), "{ended:#?}");
}

/// A daemon that answers.
async fn served(name: &str) -> (Stage, Process, Client) {
    let stage = Stage::new(name);
    let (daemon, client) = (stage.serve(false), stage.client());
    let answers = eventually("the daemon answers", async || client.jobs().await.ok());
    answers.await;
    (stage, daemon, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_seen_by_an_agent_that_comes_and_goes_with_it() {
    let (stage, _daemon, client) = served("launch-seen").await;
    let name = format!("seen-{}", mark());
    let folder = stage.dir.0.display().to_string();
    let url = stage.url();
    let options = ["-n", "2", "--job", &name, "--daemon", &url, "--"];
    let mut command = launch(&options);
    command.arg(rounds()).args([folder.as_str(), "0"]).env("RINGSCOPE_DIR", &stage.segment_dir.0);
    command.env("FAIL_RANK", "1").env("FAIL_ROUND", "1500");
    let mut running = Running::start(&mut command);
    running.wait_for("no agent runs; one was started");

    let job = eventually("the job is seen", async || {
        let found = client.jobs().await.unwrap().into_iter().find(|job| job.id == name);
        found.filter(|job| job.n_processes == 2 && job.active_communicators > 0)
    });
    let job = job.await;
    assert_eq!((job.state, job.world_size, job.hosts.len()), (JobState::Running, Some(2), 1));
    let second = end(&mut launch(&["--job", &name, "--daemon", &stage.url(), "--", "true"]));
    second.check(1, &[&format!("a job of the name \"{name}\" runs already")]);

    running.end().check(7, &["first rank 1"]);
    // The agent has sent the end before it went.
    let job = client.jobs().await.unwrap().into_iter().find(|job| job.id == name).unwrap();
    assert_eq!(job.state, JobState::Ended, "{job:#?}");
    assert_eq!(job.standing.condition, Condition::Failed, "{job:#?}");
    assert!(["ank 1 ", "status 7"].iter().all(|part| job.standing.reason.contains(part)), "{job:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_runs_and_sends_to_another_daemon_is_told() {
    let (stage, _daemon, client) = served("launch-other").await;
    let _agent = stage.agent();
    until("the agent is seen", || async { !client.hosts().await.unwrap().is_empty() }).await;
    let (own, other) = (stage.url(), "http://127.0.0.1:9");
    for (url, is_told) in [(other, true), (&own, false)] {
        let mut command = launch(&["--daemon", url, "--", "echo", "started"]);
        let ended = end(command.env("RINGSCOPE_DIR", &stage.segment_dir.0));
        ended.check(0, &[]);
        let said = format!("an agent runs that sends to {own}, not to {other};");
        assert_eq!(ended.err.matches(&said).count(), usize::from(is_told), "{ended:#?}");
        assert!(ended.out.contains("started") && !ended.err.contains("one was started"), "{ended:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_processes_that_never_called_the_library_are_told_before_the_agent_goes() {
    let (stage, _daemon, client) = served("launch-quiet").await;
    let (name, url) = (format!("quiet-{}", mark()), stage.url());
    let script = format!("until [ -e {}/over ]; do sleep 0.05; done", stage.dir.0.display());
    let mut command = launch(&["-n", "2", "--job", &name, "--daemon", &url, "--", "sh", "-c", &script]);
    let running = Running::start(command.env("RINGSCOPE_DIR", &stage.segment_dir.0));
    let find = || async { client.jobs().await.unwrap().into_iter().find(|job| job.id == name) };
    until("the job is seen", || async { find().await.is_some_and(|job| job.n_processes == 2) }).await;
    std::fs::write(stage.dir.join("over"), "").unwrap();
    running.end().check(0, &[]);
    let job = find().await.unwrap();
    assert_eq!(job.state, JobState::Ended, "{job:#?}");
}

/// The job of four by this name once the daemon knows that it has ended.
async fn after(client: &Client, name: &str) -> Job {
    eventually(&format!("{name} has ended"), async || {
        let job = client.jobs().await.unwrap().into_iter().find(|job| job.id == name);
        job.filter(|job| job.state == JobState::Ended && job.n_processes >= 4)
    })
    .await
}

/// A launch of four ranks, watched from a folder of its own.
fn of_four(stage: &Stage, name: &str, options: &[&str], command: &[&str]) -> Command {
    let url = stage.url();
    let mut launch =
        launch(&[&["-n", "4", "--job", name, "--daemon", &url], options, &["--"], command].concat());
    launch.env("RINGSCOPE_DIR", &stage.segment_dir.0);
    launch
}

#[tokio::test(flavor = "multi_thread")]
async fn who_failed_first_is_known_also_where_nobody_called_the_library() {
    let (stage, _daemon, client) = served("launch-failed").await;
    let _agent = stage.agent();
    let folder = stage.dir.0.display().to_string();
    let at_work = [rounds().to_str().unwrap(), folder.as_str(), "0"];
    let quiet = "[ $RANK = 2 ] || sleep 1000; sleep $AFTER; exit 3";
    let check = async |name: &str, launch: &mut Command, status: i32, how: &str| {
        end(launch).check(status, &["first rank 2"]);
        let job = after(&client, name).await;
        assert_eq!(job.standing.condition, Condition::Failed, "{job:#?}");
        // The judge looks each second.
        let parts = ["ank 2 (", how];
        eventually(&format!("{name} is told of with {parts:?}"), async || {
            let reason = after(&client, name).await.standing.reason;
            // On a busy machine all others may fail because of it before their launch ends them.
            let has_ended_others = ["; its launch then ended the job", "; the other 3 ended "];
            let is_told = parts.iter().all(|part| reason.contains(part));
            (is_told && has_ended_others.iter().any(|words| reason.contains(words))).then_some(())
        })
        .await;
        let incidents = client.incidents(true).await.unwrap();
        let of_job: Vec<&Incident> = incidents.iter().filter(|one| one.job == name).collect();
        assert_eq!(of_job.len(), 1, "{incidents:#?}");
    };
    for (kind, signal, how) in [("killed", 9, "was ended by SIGKILL"), ("crashed", 11, "SIGSEGV")] {
        let name = format!("{kind}-{}", mark());
        let mut launch = of_four(&stage, &name, &[], &at_work);
        launch.env("FAIL_RANK", "2").env("FAIL_STATUS", format!("-{signal}")).env("FAIL_ROUND", "500");
        check(&name, &mut launch, 128 + signal, how).await;
    }
    for (kind, after) in [("early", "0"), ("late", "1.5")] {
        let name = format!("{kind}-{}", mark());
        let mut launch = of_four(&stage, &name, &[], &["sh", "-c", quiet]);
        check(&name, launch.env("AFTER", after), 3, "has exited with status 3").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_interrupted_has_not_failed_and_one_that_got_well_again_is_well() {
    let (stage, _daemon, client) = served("launch-interrupted").await;
    let _agent = stage.agent();
    let name = format!("interrupted-{}", mark());
    let mut running =
        Running::start(&mut of_four(&stage, &name, &[], &["sh", "-c", "echo up; exec sleep 1000"]));
    for rank in 0..4 {
        running.wait_for(&format!("[rank {rank} "));
    }
    running.signal(Signal::INT);
    running.end().check(130, &["SIGINT"]);
    let job = after(&client, &name).await;
    assert_eq!(job.standing.condition, Condition::Unknown, "{job:#?}");
    assert_eq!(job.standing.reason, "its launch ended it: the launch was sent SIGINT");

    let name = format!("again-{}", mark());
    let script =
        "[ $RINGSCOPE_RESTART = 1 ] && sleep 1.5; [ $RINGSCOPE_RESTART = 1 ] || [ $RANK != 1 ] || exit 3";
    let ended = end(&mut of_four(&stage, &name, &["--restarts", "1"], &["sh", "-c", script]));
    ended.check(0, &[]);
    // The judge looks each second.
    until("the first failure is history", async || {
        after(&client, &name).await.standing.condition != Condition::Failed
    })
    .await;
}

#[test]
fn one_line_warns_of_a_token_over_http() {
    let stage = Stage::new("launch-token");
    // Not loopback, and nobody listens there.
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let url = format!("http://{host}:{}", stage.port);
    let script = format!("until [ -e {}/over ]; do sleep 0.05; done", stage.dir.0.display());
    let mut command = launch(&["--daemon", &url, "--", "sh", "-c", &script]);
    command.env("RINGSCOPE_DIR", &stage.segment_dir.0).env("RINGSCOPE_TOKEN", "secret");
    let mut running = Running::start(&mut command);
    running.wait_for("the daemon does not take batches");
    std::fs::write(stage.dir.join("over"), "").unwrap();
    let ended = running.end();
    ended.check(0, &["no agent runs; one was started"]);
    assert_eq!(ended.err.matches("the token goes to").count(), 1, "{ended:#?}");
}
