//! The daemon tells incidents itself: to a real Alertmanager, and to a webhook that is sometimes not there.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ringscope_api::Severity;
use ringscope_api::clock;
use ringscope_daemon::config::ServeConfig;
use ringscope_daemon::serve::GRACE;
use ringscope_server::notify::{NotifyConfig, Pace, Target, TargetKind};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::daemon::{Daemon, config, sqlite};
use crate::common::monitoring::alertmanager;
use crate::common::stage::Stage;
use crate::common::{eventually, scratch, until};

/// A webhook that gives scripted answers, then 200.
#[derive(Clone, Default)]
struct Webhook {
    answers: Arc<Mutex<VecDeque<StatusCode>>>,
    taken: Arc<Mutex<Vec<Value>>>,
    refused: Arc<Mutex<usize>>,
}

impl Webhook {
    async fn start(answers: impl IntoIterator<Item = StatusCode>) -> (Self, Target) {
        let webhook =
            Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() };
        let router = axum::Router::new()
            .route("/services/s3cret", axum::routing::post(take))
            .with_state(webhook.clone());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/services/s3cret", listener.local_addr().unwrap());
        #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        (webhook, Target::parse(TargetKind::Webhook, &url).unwrap())
    }

    /// Headlines of the messages that it took.
    fn texts(&self) -> Vec<String> {
        let text = |message: &Value| message["text"].as_str().unwrap().to_owned();
        self.taken.lock().unwrap().iter().map(text).collect()
    }

    async fn until_taken(&self, n: usize) -> Vec<String> {
        until(&format!("{n} messages"), async || self.texts().len() >= n).await;
        self.texts()
    }
}

async fn take(State(webhook): State<Webhook>, Json(message): Json<Value>) -> StatusCode {
    let answer = webhook.answers.lock().unwrap().pop_front().unwrap_or(StatusCode::OK);
    if answer.is_success() {
        webhook.taken.lock().unwrap().push(message);
    } else {
        *webhook.refused.lock().unwrap() += 1;
    }
    answer
}

/// A daemon that tells these targets, in less time than people need.
fn telling(database_url: &str, targets: Vec<Target>) -> ServeConfig {
    let pace = Pace {
        fire_after: Duration::from_millis(200),
        resolve_after: Duration::from_millis(200),
        repeat: Duration::from_secs(1),
        retry: Duration::from_millis(20),
    };
    let notify = NotifyConfig {
        targets,
        severity: Severity::Warning,
        public_url: Some("https://rs".into()),
        pace,
        ..NotifyConfig::default()
    };
    ServeConfig { notify, ..config(database_url) }
}

async fn started(database_url: &str, target: &Target) -> Daemon {
    let daemon = Daemon::start(telling(database_url, vec![target.clone()])).await;
    daemon.until_ready().await;
    daemon
}

/// The second host holds the first back; or it has been mended.
async fn send(daemon: &Daemon, seq_number: u64, mended: bool) {
    let job = if mended { Job { init: &[8, 8], last: 8, ..SMALL } } else { SMALL };
    for host in 0..2 {
        daemon.take(&job.batch(host, seq_number, 3, START_NS)).await;
    }
}

/// A count of notifications, as Prometheus sees it.
async fn counted(daemon: &Daemon, result: &str, target: &str) -> u64 {
    let text = daemon.get("/metrics").await.text().await.unwrap();
    let name = format!("ringscope_notifications_total{{result=\"{result}\",target=\"{target}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

/// How a message about the second host begins: with the sentence of the incident.
const FIRES: &str = "[critical] node-b found 2 channels";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_told_once_and_once_when_it_is_over_across_a_restart() {
    let dir = scratch("notify");
    restart_repeats_nothing(&sqlite(&dir)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_remembers_too_what_was_told() {
    let postgres = crate::common::postgres::Postgres::start();
    restart_repeats_nothing(&postgres.url()).await;
}

async fn restart_repeats_nothing(database_url: &str) {
    let (webhook, target) = Webhook::start([]).await;
    let daemon = started(database_url, &target).await;
    send(&daemon, 1, false).await;
    let texts = webhook.until_taken(1).await;
    let sentence = daemon.json("/api/v1/incidents").await["items"][0]["sentence"].clone();
    assert_eq!(texts, [format!("[critical] {}", sentence.as_str().unwrap())]);
    assert!(texts[0].starts_with(FIRES), "{texts:?}");
    until("the message is counted", async || counted(&daemon, "sent", "webhook").await == 1).await;
    daemon.stop().await;

    let daemon = started(database_url, &target).await;
    send(&daemon, 2, false).await;
    send(&daemon, 3, true).await;
    let texts = webhook.until_taken(2).await;
    assert!(
        texts.len() == 2 && texts[1].starts_with("[resolved] after") && texts[1].contains("node-b found 2"),
        "{texts:?}"
    );
    send(&daemon, 4, false).await;
    assert!(webhook.until_taken(3).await[2].starts_with(FIRES), "what is open again is told again");
    let taken = webhook.taken.lock().unwrap()[0].clone();
    let words = taken["attachments"][0]["text"].as_str().unwrap();
    assert!(words.contains("https://rs/#/incidents/"), "{words}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_busy_is_tried_again_and_one_that_refuses_is_counted() {
    let busy = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY];
    let (webhook, target) = Webhook::start(busy).await;
    let daemon = started("none", &target).await;
    send(&daemon, 1, false).await;
    assert!(webhook.until_taken(1).await[0].starts_with(FIRES));
    assert_eq!(*webhook.refused.lock().unwrap(), 3);
    until("it is counted once", async || counted(&daemon, "sent", "webhook").await == 1).await;
    assert_eq!(counted(&daemon, "failed", "webhook").await, 0);

    // Trying again at once helps nobody here; it is tried again later.
    webhook.answers.lock().unwrap().push_back(StatusCode::FORBIDDEN);
    send(&daemon, 2, true).await;
    until("the failure is counted", async || counted(&daemon, "failed", "webhook").await == 1).await;
    assert!(webhook.until_taken(2).await[1].starts_with("[resolved]"));
    assert_eq!(*webhook.refused.lock().unwrap(), 4);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_hosts_make_one_message_more_than_twenty() {
    let (webhook, target) = Webhook::start([]).await;
    let daemon = started("none", &target).await;
    // At once, however long it takes to send: what comes one after the other may be told one by one.
    let mut all = SMALL.batch(0, 1, 3, START_NS);
    for index in 0..60 {
        let (name, hosts) = (format!("job-{index}"), [format!("a-{index}"), format!("b-{index}")]);
        let job = Job { name: &name, hosts: &[&hosts[0], &hosts[1]], ..SMALL };
        all.processes.extend((0..2).flat_map(|host| job.batch(host, 1, 3, START_NS).processes));
    }
    daemon.take(&all).await;
    until("something is left out", async || counted(&daemon, "dropped", "webhook").await > 0).await;
    let texts = webhook.texts();
    let more: Vec<&String> = texts.iter().filter(|text| text.contains("more changed")).collect();
    assert!(!more.is_empty() && texts.len() < 60, "{texts:?}");
    assert!(more[0].contains("https://rs/#/incidents"), "{more:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_target_holds_nothing_up() {
    // It takes connections and never answers.
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let targets =
        [TargetKind::Webhook, TargetKind::Alertmanager].map(|kind| Target::parse(kind, &url).unwrap());
    let daemon = Daemon::start(telling("none", targets.to_vec())).await;
    daemon.until_ready().await;
    send(&daemon, 1, false).await;
    for _ in 0..2 {
        silent.accept().await.unwrap();
    }
    let clock = clock::monotonic();
    daemon.stop().await;
    assert!(clock.elapsed() < GRACE + GRACE, "{:?}", clock.elapsed());
}

/// Alerts of this name that Alertmanager has, if it answers.
async fn alerts(port: u16, name: &str) -> Option<Vec<Value>> {
    let url = format!("http://127.0.0.1:{port}/api/v2/alerts?filter=alertname%3D%22{name}%22");
    reqwest::get(url).await.ok()?.error_for_status().ok()?.json().await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alertmanager_has_the_incident_until_it_is_over() {
    let (stage, (_, nobody)) = (Stage::new("notify-alertmanager"), Webhook::start([]).await);
    let (_alertmanager, port) = alertmanager(&stage, url_port(&nobody));
    let url = format!("http://127.0.0.1:{port}");
    let target = Target::parse(TargetKind::Alertmanager, &url).unwrap();
    // It may start later than the daemon.
    let daemon = started("none", &target).await;
    send(&daemon, 1, false).await;
    let name = "RingscopeIncident";
    let told = eventually(&format!("an alert; {}", stage.words()), async || {
        alerts(port, name).await.filter(|alerts| !alerts.is_empty())
    })
    .await;
    let incident = daemon.json("/api/v1/incidents").await["items"][0].clone();
    assert_eq!(told.len(), 1, "{told:?}");
    for (label, expected) in
        [("severity", "critical"), ("job", "train"), ("host", "node-b"), ("finding", "channel_shortfall")]
    {
        assert_eq!(told[0]["labels"][label], expected, "{told:?}");
    }
    assert_eq!(told[0]["labels"]["comm"], incident["comm"]);
    assert_eq!(told[0]["labels"]["incident"], incident["id"]);
    assert_eq!(told[0]["startsAt"], incident["first_seen"]);
    assert_eq!(told[0]["annotations"]["summary"], incident["sentence"]);
    let page = format!("https://rs/#/incidents/{}", incident["id"].as_str().unwrap());
    assert_eq!(told[0]["annotations"]["page"], page.as_str());
    assert_eq!(told[0]["annotations"]["runbook_url"], "https://rs/#/runbook/channel_shortfall");

    send(&daemon, 2, true).await;
    until("Alertmanager lets it go", async || {
        alerts(port, name).await.is_some_and(|alerts| alerts.is_empty())
    })
    .await;
    assert!(counted(&daemon, "sent", "alertmanager").await >= 2);
    daemon.stop().await;
}

fn url_port(target: &Target) -> u16 {
    let shown = target.to_string();
    let (_, rest) = shown.rsplit_once(':').unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

#[test]
fn a_secret_address_is_never_shown() {
    let target = Target::parse(TargetKind::Webhook, "https://hooks.slack.com/services/s3cret").unwrap();
    let shown = format!("{:?}", telling(&sqlite(Path::new("/x")), vec![target]));
    assert!(shown.contains("hooks.slack.com") && !shown.contains("s3cret"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_told_of_what_was_imported_and_it_began_when_the_files_say() {
    let (webhook, target) = Webhook::start([]).await;
    let daemon = started("none", &target).await;
    let answer =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/import/ras.json")).unwrap();
    let url = format!("{}/api/v1/import?job=yesterday", daemon.url);
    assert_eq!(
        daemon
            .client
            .post(url)
            .header("content-type", "application/json")
            .body(answer)
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
    let incident = eventually("the incident", async || {
        let incidents = daemon.json("/api/v1/incidents?job=yesterday").await;
        incidents["items"].as_array()?.first().cloned()
    });
    let incident = incident.await;
    assert_eq!(incident["imported"], true, "{incident:#}");
    assert_eq!(incident["began_at"], "2026-01-31T12:00:00.000Z", "{incident:#}");
    assert_eq!(daemon.json("/api/v1/health?job=yesterday").await["level"], "critical");
    // What fires today is told, and nothing but that.
    send(&daemon, 1, false).await;
    let told = webhook.until_taken(1).await;
    assert!(told.iter().all(|text| text.starts_with(FIRES)), "{told:?}");
    let sentence = daemon.json("/api/v1/health").await["sentence"].to_string();
    assert!(sentence.contains("node-b") && !sentence.contains("Rank 3"), "{sentence}");
    let metrics = daemon.get("/metrics").await.text().await.unwrap();
    let of_files: Vec<&str> = metrics.lines().filter(|line| line.contains("job=\"yesterday\"")).collect();
    assert_eq!(of_files, ["ringscope_job_info{job=\"yesterday\",state=\"imported\"} 1"]);
    daemon.stop().await;
}
