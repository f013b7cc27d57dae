//! Certificates that are replaced while the daemon runs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prost::Message as _;
use reqwest::tls::TlsInfo;
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::clients::metric;
use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::certs::{Authority, write};
use crate::common::stage::Process;
use crate::common::{TempDir, free_port, scratch, until};
use crate::{HERE, RINGSCOPE, ringscope, serving};

/// The certificate that is served now.
async fn served(ca: &Authority, url: &str) -> Vec<u8> {
    let client = ca.client().build().unwrap();
    let Ok(answer) = client.get(format!("{url}/healthz")).send().await else { return Vec::new() };
    answer.extensions().get::<TlsInfo>().unwrap().peer_certificate().unwrap().to_vec()
}

/// Sends batches until it is told to stop: on one connection, or on a new one for each. Each is sent once; the number
/// that were taken.
async fn load(ca: &Authority, url: String, job: String, keeps: bool, stop: Arc<AtomicBool>) -> u64 {
    let client = ca.client().pool_max_idle_per_host(usize::from(keeps)).build().unwrap();
    let job = Job { name: &job, ..SMALL };
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        sent += 1;
        let batch = job.batch(0, sent, sent, START_NS).encode_to_vec();
        let request =
            client.post(format!("{url}/api/v1/ingest")).header("content-type", "application/x-protobuf");
        let answer = request.body(batch).send().await.unwrap();
        assert_eq!(answer.status(), 200, "batch {sent}");
    }
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_reloads_under_load_lose_nothing() {
    let dir = scratch("tls-reload");
    let ca = Arc::new(Authority::new("ours"));
    let port = free_port();
    ca.issue(&HERE).write(&dir, "host");
    let mut daemon = serve(&dir, port);
    let url = format!("https://127.0.0.1:{port}");
    let client = ca.client().build().unwrap();
    let is_ready = async || client.get(format!("{url}/readyz")).send().await.is_ok_and(|a| a.status() == 200);
    until("ready", is_ready).await;

    let stop = Arc::new(AtomicBool::new(false));
    let mut loaders = JoinSet::new();
    for (number, keeps) in [true, false, true, false].into_iter().enumerate() {
        let (ca, url, stop) = (Arc::clone(&ca), url.clone(), Arc::clone(&stop));
        loaders.spawn(async move { load(&ca, url, format!("job-{number}"), keeps, stop).await });
    }
    for _ in 0..50 {
        let pair = ca.issue(&HERE);
        pair.write(&dir, "host");
        daemon.signal(Signal::HUP);
        until("the new certificate is served", async || served(&ca, &url).await == pair.der).await;
    }
    stop.store(true, Ordering::Relaxed);
    let total: u64 = loaders.join_all().await.into_iter().sum();
    assert!(total >= 200, "it was loaded: {total}");

    let text = client.get(format!("{url}/metrics")).send().await.unwrap().text().await.unwrap();
    let count = |name: &str| -> u64 {
        let line =
            text.lines().find_map(|line| line.strip_prefix(&format!("ringscope_ingest_{name}_total ")));
        line.unwrap().parse().unwrap()
    };
    assert_eq!((count("batches"), count("duplicates"), count("refused")), (total, 0, 0));
    println!("{total} batches");
    assert!(daemon.terminate(Duration::from_secs(30)).success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_change_are_read_without_being_asked_and_broken_ones_are_not_used() {
    let dir = scratch("tls-broken");
    let ca = Authority::new("ours");
    let first = ca.issue_for(&HERE, -1, 90);
    let daemon = serving(&ca, first.write(&dir, "host")).await;
    daemon.until_ready().await;
    assert_eq!(served(&ca, &daemon.url).await, first.der);
    let second = ca.issue_for(&HERE, -1, 60);
    second.write(&dir, "host");
    until("the second is served", async || served(&ca, &daemon.url).await == second.der).await;
    assert_eq!(metric(&daemon, "ringscope_tls_certificate_refused").await, 0.0);

    let refused = async || metric(&daemon, "ringscope_tls_certificate_refused").await == 1.0;
    let ca_file = ca.write(&dir, "ca.pem");
    let status = || ringscope(&["status", "--daemon", &daemon.url, "--ca", ca_file.to_str().unwrap()]);
    for (name, text, words) in [
        ("host.pem", "garbage".to_owned(), "no certificate is in it"),
        ("host.pem", ca.issue(&HERE).cert, "does not belong to the certificate"),
        ("host.pem", String::new(), "no certificate is in it"),
    ] {
        write(&dir, name, &text);
        until("it is told", async || {
            let notices = daemon.json("/api/v1/health").await["notices"].to_string();
            refused().await
                && notices.contains("is not used, the one of before is")
                && notices.contains(words)
        })
        .await;
        assert_eq!(served(&ca, &daemon.url).await, second.der, "the one of before");
        let (code, stdout, _) = status();
        assert!(code == Some(0) && stdout.contains(words), "{stdout}");
    }
    ca.issue_for(&HERE, -9, -2).write(&dir, "host");
    until("it is told", async || {
        daemon.json("/api/v1/health").await["notices"].to_string().contains("the certificate ended on 20")
    })
    .await;
    assert_eq!(served(&ca, &daemon.url).await, second.der, "not one that has ended");

    let third = ca.issue(&HERE);
    third.write(&dir, "host");
    until("the third is served", async || served(&ca, &daemon.url).await == third.der).await;
    until("all is well", async || {
        !refused().await && daemon.json("/api/v1/health").await.get("notices").is_none()
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_certificate_is_told_before() {
    let dir = scratch("tls-end");
    let ca = Authority::new("ours");
    let ca_file = ca.write(&dir, "ca.pem");
    for (days, words) in [(90, None), (13, Some(", in 13 days: put a new one in its place before"))] {
        let daemon = serving(&ca, ca.issue_for(&HERE, -1, days).write(&dir, "host")).await;
        daemon.until_ready().await;
        let left_s = metric(&daemon, "ringscope_tls_certificate_expiry_seconds").await;
        let days_s = f64::from(u32::try_from(days).unwrap()) * 86_400.0;
        assert!(left_s > days_s && left_s < days_s + 7300.0, "{left_s}");
        let (code, stdout, _) =
            ringscope(&["status", "--daemon", &daemon.url, "--ca", ca_file.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{stdout}");
        assert_eq!(stdout.contains("TLS certificate ends on 20"), words.is_some(), "{stdout}");
        assert!(words.is_none_or(|words| stdout.contains(words)), "{stdout}");
        daemon.stop().await;
    }
}

#[test]
fn a_daemon_that_cannot_speak_tls_says_why_and_does_not_start() {
    let dir = scratch("tls-start");
    let ca = Authority::new("ours");
    let good = ca.issue(&HERE).write(&dir, "host");
    let (cert, key) = (good.cert.to_str().unwrap(), good.key.to_str().unwrap());
    let other = ca.issue(&HERE).write(&dir, "other");
    let other_key = other.key.to_str().unwrap();
    let locked = write(
        &dir,
        "locked.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    for (options, status, words) in [
        (vec!["--tls-cert", cert], 64, "tls_cert is given without tls_key"),
        (vec!["--tls-key", key], 64, "tls_key is given without tls_cert"),
        (vec!["--tls-client-ca", cert], 64, "give tls_cert and tls_key too"),
        (vec!["--tls-cert", "/none.pem", "--tls-key", key], 1, "/none.pem: No such file"),
        (vec!["--tls-cert", cert, "--tls-key", cert], 1, "no private key is in it"),
        (vec!["--tls-cert", key, "--tls-key", key], 1, "no certificate is in it"),
        (vec!["--tls-cert", cert, "--tls-key", other_key], 1, "does not belong to the certificate"),
        (vec!["--tls-cert", cert, "--tls-key", locked.to_str().unwrap()], 1, "the key is encrypted"),
        (vec!["--webhook", "https://h/x", "--ca", key], 1, "no certificate is in it"),
    ] {
        let listen = format!("127.0.0.1:{}", free_port());
        let data = dir.join("data");
        let fixed = ["serve", "--listen", &listen, "--database-url", "none", "--with-agent", "false"];
        let args = [&fixed[..], &["--data-dir", data.to_str().unwrap()], &options].concat();
        let (code, stdout, stderr) = ringscope(&args);
        assert_eq!((code, stdout.as_str()), (Some(status), ""), "{options:?}: {stderr}");
        assert!(stderr.contains(words), "{words:?} in {stderr}");
    }
}

/// `ringscope serve`, configured by a file.
fn serve(dir: &TempDir, port: u16) -> Process {
    let quoted = |name: &str| format!("{:?}", Path::join(dir, name).display().to_string());
    let text = format!(
        "listen = \"127.0.0.1:{port}\"\ntls_cert = {}\ntls_key = {}\ndata_dir = {}\nwith_agent = false\ndatabase_url = \"none\"\n",
        quoted("host.pem"),
        quoted("host.key"),
        quoted("data")
    );
    let file = write(dir, "ringscope.toml", &text);
    let mut command = Command::new(RINGSCOPE);
    command.args(["serve", "--config"]).arg(file);
    Process::start(&mut command, &dir.join("serve.log"))
}
