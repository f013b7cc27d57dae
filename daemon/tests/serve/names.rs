//! By which names the daemon answers, and whose pages may make it do something.

use reqwest::{Method, StatusCode};
use ringscope_daemon::config::ServeConfig;

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, config, problem};

const OCTETS: &str = "application/octet-stream";

/// Asks with these headers.
async fn ask(daemon: &Daemon, method: Method, path: &str, headers: &[(&str, &str)]) -> reqwest::Response {
    let mut request = daemon.client.request(method, format!("{}{path}", daemon.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_addresses_and_names_that_were_given_are_answered_to() {
    let named = ServeConfig { allowed_hosts: vec!["ringscope.cluster".to_owned()], ..config("none") };
    let daemon = Daemon::start(named).await;
    daemon.until_ready().await;
    daemon.take(&SMALL.batch(0, 1, 3, START_NS)).await;
    for path in ["/api/v1/jobs", "/", "/metrics", "/healthz", "/api/v1/events", "/nowhere"] {
        let refused = ask(&daemon, Method::GET, path, &[("host", "rebound.evil.example:9440")]).await;
        assert!(refused.headers().contains_key("content-security-policy"), "{path}");
        problem(refused, 421, "--allowed-host rebound.evil.example").await;
    }
    let level = ("content-type", "application/json");
    let put = ask(&daemon, Method::PUT, "/api/v1/jobs/train/level", &[level, ("host", "evil.example")]).await;
    problem(put, 421, "evil.example").await;
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for own in ["10.1.2.3", "[::1]:9440", "localhost:1", "Ringscope.Cluster.:80", &machine] {
        let answer = ask(&daemon, Method::GET, "/api/v1/jobs", &[("host", own)]).await;
        assert_eq!(answer.status(), StatusCode::OK, "{own}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_others_change_nothing() {
    let mut behind_proxy = config("none");
    behind_proxy.notify.public_url = Some("https://rings.example.org".to_owned());
    behind_proxy.cors_origins = vec!["https://grafana.example.org".to_owned()];
    let daemon = Daemon::start(behind_proxy).await;
    daemon.until_ready().await;
    daemon.take(&SMALL.batch(0, 1, 3, START_NS)).await;
    let (json, octets) = (("content-type", "application/json"), ("content-type", OCTETS));
    let level = async |origin: (&str, &str)| {
        let url = format!("{}/api/v1/jobs/train/level", daemon.url);
        let request = daemon.client.put(url).header(json.0, json.1).header(origin.0, origin.1);
        request.body(r#"{"level": "steps"}"#).send().await.unwrap()
    };
    for foreign in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
        // It may read.
        ("origin", "https://grafana.example.org"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        problem(level(foreign).await, 403, "another origin").await;
        let import = ask(&daemon, Method::POST, "/api/v1/import", &[octets, foreign]).await;
        problem(import, 403, "another origin").await;
    }
    let wished = daemon.json("/api/v1/jobs/train/level").await;
    assert_ne!(wished["wish"], "steps", "{wished}");
    let own = daemon.url.clone();
    let through_proxy = [json, ("origin", "https://rings.cluster"), ("sec-fetch-site", "same-origin")];
    let unread = ask(&daemon, Method::PUT, "/api/v1/jobs/train/level", &through_proxy).await;
    problem(unread, 400, "must be JSON").await;
    for ours in
        [("origin", &*own), ("origin", "https://rings.example.org"), ("sec-fetch-site", "same-origin")]
    {
        assert_eq!(level(ours).await.status(), StatusCode::OK, "{ours:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_page_can_send_unasked_is_not_taken() {
    let daemon = Daemon::ready("none").await;
    daemon.take(&SMALL.batch(0, 1, 3, START_NS)).await;
    let unasked = [
        "text/plain",
        "text/plain; charset=utf-8",
        "application/x-www-form-urlencoded",
        "Multipart/Form-Data; boundary=x",
    ];
    for kind in unasked {
        for (method, path, part) in [
            (Method::POST, "/api/v1/import?job=forged", "application/octet-stream"),
            (Method::PUT, "/api/v1/jobs/train/level", "application/json"),
            (Method::POST, "/api/v1/ingest", "application/x-protobuf"),
        ] {
            problem(ask(&daemon, method, path, &[("content-type", kind)]).await, 415, part).await;
        }
    }
    problem(ask(&daemon, Method::POST, "/api/v1/import", &[]).await, 415, "curl").await;
    // The page itself may send a file as a form does.
    let ours = [("content-type", "text/plain"), ("origin", &daemon.url)];
    problem(ask(&daemon, Method::POST, "/api/v1/import", &ours).await, 422, "empty file").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_makes_browsers_strict() {
    let open = ServeConfig { cors_origins: vec!["https://grafana.example.org".to_owned()], ..config("none") };
    let daemon = Daemon::start(open).await;
    daemon.until_ready().await;
    let preflight = [("origin", "https://grafana.example.org"), ("access-control-request-method", "GET")];
    for (method, path, headers) in [
        (Method::GET, "/", &[][..]),
        (Method::GET, "/api/v1/jobs", &[]),
        (Method::GET, "/api/v1/nowhere", &[]),
        (Method::GET, "/metrics", &[]),
        (Method::GET, "/healthz", &[("host", "evil.example")]),
        (Method::POST, "/api/v1/ingest", &[]),
        (Method::OPTIONS, "/api/v1/jobs", &preflight),
    ] {
        let answer = ask(&daemon, method.clone(), path, headers).await;
        let header = |name: &str| answer.headers().get(name).map_or("", |value| value.to_str().unwrap());
        assert!(header("content-security-policy").contains("frame-ancestors 'none'"), "{method} {path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{method} {path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{method} {path}");
    }
    daemon.stop().await;
}
