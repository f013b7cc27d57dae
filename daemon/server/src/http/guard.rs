//! What keeps clients, however many and whatever they send, from costing too much: bounds on the head of a request, on the
//! views computed at once, on streams, and on uploads.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::cache::Views;
use super::problem::ApiError;
use super::shares::{Full, Parties, Shares, Taken};
use super::uploads::Uploads;

/// What all handlers share to keep within bounds.
#[derive(Clone)]
pub struct Guard {
    pub(super) views: Arc<Views>,
    computing: Arc<Semaphore>,
    pub(super) computing_wait: Duration,
    streams: Arc<Shares>,
    pub(super) uploads: Arc<Uploads>,
    imports: Arc<Shares>,
}

impl Guard {
    /// Bounds of a daemon that takes batches of up to `body_limit_bytes`.
    #[must_use]
    pub fn new(body_limit_bytes: usize) -> Self {
        Self {
            views: Arc::default(),
            computing: Arc::new(Semaphore::new(COMPUTING_MAX)),
            computing_wait: COMPUTING_WAIT,
            streams: Shares::new(STREAMS_MAX, STREAMS_MAX / 2),
            uploads: Arc::new(Uploads::new(body_limit_bytes)),
            imports: Shares::new(IMPORTS_MAX, IMPORTS_MAX / 2),
        }
    }

    /// The right to compute one view; waits for a while.
    pub(super) async fn computing(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = Arc::clone(&self.computing).acquire_owned();
        match tokio::time::timeout(self.computing_wait, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(ApiError::unavailable("busy", "too many views are asked for at once")),
        }
    }

    /// The right to one stream of events.
    pub(super) fn stream(&self, parties: &Parties) -> Result<Taken, ApiError> {
        let instead = "ask for the lists now and then instead";
        self.streams.take(parties).map_err(|full| match full {
            Full::All => {
                let detail = format!("{STREAMS_MAX} clients listen already; {instead}");
                ApiError::unavailable("too-many-streams", detail)
            }
            Full::One(party) => ApiError::has_share(format!(
                "{} of the {STREAMS_MAX} clients that may listen are {party} already, which is the most for one; close \
                 some, or {instead}",
                self.streams.one()
            )),
        })
    }

    /// The right to upload a file.
    pub(super) fn import(&self, parties: &Parties) -> Result<Taken, ApiError> {
        let again = "send this one again later";
        self.imports.take(parties).map_err(|full| match full {
            Full::All => {
                let detail = format!("{IMPORTS_MAX} files are being read already; {again}");
                ApiError::unavailable("too-many-uploads", detail)
            }
            Full::One(party) => ApiError::has_share(format!(
                "{} files of {party} are being read already, which is the most for one; {again}",
                self.imports.one()
            )),
        })
    }
}

/// Refuses requests whose head is larger than any that makes sense here.
pub(super) async fn refuse_large_heads(request: Request, next: Next) -> Response {
    let uri_bytes = request.uri().path_and_query().map_or(0, |text| text.as_str().len());
    if uri_bytes > URI_BYTES_MAX {
        let detail = format!("path and query have at most {URI_BYTES_MAX} bytes");
        return ApiError::new(StatusCode::URI_TOO_LONG, "uri-too-long", detail).into_response();
    }
    let headers = request.headers().iter();
    let header_bytes: usize = headers.map(|(name, value)| name.as_str().len() + value.len()).sum();
    if header_bytes > HEADER_BYTES_MAX {
        let detail = format!("the headers have at most {HEADER_BYTES_MAX} bytes in all");
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return ApiError::new(status, "headers-too-large", detail).into_response();
    }
    next.run(request).await
}

/// Views computed at once. Most wait for the model's lock anyway; pictures and history do not.
const COMPUTING_MAX: usize = 16;
/// Whoever waits longer asks again: the page does so every few seconds.
const COMPUTING_WAIT: Duration = Duration::from_secs(5);
/// Each open page has one. Half of them for one token, person, address or tenant.
const STREAMS_MAX: usize = 256;
/// Files read at once: each is parsed on a thread of its own. Half of them for one, too.
const IMPORTS_MAX: usize = 8;
/// A search of 200 characters with every other parameter has less; cursors are the longest.
const URI_BYTES_MAX: usize = 8 << 10;
/// What a browser sends with the cookies of a whole domain is less.
const HEADER_BYTES_MAX: usize = 32 << 10;
