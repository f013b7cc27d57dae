//! `GET runbook`.

use axum::Json;
use ringscope_api::{Problem, RunbookEntry};

use super::problem::ApiError;
use super::query::Params;
use crate::runbook;

/// What to do about each kind of finding.
#[utoipa::path(get, path = "/api/v1/runbook", tag = "findings",
    responses(
        (status = 200, description = "One entry a kind of finding.", body = Vec<RunbookEntry>),
        (status = 400, description = "It takes no parameters.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(params: Params) -> Result<Json<&'static [RunbookEntry]>, ApiError> {
    params.allow(&[])?;
    Ok(Json(runbook::entries()))
}
