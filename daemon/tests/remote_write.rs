//! What `/metrics` shows, written to a real Prometheus and to a pretended one that refuses.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use common::batches::{SMALL, START_NS};
use common::daemon::{Daemon, config};
use common::prometheus::select;
use common::stage::Process;
use common::{eventually, free_port, scratch, until};
use ringscope_daemon::config::ServeConfig;
use ringscope_server::remote_write::{Login, RemoteWriteConfig};
use ringscope_tls::Trust;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_prometheus_has_it_also_of_the_time_in_which_it_was_away() {
    let (dir, port) = (scratch("remote-write"), free_port());
    let mut prometheus = receiver(&dir, port);
    let daemon = writing(&format!("http://127.0.0.1:{port}/api/v1/write"), Login::Nobody).await;
    for host in 0..2 {
        daemon.take(&SMALL.batch(host, 1, 3, START_NS)).await;
    }
    let of_job = r#"ringscope_issued_bytes_total{cluster="a",instance="d:1",job="train"}"#;
    eventually("both hosts", async || (select(port, of_job).await?.len() == 2).then_some(())).await;
    let own = r#"ringscope_store_up{cluster="a",instance="d:1",job="ringscope"}"#;
    eventually("the daemon", async || (select(port, own).await?.len() == 1).then_some(())).await;
    let buckets = r#"ringscope_hub_lock_wait_seconds_bucket{le="+Inf"}"#;
    eventually("histograms", async || (select(port, buckets).await?.len() == 1).then_some(())).await;

    prometheus.kill();
    let away = ringscope_api::clock::now().unix_ms();
    until("some rounds wait", async || {
        metric(&daemon, "ringscope_remote_write_pending_samples").await > 1000.0
    })
    .await;
    let back = ringscope_api::clock::now().unix_ms();
    let mut prometheus = receiver(&dir, port);
    until("nothing waits", async || metric(&daemon, "ringscope_remote_write_pending_samples").await < 1.0)
        .await;
    // What was sampled while it was away, by its own time.
    let between = format!("count_over_time({own}[{}ms] @ {}.{:03})", back - away, back / 1000, back % 1000);
    eventually("the time in which it was away", async || {
        let count = select(port, &between).await?;
        let count: f64 = count.first()?["value"][1].as_str()?.parse().ok()?;
        (count >= 2.0).then_some(())
    })
    .await;
    for result in ["failed", "dropped"] {
        let name = format!("ringscope_remote_write_samples_total{{result=\"{result}\"}}");
        assert!(metric(&daemon, &name).await.abs() < 0.5, "{name}");
    }
    assert!(metric(&daemon, "ringscope_remote_write_samples_total{result=\"sent\"}").await > 1000.0);
    // When the daemon ends it marks its series as ended, so that nobody takes them for what still holds.
    daemon.stop().await;
    for of_daemon in [own, of_job] {
        eventually("its series have ended", async || select(port, of_daemon).await?.is_empty().then_some(()))
            .await;
    }
    prometheus.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_for_now_is_sent_again_and_what_is_refused_for_good_is_counted() {
    let dir = scratch("remote-write-refused");
    let (url, asked) = pretended(vec![503, 401, 400, 429]).await;
    let password = dir.join("password");
    std::fs::write(&password, "geheim\n").unwrap();
    let daemon = writing(&url, Login::Basic { user: "ann".to_owned(), password }).await;
    until("it goes on", async || asked.lock().unwrap().len() > 5).await;
    let first: Vec<(HeaderMap, Vec<u8>)> = asked.lock().unwrap().iter().take(5).cloned().collect();
    let same: Vec<bool> = first.windows(2).map(|pair| pair[0].1 == pair[1].1).collect();
    assert_eq!(
        same,
        [true, true, false, true],
        "503 and 401 are tried again, after 400 comes the next, 429 again"
    );
    for (headers, body) in &first {
        let header = |name: &str| headers[name].to_str().unwrap();
        assert_eq!(header("authorization"), "Basic YW5uOmdlaGVpbQ==");
        assert_eq!(header("content-encoding"), "snappy");
        assert_eq!(header("x-prometheus-remote-write-version"), "0.1.0");
        assert!(!snap::raw::Decoder::new().decompress_vec(body).unwrap().is_empty());
    }
    assert!(metric(&daemon, "ringscope_remote_write_samples_total{result=\"failed\"}").await > 0.0);
    assert!(metric(&daemon, "ringscope_remote_write_samples_total{result=\"dropped\"}").await < 0.5);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_comes_from_its_file_and_a_full_queue_drops_the_oldest() {
    let dir = scratch("remote-write-token");
    let (url, asked) = pretended(vec![503; 1000]).await;
    let token = dir.join("token");
    let config = RemoteWriteConfig { queue_bytes_max: 16 << 10, ..target(&url, Login::Token(token.clone())) };
    let daemon =
        Daemon::start(ServeConfig { remote_write: Some(config), ..common::daemon::config("none") }).await;
    daemon.until_ready().await;
    daemon.take(&SMALL.batch(0, 1, 3, START_NS)).await;
    let dropped = "ringscope_remote_write_samples_total{result=\"dropped\"}";
    until("more waits than there is room for", async || metric(&daemon, dropped).await > 0.0).await;
    assert!(asked.lock().unwrap().is_empty(), "nothing is sent without the token that is to be sent");
    std::fs::write(&token, "rsc_1\n").unwrap();
    until("it is sent with the token", async || !asked.lock().unwrap().is_empty()).await;
    assert_eq!(asked.lock().unwrap()[0].0["authorization"], "Bearer rsc_1");
    daemon.stop().await;
}

/// A Prometheus that takes what is written to it, and scrapes nothing.
fn receiver(dir: &Path, port: u16) -> Process {
    std::fs::write(dir.join("prometheus.yml"), "scrape_configs: []\n").unwrap();
    let mut command = Command::new("prometheus");
    command.arg("--web.enable-remote-write-receiver");
    command.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    Process::start(&mut command, &dir.join("prometheus.log"))
}

fn target(url: &str, login: Login) -> RemoteWriteConfig {
    let labels = [("cluster", "a"), ("instance", "d:1"), ("job", "ringscope")];
    RemoteWriteConfig {
        url: url.parse().unwrap(),
        login,
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        interval: Duration::from_millis(250),
        trust: Trust::default(),
        queue_bytes_max: 1 << 20,
    }
}

async fn writing(url: &str, login: Login) -> Daemon {
    let remote_write = Some(target(url, login));
    let daemon = Daemon::start(ServeConfig { remote_write, ..config("none") }).await;
    daemon.until_ready().await;
    daemon
}

/// What a series of the daemon has.
async fn metric(daemon: &Daemon, name: &str) -> f64 {
    let text = daemon.get("/metrics").await.text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
}

type Asked = Arc<Mutex<Vec<(HeaderMap, Vec<u8>)>>>;

/// Answers with these statuses, then with 204. Returns its address, and what it was asked.
async fn pretended(statuses: Vec<u16>) -> (String, Asked) {
    let asked = Asked::default();
    let statuses: Arc<[u16]> = statuses.into();
    let answer = async |State((asked, statuses)): State<(Asked, Arc<[u16]>)>,
                        headers: HeaderMap,
                        body: axum::body::Bytes| {
        let mut asked = asked.lock().unwrap();
        let status = statuses.get(asked.len()).copied().unwrap_or(204);
        asked.push((headers, body.to_vec()));
        StatusCode::from_u16(status).unwrap()
    };
    let router = axum::Router::new().route("/write", axum::routing::post(answer));
    let router = router.with_state((Arc::clone(&asked), statuses));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/write", listener.local_addr().unwrap());
    #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, asked)
}
