//! Webhooks and Alertmanagers are told by https.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use ringscope_daemon::config::ServeConfig;
use ringscope_server::http::{self, Limits};
use ringscope_server::notify::{NotifyConfig, Pace, Target, TargetKind};
use ringscope_tls::{Own, Trust};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::common::batches::{SMALL, START_NS};
use crate::common::certs::Authority;
use crate::common::daemon::{Daemon, config};
use crate::common::{scratch, until};
use crate::{HERE, ringscope};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_of_a_private_ca_is_told_by_https() {
    let dir = scratch("tls-notify");
    let ca = Authority::new("ours");
    let ca_file = ca.write(&dir, "ca.pem");
    let own = Own::load(ca.issue(&HERE).write(&dir, "hook")).unwrap();
    let taken: Arc<Mutex<Vec<Value>>> = Arc::default();
    let takes = Arc::clone(&taken);
    let router = axum::Router::new().fallback(async move |Json(message): Json<Value>| {
        takes.lock().unwrap().push(message);
        "taken"
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/s3cret", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    #[allow(clippy::disallowed_methods, reason = "a test joins it")]
    let hook = tokio::spawn(http::serve(listener, Some(own), router, Limits::default(), stop.clone()));

    let try_it = |options: &[&str]| ringscope(&[&["alert", "test", "--webhook", &url], options].concat());
    let (code, stdout, stderr) = try_it(&[]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stdout.contains("no answer: its certificate is from a CA that is not trusted here"), "{stdout}");
    assert!(!format!("{stdout}{stderr}").contains("s3cret"), "{stdout}{stderr}");
    let (code, stdout, stderr) = try_it(&["--ca", ca_file.to_str().unwrap()]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.contains("took the test alert"), "{stdout}");
    assert_eq!(taken.lock().unwrap().len(), 1);

    let pace = Pace { fire_after: Duration::from_millis(200), ..Pace::default() };
    let notify = NotifyConfig {
        targets: vec![Target::parse(TargetKind::Webhook, &url).unwrap()],
        trust: Trust { ca: Some(ca_file), ..Trust::default() },
        pace,
        ..NotifyConfig::default()
    };
    let daemon = Daemon::start(ServeConfig { notify, ..config("none") }).await;
    daemon.until_ready().await;
    for host in 0..2 {
        daemon.take(&SMALL.batch(host, 1, 3, START_NS)).await;
    }
    until("the webhook is told", async || taken.lock().unwrap().len() >= 2).await;
    daemon.stop().await;
    stop.cancel();
    hook.await.unwrap();
}
