//! Errors as RFC 9457 problem details.

use std::fmt;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ringscope_api::Problem;

/// An error on its way to the client.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    retry_after_s: Option<u32>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind, detail: detail.into(), retry_after_s: None }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    pub(super) fn unknown(what: &str, id: &str) -> Self {
        let kind = match what {
            "job" => "unknown-job",
            "node" => "unknown-node",
            "channel" => "unknown-channel",
            "incident" => "unknown-incident",
            "summation group" => "unknown-summation-group",
            _ => "unknown-communicator",
        };
        let id: String = id.chars().take(SHOWN_CHARS_MAX).collect();
        let list = match what {
            "channel" => "the communicator's rings".to_owned(),
            "summation group" => "/api/v1/summation/groups".to_owned(),
            _ => format!("/api/v1/{what}s"),
        };
        Self::new(
            StatusCode::NOT_FOUND,
            kind,
            format!("no {what} {id:?} is known here; {list} has those that are"),
        )
    }

    pub(super) fn unavailable(kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            retry_after_s: Some(RETRY_AFTER_S),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, kind, detail)
        }
    }

    /// What it says, for who reads it in a browser.
    pub(super) fn words(&self) -> (StatusCode, &str) {
        (self.status, &self.detail)
    }

    /// Whether the same request may go better later.
    pub(super) fn is_temporary(&self) -> bool {
        self.status.is_server_error() || self.status == StatusCode::TOO_MANY_REQUESTS
    }

    /// Who asks is not known.
    pub(super) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// Who asks has their share; again when they have less.
    pub(super) fn has_share(detail: impl Into<String>) -> Self {
        Self {
            retry_after_s: Some(RETRY_AFTER_S),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "has-its-share", detail)
        }
    }

    /// Too often; again after that time.
    pub(super) fn too_often(wait: Duration, detail: impl Into<String>) -> Self {
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        Self {
            retry_after_s: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", detail)
        }
    }

    pub(super) fn internal(error: &dyn fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the daemon made a mistake; its log says more",
        )
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = Problem {
            kind: format!("about:blank#{}", self.kind),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
        };
        let mut response = (self.status, Json(problem)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Content type of every error.
pub(super) const PROBLEM_TYPE: &str = "application/problem+json";
/// When to try again: the store is tried as often.
const RETRY_AFTER_S: u32 = 2;
/// How much of what the client sent is repeated to it.
const SHOWN_CHARS_MAX: usize = 100;
