//! `GET jobs`.

use axum::Json;
use axum::extract::{Path, State};

use super::App;
use super::page::Paging;
use super::problem::ApiError;
use super::query::Params;
use crate::api::{Job, Page, Problem};
use crate::view;

/// Every job, by id.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs",
    params(
        ("limit" = Option<u32>, Query, description = "Items of a page, 1 to 1000; 100 if not given."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of jobs.", body = Page<Job>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(State(app): State<App>, params: Params) -> Result<Json<Page<Job>>, ApiError> {
    let params = params.allow(&["limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let jobs = app.read(view::jobs).await?;
    Ok(Json(paging.page(jobs, |job| job.id.clone())))
}

/// One job.
#[utoipa::path(get, path = "/api/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "Job id.")),
    responses(
        (status = 200, description = "The job.", body = Job),
        (status = 404, description = "No such job.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn one(
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Job>, ApiError> {
    params.allow(&[])?;
    let wanted = id.clone();
    let job = app.read(move |model, diagnosis, now| view::job(model, diagnosis, now, &wanted)).await?;
    job.map(Json).ok_or_else(|| ApiError::unknown("job", &id))
}
