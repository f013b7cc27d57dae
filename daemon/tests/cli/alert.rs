//! `ringscope alert test`, against what a test listens with.

use tokio::net::TcpListener;

use crate::common::{eventually, free_port};
use crate::{check, end, ringscope};

/// Something that answers every post with this status; and its address.
async fn answering(status: u16) -> String {
    let status = axum::http::StatusCode::from_u16(status).unwrap();
    let router = axum::Router::new().fallback(async move || (status, "so it says"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[test]
fn without_a_target_it_is_64_and_mistakes_show_no_secret() {
    check(&["alert", "test"], 64, &["no target", "--alertmanager URL", "--webhook URL"]);
    let (code, _, stderr) = end(&mut ringscope(&["alert", "test", "--webhook", "hooks.slack.com/s3cret"]));
    assert_eq!(code, Some(64), "{stderr}");
    assert!(stderr.contains("--webhook") && !stderr.contains("s3cret"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_says_what_each_target_answered() {
    let (good, bad) = (answering(200).await, answering(403).await);
    let gone = format!("http://127.0.0.1:{}", free_port());
    let secret = |url: &str| format!("{url}/services/s3cret");
    let args = ["alert", "test", "--alertmanager", &good, "--webhook", &secret(&good)];
    let (code, stdout, stderr) = end(&mut ringscope(&args));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("alertmanager http://127.0.0.1:"), "{stdout}");
    assert!(lines.iter().all(|line| line.contains("took the test alert (200 OK so it says)")), "{stdout}");

    let (bad, gone) = (secret(&bad), secret(&gone));
    let args = ["alert", "test", "--webhook", &bad, "--webhook", &gone, "--alertmanager", &good];
    let (code, stdout, stderr) = end(&mut ringscope(&args));
    assert_eq!(code, Some(1), "{stdout}");
    for part in
        ["answered 403 Forbidden: so it says", "no answer", "Connection refused", "took the test alert"]
    {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    assert!(stderr.contains("2 of 3 target(s)"), "{stderr}");
    assert!(!format!("{stdout}{stderr}").contains("s3cret"), "{stdout}{stderr}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_names_the_targets_and_a_real_alertmanager_takes_the_test() {
    let stage = crate::common::stage::Stage::new("alert-test");
    let (_alertmanager, port) = crate::common::monitoring::alertmanager(&stage, 1);
    let file = stage.dir.0.join("ringscope.toml");
    std::fs::write(&file, format!("alertmanager = [\"http://127.0.0.1:{port}\"]\n")).unwrap();
    let file = file.display().to_string();
    eventually("Alertmanager takes it", async || {
        (end(&mut ringscope(&["alert", "test", "--config", &file])).0 == Some(0)).then_some(())
    })
    .await;
    let url = format!("http://127.0.0.1:{port}/api/v2/alerts");
    let alerts: Vec<serde_json::Value> = reqwest::get(url).await.unwrap().json().await.unwrap();
    assert_eq!(alerts[0]["labels"]["alertname"], "RingscopeTest", "{alerts:?}");
    assert!(alerts[0]["annotations"]["summary"].as_str().unwrap().contains("nothing is wrong"), "{alerts:?}");
}
