//! What is answered from what is kept, who may read it from elsewhere, and how much of everything is taken.

use reqwest::{Response, StatusCode};
use ringscope_daemon::config::ServeConfig;
use ringscope_wire::batch::ProcessState;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, config, problem};
use crate::common::{eventually, until};

async fn get(daemon: &Daemon, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = daemon.client.get(format!("{}{path}", daemon.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_client_has_is_not_sent_again() {
    let daemon = Daemon::ready("none").await;
    // From files: time alone changes nothing of it, and pictures stay as they are.
    let mut batch = SMALL.batch(0, 1, 3, START_NS);
    batch.processes.iter_mut().for_each(|process| process.state = ProcessState::Imported.into());
    daemon.take(&batch).await;
    let comm = daemon.json("/api/v1/communicators").await["items"][0]["id"].as_str().unwrap().to_owned();
    for path in [
        "/api/v1/openapi.json".to_owned(),
        "/api/v1/runbook".to_owned(),
        format!("/api/v1/communicators/{comm}/rings"),
        format!("/api/v1/plots/rings.svg?comm={comm}"),
        format!("/api/v1/plots/rings.png?comm={comm}"),
    ] {
        for packing in ["identity", "gzip", "gzip, br"] {
            let accept = ("accept-encoding", packing);
            let first = get(&daemon, &path, &[accept]).await;
            assert_eq!(first.status(), StatusCode::OK, "{path}");
            assert_eq!(first.headers()["cache-control"], "no-cache");
            assert_eq!(first.headers()["vary"], "accept-encoding");
            let etag = first.headers()["etag"].to_str().unwrap().to_owned();
            assert!(etag.starts_with('"'), "a strong one: {etag}");
            let length = first.headers()["content-length"].clone();
            assert_eq!(first.bytes().await.unwrap().len().to_string(), length.to_str().unwrap());
            for known in [etag.clone(), format!("\"other\", W/{etag}"), "*".to_owned()] {
                let again = get(&daemon, &path, &[accept, ("if-none-match", &known)]).await;
                assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{path} {packing} {known}");
                assert_eq!(again.headers()["etag"], etag.as_str());
                assert!(again.bytes().await.unwrap().is_empty());
            }
            let other = get(&daemon, &path, &[accept, ("if-none-match", "\"other\"")]).await;
            assert_eq!(other.status(), StatusCode::OK, "{path}");
            let head = daemon.client.head(format!("{}{path}", daemon.url)).header("accept-encoding", packing);
            let head = head.send().await.unwrap();
            assert_eq!((head.status(), &head.headers()["content-length"]), (StatusCode::OK, &length));
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_packed_as_the_client_can_unpack_them() {
    let daemon = Daemon::ready("none").await;
    for (accept, packing) in
        [("gzip", Some("gzip")), ("gzip, br", Some("br")), ("identity", None), ("zip", None)]
    {
        let answer = get(&daemon, "/api/v1/runbook", &[("accept-encoding", accept)]).await;
        let found = answer.headers().get("content-encoding").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(found.as_deref(), packing, "{accept}");
        let bytes = answer.bytes().await.unwrap();
        assert_eq!(bytes.starts_with(b"["), packing.is_none(), "{accept}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_shown_at_once() {
    let daemon = Daemon::ready("none").await;
    for calls in 1..30 {
        daemon.take(&SMALL.batch(0, calls, calls, START_NS)).await;
        assert_eq!(daemon.issued_bytes().await, 2 * (calls << 20));
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_others_may_read_only_if_they_are_named() {
    let origin = "https://grafana.example.org";
    let closed = Daemon::ready("none").await;
    let open = ServeConfig { cors_origins: vec![origin.to_owned()], ..config("none") };
    let open = Daemon::start(open).await;
    open.until_ready().await;
    let allowed = |response: &Response| {
        response.headers().get("access-control-allow-origin").map(|value| value.to_str().unwrap().to_owned())
    };
    for (daemon, from, expected) in [
        (&closed, origin, None),
        (&open, origin, Some(origin)),
        (&open, "https://grafana.example.com", None),
        (&open, "null", None),
    ] {
        for path in ["/api/v1/jobs", "/api/v1/jobs/nobody", "/api/v1/events"] {
            let answer = get(daemon, path, &[("origin", from)]).await;
            assert_eq!(allowed(&answer).as_deref(), expected, "{from} {path}");
        }
    }
    let ask = open.client.request(reqwest::Method::OPTIONS, format!("{}/api/v1/jobs/train/level", open.url));
    let ask = ask.header("origin", origin).header("access-control-request-method", "PUT");
    let answer = ask.send().await.unwrap();
    assert_eq!(answer.headers()["access-control-allow-methods"], "GET,HEAD");
    open.stop().await;
    closed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_and_bodies_have_bounds() {
    let daemon = Daemon::ready("none").await;
    let long = "x".repeat(9000);
    problem(daemon.get(&format!("/api/v1/jobs?q={long}")).await, 414, "8192").await;
    let headers: Vec<(String, String)> = (0..5).map(|n| (format!("x-{n}"), "y".repeat(7000))).collect();
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    problem(get(&daemon, "/api/v1/jobs", &headers).await, 431, "32768").await;
    let wish = daemon.client.put(format!("{}/api/v1/jobs/train/level", daemon.url));
    let wish = wish.header("content-type", "application/json");
    problem(wish.body(vec![b' '; 70_000]).send().await.unwrap(), 413, "larger").await;
    problem(daemon.get("/api/v1/jobs/%ff").await, 400, "UTF-8").await;
    assert_eq!(daemon.get("/api/v1/jobs").await.status(), StatusCode::OK);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_have_a_bound_and_make_room() {
    let daemon = Daemon::ready("none").await;
    let mut streams = Vec::new();
    // Where nothing says who somebody is, an address has half.
    let from = |address: [u8; 4]| {
        let client =
            reqwest::Client::builder().local_address(std::net::IpAddr::from(address)).build().unwrap();
        let url = format!("{}/api/v1/events", daemon.url);
        async move || client.get(&url).send().await.unwrap()
    };
    for (address, n, status, words) in [
        ([127, 0, 0, 1], 128, 429, "128 of the 256 clients that may listen are the address 127.0.0.1"),
        ([127, 0, 0, 2], 256, 429, "the address 127.0.0.2"),
        ([127, 0, 0, 3], 256, 503, "256"),
    ] {
        let listen = from(address);
        let refused = loop {
            let answer = listen().await;
            if answer.status() != StatusCode::OK {
                break answer;
            }
            streams.push(answer);
            assert!(streams.len() <= n, "there is a bound");
        };
        assert_eq!(streams.len(), n);
        assert!(refused.headers().contains_key("retry-after"));
        problem(refused, status, words).await;
    }
    assert_eq!(daemon.get("/api/v1/jobs").await.status(), StatusCode::OK, "lists are answered still");
    drop(streams);
    until("room for another", async || daemon.get("/api/v1/events").await.status() == StatusCode::OK).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_have_a_bound_and_make_room() {
    let daemon = Daemon::ready("none").await;
    let import = async || {
        let request = daemon.client.post(format!("{}/api/v1/import", daemon.url));
        request.header("content-type", "application/octet-stream").body("no log").send().await.unwrap()
    };
    let address = daemon.url.trim_start_matches("http://").to_owned();
    let mut slow = Vec::new();
    eventually("no room", async || {
        // One that comes while this test asks finds no room, and is cut off: there may have to be more than four, which is all that
        // one address has.
        let mut upload = TcpStream::connect(&address).await.ok()?;
        let head = "POST /api/v1/import HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/octet-stream\r\n\
                    content-length: 9\r\n\r\nhalf";
        upload.write_all(head.as_bytes()).await.ok()?;
        slow.push(upload);
        (slow.len() >= 4 && import().await.status() == StatusCode::TOO_MANY_REQUESTS).then_some(())
    })
    .await;
    let refused = import().await;
    assert!(refused.headers().contains_key("retry-after"));
    problem(refused, 429, "4 files of the address 127.0.0.1").await;
    assert_eq!(daemon.get("/api/v1/jobs").await.status(), StatusCode::OK, "lists are answered still");
    drop(slow);
    until("room", async || import().await.status() == StatusCode::UNPROCESSABLE_ENTITY).await;
    daemon.stop().await;
}
