//! A database that is away: nothing is called well meanwhile, and no host is accused.

use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::daemon::{Daemon, problem};
use crate::common::postgres::Postgres;
use crate::common::until;

/// Two hosts of which nothing is known to be wrong.
const WELL: Job<'static> = Job { name: "well", init: &[4, 4], last: 4, ..SMALL };

async fn sentence(daemon: &Daemon) -> (String, String) {
    let health = daemon.json("/api/v1/health").await;
    let text = |name: &str| health[name].as_str().unwrap().to_owned();
    (text("level"), text("sentence"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_says_once_that_the_database_is_away_and_what_that_means() {
    let mut postgres = Postgres::start();
    let daemon = Daemon::ready(&postgres.url()).await;
    for host in 0..2 {
        daemon.take(&WELL.batch(host, 1, 2, START_NS)).await;
    }
    let (_, before) = sentence(&daemon).await;
    assert!(!before.contains("database"), "{before}");

    postgres.stop();
    until("away", async || daemon.get("/readyz").await.text().await.unwrap().contains("store-away")).await;
    problem(daemon.send(&WELL.batch(0, 2, 3, START_NS)).await, 503, "send it again").await;
    let health = daemon.json("/api/v1/health").await;
    assert_eq!(health["level"], "unknown");
    let said = health["sentence"].as_str().unwrap();
    for part in ["The database is away since ", "Z, so agents' batches are refused and wait", "postgres://"] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    assert_eq!(health["unknown"][0], said, "the page shows it once");
    assert!(health["advice"].as_str().unwrap().starts_with("Mend the database."), "{health}");
    assert_eq!(daemon.json("/api/v1/health?job=well").await["sentence"], said);
    let metrics = daemon.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains(r#"ringscope_health{level="unknown"} 1"#), "{metrics}");

    // What is worse stays in front.
    for host in 0..2 {
        problem(daemon.send(&SMALL.batch(host, 1, 3, START_NS)).await, 503, "send it again").await;
    }
    let health = daemon.json("/api/v1/health").await;
    assert_eq!(health["level"], "critical");
    assert!(health["notices"][0].as_str().unwrap().starts_with("The database is away since "), "{health}");

    postgres.start_again();
    daemon.until_ready().await;
    let (_, after) = sentence(&daemon).await;
    assert!(!after.contains("database"), "{after}");
    daemon.stop().await;
}
