//! One request to the daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message as _;
use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{StatusCode, Url};
use ringscope_api::Problem;
use ringscope_api::clock;
use ringscope_tls::credential::Credential;
use ringscope_tls::{self as tls, Http};
use ringscope_wire::batch::{Batch, IngestReply, Inquiry, Wish};

use super::config::AgentConfig;
use super::error::AgentError;
use super::foreign::clean;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Batches repeat keys and numbers: the quickest level makes a third of them.
const PACKING_LEVEL: i32 = 1;
/// Bytes of a body that is packed, at least.
const FEWEST_PACKED: usize = 512;
/// Bytes of a refusal that are logged.
const MAX_REASON_BYTES: usize = 500;
/// Content type of batches, and of the daemon's reply to them.
const PROTOBUF: &str = "application/x-protobuf";
/// Content type of all errors of the daemon.
const PROBLEM: &str = "application/problem+json";

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Taken.
    Taken {
        /// The daemon does not know this agent's earlier batches.
        resend_all: bool,
        /// All that is wished for in this agent's jobs.
        wishes: Vec<Wish>,
        /// What the daemon wants to know.
        inquiries: Vec<Inquiry>,
        /// Jobs that diagnosis raises.
        raised: Vec<String>,
        /// How long counts may wait.
        counts_wait: Duration,
    },
    /// The daemon itself will never take it.
    Refused(String),
    /// Not now, or somebody else has answered.
    Away(String),
}

/// Talks to one daemon; of several of one database to the one that answers.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    http: Arc<Http>,
    urls: Arc<[Url]>,
    /// Which of them is asked, modulo their number.
    current: Arc<AtomicUsize>,
    credential: Credential,
}

impl Transport {
    pub(super) fn new(config: &AgentConfig) -> Result<Self, AgentError> {
        let urls = config.ingest_urls()?;
        // No proxy: the daemon is near, and the environment is read in config.rs only.
        let shape =
            || reqwest::Client::builder().timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT).no_proxy();
        let http = match &config.daemon_here {
            Some(own) => Http::to_itself(own, shape)?,
            None => Http::new(&config.trust, urls.iter().any(|url| url.scheme() == "https"), shape)?,
        };
        let credential = Credential::new(config.token.clone());
        Ok(Self { http: Arc::new(http), urls: urls.into(), current: Arc::default(), credential })
    }

    /// Sends one encoded batch. Where it is not taken, the next one goes to the next daemon, if there are several.
    pub(super) async fn send(&self, body: Vec<u8>) -> Outcome {
        let current = self.current.load(Ordering::Relaxed);
        let outcome = self.send_to(&self.urls[current % self.urls.len()], body).await;
        if matches!(outcome, Outcome::Away(_)) {
            self.current.store(current.wrapping_add(1), Ordering::Relaxed);
        }
        outcome
    }

    async fn send_to(&self, url: &Url, mut body: Vec<u8>) -> Outcome {
        // Protobuf merges what follows into what is there.
        body.extend(Batch { posted_at_ns: clock::now().0, ..Batch::default() }.encode_to_vec());
        let client = self.http.client();
        let mut request = client.post(url.clone()).header(header::CONTENT_TYPE, PROTOBUF);
        request = match packed(&body) {
            Some(packed) => request.header(header::CONTENT_ENCODING, "zstd").body(packed),
            None => request.body(body),
        };
        match self.credential.token() {
            Ok(Some(token)) => request = request.bearer_auth(token),
            Ok(None) => {}
            Err(why) => return Outcome::Away(why),
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Outcome::Away(with_causes(&error)),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.credential.refused();
        }
        match response.bytes().await {
            Ok(answer) => outcome(status, &headers, &answer),
            Err(error) => Outcome::Away(with_causes(&error)),
        }
    }
}

/// A body as it goes over the network. `None`: as it is, for packing would not make it smaller by much.
fn packed(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() < FEWEST_PACKED {
        return None;
    }
    zstd::bulk::compress(body, PACKING_LEVEL).ok().filter(|packed| packed.len() < body.len())
}

/// What an answer says of the batch. Only the daemon's own does: a proxy in front of it may refuse what the daemon would
/// take, or say 200 to anything.
fn outcome(status: StatusCode, headers: &HeaderMap, answer: &[u8]) -> Outcome {
    let kind = text(headers, header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    if status == StatusCode::OK
        && kind == PROTOBUF
        && let Ok(IngestReply { resend_all, wishes, inquiries, raised, counts_wait_ms, .. }) =
            IngestReply::decode(answer)
    {
        let counts_wait = Duration::from_millis(counts_wait_ms.into());
        return Outcome::Taken { resend_all, wishes, inquiries, raised, counts_wait };
    }
    if tls::is_https_port(answer) {
        return Outcome::Away(tls::HTTPS_PORT.to_owned());
    }
    if kind != PROBLEM {
        let mut words = clean(&String::from_utf8_lossy(answer), MAX_REASON_BYTES);
        if status.is_redirection() {
            let place = clean(text(headers, header::LOCATION), MAX_REASON_BYTES);
            words = format!("it wants to be asked at {place:?}, and redirects are not followed. {words}");
        }
        return Outcome::Away(stranger(status, text(headers, header::SERVER), &words));
    }
    let words = match serde_json::from_slice::<Problem>(answer) {
        Ok(problem) => problem.detail.into(),
        Err(_) => String::from_utf8_lossy(answer),
    };
    let reason = format!("{status}: {}", clean(&words, MAX_REASON_BYTES));
    if status.is_client_error() && !says_nothing_of_the_batch(status) {
        Outcome::Refused(reason)
    } else {
        Outcome::Away(reason)
    }
}

/// Who has answered in the daemon's place, and what to do about it.
fn stranger(status: StatusCode, server: &str, words: &str) -> String {
    let server = if server.is_empty() { "something that does not say its name" } else { server };
    let remedy = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "let it pass bodies of 8 MiB (nginx: `client_max_body_size 8m`)",
        _ => "see that the daemon's URL is right and which proxy stands before it",
    };
    format!("not our daemon: {server} answered {status}; {remedy}. It said: {words}")
}

/// A header; empty if there is none.
fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Answers that another daemon, or the same one later, would not give: a wrong path, a name that it does not know, a guard in
/// front, too many requests, a batch of another release.
fn says_nothing_of_the_batch(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::MISDIRECTED_REQUEST
            | StatusCode::TOO_MANY_REQUESTS
            // The daemon's word for a batch of another version: once the older of the two is upgraded it is taken.
            | StatusCode::UNPROCESSABLE_ENTITY
    )
}

/// The error with what caused it: reqwest itself only says that sending failed.
fn with_causes(error: &reqwest::Error) -> String {
    if let Some(reason) = tls::reason(error) {
        let host = error.url().and_then(|url| url.host_str()).unwrap_or_default();
        return format!("{host}: {reason}");
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn answered(status: u16, kind: &'static str, answer: &[u8]) -> Outcome {
        let mut headers = HeaderMap::new();
        headers.insert(header::SERVER, HeaderValue::from_static("nginx/1.25.3"));
        if !kind.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        outcome(StatusCode::from_u16(status).unwrap(), &headers, answer)
    }

    #[test]
    fn a_problem_is_told_by_its_sentence() {
        let problem = br#"{"type":"about:blank#unauthorized","title":"Unauthorized","status":401,"detail":"this token was revoked"}"#;
        for status in [401, 403] {
            let found = answered(status, "application/problem+json", problem);
            let Outcome::Away(why) = found else { panic!("{found:?} says nothing of the batch") };
            assert!(
                why.ends_with(": this token was revoked") && why.starts_with(&status.to_string()),
                "{why}"
            );
        }
        let other = answered(400, "application/problem+json", b"of another\x1b[2J release");
        assert!(
            matches!(&other, Outcome::Refused(why) if why.contains("release") && !why.contains('\x1b')),
            "{other:?}"
        );
    }

    #[test]
    fn only_the_daemons_own_answer_says_something_of_the_batch() {
        let reply = IngestReply { resend_all: true, ..IngestReply::default() }.encode_to_vec();
        let taken = answered(200, "application/x-protobuf", &reply);
        assert!(matches!(taken, Outcome::Taken { resend_all: true, .. }), "{taken:?}");
        let problem = br#"{"detail":"no batch"}"#;
        for (status, is_refused) in [
            (400, true),
            (413, true),
            (415, true),
            (422, false),
            (404, false),
            (408, false),
            (421, false),
            (429, false),
            (503, false),
        ] {
            let found = answered(status, "application/problem+json", problem);
            assert_eq!(matches!(found, Outcome::Refused(_)), is_refused, "{found:?}");
        }
        for (status, kind) in [
            (200, ""),
            (200, "text/html; charset=utf-8"),
            (400, "text/html"),
            (407, ""),
            (413, "text/html"),
            (415, "application/json"),
            (502, "text/html"),
        ] {
            let Outcome::Away(why) = answered(status, kind, b"<html>") else {
                panic!("{status} {kind:?} is not the daemon's")
            };
            assert!(why.starts_with(&format!("not our daemon: nginx/1.25.3 answered {status}")), "{why}");
            assert_eq!(why.contains("client_max_body_size 8m"), status == 413, "{why}");
        }
        assert!(matches!(answered(200, "application/x-protobuf", b"\xff"), Outcome::Away(_)));
    }
}
