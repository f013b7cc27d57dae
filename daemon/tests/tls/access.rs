//! Tokens and sessions by TLS: every client brings both its trust and its token.

use reqwest::Method;
use ringscope_api::Role;
use ringscope_daemon::config::{AccessConfig, ServeConfig};
use serde_json::{Value, json};

use crate::common::certs::Authority;
use crate::common::daemon::{Daemon, config, problem, sqlite, tokens};
use crate::common::{TempDir, scratch, until};
use crate::trust::agent;
use crate::{HERE, ringscope};

/// A daemon that speaks https and wants tokens, asked by who trusts its CA; arguments of who does too; its tokens.
async fn closed(dir: &TempDir, with_agent: bool) -> (Daemon, [String; 2], [String; 4]) {
    let ca = Authority::new("ours");
    let ca_file = ca.write(dir, "ca.pem").display().to_string();
    let url = sqlite(dir);
    let secrets = tokens(&url, Role::ALL).await;
    let config = ServeConfig {
        tls: Some(ca.issue(&HERE).write(dir, "host")),
        access: AccessConfig { require_tokens: true, ..AccessConfig::default() },
        with_agent,
        agent_dir: dir.join("inside"),
        agent_kernel_log: false,
        data_dir: dir.join("data"),
        ..config(&url)
    };
    let daemon = Daemon::start_with(config, ca.client().build().unwrap()).await;
    daemon.until_ready().await;
    (daemon, ["--ca".to_owned(), ca_file], secrets)
}

/// A file with a token.
fn token_file(dir: &TempDir, name: &str, token: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, format!("{token}\n")).unwrap();
    path.display().to_string()
}

async fn as_reader(daemon: &Daemon, path: &str, token: &str) -> String {
    let asked = daemon.client.get(format!("{}{path}", daemon.url)).bearer_auth(token);
    asked.send().await.unwrap().error_for_status().unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_reads_what_is_wrong_with_the_certificate_and_not_where_it_lies() {
    let dir = scratch("tls-tenant");
    let (daemon, _, [_, read, _, admin]) = closed(&dir, false).await;
    let wish = json!({ "name": "acme", "role": "read", "tenant": "acme" });
    let made = daemon.client.post(format!("{}/api/v1/tokens", daemon.url)).bearer_auth(&admin).json(&wish);
    let made: Value = made.send().await.unwrap().json().await.unwrap();
    let of_acme = made["secret"].as_str().unwrap();
    let notices = async |token: &str| {
        let health: Value = serde_json::from_str(&as_reader(&daemon, "/api/v1/health", token).await).unwrap();
        health["notices"].to_string()
    };
    std::fs::write(dir.join("host.pem"), "garbage").unwrap();
    until("it is told", async || notices(&read).await.contains("no certificate is in it")).await;
    let path = dir.display().to_string();
    let (theirs, ours) = (notices(of_acme).await, notices(&read).await);
    assert!(ours.contains(&path) && !theirs.contains(&path), "{ours} {theirs}");
    for part in ["is not used, the one of before is", "no certificate is in it", "Whoever runs the daemon"] {
        assert!(theirs.contains(part), "{part} in {theirs}");
    }
    daemon.stop().await;
}

/// Whether batches were taken.
async fn has_batches(daemon: &Daemon, token: &str) -> bool {
    let text = as_reader(daemon, "/metrics", token).await;
    let count = text.lines().find_map(|line| line.strip_prefix("ringscope_ingest_batches_total "));
    count.is_some_and(|count| count.parse::<f64>().unwrap() > 0.0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_bring_their_token_by_https() {
    let dir = scratch("tls-token");
    let (daemon, [ca, ca_file], [_, read, operate, admin]) = closed(&dir, false).await;
    let bare = ["--daemon", &daemon.url, &ca, &ca_file];
    let run = |args: &[&str], token: &str| {
        let file = token_file(&dir, "token", token);
        ringscope(&[args, &bare, &["--token-file", &file]].concat())
    };
    for (args, expected) in [
        (&["status"][..], 0),
        (&["incidents"], 0),
        (&["level", "--job", "train"], 1),
        (&["token", "list"], 0),
        (&["audit"], 0),
    ] {
        let (code, _, stderr) = ringscope(&[args, &bare].concat());
        assert!(code == Some(1) && stderr.contains("wants to know who asks"), "{args:?}: {stderr}");
        let (code, stdout, stderr) = run(args, &admin);
        assert_eq!(code, Some(expected), "{args:?}: {stdout}{stderr}");
        assert!(expected == 0 || stderr.contains("no job \"train\""), "{args:?}: {stderr}");
    }
    let import = ["import", concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/import/engine-healthy.log")];
    let (code, _, stderr) = run(&import, &read);
    assert!(code != Some(0) && stderr.contains("has the role read, and this needs"), "{code:?} {stderr}");
    assert!(!has_batches(&daemon, &read).await);
    let (code, stdout, stderr) = run(&import, &operate);
    assert!(has_batches(&daemon, &read).await, "{code:?} {stdout}{stderr}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_elsewhere_and_inside_bring_their_token_by_https() {
    for with_agent in [true, false] {
        let dir = scratch("tls-token-agent");
        let (daemon, [ca, ca_file], [ingest, read, ..]) = closed(&dir, with_agent).await;
        if with_agent {
            until("the agent inside is heard", async || has_batches(&daemon, &read).await).await;
            daemon.stop().await;
            continue;
        }
        let folder = dir.join("agent");
        std::fs::create_dir_all(&folder).unwrap();
        let file = token_file(&dir, "agents.token", &read);
        let options = [&*ca, &ca_file, "--token-file", &file].map(AsRef::as_ref);
        let mut agent = agent(&folder, &daemon.url, &options);
        let log = folder.join("agent.log");
        let says = async || std::fs::read_to_string(&log).unwrap().contains("has the role read");
        until("the agent says why it is refused", says).await;
        assert!(!has_batches(&daemon, &read).await);
        // It reads the file again.
        std::fs::write(&file, &ingest).unwrap();
        until("the agent is heard", async || has_batches(&daemon, &read).await).await;
        agent.kill();
        daemon.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_that_signs_in_by_https_has_a_cookie_for_https_alone() {
    let dir = scratch("tls-session");
    let (daemon, _, [_, _, operate, admin]) = closed(&dir, false).await;
    let ask = |method: Method, path: &str| daemon.client.request(method, format!("{}{path}", daemon.url));
    let sign_in = || ask(Method::POST, "/api/v1/session").json(&json!({ "token": operate }));
    problem(sign_in().header("origin", "https://evil.example").send().await.unwrap(), 403, "another origin")
        .await;
    let signed_in = sign_in().send().await.unwrap();
    let set = signed_in.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(set.starts_with("__Host-ringscope_session=") && set.contains("; Secure"), "{set}");
    let mine = set.split(';').next().unwrap();
    let level = |origin: &str| {
        let wish =
            ask(Method::PUT, "/api/v1/jobs/train/level").header("cookie", mine).header("origin", origin);
        wish.json(&json!({ "level": "steps" }))
    };
    problem(level("https://evil.example").send().await.unwrap(), 403, "another origin").await;
    problem(level(&daemon.url).send().await.unwrap(), 404, "no job").await;
    let trail: Value = serde_json::from_str(&as_reader(&daemon, "/api/v1/audit", &admin).await).unwrap();
    let told: Vec<_> = trail["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["action"].as_str().unwrap(),
                one["status"].as_u64().unwrap(),
                one["address"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [("level", 404, "127.0.0.1"), ("level", 403, "127.0.0.1"), ("sign_in", 200, "127.0.0.1")]
    );
    daemon.stop().await;
}
