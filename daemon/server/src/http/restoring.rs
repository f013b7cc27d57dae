//! What is said while processes that ended before the daemon started are read back: a job of theirs is missing, not unknown.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Whole;
use super::problem::ApiError;
use crate::ingest::Keeper;

/// Says of what is not found that it may not be read back yet.
pub(super) async fn admit_gaps(State(Whole(app)): State<Whole>, request: Request, next: Next) -> Response {
    let is_view = request.uri().path().starts_with("/api/v1/");
    let response = next.run(request).await;
    match notice(&app.keeper) {
        Some(notice) if is_view && response.status() == StatusCode::NOT_FOUND => {
            ApiError::unavailable("restoring", format!("not known yet: {notice}")).into_response()
        }
        _ => response,
    }
}

/// That something is missing; `None` when all is there. Tenants read it too, so it does not say how much.
pub(super) fn notice(keeper: &Keeper) -> Option<String> {
    (keeper.n_unrestored() > 0).then(|| {
        "processes that ended in the last hour, before this daemon started, are still being read back from the \
         database: some of them, and the jobs that have no others, are missing until then"
            .to_owned()
    })
}
