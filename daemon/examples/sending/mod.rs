//! Batches over HTTP, as an agent sends them.

use std::time::Duration;

use prost::Message as _;
use ringscope_api::clock;
use ringscope_wire::batch::{Batch, IngestReply};

/// The way to one daemon.
#[derive(Clone)]
pub(crate) struct Daemon {
    client: reqwest::Client,
    url: String,
    /// Certificate of the CA by which it is trusted, where it is asked by https.
    ca: Option<String>,
}

impl Daemon {
    pub(crate) fn new(url: &str) -> Self {
        Self::trusting(None, url)
    }

    /// The same by https, of a daemon with a certificate of this CA.
    pub(crate) fn trusting(ca: Option<&str>, url: &str) -> Self {
        let ca = ca.map(str::to_owned);
        let mut builder = reqwest::Client::builder().tls_built_in_root_certs(false);
        if let Some(root) = ca.as_ref().and_then(|pem| reqwest::Certificate::from_pem(pem.as_bytes()).ok()) {
            builder = builder.add_root_certificate(root);
        }
        let client = builder.build().unwrap_or_default();
        Self { client, url: url.trim_end_matches('/').to_owned(), ca }
    }

    /// Another connection to it.
    pub(crate) fn another(&self) -> Self {
        Self::trusting(self.ca.as_deref(), &self.url)
    }

    /// Waits until it takes batches.
    ///
    /// # Errors
    /// That it does not within [`PATIENCE`].
    pub(crate) async fn until_ready(&self) -> Result<(), String> {
        let clock = clock::monotonic();
        while clock.elapsed() < PATIENCE {
            let answer = self.client.get(format!("{}/readyz", self.url)).send().await;
            if answer.is_ok_and(|response| response.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("after {PATIENCE:?} no daemon is ready at {}", self.url))
    }

    /// Sends one batch.
    ///
    /// # Errors
    /// That it was not taken, and why.
    pub(crate) async fn send(&self, batch: &Batch) -> Result<IngestReply, String> {
        let words = |error: reqwest::Error| error.to_string();
        let request = self.client.post(format!("{}/api/v1/ingest", self.url));
        let request = request.header("content-type", "application/x-protobuf").body(batch.encode_to_vec());
        let response = request.send().await.map_err(words)?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(words)?;
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&bytes)));
        }
        IngestReply::decode(bytes).map_err(|error| error.to_string())
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
