//! Posts JSON to one target: tries again with backoff and jitter, counts, and says once what is wrong.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use reqwest::StatusCode;
use ringscope_tls::{Http, TlsError, Trust};
use serde::Serialize;

use super::target::Target;
use crate::metrics::Notifications;
use ringscope_tls::innermost;

/// Posts to one target.
pub(super) struct Poster {
    http: Http,
    target: Target,
    retry: Duration,
    metrics: Notifications,
    /// Whether the last attempts failed, so that only changes are logged.
    failing: AtomicBool,
}

/// Why a target did not take something. Never holds the address.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// No answer.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// An answer that is none.
    #[error("answered {status}: {words}")]
    Refused {
        /// Its status.
        status: StatusCode,
        /// The beginning of what it said.
        words: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
}

impl PostError {
    /// Whether it may go better in a moment.
    fn is_temporary(&self) -> bool {
        match self {
            Self::NoAnswer(_) => true,
            Self::Refused { status, .. } => {
                status.is_server_error()
                    || matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            }
        }
    }
}

impl Poster {
    pub(super) fn new(
        target: Target,
        trust: &Trust,
        retry: Duration,
        metrics: Notifications,
    ) -> Result<Self, TlsError> {
        let http = Http::new(trust, target.is_secure(), reqwest::Client::builder)?;
        Ok(Self { http, target, retry, metrics, failing: AtomicBool::new(false) })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Posts until it is taken or [`ATTEMPTS`] are over; `n` counts what is in it. Returns whether it was taken.
    pub(super) async fn post<T: Serialize + ?Sized + Sync>(&self, body: &T, n: usize) -> bool {
        let backoff = ExponentialBuilder::new()
            .with_jitter()
            .with_min_delay(self.retry)
            .with_max_delay(RETRY_MAX)
            .with_max_times(ATTEMPTS - 1);
        let posted = (|| post_once(self.http.client(), &self.target, body))
            .retry(backoff)
            .when(PostError::is_temporary)
            .adjust(|error, wait| match error {
                PostError::Refused { retry_after: Some(asked), .. } => {
                    wait.map(|wait| wait.max(*asked).min(RETRY_MAX))
                }
                _ => wait,
            })
            .await;
        let kind = self.target.kind();
        match &posted {
            Ok(_) => {
                self.metrics.sent(kind, n);
                if self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("{} takes incidents again", self.target);
                }
            }
            Err(error) => {
                self.metrics.failed(kind, n);
                if !self.failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!("{} does not take incidents and is tried again: {error}", self.target);
                }
            }
        }
        posted.is_ok()
    }

    /// Counts what is not told.
    pub(super) fn dropped(&self, n: usize) {
        self.metrics.dropped(self.target.kind(), n);
    }
}

/// Posts once. Returns the status, and the beginning of what was said.
///
/// # Errors
/// [`PostError`].
pub async fn post_once<T: Serialize + ?Sized>(
    http: reqwest::Client,
    target: &Target,
    body: &T,
) -> Result<(StatusCode, String), PostError> {
    let no_answer = |error: reqwest::Error| {
        PostError::NoAnswer(if error.is_timeout() {
            format!("nothing came within {} s", TIMEOUT.as_secs())
        } else {
            innermost(&error.without_url())
        })
    };
    let request = http.post(target.post_url()).timeout(TIMEOUT).json(body);
    let response = request.send().await.map_err(no_answer)?;
    let status = response.status();
    let retry_after =
        response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let words = beginning(response).await.map_err(no_answer)?;
    if status.is_success() {
        Ok((status, words))
    } else {
        Err(PostError::Refused { status, words, retry_after: retry_after.map(Duration::from_secs) })
    }
}

/// What a target says is for people, and is not read to its end.
async fn beginning(mut response: reqwest::Response) -> Result<String, reqwest::Error> {
    let mut bytes = Vec::new();
    while bytes.len() < WORDS_MAX
        && let Some(chunk) = response.chunk().await?
    {
        bytes.extend_from_slice(&chunk[..chunk.len().min(WORDS_MAX - bytes.len())]);
    }
    Ok(String::from_utf8_lossy(&bytes).trim().chars().filter(|c| !c.is_control()).collect())
}

/// One attempt takes no longer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts for one message, within some 20 s; then it waits for the next round, with what holds then.
const ATTEMPTS: usize = 5;
/// Between two attempts at most.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read.
const WORDS_MAX: usize = 300;
