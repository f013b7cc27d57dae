//! `GET jobs/{job}/pace`: how the ranks of a job spend their time.

use axum::Json;
use axum::extract::Path;
use ringscope_api::{JobPace, Problem};
use ringscope_view as view;

use super::App;
use super::problem::ApiError;
use super::query::Params;

/// How the ranks of a job spend their time, of late: in operations, or outside of them.
///
/// Each by one clock, so clocks that differ change nothing. Own times of ranks that do the same work are compared: whose is longer makes
/// the others wait.
#[utoipa::path(get, path = "/api/v1/jobs/{job}/pace", tag = "jobs",
    params(
        ("job" = String, Path, description = "Job id."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 10_000, description = "Ranks at most, the slowest of their like; 64 if \
            not given."),
    ),
    responses(
        (status = 200, description = "Ranks, the slowest of their like first.", body = JobPace),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such job.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn pace(
    app: App,
    Path(job): Path<String>,
    params: Params,
) -> Result<Json<JobPace>, ApiError> {
    let limit = params.allow(&["limit"])?.number("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT);
    let wanted = job.clone();
    let found = app.read(move |model, _, now| view::pace(model, now, &wanted, limit)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("job", &job))
}

/// Ranks of an answer.
const LIMIT: usize = 64;
const LIMIT_MAX: usize = 10_000;
