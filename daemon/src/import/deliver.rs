//! An import into a daemon: one elsewhere, or one in this process that serves nothing else.

use std::net::SocketAddr;
use std::time::Duration;

use prost::Message as _;
use reqwest::header;
use ringscope_api::Problem;
use ringscope_api::terminal::without_passwords;
use ringscope_store::DatabaseUrl;
use ringscope_tls::credential::{Credential, TokenSource};
use ringscope_tls::{self as tls, Trust};
use ringscope_wire::batch::Batch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::ImportError;
use crate::client::is_secure;
use crate::config::{AccessConfig, ServeConfig, is_local};
use crate::serve::Server;

/// Sends the batches to the daemon at `url`.
pub(super) async fn post(
    url: &str,
    trust: &Trust,
    token: Option<TokenSource>,
    batches: &[Batch],
) -> Result<(), ImportError> {
    let refused = |reason: String| ImportError::Refused { url: without_passwords(url).into_owned(), reason };
    let no_answer = |error: reqwest::Error| ImportError::NoAnswer {
        url: without_passwords(url).into_owned(),
        reason: tls::innermost(&error),
    };
    let shape = reqwest::Client::builder().no_proxy().timeout(TIMEOUT);
    let client = tls::client(trust, is_secure(url), shape)?;
    let token = Credential::new(token).token().map_err(refused)?;
    for batch in batches {
        let mut request = client
            .post(format!("{}/api/v1/ingest", url.trim_end_matches('/')))
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .body(batch.encode_to_vec());
        if let Some(token) = &token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(no_answer)?;
        let status = response.status();
        if !status.is_success() {
            let answer = response.bytes().await.unwrap_or_default();
            return Err(refused(format!("{status}: {}", sentence(&answer))));
        }
    }
    Ok(())
}

/// What an answer says: a problem of the daemon's in its own sentence, anything else as it came.
fn sentence(answer: &[u8]) -> String {
    let words = match serde_json::from_slice::<Problem>(answer) {
        Ok(problem) => problem.detail.into(),
        Err(_) => String::from_utf8_lossy(answer),
    };
    words.chars().take(REASON_CHARS).collect()
}

/// Serves the import alone, from memory, until `stop`.
pub(super) async fn serve(
    listen: SocketAddr,
    insecure_open: bool,
    batches: Vec<Batch>,
    stop: CancellationToken,
) -> Result<(), ImportError> {
    if !insecure_open && !is_local(listen) {
        return Err(ImportError::Open(listen.to_string()));
    }
    let config = ServeConfig {
        listen,
        access: AccessConfig { insecure_open, ..AccessConfig::default() },
        database_url: DatabaseUrl::None,
        with_agent: false,
        ..ServeConfig::default()
    };
    let server = Server::bind(config).await?;
    let url = format!("http://{}", server.local_addr());
    let tasks = TaskTracker::new();
    let failed = CancellationToken::new();
    let ended = {
        let (stop, failed) = (stop.child_token(), failed.clone());
        let both = stop.clone();
        tasks.spawn(async move {
            failed.cancelled().await;
            both.cancel();
        });
        stop
    };
    let sending = async {
        let sent = post(&url, &Trust::default(), None, &batches).await;
        match &sent {
            Ok(()) => tracing::info!("the import is shown at {url}; Ctrl-C ends it"),
            Err(_) => failed.cancel(),
        }
        sent
    };
    let (served, sent) = tokio::join!(server.run(ended), sending);
    failed.cancel();
    sent?;
    Ok(served?)
}

/// A batch is answered when it is stored: far sooner, unless the database is away.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Characters of an answer that are repeated.
const REASON_CHARS: usize = 500;
