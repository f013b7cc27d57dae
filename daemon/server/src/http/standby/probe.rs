//! Asks a daemon whether it leads in a term, and takes batches: as who stands by asks the one that leads, and that one itself.

use std::time::Duration;

use reqwest::StatusCode;
use ringscope_store::Leader;
use ringscope_tls::{Http, innermost};
use serde_json::Value;

use crate::http::forwarded;

/// What a daemon that leads said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It takes batches.
    Ready,
    /// It leads and takes none now: why.
    NotReady(String),
}

/// Asks `leader`; else why there was no answer of a daemon that leads in that term.
pub(super) async fn ask(http: &Http, leader: &Leader) -> Result<Answer, String> {
    let mut asked = http.client().get(format!("{}/readyz", leader.url)).timeout(PATIENCE);
    if let Some(value) = forwarded::of_itself(&leader.secret) {
        asked = asked.header(forwarded::HEADER, value);
    }
    let mut answer = asked.send().await.map_err(why)?;
    let status = answer.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(why)?
        && bytes.len() < BYTES_MAX
    {
        bytes.extend_from_slice(&chunk);
    }
    read(status, &serde_json::from_slice(&bytes).unwrap_or_default())
}

fn read(status: StatusCode, said: &Value) -> Result<Answer, String> {
    let kind = said["type"].as_str().and_then(|kind| kind.strip_prefix("about:blank#"));
    match (status, kind) {
        (StatusCode::OK, _) if said["status"] == "ready" && said["role"].is_null() => Ok(Answer::Ready),
        (StatusCode::SERVICE_UNAVAILABLE, Some(kind)) if kind != forwarded::NOT_LEADING => {
            Ok(Answer::NotReady(said["detail"].as_str().unwrap_or(kind).to_owned()))
        }
        (StatusCode::SERVICE_UNAVAILABLE, Some(_)) => Err(
            "another daemon answers there, or that one leads no more: is its --cluster-url its own address?"
                .to_owned(),
        ),
        _ => Err(format!(
            "what answers there ({status}) is no ringscope daemon that leads: is its --cluster-url its own address?"
        )),
    }
}

/// Why a request has no answer, in words.
pub(super) fn why(error: reqwest::Error) -> String {
    let error = error.without_url();
    match (error.is_timeout(), error.is_connect()) {
        (true, true) => "it takes no connection: it is gone, or a firewall is between".to_owned(),
        (true, false) => "it says nothing in time: it hangs, or its network does".to_owned(),
        (false, _) => innermost(&error),
    }
}

/// A daemon that lives answers this at once.
const PATIENCE: Duration = Duration::from_millis(2500);
/// More than the words of a problem.
const BYTES_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_daemon_that_leads_in_this_term_has_answered() {
        let read = |status: u16, text: &str| {
            read(StatusCode::from_u16(status).unwrap(), &serde_json::from_str(text).unwrap_or_default())
        };
        assert_eq!(read(200, r#"{"status":"ready","store":"open"}"#), Ok(Answer::Ready));
        let away = r#"{"type":"about:blank#store-away","detail":"the database does not answer"}"#;
        assert_eq!(read(503, away), Ok(Answer::NotReady("the database does not answer".to_owned())));
        let other = read(503, r#"{"type":"about:blank#not-leading"}"#);
        assert!(other.unwrap_err().contains("another daemon answers there"));
        for (status, text) in
            [(200, "<html>"), (200, r#"{"status":"ready","role":"standby"}"#), (503, "busy"), (404, "{}")]
        {
            let words = read(status, text).unwrap_err();
            assert!(words.contains("no ringscope daemon") && words.contains("--cluster-url"), "{words}");
        }
    }
}
