//! Several daemons on one Postgres: one leads, the others hand on, and the next leads when it is gone.

use std::io::BufRead as _;
use std::process::{Command, Stdio};

use futures::StreamExt as _;
use reqwest::StatusCode;
use ringscope_daemon::config::ServeConfig;
use ringscope_daemon::serve::{ServeError, Server};
use ringscope_store::{Store, StoreError, TermSecret};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::durability::Killed;
use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, config, problem, sqlite};
use crate::common::postgres::Postgres;
use crate::common::{eventually, free_port, scratch, until};

/// One of several.
pub(crate) fn one_of(database_url: &str) -> ServeConfig {
    let port = free_port();
    ServeConfig {
        listen: ([127, 0, 0, 1], port).into(),
        cluster_url: Some(format!("http://127.0.0.1:{port}")),
        ..config(database_url)
    }
}

/// What the four ranks have issued in so many calls.
const fn issued(calls: u64) -> u64 {
    4 * (calls << 20)
}

/// Waits until the daemon at `url` leads.
pub(crate) async fn until_it_leads(url: &str) {
    let client = reqwest::Client::new();
    until("it leads", async || match client.get(format!("{url}/readyz")).send().await {
        Ok(ready) => ready.status() == 200 && !ready.text().await.unwrap_or_default().contains("standby"),
        Err(_) => false,
    })
    .await;
}

/// Waits until one of them leads and the others know it; returns which.
pub(crate) async fn leader(daemons: &[&Daemon]) -> usize {
    eventually("one leads, and the others know it", async || {
        let mut roles = Vec::new();
        for daemon in daemons {
            let ready = daemon.client.get(format!("{}/readyz", daemon.url)).send().await.ok()?;
            let is_ready = ready.status() == StatusCode::OK;
            let said: Value = ready.json().await.ok()?;
            roles.push(is_ready.then(|| said["leader"].as_str().map(str::to_owned))?);
        }
        let leads = roles.iter().position(Option::is_none)?;
        let others = roles.iter().flatten().collect::<Vec<_>>();
        let all_know =
            others.len() + 1 == daemons.len() && others.iter().all(|url| **url == daemons[leads].url);
        all_know.then_some(leads)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_of_them_takes_and_shows_everything() {
    let postgres = Postgres::start();
    let (one, two) =
        (Daemon::start(one_of(&postgres.url())).await, Daemon::start(one_of(&postgres.url())).await);
    let all = [&one, &two];
    let leads = leader(&all).await;
    let (leading, standing_by) = (all[leads], all[1 - leads]);

    // Events of the leader arrive by the other, as they happen.
    let mut events = standing_by.get("/api/v1/events").await.bytes_stream();
    let first = events.next().await.unwrap().unwrap();
    assert!(!first.is_empty());
    // Each host's agent speaks to another one.
    standing_by.take(&SMALL.batch(0, 1, 5, START_NS)).await;
    leading.take(&SMALL.batch(1, 1, 5, START_NS)).await;
    let told = eventually("an event of it", async || {
        let bytes = events.next().await?.ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| text.contains("event"))
    })
    .await;
    assert!(told.contains("data"), "{told}");
    let ours = issued(5);
    for daemon in all {
        assert_eq!(daemon.issued_bytes().await, ours);
        assert_eq!(
            daemon.json("/api/v1/health").await["level"],
            leading.json("/api/v1/health").await["level"]
        );
        assert_eq!(daemon.get("/healthz").await.status(), 200);
        assert_eq!(daemon.get("/").await.status(), 200, "the page");
        problem(daemon.get("/api/v1/jobs/none").await, 404, "no job").await;
    }
    // Each is scraped for itself.
    let leads = |text: String, expected: &str| {
        assert!(text.contains(&format!("ringscope_daemon_leads {expected}\n")))
    };
    leads(leading.get("/metrics").await.text().await.unwrap(), "1");
    leads(standing_by.get("/metrics").await.text().await.unwrap(), "0");

    // It is not believed that a request came by another daemon, nor by which line.
    for daemon in all {
        let forged = daemon.client.get(format!("{}/api/v1/jobs", daemon.url));
        let forged =
            forged.header("x-ringscope-forwarded", "rs_made-up https 10.0.0.1:7").send().await.unwrap();
        problem(forged, 503, "does not lead now").await;
    }
    // A name that is a stranger's is refused before anything is handed on.
    for daemon in all {
        let strange = daemon.client.get(format!("{}/api/v1/jobs", daemon.url)).header("host", "evil.example");
        problem(strange.send().await.unwrap(), 421, "evil.example").await;
    }
    drop(events);
    two.stop().await;
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_hands_over_with_nothing_lost() {
    let postgres = Postgres::start();
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(Daemon::start(one_of(&postgres.url())).await);
    }
    for seq in 1..=3 {
        let leads = leader(&all.iter().collect::<Vec<_>>()).await;
        for (host, daemon) in (0..2).zip(all.iter().cycle().skip(1)) {
            daemon.take(&SMALL.batch(host, seq, seq, START_NS)).await;
        }
        if all.len() == 1 {
            break;
        }
        all.remove(leads).stop().await;
        let leads = leader(&all.iter().collect::<Vec<_>>()).await;
        let told = &all[leads];
        until("what was told before", async || told.issued_bytes().await == issued(seq)).await;
    }
    let terms = postgres.query("SELECT term FROM leader");
    assert_eq!(terms, "3");
    all.remove(0).stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_is_replaced() {
    let postgres = Postgres::start();
    let (killed, url) = child(&one_of(&postgres.url()));
    until_it_leads(&url).await;
    let next = Daemon::start(one_of(&postgres.url())).await;
    until("it knows who leads", async || next.get("/readyz").await.status() == 200).await;
    for host in 0..2 {
        next.take(&SMALL.batch(host, 1, 1, START_NS)).await;
    }
    drop(killed);
    // What is asked of it meanwhile is answered in words, and not lost: the agent keeps it and asks again.
    let taken = eventually("it takes batches itself", async || {
        let response = next.send(&SMALL.batch(0, 2, 2, START_NS)).await;
        (response.status() == StatusCode::OK).then_some(response)
    })
    .await;
    assert_eq!(taken.status(), 200);
    until("it leads", async || leader(&[&next]).await == 0).await;
    next.take(&SMALL.batch(1, 2, 2, START_NS)).await;
    assert_eq!(next.issued_bytes().await, issued(2));
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_leader_writes_is_refused() {
    let postgres = Postgres::start();
    let url = postgres.url().parse().unwrap();
    let (before, after) =
        (Store::open(&url).await.unwrap().unwrap(), Store::open(&url).await.unwrap().unwrap());
    let row = || ringscope_store::WriteSet {
        agents: vec![ringscope_store::AgentRow {
            agent_id: "a".into(),
            host: "h".into(),
            last_seq: 1,
            last_seen_ns: 1,
        }],
        ..Default::default()
    };
    before.lead("http://a", &TermSecret("x".to_owned())).await.unwrap();
    before.write(&row()).await.unwrap();
    after.lead("http://b", &TermSecret("y".to_owned())).await.unwrap();
    assert!(matches!(before.write(&row()).await, Err(StoreError::Deposed)));
    after.write(&row()).await.unwrap();
    before.close().await;
    after.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_lock_another_has_stands_by() {
    let postgres = Postgres::start();
    let (one, two) =
        (Daemon::start(one_of(&postgres.url())).await, Daemon::start(one_of(&postgres.url())).await);
    let all = [&one, &two];
    let first = leader(&all).await;
    all[1 - first].take(&SMALL.batch(0, 1, 1, START_NS)).await;
    let end =
        "SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted";
    assert_eq!(postgres.query(end), "t");
    until("the other leads", async || postgres.query("SELECT term FROM leader") == "2").await;
    let second = leader(&all).await;
    assert_eq!(second, 1 - first, "the next in line, and the first hands on to it");
    all[first].take(&SMALL.batch(0, 2, 2, START_NS)).await;
    for daemon in all {
        assert_eq!(daemon.issued_bytes().await, issued(2) / 2);
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_nobody_shares_is_refused() {
    let dir = scratch("several-sqlite");
    let running = Server::bind(one_of(&sqlite(&dir))).await.unwrap().run(CancellationToken::new()).await;
    assert!(matches!(running, Err(ServeError::NotShared)), "{running:?}");
}

const CHILD: &str = "RINGSCOPE_TEST_ONE_OF_SEVERAL";

/// Not a test by itself: the daemon that another one kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "a test that starts itself again")]
async fn child_daemon() {
    let Ok(said) = std::env::var(CHILD) else { return };
    let (database_url, listen) = said.split_once(' ').unwrap();
    let config = ServeConfig {
        listen: listen.parse().unwrap(),
        cluster_url: Some(format!("http://{listen}")),
        ..config(database_url)
    };
    let server = Server::bind(config).await.unwrap();
    println!("\nlistening {}", server.local_addr());
    server.run(CancellationToken::new()).await.unwrap();
}

pub(crate) fn child(config: &ServeConfig) -> (Killed, String) {
    let ringscope_store::DatabaseUrl::Postgres(_) = &config.database_url else { panic!("Postgres") };
    let database = config.database_url.to_string();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "several::child_daemon", "--nocapture"])
        .env(CHILD, format!("{database} {}", config.listen))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    lines.find(|line| line.starts_with("listening ")).expect("the child's address");
    (Killed(child), format!("http://{}", config.listen))
}
