//! A rank of a real job is stopped: who it is stands in one sentence, in the terminal, the API and the webhook, soon, and
//! after a restart of the daemon with its true beginning; and it is over when the rank goes on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use common::stage::{Process, RINGSCOPE, Stage};
use common::totals::completed_bytes;
use common::{PATIENCE, eventually};
use ringscope_api::{Condition, FindingKind, FindingState, HealthLevel, Incident, Severity};
use ringscope_daemon::client::Client;
use ringscope_daemon::demo::job::{Job, JobSpec};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// What a webhook took.
type Told = Arc<Mutex<Vec<String>>>;

async fn take(State(told): State<Told>, Json(message): Json<Value>) {
    told.lock().unwrap().push(message["text"].as_str().unwrap().to_owned());
}

/// A webhook; its URL and what it took.
async fn webhook() -> (String, Told) {
    let told = Told::default();
    let router = axum::Router::new().route("/hook", axum::routing::post(take)).with_state(Arc::clone(&told));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, told)
}

fn serve(stage: &Stage, webhook: &str) -> Process {
    let mut command = Command::new(RINGSCOPE);
    command.arg("serve").args(["--listen", &format!("127.0.0.1:{}", stage.port), "--webhook", webhook]);
    command.args(["--agent-other-hosts", "true"]);
    command.arg("--data-dir").arg(stage.dir.0.join("data")).arg("--agent-dir").arg(&stage.segment_dir.0);
    Process::start(&mut command, &stage.dir.0.join("serve.log"))
}

/// Four ranks on two hosts whose faults show as NCCL shows them.
fn start(stage: &Stage) -> Job {
    let spec = JobSpec {
        name: "hangs".to_owned(),
        hosts: stage.hosts(2),
        ranks_per_host: 2,
        environment: Vec::new(),
        step_ms: 5,
    };
    Job::start(&spec, &stage.installation(), &stage.dir.0.join("jobs")).unwrap()
}

async fn critical(client: &Client) -> Option<Incident> {
    let open = client.incidents(false).await.ok()?;
    let critical = open.into_iter().find(|one| one.severity == Severity::Critical)?;
    (!critical.culprits.is_empty()).then_some(critical)
}

/// What `ringscope status` prints first, and how it ends.
fn status(stage: &Stage) -> (String, Option<i32>) {
    let output = Command::new(RINGSCOPE).args(["status", "--daemon", &stage.url()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (text.lines().next().unwrap_or_default().to_owned(), output.status.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_rank_is_named_everywhere_in_one_sentence() {
    let (url, told) = webhook().await;
    let stage = Stage::new("hang");
    let mut daemon = serve(&stage, &url);
    let mut job = start(&stage);
    let client = stage.client();
    eventually("all ranks work and are known to be well", async || {
        let health = client.health(None, None).await.ok()?;
        (health.level == HealthLevel::Ok && completed_bytes(&client, "hangs").await > 0).then_some(())
    })
    .await;
    assert_eq!(status(&stage).1, Some(0));

    let stopped = Pid::from_raw(i32::try_from(job.ranks[2].id().unwrap()).unwrap()).unwrap();
    kill_process(stopped, Signal::STOP).unwrap();
    let incident = eventually("somebody is named", async || critical(&client).await).await;
    let culprits: Vec<Option<u32>> = incident.culprits.iter().map(|culprit| culprit.global_rank).collect();
    assert_eq!(culprits, [Some(2)], "{incident:?}\n{}", stage.words());
    assert_eq!(incident.host, "host-1", "{incident:?}");
    // By what the others wait in at that moment.
    let kinds = [FindingKind::RankMissing, FindingKind::TransferStalled, FindingKind::P2pUnmatched];
    assert!(kinds.contains(&incident.finding), "{incident:?}");
    assert!(incident.sentence.contains("stopped"), "{incident:?}");

    // One sentence: the API's, the terminal's, the webhook's. It says more once somebody has looked at what the rank does.
    let mut sentences = vec![incident.sentence.clone()];
    let (incident, health, (line, code)) = eventually("all is said of all who wait", async || {
        let before = critical(&client).await?;
        if !sentences.contains(&before.sentence) {
            sentences.push(before.sentence.clone());
        }
        let (health, line) = (client.health(None, None).await.ok()?, status(&stage));
        let after = critical(&client).await?;
        (before.sentence == after.sentence && after.n_victims == 3).then_some((after, health, line))
    })
    .await;
    assert!(
        health.level == HealthLevel::Critical && health.sentence.contains(&incident.sentence),
        "{health:?}"
    );
    assert_eq!(code, Some(2), "{line}");
    assert!(line.contains(&incident.sentence), "{line}\n{}", incident.sentence);
    let jobs = client.jobs().await.unwrap();
    assert_eq!(jobs[0].standing.condition, Condition::Hung, "{:?}", jobs[0].standing);
    let message = eventually("the webhook is told", async || {
        let now = client.incident(&incident.id).await.ok()?.incident.sentence;
        if !sentences.contains(&now) {
            sentences.push(now);
        }
        told.lock().unwrap().first().cloned()
    })
    .await;
    assert!(sentences.iter().any(|sentence| message.contains(sentence)), "{message}\n{sentences:?}");

    // A daemon that is killed and starts again knows it with its true beginning.
    daemon.kill();
    let mut daemon = serve(&stage, &url);
    let again = eventually("it is known again", async || critical(&client).await).await;
    assert_eq!(again.id, incident.id, "{again:?}");
    // How far the host's clock is off is known the better the longer the agent is heard: the beginning may move by that.
    let moved = incident.began_at.since(again.began_at);
    assert!(again.began_at <= incident.began_at && moved < Duration::from_secs(5), "{moved:?} {again:?}");

    kill_process(stopped, Signal::CONT).unwrap();
    eventually(&format!("it is over; {}", stage.words()), async || {
        let one = client.incident(&incident.id).await.ok()?;
        (one.incident.state == FindingState::Resolved).then_some(())
    })
    .await;
    job.stop(PATIENCE).await.unwrap_or_else(|error| panic!("{error}\n{}", stage.words()));
    daemon.terminate(PATIENCE);
}
