//! One request to the daemon.

use std::time::Duration;

use prost::Message as _;
use reqwest::{StatusCode, Url, header};
use ringscope_wire::batch::{Batch, IngestReply, Inquiry, Wish};

use crate::clock;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Characters of a refusal that are logged.
const MAX_REASON_CHARS: usize = 500;

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
    },
    /// It will never be taken.
    Refused(String),
    /// Not now.
    Away(String),
}

/// Talks to one daemon.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    client: reqwest::Client,
    url: Url,
}

impl Transport {
    pub(super) fn new(url: Url) -> Result<Self, reqwest::Error> {
        // No proxy: the daemon is near, and the environment is read in config.rs only.
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .no_proxy()
            .build()?;
        Ok(Self { client, url })
    }

    /// Sends one encoded batch.
    pub(super) async fn send(&self, mut body: Vec<u8>) -> Outcome {
        // Protobuf merges what follows into what is there.
        body.extend(Batch { posted_at_ns: clock::now().0, ..Batch::default() }.encode_to_vec());
        let request = (self.client.post(self.url.clone()))
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .body(body);
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Outcome::Away(with_causes(&error)),
        };
        let status = response.status();
        let answer = match response.bytes().await {
            Ok(answer) => answer,
            Err(error) => return Outcome::Away(with_causes(&error)),
        };
        if status == StatusCode::OK {
            return match IngestReply::decode(answer) {
                Ok(IngestReply { resend_all, wishes, inquiries, raised, .. }) => {
                    Outcome::Taken { resend_all, wishes, inquiries, raised }
                }
                Err(_) => Outcome::Away("the answer is none of a ringscope daemon's".to_owned()),
            };
        }
        let words: String = String::from_utf8_lossy(&answer).chars().take(MAX_REASON_CHARS).collect();
        let reason = format!("{status}: {words}");
        if status.is_client_error() && !says_nothing_of_the_batch(status) {
            Outcome::Refused(reason)
        } else {
            Outcome::Away(reason)
        }
    }
}

/// Answers that another daemon, or the same one later, would not give: a wrong path, a guard in front, too many requests.
fn says_nothing_of_the_batch(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
    )
}

/// The error with what caused it: reqwest itself only says that sending failed.
fn with_causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
