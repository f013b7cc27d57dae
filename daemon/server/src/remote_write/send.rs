//! Sends what waits, in its order, each as often as it takes.

use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use crate::metrics::RemoteWrites;
use reqwest::{RequestBuilder, StatusCode, Url, header};
use ringscope_api::terminal::without_passwords;
use ringscope_tls::{Http, TlsError};

use super::queue::{Queue, Request};
use super::{Login, RemoteWriteConfig};
use ringscope_tls::innermost;

/// See the module.
pub(super) struct Sender {
    http: Http,
    url: Url,
    login: Login,
    counts: RemoteWrites,
}

/// Why something was not taken.
enum Refused {
    /// It may be later.
    Later {
        why: String,
        /// When, as it was asked for.
        after: Option<Duration>,
    },
    /// It never will be.
    Never(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Later { why, .. } | Self::Never(why)) = self;
        f.write_str(why)
    }
}

impl Sender {
    pub(super) fn new(config: &RemoteWriteConfig, counts: RemoteWrites) -> Result<Self, TlsError> {
        let http = Http::new(&config.trust, config.url.scheme() == "https", reqwest::Client::builder)?;
        Ok(Self { http, url: config.url.clone(), login: config.login.clone(), counts })
    }

    /// Sends what comes into the queue, for ever.
    pub(super) async fn run(&self, queue: &Queue) {
        let mut said = String::new();
        loop {
            let request = queue.next().await;
            let mut wait = RETRY_MIN;
            loop {
                let sent = self.send(&request).await;
                self.say(&sent, &mut said);
                match sent {
                    Ok(()) => self.counts.sent(request.n_samples),
                    Err(Refused::Never(_)) => self.counts.failed(request.n_samples),
                    Err(Refused::Later { after, .. }) => {
                        tokio::time::sleep(after.unwrap_or(wait).clamp(wait, RETRY_AFTER_MAX)).await;
                        wait = (wait * 2).min(RETRY_MAX);
                        continue;
                    }
                }
                break;
            }
        }
    }

    /// Sends these, each once, until one is not taken.
    pub(super) async fn send_once(&self, requests: &[Request]) {
        for request in requests {
            if let Err(refused) = self.send(request).await {
                tracing::warn!(
                    "{} did not take that the series of this daemon have ended: {refused}",
                    without_passwords(self.url.as_str())
                );
                return;
            }
            self.counts.sent(request.n_samples);
        }
    }

    /// Each reason once, and the end.
    fn say(&self, sent: &Result<(), Refused>, said: &mut String) {
        let place = without_passwords(self.url.as_str());
        let words = match sent {
            Ok(()) => String::new(),
            Err(refused) => refused.to_string(),
        };
        if words == *said {
            return;
        }
        match sent {
            Ok(()) => tracing::info!("{place} takes samples again"),
            Err(Refused::Later { .. }) => {
                tracing::warn!("{place} takes no samples, which wait and are sent again: {words}");
            }
            Err(Refused::Never(_)) => tracing::warn!("{place} has refused samples, which are lost: {words}"),
        }
        *said = words;
    }

    async fn send(&self, request: &Request) -> Result<(), Refused> {
        let later = |why| Refused::Later { why, after: None };
        let post = self
            .http
            .client()
            .post(self.url.clone())
            .timeout(TIMEOUT)
            .header(header::CONTENT_ENCODING, "snappy")
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header("X-Prometheus-Remote-Write-Version", "0.1.0")
            .header(header::USER_AGENT, concat!("ringscope/", env!("CARGO_PKG_VERSION")));
        let post = self.login.add(post).map_err(later)?.body(request.body.clone());
        let answer = post.send().await.map_err(|error| {
            later(if error.is_timeout() {
                format!("nothing came within {} s", TIMEOUT.as_secs())
            } else {
                innermost(&error.without_url())
            })
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let after =
            answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let words = beginning(answer).await;
        let why = format!("it answered {status}: {words}");
        if is_temporary(status) {
            Err(Refused::Later { why, after: after.map(Duration::from_secs) })
        } else {
            Err(Refused::Never(why))
        }
    }
}

/// Whether who is asked may take the same later: it is away or busy, or somebody mends an address or a token.
fn is_temporary(status: StatusCode) -> bool {
    status.is_server_error()
        || status.is_redirection()
        || matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::REQUEST_TIMEOUT
                | StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::NOT_FOUND
        )
}

/// What is said is for people, and is not read to its end.
async fn beginning(mut answer: reqwest::Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < WORDS_MAX
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        bytes.extend_from_slice(&chunk[..chunk.len().min(WORDS_MAX - bytes.len())]);
    }
    String::from_utf8_lossy(&bytes).trim().chars().filter(|c| !c.is_control()).collect()
}

impl Login {
    /// Reads the file anew each time: somebody may have put another secret there.
    fn add(&self, post: RequestBuilder) -> Result<RequestBuilder, String> {
        Ok(match self {
            Self::Nobody => post,
            Self::Token(file) => post.bearer_auth(secret(file)?),
            Self::Basic { user, password } => post.basic_auth(user, Some(secret(password)?)),
        })
    }
}

fn secret(file: &Path) -> Result<String, String> {
    let said = |why: &str| format!("the file {}: {why}", file.display());
    let mut text = String::new();
    let open = std::fs::File::open(file).map_err(|error| said(&error.to_string()))?;
    open.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(|error| said(&error.to_string()))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() || secret.contains(char::is_control) {
        return Err(said("expected one line"));
    }
    Ok(secret.to_owned())
}

/// One attempt takes no longer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The first wait before another attempt; the next ones are longer.
const RETRY_MIN: Duration = Duration::from_millis(500);
/// Between two attempts at most, if nothing else is asked for.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// What is asked for is heeded up to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Bytes of an answer that are read.
const WORDS_MAX: usize = 300;
/// A token has some hundred bytes; what goes on without end is none.
const SECRET_BYTES_MAX: u64 = 64 << 10;
