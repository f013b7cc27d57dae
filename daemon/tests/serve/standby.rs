//! A daemon that stands by, beside a leader that does not answer, or a database that does not.

use futures::StreamExt as _;
use ringscope_daemon::config::ServeConfig;
use ringscope_daemon::serve::{ServeError, Server};
use ringscope_store::{Claim, LeaderWatch, Store, StoreError, TermSecret};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::net::TcpListener;

use super::several::{child, leader, one_of, until_it_leads};
use crate::common::certs::Authority;
use crate::common::cut::Cut;
use crate::common::daemon::{Daemon, problem};
use crate::common::postgres::Postgres;
use crate::common::{eventually, free_port, scratch, until};

/// A leader that the test plays: it has the lock, and says where it is.
struct Played {
    store: Store,
    claim: Claim,
}

impl Played {
    async fn start(postgres: &Postgres) -> Self {
        let url = postgres.url().parse().unwrap();
        Self { claim: Claim::take(&url).await.unwrap(), store: Store::open(&url).await.unwrap().unwrap() }
    }

    /// Begins a term.
    async fn leads_at(&self, url: &str) {
        self.store.lead(url, &TermSecret("rs_played".to_owned())).await.unwrap();
    }

    async fn end(self) {
        self.store.close().await;
        self.claim.release().await;
    }
}

/// Waits until the daemon says on `/readyz` that it is not ready, and that this is why.
async fn unready(daemon: &Daemon, why: &str) {
    eventually(why, async || {
        let ready = daemon.get("/readyz").await;
        let is_unready = ready.status() == 503;
        let said: Value = ready.json().await.ok()?;
        (is_unready && said["detail"].as_str()?.contains(why)).then_some(())
    })
    .await;
}

async fn reaches(daemon: &Daemon, expected: u8) {
    let line = format!("\nringscope_daemon_reaches_leader {expected}\n");
    until(&line, async || daemon.get("/metrics").await.text().await.unwrap().contains(&line)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_reach_the_leader_is_not_ready_and_says_why() {
    let postgres = Postgres::start();
    let played = Played::start(&postgres).await;
    played.leads_at(&format!("http://127.0.0.1:{}", free_port())).await;
    let daemon = Daemon::start(one_of(&postgres.url())).await;
    unready(&daemon, "Connection refused").await;
    problem(daemon.get("/api/v1/jobs").await, 503, "Connection refused").await;
    let metrics = daemon.get("/metrics").await.text().await.unwrap();
    for line in ["ringscope_daemon_leads 0\n", "ringscope_daemon_reaches_leader 0\n", "ringscope_build_info{"]
    {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }

    // It takes the connection, and hangs.
    let hangs = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    played.leads_at(&format!("http://{}", hangs.local_addr().unwrap())).await;
    unready(&daemon, "says nothing in time").await;
    let (jobs, events) = tokio::join!(daemon.get("/api/v1/jobs"), daemon.get("/api/v1/events"));
    problem(jobs, 503, "ask again").await;
    problem(events, 503, "ask again").await;

    // What waits for a leader ends when another one leads.
    let waiting = async { tokio::join!(daemon.get("/api/v1/jobs"), daemon.get("/api/v1/events")) };
    let closed = format!("http://127.0.0.1:{}", free_port());
    let ((jobs, events), ()) = tokio::join!(waiting, async {
        // One of the two at least has come so far.
        let _ = hangs.accept().await;
        played.leads_at(&closed).await;
    });
    problem(jobs, 503, "ask again").await;
    problem(events, 503, "ask again").await;

    // Whoever has the database is named where nobody else leads.
    played.leads_at(&daemon.url).await;
    unready(&daemon, "has this daemon's own --cluster-url").await;
    unready(&daemon, &format!("pid {}", std::process::id())).await;
    daemon.stop().await;
    played.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hangs_keeps_nobody_waiting_when_another_one_leads() {
    let postgres = Postgres::start();
    let (hung, url) = child(&one_of(&postgres.url()));
    until_it_leads(&url).await;
    let next = Daemon::start(one_of(&postgres.url())).await;
    next.until_ready().await;
    reaches(&next, 1).await;
    let mut events = next.get("/api/v1/events").await.bytes_stream();
    events.next().await.unwrap().unwrap();

    let pid = Pid::from_raw(i32::try_from(hung.id()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    unready(&next, "says nothing in time").await;
    reaches(&next, 0).await;
    let end =
        "SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted";
    let (ended, waited, ()) = tokio::join!(
        async { while let Some(Ok(_)) = events.next().await {} },
        next.get("/api/v1/jobs"),
        async { assert_eq!(postgres.query(end), "t") }
    );
    let () = ended;
    assert!([200, 503].contains(&waited.status().as_u16()), "{waited:?}");
    until("it leads itself", async || leader(&[&next]).await == 0).await;
    next.stop().await;
    drop(hung);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_cut_off_is_asked_again_by_another_connection() {
    let postgres = Postgres::start();
    let played = Played::start(&postgres).await;
    played.leads_at("http://a").await;
    let cut = Cut::before(postgres.port(), "FROM leader").await;
    let watch = LeaderWatch::new(&postgres.url_at(cut.port).parse().unwrap()).unwrap().unwrap();
    // What is open says nothing any more, and what is opened does.
    cut.arm();
    let error = watch.leader().await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("no answer within 3 s"), "{error}");
    let leader = watch.leader().await.unwrap().unwrap();
    assert_eq!((leader.term, leader.url.as_str()), (1, "http://a"));
    let holder = watch.holder().await.unwrap().unwrap();
    assert!(holder.words.contains(&format!("pid {}", std::process::id())), "{holder:?}");
    played.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_daemon_beside_one_of_several_is_named_to_it() {
    let postgres = Postgres::start();
    let alone = Daemon::ready(&postgres.url()).await;
    let config = crate::common::daemon::config(&postgres.url());
    assert!(matches!(Server::bind(config).await, Err(ServeError::InUse(_))));
    let waits = Daemon::start(one_of(&postgres.url())).await;
    unready(&waits, "no daemon leads yet").await;
    unready(&waits, "was started without --cluster-url").await;
    unready(&waits, &format!("pid {}", std::process::id())).await;
    alone.stop().await;
    until("it leads", async || leader(&[&waits]).await == 0).await;
    waits.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_know_the_tables_never_leads() {
    let postgres = Postgres::start();
    Played::start(&postgres).await.end().await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (9999, 'newer', true, '', 0)";
    postgres.query(newer);
    let daemon = Daemon::start(one_of(&postgres.url())).await;
    unready(&daemon, "no daemon leads yet").await;
    // It leaves the lock to others.
    let url = postgres.url().parse().unwrap();
    for _ in 0..3 {
        eventually("the lock", async || Claim::take(&url).await.ok()).await.release().await;
    }
    assert_eq!(postgres.query("SELECT count(*) FROM leader"), "0");
    postgres.query("DELETE FROM _sqlx_migrations WHERE version = 9999");
    until("it leads", async || leader(&[&daemon]).await == 0).await;
    assert_eq!(postgres.query("SELECT term FROM leader"), "1");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_not_where_it_says_is_told_so() {
    let postgres = Postgres::start();
    let wrong = format!("http://127.0.0.1:{}", free_port());
    let config = ServeConfig { cluster_url: Some(wrong.clone()), ..one_of(&postgres.url()) };
    let daemon = Daemon::start(config).await;
    eventually("it leads, and says that nobody reaches it", async || {
        let health: Value = daemon.get("/api/v1/health").await.json().await.ok()?;
        let notice = health["notices"].as_array()?.first()?.as_str()?.to_owned();
        (notice.contains("does not reach itself") && notice.contains(&wrong)).then_some(())
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_not_trusted_is_said_to_be_why() {
    let (postgres, dir) = (Postgres::start(), scratch("standby-tls"));
    let ca = Authority::new("the operators' CA");
    let tls = |config: ServeConfig, name: &str| ServeConfig {
        tls: Some(ca.issue(&["127.0.0.1"]).write(&dir, name)),
        cluster_url: Some(format!("https://{}", config.listen)),
        ..config
    };
    let client = || ca.client().build().unwrap();
    let leads = Daemon::start_with(tls(one_of(&postgres.url()), "leads"), client()).await;
    leads.until_ready().await;
    let trusts_nobody = Daemon::start_with(tls(one_of(&postgres.url()), "nobody"), client()).await;
    let mut config = tls(one_of(&postgres.url()), "trusts");
    config.notify.trust.ca = Some(ca.write(&dir, "ca.pem"));
    let trusts = Daemon::start_with(config, client()).await;
    unready(&trusts_nobody, "from a CA that is not trusted here").await;
    problem(trusts_nobody.get("/api/v1/jobs").await, 503, "from a CA that is not trusted here").await;
    trusts.until_ready().await;
    assert_eq!(trusts.get("/api/v1/jobs").await.status(), 200);
    for daemon in [&trusts, &trusts_nobody] {
        let metrics = daemon.get("/metrics").await.text().await.unwrap();
        assert!(metrics.contains("\nringscope_tls_certificate_expiry_seconds "), "{metrics}");
    }
    for daemon in [trusts, trusts_nobody, leads] {
        daemon.stop().await;
    }
}
