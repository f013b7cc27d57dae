//! Bodies that are JSON, and say so.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;

use super::problem::ApiError;

/// A body that says that it is JSON: what a page of another origin can send without asking says that it is text.
pub(super) struct Said(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for Said {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let words = "the body must be JSON, with the header Content-Type: application/json";
            let refused = ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", words);
            return Err(refused.into_response());
        }
        Bytes::from_request(request, state).await.map(Self).map_err(IntoResponse::into_response)
    }
}

/// What a body says; `example` shows what it must be like.
pub(super) fn read<T: DeserializeOwned>(body: &[u8], example: &str) -> Result<T, ApiError> {
    serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("the body must be JSON like {example}: {error}")))
}
