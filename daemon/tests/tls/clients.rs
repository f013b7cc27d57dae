//! Clients with a certificate of their own, and agents.

use std::ffi::OsStr;
use std::path::Path;

use ringscope_daemon::config::ServeConfig;
use ringscope_tls::ServerFiles;

use crate::common::certs::{Authority, Pair, write};
use crate::common::daemon::{Daemon, config};
use crate::common::{TempDir, scratch, until};
use crate::trust::agent;
use crate::{HERE, refused, ringscope, serving};

/// What an agent says of a daemon of another CA.
const NOT_TRUSTED: &str = "127.0.0.1: its certificate is from a CA that is not trusted here";

/// The value of a metric without labels, or with exactly these.
pub(crate) async fn metric(daemon: &Daemon, name: &str) -> f64 {
    let text = daemon.get("/metrics").await.text().await.unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    value.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

/// Whether the daemon hears an agent.
async fn hears_an_agent(daemon: &Daemon) -> bool {
    let text = daemon.get("/metrics").await.text().await.unwrap();
    text.lines().any(|line| line.starts_with("ringscope_agent_last_heard_timestamp_seconds{"))
        || metric(daemon, "ringscope_ingest_batches_total").await > 0.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_heard_by_https_and_says_why_not() {
    let dir = scratch("tls-agent");
    let ca = Authority::new("ours");
    let ca_file = ca.write(&dir, "ca.pem");
    let daemon = serving(&ca, ca.issue(&HERE).write(&dir, "host")).await;
    let mut lost = agent(&folder(&dir, "lost"), &daemon.url, &[]);
    log_has(&dir.join("lost"), NOT_TRUSTED).await;
    lost.kill();
    let plain = daemon.url.replace("https://", "http://");
    let mut plain = agent(&folder(&dir, "plain"), &plain, &[]);
    log_has(&dir.join("plain"), "this port speaks https, not http").await;
    plain.kill();
    assert!(!hears_an_agent(&daemon).await);

    let mut good = agent(&folder(&dir, "good"), &daemon.url, &["--ca".as_ref(), ca_file.as_os_str()]);
    until("the agent is heard", async || hears_an_agent(&daemon).await).await;
    good.kill();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_reads_its_files_again_when_they_change() {
    let dir = scratch("tls-agent-files");
    let (ca, other) = (Authority::new("ours"), Authority::new("another"));
    let file = other.write(&dir, "ca.pem");
    let daemon = serving(&ca, ca.issue(&HERE).write(&dir, "host")).await;
    let mut agent = agent(&folder(&dir, "agent"), &daemon.url, &["--ca".as_ref(), file.as_os_str()]);
    log_has(&dir.join("agent"), NOT_TRUSTED).await;
    write(&dir, "ca.pem", "garbage");
    log_has(&dir.join("agent"), "those of before are used on: ").await;
    assert!(!hears_an_agent(&daemon).await);
    ca.write(&dir, "ca.pem");
    until("the agent is heard", async || hears_an_agent(&daemon).await).await;
    agent.kill();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_clients_need_a_certificate_only_those_of_the_ca_are_served() {
    let dir = scratch("tls-client");
    let (ca, clients) = (Authority::new("ours"), Authority::new("clients"));
    let ca_file = ca.write(&dir, "ca.pem");
    let ca_arg = ca_file.to_str().unwrap().to_owned();
    let files = ServerFiles {
        client_ca: Some(clients.write(&dir, "clients.pem")),
        ..ca.issue(&HERE).write(&dir, "host")
    };
    let shown = clients.issue(&["node-7"]);
    let identity = reqwest::Identity::from_pem(format!("{}{}", shown.cert, shown.key).as_bytes()).unwrap();
    let config = ServeConfig { tls: Some(files), ..config("none") };
    let daemon = Daemon::start_with(config, ca.client().identity(identity).build().unwrap()).await;
    daemon.until_ready().await;

    let options = |pair: &Pair, name: &str| {
        let files = pair.write(&dir, name);
        let (cert, key) = (files.cert.display().to_string(), files.key.display().to_string());
        ["--ca".to_owned(), ca_arg.clone(), "--tls-cert".to_owned(), cert, "--tls-key".to_owned(), key]
    };
    let good = options(&shown, "client");
    let args = [&["status", "--daemon", &daemon.url][..], &good.each_ref().map(String::as_str)].concat();
    let (code, stdout, stderr) = ringscope(&args);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");

    let lacks = ["it takes only clients that show a certificate", "--tls-cert FILE and --tls-key FILE"];
    refused(&daemon.url, &["--ca", &ca_arg], &lacks);
    for (name, pair) in [("stranger", ca.issue(&["node-7"])), ("late", clients.issue_for(&["n"], -9, -2))] {
        let options = options(&pair, name);
        let words = ["it does not take the certificate of --tls-cert", "--tls-client-ca"];
        refused(&daemon.url, &options.each_ref().map(String::as_str), &words);
    }
    let refusals = metric(&daemon, "ringscope_tls_handshakes_total{result=\"client_refused\"}").await;
    assert!(refusals >= 3.0, "{refusals}");

    let half = [&args[..5], &["--tls-cert", "x.pem"]].concat();
    let (code, _, stderr) = ringscope(&half);
    assert!(code == Some(64) && stderr.contains("--tls-key"), "{stderr}");
    let [.., cert, _, _] = good.each_ref().map(String::as_str);
    let mixed = ["--ca", &ca_arg, "--tls-cert", cert, "--tls-key", dir.join("host.key").to_str().unwrap()]
        .map(str::to_owned);
    refused(&daemon.url, &mixed.each_ref().map(String::as_str), &["does not belong to the certificate in"]);

    let good: Vec<&OsStr> = good.iter().map(AsRef::as_ref).collect();
    let mut agent = agent(&folder(&dir, "agent"), &daemon.url, &good);
    until("the agent is heard", async || hears_an_agent(&daemon).await).await;
    agent.kill();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_inside_the_daemon_needs_no_certificate_and_no_name() {
    let dir = scratch("tls-inside");
    let (ca, clients) = (Authority::new("ours"), Authority::new("clients"));
    let files = ServerFiles {
        client_ca: Some(clients.write(&dir, "clients.pem")),
        ..ca.issue(&["ringscope.example"]).write(&dir, "host")
    };
    let shown = clients.issue(&["node-7"]);
    let identity = reqwest::Identity::from_pem(format!("{}{}", shown.cert, shown.key).as_bytes()).unwrap();
    let config = ServeConfig {
        tls: Some(files),
        with_agent: true,
        agent_dir: dir.join("segments"),
        agent_kernel_log: false,
        data_dir: dir.join("data"),
        listen: ([127, 0, 0, 1], crate::common::free_port()).into(),
        ..config("none")
    };
    let address = config.listen;
    let client = ca.client().identity(identity).resolve("ringscope.example", address).build().unwrap();
    let mut daemon = Daemon::start_with(config, client).await;
    daemon.url = format!("https://ringscope.example:{}", address.port());
    until("the agent is heard", async || hears_an_agent(&daemon).await).await;
    // By the names of its certificate it is called, and by no others.
    for (host, status) in [("RINGSCOPE.example.", 200), ("ringscope.evil.example", 421)] {
        let asked = daemon.client.get(format!("{}/healthz", daemon.url)).header("host", host);
        assert_eq!(asked.send().await.unwrap().status(), status, "{host}");
    }
    // That it believes itself has made nobody else believe it.
    refused(&daemon.url.replace("ringscope.example", "127.0.0.1"), &[], &["a CA that is not trusted here"]);
    daemon.stop().await;
}

fn folder(dir: &TempDir, name: &str) -> std::path::PathBuf {
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

async fn log_has(dir: &Path, words: &str) {
    until(words, async || std::fs::read_to_string(dir.join("agent.log")).unwrap().contains(words)).await;
}
