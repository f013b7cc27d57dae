//! `POST ingest`: batches of agents.

use std::collections::BTreeSet;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use prost::Message as _;
use ringscope_access::{Sender, Who};
use ringscope_api::Problem;
use ringscope_wire::batch::{BatchError, Scales};
use tokio::sync::OwnedSemaphorePermit;

use super::door::Told;
use super::packing::Packing;
use super::problem::ApiError;
use super::shares::Parties;
use super::uploads::{Chunks, Held, batch_bytes_max, receive, too_large};
use super::{App, Whole};
use crate::hub::Beyond;
use crate::ingest::{IngestError, Stored};

/// Takes one batch (protobuf `ringscope.v1.Batch`), and answers (`ringscope.v1.IngestReply`) when it is stored.
#[utoipa::path(post, path = "/api/v1/ingest", tag = "agents",
    request_body(content = Vec<u8>, content_type = "application/x-protobuf",
        description = "A `ringscope.v1.Batch`; with content-encoding gzip or zstd if packed."),
    responses(
        (status = 200, description = "Stored.", body = Vec<u8>, content_type = "application/x-protobuf"),
        (status = 400, description = "Not a batch.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Too large, or it tells of more than its tenant or token may have: what was known of it before is taken.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not protobuf.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A batch of another version.", body = Problem,
            content_type = "application/problem+json"),
        (status = 503, description = "Judged but not stored: send it again.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn ingest(State(Whole(app)): State<Whole>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let parties = Parties::noted(&parts.extensions);
    let sender = sender(&parts.extensions);
    let (limit, mut held) = (app.body_limit_bytes, app.guard.uploads.begin(&parties));
    let mut chunks = Chunks::of(body);
    let packing = match check(&parts.headers, limit) {
        Ok(packing) => packing,
        Err(refused) => return Err(heard(chunks, refused).await),
    };
    let packed = match receive(&mut chunks, limit, &mut held).await {
        Ok(Some(packed)) => packed,
        Ok(None) => return Err(heard(chunks, too_large(limit)).await),
        Err(error) => return Err(error),
    };
    // Kept until the batch is stored: both its bytes and what they become.
    let weighed = weighed(&app, packed, packing, (held, app.guard.uploads.begin(&parties))).await;
    let (bytes, held) = weighed.inspect_err(|error| {
        if !error.is_temporary() {
            app.ingest.count_refused();
        }
    })?;
    match app.ingest.take(bytes, &sender, held).await {
        Ok(Stored { reply, imported }) => {
            let answer = ([(header::CONTENT_TYPE, PROTOBUF)], reply.encode_to_vec());
            Ok(with_told(&imported, answer.into_response()))
        }
        Err(IngestError::Refused(error)) => Err(refused(&error)),
        Err(IngestError::Beyond { beyond, imported }) => {
            Ok(with_told(&imported, beyond_share(&beyond).into_response()))
        }
        Err(IngestError::NotStored { reason, imported }) => {
            let answer = ApiError::unavailable("not-stored", reason).into_response();
            Ok(with_told(&imported, answer))
        }
    }
}

/// What the headers say: how the body is packed; or why it is not wanted, before a byte of it is kept.
fn check(headers: &HeaderMap, limit_bytes: usize) -> Result<Packing, ApiError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = text(header::CONTENT_TYPE);
    if kind.split(';').next().map(str::trim) != Some(PROTOBUF) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            format!("the content-type is {kind:?}, expected {PROTOBUF}"),
        ));
    }
    if text(header::CONTENT_LENGTH).parse().is_ok_and(|length: u64| length > limit_bytes as u64) {
        return Err(too_large(limit_bytes));
    }
    Packing::of(text(header::CONTENT_ENCODING)).ok_or_else(|| {
        let detail = "the body's content-encoding must be gzip, zstd or none";
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-encoding", detail)
    })
}

/// Unpacks a body and weighs it while it does so: what is too much is refused where it becomes so, and was never decoded.
/// What is held goes along into the work, which does not end if the client leaves.
async fn weighed(
    app: &App,
    packed: Vec<u8>,
    packing: Packing,
    (mut held, mut unpacked_held): (Held, Held),
) -> Result<(Bytes, (Held, OwnedSemaphorePermit)), ApiError> {
    let limit = app.body_limit_bytes;
    let mut scales = Scales::new(batch_bytes_max(limit));
    if packing == Packing::None && packed.len() <= SMALL_BYTES {
        scales.put(&packed).map_err(|error| refused(&error))?;
        let decoding = app.guard.uploads.decoding(scales.weight()).await?;
        return Ok((packed.into(), (held, decoding)));
    }
    let permit = app.guard.uploads.unpacking().await?;
    let unpacking = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let bytes = packing.unpack(packed, limit, &mut unpacked_held, |piece| {
            scales.put(piece).map_err(|error| refused(&error))
        })?;
        // The packed bytes are gone.
        if packing != Packing::None {
            held = unpacked_held;
        }
        Ok::<_, ApiError>((bytes, scales.weight(), held))
    });
    let unpacked = unpacking.await.map_err(|error| ApiError::internal(&error))?;
    let (bytes, weight_bytes, held) = unpacked?;
    Ok((bytes.into(), (held, app.guard.uploads.decoding(weight_bytes).await?)))
}

/// `ringscope import --daemon` sends batches, as an agent does; who did so is told as of a file that was sent.
fn with_told(imported: &BTreeSet<String>, answer: Response) -> Response {
    if imported.is_empty() {
        return answer;
    }
    let named: Vec<&str> = imported.iter().take(JOBS_TOLD).map(String::as_str).collect();
    let more = match imported.len() - named.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let detail = format!("facts as the job {}{more}", named.join(", "));
    (Extension(Told { action: "import", detail, ..Told::default() }), answer).into_response()
}

/// Whose share of the daemon a request counts against.
pub(super) fn sender(request: &Extensions) -> Sender {
    request.get::<Who>().map(Sender::from).unwrap_or_default()
}

/// That files tell of more than their sender may have here: nobody sends them again. An agent is answered as always, and asked
/// again for what was refused.
pub(super) fn beyond_share(beyond: &Beyond) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "beyond-share", beyond.to_string())
}

fn refused(error: &BatchError) -> ApiError {
    let (status, kind) = match error {
        BatchError::UnknownVersion { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "unknown-batch-version"),
        BatchError::TooHeavy { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too-heavy"),
        _ => (StatusCode::BAD_REQUEST, "malformed-batch"),
    };
    ApiError::new(status, kind, error.to_string())
}

/// Reads what the client still sends and throws it away, up to a bound: a client that is writing hears no answer.
async fn heard(mut chunks: Chunks, refused: ApiError) -> ApiError {
    let mut left = DRAIN_BYTES_MAX;
    while let Ok(Some(chunk)) = chunks.next().await {
        left = left.saturating_sub(chunk.len());
        if left == 0 {
            break;
        }
    }
    refused
}

/// Jobs that an entry of the audit trail names: an import is of one.
const JOBS_TOLD: usize = 8;
const PROTOBUF: &str = "application/x-protobuf";
/// What is read and thrown away so that the client hears why: a second of a fast network.
const DRAIN_BYTES_MAX: usize = 256 << 20;
/// What is weighed at once, and not on a thread of its own: half a millisecond.
const SMALL_BYTES: usize = 256 << 10;
