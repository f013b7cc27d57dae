//! Whom a client believes to be the daemon, and what it says where it does not.

use crate::common::certs::{Authority, write};
use crate::common::daemon::Daemon;
use crate::common::{scratch, until};
use crate::{HERE, end, refused, ringscope, serving};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_of_the_ca_is_believed_and_no_other() {
    let dir = scratch("tls-ca");
    let (ca, other) = (Authority::new("ours"), Authority::new("another"));
    let (ca_file, other_file) = (ca.write(&dir, "ca.pem"), other.write(&dir, "other.pem"));
    let (ca_file, other_file) = (ca_file.to_str().unwrap(), other_file.to_str().unwrap());
    let daemon = serving(&ca, ca.issue(&HERE).write(&dir, "host")).await;
    daemon.until_ready().await;

    let (code, stdout, stderr) = ringscope(&["status", "--daemon", &daemon.url, "--ca", ca_file]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let mut by_environment = std::process::Command::new(crate::RINGSCOPE);
    by_environment.env("RINGSCOPE_CA", ca_file).args(["incidents", "--daemon", &daemon.url]);
    let (code, stdout, stderr) = end(&mut by_environment);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");

    let unknown = ["no answer from https://127.0.0.1:", "a CA that is not trusted here", "--ca FILE"];
    refused(&daemon.url, &[], &unknown);
    refused(&daemon.url, &["--ca", other_file], &unknown);
    let wrong = write(&dir, "wrong.pem", "no certificate");
    refused(&daemon.url, &["--ca", wrong.to_str().unwrap()], &["wrong.pem", "no certificate is in it"]);
    refused(&daemon.url, &["--ca", "/none/ca.pem"], &["/none/ca.pem", "No such file"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_certificate_is_said() {
    let dir = scratch("tls-wrong");
    let ca = Authority::new("ours");
    let ca_file = ca.write(&dir, "ca.pem");
    let trust = ["--ca", ca_file.to_str().unwrap()];
    for (name, pair, words) in [
        ("expired", ca.issue_for(&HERE, -30, -2), ["its certificate expired on 20", "it needs a new one"]),
        ("early", ca.issue_for(&HERE, 2, 30), ["is not valid before 20", "the clock of this machine"]),
        (
            "named",
            ca.issue(&["ringscope.example", "10.1.2.3"]),
            ["is for ringscope.example, 10.1.2.3, not for 127.0.0.1", "use that name in the address"],
        ),
    ] {
        let daemon = serving(&ca, pair.write(&dir, name)).await;
        refused(&daemon.url, &trust, &words);
        daemon.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_and_https_in_each_others_place_are_told_apart() {
    let dir = scratch("tls-plain");
    let ca = Authority::new("ours");
    let secure = serving(&ca, ca.issue(&HERE).write(&dir, "host")).await;
    let plain = secure.url.replace("https://", "http://");
    refused(&plain, &[], &["this port speaks https, not http", "write https:// in the address"]);
    let answer = reqwest::get(&plain).await.unwrap();
    assert_eq!(answer.status(), 400);
    assert!(answer.text().await.unwrap().contains("this port speaks https"));
    secure.stop().await;

    let plain = Daemon::ready("none").await;
    let secure = plain.url.replace("http://", "https://");
    refused(&secure, &[], &["this port does not speak https", "write http:// in the address"]);
    plain.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_are_not_followed() {
    use axum::response::Redirect;
    use tokio::net::TcpListener;

    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&asked);
    let elsewhere = axum::Router::new().fallback(async move || {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        "{}"
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = format!("http://{}", listener.local_addr().unwrap());
    #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
    tokio::spawn(async move { axum::serve(listener, elsewhere).await });
    let shown = place.clone();
    let router =
        axum::Router::new().fallback(async move || Redirect::permanent(&format!("{place}/api/v1/health")));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
    tokio::spawn(async move { axum::serve(listener, router).await });

    let words = [format!("308 Permanent Redirect and wants to be asked at \"{shown}"), "--daemon".into()];
    refused(&url, &[], &words.each_ref().map(String::as_str));
    let (code, stdout, _) = ringscope(&["alert", "test", "--webhook", &format!("{url}/s3cret")]);
    assert!(code == Some(1) && stdout.contains("answered 308"), "{stdout}");
    let dir = scratch("tls-redirect");
    let mut agent = agent(&dir, &url, &[]);
    until("the agent says so", async || {
        std::fs::read_to_string(dir.join("agent.log")).unwrap().contains("redirects are not followed")
    })
    .await;
    agent.kill();
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 0, "nobody went there");
}

/// `ringscope agent`, with its log in `dir`.
pub(crate) fn agent(
    dir: &std::path::Path,
    url: &str,
    options: &[&std::ffi::OsStr],
) -> crate::common::stage::Process {
    let mut command = std::process::Command::new(crate::RINGSCOPE);
    for name in ["RINGSCOPE_CA", "RINGSCOPE_TLS_CERT", "RINGSCOPE_TLS_KEY", "RINGSCOPE_DIR"] {
        command.env_remove(name);
    }
    command.args(["agent", "--no-kernel-log", "--daemon", url, "--dir"]).arg(dir.join("segments"));
    command.arg("--state-dir").arg(dir.join("state")).args(options);
    crate::common::stage::Process::start(&mut command, &dir.join("agent.log"))
}
