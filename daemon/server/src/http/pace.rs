//! `GET jobs/{job}/pace`: how the ranks of a job spend their time.

use axum::Json;
use axum::extract::Path;
use ringscope_api::{JobPace, Problem};
use ringscope_view as view;

use super::App;
use super::problem::ApiError;

/// How the ranks of a job spend their time, of late: in operations, or outside of them.
///
/// Each by one clock, so clocks that differ change nothing. Own times of ranks that do the same work are compared: whose is longer makes
/// the others wait.
#[utoipa::path(get, path = "/api/v1/jobs/{job}/pace", tag = "jobs",
    params(("job" = String, Path, description = "Job id.")),
    responses(
        (status = 200, description = "Ranks, the slowest of their like first.", body = JobPace),
        (status = 404, description = "No such job.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn pace(app: App, Path(job): Path<String>) -> Result<Json<JobPace>, ApiError> {
    let wanted = job.clone();
    let found = app.read(move |model, _, now| view::pace(model, now, &wanted)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("job", &job))
}
