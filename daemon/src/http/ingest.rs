//! `POST ingest`: batches of agents.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use prost::Message as _;

use super::App;
use super::problem::ApiError;
use crate::api::Problem;
use crate::ingest::IngestError;
use ringscope_wire::batch::BatchError;

/// Takes one batch (protobuf `ringscope.v1.Batch`), and answers (`ringscope.v1.IngestReply`) when it is stored.
#[utoipa::path(post, path = "/api/v1/ingest", tag = "agents",
    request_body(content = Vec<u8>, content_type = "application/x-protobuf",
        description = "A `ringscope.v1.Batch`; with content-encoding gzip or zstd if packed."),
    responses(
        (status = 200, description = "Stored.", body = Vec<u8>, content_type = "application/x-protobuf"),
        (status = 400, description = "Not a batch.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Too large.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not protobuf.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A batch of another version.", body = Problem,
            content_type = "application/problem+json"),
        (status = 503, description = "Judged but not stored: send it again.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn ingest(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let kind =
        parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some(PROTOBUF) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            format!("the content-type is {kind:?}, expected {PROTOBUF}"),
        ));
    }
    let bytes = read_limited(body, app.body_limit_bytes).await?;
    match app.ingest.take(bytes).await {
        Ok(reply) => Ok(([(header::CONTENT_TYPE, PROTOBUF)], reply.encode_to_vec()).into_response()),
        Err(IngestError::Refused(error @ BatchError::UnknownVersion { .. })) => {
            Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown-batch-version", error.to_string()))
        }
        Err(IngestError::Refused(error)) => {
            Err(ApiError::new(StatusCode::BAD_REQUEST, "malformed-batch", error.to_string()))
        }
        Err(error @ IngestError::NotStored(_)) => Err(ApiError::unavailable("not-stored", error.to_string())),
    }
}

/// Refuses a body that says it is too large before a byte of it is kept.
pub(super) async fn refuse_large(State(app): State<App>, request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: u64 = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    if length <= app.body_limit_bytes as u64 {
        return next.run(request).await;
    }
    drain(request.into_body()).await;
    too_large(app.body_limit_bytes).into_response()
}

/// Reads a body into memory, up to the limit.
async fn read_limited(body: Body, limit_bytes: usize) -> Result<Bytes, ApiError> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| {
            ApiError::bad_request(format!("the body could not be read or unpacked: {error}"))
        })?;
        if bytes.len() + chunk.len() > limit_bytes {
            drop(bytes);
            drain(Body::from_stream(stream)).await;
            return Err(too_large(limit_bytes));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Bytes::from(bytes))
}

/// Reads what the client still sends and throws it away, up to a bound: a client that is writing hears no answer.
async fn drain(body: Body) {
    let mut stream = body.into_data_stream();
    let mut left = DRAIN_BYTES_MAX;
    while let Some(Ok(chunk)) = stream.next().await {
        left = left.saturating_sub(chunk.len());
        if left == 0 {
            return;
        }
    }
}

fn too_large(limit_bytes: usize) -> ApiError {
    let detail =
        format!("a batch has at most {limit_bytes} bytes, unpacked; raise --body-limit or send less at once");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
}

const PROTOBUF: &str = "application/x-protobuf";
/// What is read and thrown away so that the client hears why: a second of a fast network.
const DRAIN_BYTES_MAX: usize = 256 << 20;
