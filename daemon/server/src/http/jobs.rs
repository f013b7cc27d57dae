//! `GET jobs`.

use axum::Json;
use axum::extract::Path;
use ringscope_api::{Job, JobState, Page, Problem};
use ringscope_view as view;

use super::App;
use super::page::{PageParams, Paging};
use super::problem::ApiError;
use super::query::Params;

/// Every job, by id.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs",
    params(
        ("state" = Option<JobState>, Query, description = "Only in this state."),
        ("q" = Option<String>, Query, description = "Only those with this in their id, whatever the case.", max_length = 200),
        PageParams,
    ),
    responses(
        (status = 200, description = "A page of jobs.", body = Page<Job>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(app: App, params: Params) -> Result<Json<Page<Job>>, ApiError> {
    let params = params.allow(&["state", "q", "limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let filter = view::JobFilter { state: params.word("state", &STATES)?, part: params.part("q")? };
    let mut jobs = app.read(view::jobs).await?;
    filter.keep(&mut jobs);
    Ok(Json(paging.page(jobs, |job| job.id.clone())))
}

/// One job.
#[utoipa::path(get, path = "/api/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "Job id.")),
    responses(
        (status = 200, description = "The job.", body = Job),
        (status = 404, description = "No such job.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn one(app: App, Path(id): Path<String>, params: Params) -> Result<Json<Job>, ApiError> {
    params.allow(&[])?;
    let wanted = id.clone();
    let job = app.read(move |model, diagnosis, now| view::job(model, diagnosis, now, &wanted)).await?;
    job.map(Json).ok_or_else(|| ApiError::unknown("job", &id))
}

const STATES: [(&str, JobState); 4] = [
    ("running", JobState::Running),
    ("stale", JobState::Stale),
    ("ended", JobState::Ended),
    ("imported", JobState::Imported),
];
