//! A daemon of a test's own, inside the test's process, on a port that the system chose.

use std::path::Path;

use prost::Message as _;
use reqwest::{Response, StatusCode};
use ringscope_api::clock;
use ringscope_api::{Problem, Role, TokenWish};
use ringscope_daemon::config::{AccessConfig, ServeConfig};
use ringscope_daemon::serve::{ServeError, Server};
use ringscope_server::gate;
use ringscope_store::Store;
use ringscope_wire::batch::{Batch, IngestReply};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running daemon.
pub struct Daemon {
    pub url: String,
    pub client: reqwest::Client,
    stop: CancellationToken,
    running: JoinHandle<Result<(), ServeError>>,
}

/// A configuration that keeps its data at `database_url`.
pub fn config(database_url: &str) -> ServeConfig {
    ServeConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        database_url: database_url.parse().unwrap(),
        with_agent: false,
        body_limit_bytes: 1 << 20,
        ..ServeConfig::default()
    }
}

/// The same of a daemon that wants to know who asks.
pub fn closed(database_url: &str) -> ServeConfig {
    let access = AccessConfig { require_tokens: true, ..AccessConfig::default() };
    ServeConfig { access, ..config(database_url) }
}

/// The URL of a database file in `dir`.
pub fn sqlite(dir: &Path) -> String {
    format!("sqlite:{}", dir.join("test.db").display())
}

/// Makes tokens as `ringscope token create --database` does.
pub async fn tokens<const N: usize>(url: &str, roles: [Role; N]) -> [String; N] {
    let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    let mut secrets = Vec::new();
    for role in roles {
        let wish =
            TokenWish { name: format!("the {}", role.label()), role, tenant: None, expires_in_s: None };
        let (made, row) = gate::made(&wish, "test", clock::now()).unwrap();
        assert!(store.add_token(&row).await.unwrap());
        secrets.push(made.secret);
    }
    store.close().await;
    secrets.try_into().unwrap()
}

impl Daemon {
    /// Starts one, and waits until it answers.
    pub async fn start(config: ServeConfig) -> Self {
        Self::start_with(config, reqwest::Client::new()).await
    }

    /// Starts one that is asked by `client`.
    pub async fn start_with(config: ServeConfig, client: reqwest::Client) -> Self {
        let server = Server::bind(config).await.unwrap();
        let url = server.local_url();
        let stop = CancellationToken::new();
        #[allow(clippy::disallowed_methods, reason = "a test joins it")]
        let running = tokio::spawn(server.run(stop.clone()));
        Self { url, client, stop, running }
    }

    /// Starts one that is ready.
    pub async fn ready(database_url: &str) -> Self {
        let daemon = Self::start(config(database_url)).await;
        daemon.until_ready().await;
        daemon
    }

    pub async fn until_ready(&self) {
        super::until("ready", async || self.get("/readyz").await.status() == StatusCode::OK).await;
    }

    /// Ends it as SIGTERM does.
    pub async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }

    pub async fn get(&self, path: &str) -> Response {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap()
    }

    /// The JSON of a route that must answer 200.
    pub async fn json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        let status = response.status();
        let text = response.text().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    pub async fn send(&self, batch: &Batch) -> Response {
        self.send_bytes(batch.encode_to_vec()).await
    }

    pub async fn send_bytes(&self, bytes: Vec<u8>) -> Response {
        let request = self.client.post(format!("{}/api/v1/ingest", self.url));
        request.header("content-type", "application/x-protobuf").body(bytes).send().await.unwrap()
    }

    /// Sends a batch that must be taken.
    pub async fn take(&self, batch: &Batch) -> IngestReply {
        let response = self.send(batch).await;
        let status = response.status();
        let bytes = response.bytes().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&bytes));
        IngestReply::decode(bytes).unwrap()
    }

    /// Bytes issued in the first job, as the API says.
    pub async fn issued_bytes(&self) -> u64 {
        let jobs = self.json("/api/v1/jobs").await;
        jobs["items"][0]["issued_bytes"].as_u64().unwrap_or(0)
    }
}

/// The problem that a response must be, after checking that it is one.
pub async fn problem(response: Response, status: u16, part: &str) -> Problem {
    let found = response.status().as_u16();
    let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    assert_eq!(found, status, "{text}");
    assert_eq!(kind.as_deref(), Some("application/problem+json"), "{text}");
    let problem: Problem = serde_json::from_str(&text).unwrap();
    assert_eq!(problem.status, status);
    assert!(problem.detail.contains(part), "{part:?} in {problem:?}");
    problem
}
