//! `POST import`: yesterday's files.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::{Extension, Json};
use prost::Message as _;
use ringscope_api::clock;
use ringscope_api::{Import, Problem, Verdict};
use ringscope_import::{Room, Upload};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::App;
use super::connections::Line;
use super::door::Told;
use super::ingest::{beyond_share, sender};
use super::names::refuse_unasked;
use super::problem::ApiError;
use super::query::Params;
use super::shares::Parties;
use super::uploads::{Chunks, Held, Uploads};
use crate::ingest::IngestError;

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
        (status = 413, description = "Too large, or it tells of more than its tenant or token may have.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "A content type that any page can send.", body = Problem,
            content_type = "application/problem+json"),
        (status = 422, description = "None of the kinds of file that can be imported, or not whole.", body = Problem,
            content_type = "application/problem+json"),
        (status = 503, description = "Judged but not stored: send it again.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn import(
    app: App,
    params: Params,
    request: Request,
) -> Result<(Extension<Told>, Json<Import>), ApiError> {
    let params = params.allow(&["job", "file", "written"])?;
    let file = params.owned("file").unwrap_or_else(|| "upload".to_owned());
    let job = params.owned("job").unwrap_or_else(|| file.clone());
    let written = params.time("written")?.unwrap_or_default();
    let told = Told { detail: format!("{file} as the job {job}"), ..Told::default() };
    refuse_unasked(request.headers())?;
    let parties = Parties::noted(request.extensions());
    let sender = sender(request.extensions());
    let permit = app.guard.import(&parties)?;
    let mut held = app.guard.uploads.begin(&parties);
    held.grow(READER_BYTES)?;
    // A client that leaves takes `_here` with it, and the reading ends.
    let [gone, full, too_heavy] = [(); 3].map(|()| CancellationToken::new());
    let _here = gone.clone().drop_guard();
    let uploads = Arc::clone(&app.guard.uploads);
    let (held, parsed) = (Mutex::new(held), Mutex::new(None));
    let line = request.extensions().get::<Line>().cloned();
    let room = Within { uploads, held, parsed, gone, line, full: full.clone(), too_heavy: too_heavy.clone() };
    let (upload, uploading) = Upload::new();
    let agent_id = format!("import-{}", Uuid::new_v4());
    let judging = tokio::task::spawn_blocking(move || {
        // Until the reading has ended nobody else has its place.
        let _permit = permit;
        uploading.judge(&room, (&file, written), &job, &agent_id, clock::now())
    });
    send(Chunks::of(request.into_body()), upload).await?;
    let judged = judging.await.map_err(|error| ApiError::internal(&error))?;
    if too_heavy.is_cancelled() {
        let detail = "this file says more than is read of one here; use `ringscope import --daemon`, which sends only the \
                      facts";
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-heavy", detail));
    }
    if full.is_cancelled() {
        let detail = "the files that are being read leave no room for this one; send it again later, or use \
                      `ringscope import --daemon`, which sends only the facts";
        return Err(ApiError::unavailable("too-many-uploads", detail));
    }
    let (import, batches) = judged.map_err(|error| ApiError::internal(&error))?;
    let seen = |seen: &String| format!("is {seen}");
    let problem =
        import.files.iter().find_map(|file| file.problem.clone().or_else(|| file.seen.as_ref().map(seen)));
    if let Some(problem) = problem.filter(|_| import.communicators.is_empty()) {
        let kind = if import.verdict == Verdict::NotOfThese { "not-of-these" } else { "malformed-file" };
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, kind, format!("the file {problem}")));
    }
    for batch in batches {
        let taken = app.ingest.take(batch.encode_to_vec().into(), &sender, ()).await;
        taken.map_err(|error| match error {
            IngestError::Beyond { beyond, .. } => beyond_share(&beyond),
            error => ApiError::unavailable("not-stored", error.to_string()),
        })?;
    }
    Ok((Extension(told), Json(import)))
}

/// What an import may use: bytes that are held for it, for as long as its client is there.
struct Within {
    uploads: Arc<Uploads>,
    held: Mutex<Held>,
    /// The right to what is parsed.
    parsed: Mutex<Option<OwnedSemaphorePermit>>,
    gone: CancellationToken,
    line: Option<Line>,
    /// Cancelled when there was no room.
    full: CancellationToken,
    /// Cancelled when there never will be.
    too_heavy: CancellationToken,
}

impl Within {
    fn no_room(&self) -> io::Error {
        self.full.cancel();
        io::ErrorKind::OutOfMemory.into()
    }
}

impl Room for Within {
    fn take(&self, bytes: usize) -> io::Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.grow(bytes).map_err(|_| self.no_room())
    }

    fn take_parsed(&self, bytes: usize) -> io::Result<()> {
        if self.uploads.is_too_heavy(bytes as u64) {
            self.too_heavy.cancel();
        }
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        *parsed = Some(self.uploads.decoding_now(bytes as u64).ok_or_else(|| self.no_room())?);
        Ok(())
    }

    /// 8 MiB, as everywhere in HTTP (RFC 9659).
    fn zstd_window_log_max(&self) -> u32 {
        23
    }

    fn is_wanted(&self) -> io::Result<()> {
        if self.gone.is_cancelled() || self.line.as_ref().is_some_and(Line::is_closed) {
            Err(io::ErrorKind::ConnectionAborted.into())
        } else {
            Ok(())
        }
    }
}

/// Hands the body on chunk by chunk, up to the limit.
async fn send(mut chunks: Chunks, upload: Upload) -> Result<(), ApiError> {
    let mut left = IMPORT_BYTES_MAX;
    while let Some(chunk) = chunks.next().await? {
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
/// What a reader takes from the beginning: its buffers, and the chunks that wait for it.
const READER_BYTES: usize = 1 << 20;
