//! `POST kubernetes/admission`: Kubernetes asks before it creates a pod. Anybody may ask: the answer follows from the question
//! and two settings, and changes nothing.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::Value;

use super::Whole;
use super::problem::ApiError;
use super::shares::Parties;
use super::uploads::{Chunks, receive};
use crate::kubernetes;

/// Where Kubernetes asks.
pub(super) const PATH: &str = "/kubernetes/admission";

/// Answers a question; the pod is always allowed.
pub(super) async fn review(
    State(Whole(app)): State<Whole>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let Some(injection) = app.injection.clone() else {
        let detail = "this daemon gives pods nothing: start it with --kubernetes-image";
        return Err(ApiError::new(StatusCode::NOT_FOUND, "no-webhook", detail));
    };
    let (parts, body) = request.into_parts();
    let mut held = app.guard.uploads.begin(&Parties::noted(&parts.extensions));
    let body = receive(&mut Chunks::of(body), BODY_BYTES_MAX, &mut held).await?.ok_or_else(|| {
        let detail = format!("a question has at most {BODY_BYTES_MAX} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    })?;
    // What is read of it takes some twenty times its bytes at most, of as many at once as are unpacked.
    let reading = app.guard.uploads.unpacking().await?;
    let answered = tokio::task::spawn_blocking(move || {
        let answer = kubernetes::answer(&body, &injection);
        drop((reading, held));
        answer
    });
    answered.await.map(Json).map_err(|error| ApiError::internal(&error))
}

/// A question about a pod has some KiB. One about a larger pod than this is not answered, and the pod is created as it is.
const BODY_BYTES_MAX: usize = 1 << 20;
