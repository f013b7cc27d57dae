//! `POST import`: yesterday's files.

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use futures::StreamExt as _;
use prost::Message as _;
use uuid::Uuid;

use super::App;
use super::problem::ApiError;
use super::query::Params;
use crate::api::{Import, Problem, Verdict};
use crate::clock::{self, Timestamp};
use crate::import::{Upload, Uploading};

/// Reads one file (the body as it is: a log of NCCL, a dump; gzip and zstd are unpacked), shows it as a job, and answers
/// with what was found in it. Files that belong together are sent under one `job`.
#[utoipa::path(post, path = "/api/v1/import", tag = "import",
    params(
        ("job" = Option<String>, Query, description = "Job under which it is known; the file's name if not given."),
        ("file" = Option<String>, Query, description = "The file's name, for the lines that prove something."),
        ("written" = Option<String>, Query, description = "When the file was last written to, RFC 3339, as \
            `date -u -r FILE +%FT%TZ` prints it. Not given: what the file itself tells."),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "Taken, and what was found.", body = Import),
        (status = 400, description = "The body could not be read.", body = Problem,
            content_type = "application/problem+json"),
        (status = 413, description = "Too large.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "None of the kinds of file that can be imported, or not whole.", body = Problem,
            content_type = "application/problem+json"),
        (status = 503, description = "Judged but not stored: send it again.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn import(
    State(app): State<App>,
    params: Params,
    request: Request,
) -> Result<Json<Import>, ApiError> {
    let params = params.allow(&["job", "file", "written"])?;
    let file = params.owned("file").unwrap_or_else(|| "upload".to_owned());
    let job = params.owned("job").unwrap_or_else(|| file.clone());
    let written = params.time("written")?.unwrap_or_default();
    let _permit = app.guard.upload()?;
    let (upload, uploading) = Upload::new();
    let judging = tokio::task::spawn_blocking(move || judge(uploading, (&file, written), &job));
    send(request.into_body(), upload).await?;
    let (import, batches) = judging.await.map_err(|error| ApiError::internal(&error))?;
    let seen = |seen: &String| format!("is {seen}");
    let problem =
        import.files.iter().find_map(|file| file.problem.clone().or_else(|| file.seen.as_ref().map(seen)));
    if let Some(problem) = problem.filter(|_| import.communicators.is_empty()) {
        let kind = if import.verdict == Verdict::NotOfThese { "not-of-these" } else { "malformed-file" };
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, kind, format!("the file {problem}")));
    }
    for batch in batches {
        let taken = app.ingest.take(batch.encode_to_vec().into()).await;
        taken.map_err(|error| ApiError::unavailable("not-stored", error.to_string()))?;
    }
    Ok(Json(import))
}

fn judge(
    uploading: Uploading,
    file: (&str, Timestamp),
    job: &str,
) -> (Import, Vec<ringscope_wire::batch::Batch>) {
    uploading.judge(file, job, &format!("import-{}", Uuid::new_v4()), clock::now())
}

/// Hands the body on chunk by chunk, up to the limit.
async fn send(body: Body, upload: Upload) -> Result<(), ApiError> {
    let mut stream = body.into_data_stream();
    let mut left = IMPORT_BYTES_MAX;
    while let Some(chunk) = stream.next().await {
        let chunk =
            chunk.map_err(|error| ApiError::bad_request(format!("the body could not be read: {error}")))?;
        left = left.checked_sub(chunk.len() as u64).ok_or_else(|| {
            let detail = format!(
                "an import has at most {} MiB; pack it, or use `ringscope import --daemon`, which sends only the facts",
                IMPORT_BYTES_MAX >> 20
            );
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
        })?;
        if !upload.send(Ok(chunk)).await {
            break;
        }
    }
    Ok(())
}

/// Logs of the largest jobs, packed; the daemon streams them and keeps only what they say.
const IMPORT_BYTES_MAX: u64 = 1 << 30;
