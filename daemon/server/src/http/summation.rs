//! `GET summation/groups` and what hangs below one.

use std::ops::RangeInclusive;

use axum::Json;
use axum::extract::Path;
use ringscope_api::{
    Page, Problem, SummationGroup, SummationGroupDetail, SummationGroupState, SummationRounds,
};
use ringscope_model::limits::MAX_GROUP_ROUNDS;
use ringscope_view as view;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::openapi;
use super::page::{PageParams, Paging};
use super::problem::ApiError;
use super::query::Params;
use super::series::summation as history;
use super::{App, Whole};

/// Every route here.
pub(super) fn routes() -> OpenApiRouter<Whole> {
    openapi::router()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(rounds))
        .routes(routes!(history::series))
}

/// Summation groups, the newest first.
#[utoipa::path(get, path = "/api/v1/summation/groups", tag = "summation",
    params(
        ("job" = Option<String>, Query, description = "Only of this job."),
        ("host" = Option<String>, Query, description = "Only those of which a member is on this host."),
        ("state" = Option<SummationGroupState>, Query, description = "Only in this state."),
        PageParams,
    ),
    responses(
        (status = 200, description = "A page of groups.", body = Page<SummationGroup>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(app: App, params: Params) -> Result<Json<Page<SummationGroup>>, ApiError> {
    let params = params.allow(&["job", "host", "state", "limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let filter = view::SummationFilter {
        job: params.owned("job"),
        host: params.owned("host"),
        state: params.word("state", &SummationGroupState::WORDS)?,
    };
    let list =
        app.read(move |model, diagnosis, now| view::summation_groups(model, diagnosis, now, &filter)).await?;
    Ok(Json(paging.page(list, |group| group.id.clone())))
}

/// One group: its services against their optimum, its workers and their stages, what goes between them, and for whom
/// rounds wait.
#[utoipa::path(get, path = "/api/v1/summation/groups/{id}", tag = "summation",
    params(("id" = String, Path, description = "Group id: twelve hexadecimal digits.")),
    responses(
        (status = 200, description = "The group.", body = SummationGroupDetail),
        (status = 404, description = "No such group.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn one(
    app: App,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<SummationGroupDetail>, ApiError> {
    params.allow(&[])?;
    let wanted = id.clone();
    let found =
        app.read(move |model, diagnosis, now| view::summation_group(model, diagnosis, now, &wanted)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("summation group", &id))
}

/// The newest results of a group: who made them, who came last, and whether all members have the same bytes.
#[utoipa::path(get, path = "/api/v1/summation/groups/{id}/rounds", tag = "summation",
    params(
        ("id" = String, Path, description = "Group id: twelve hexadecimal digits."),
        ("key" = Option<u32>, Query, description = "Only of this part."),
        ("limit" = Option<u32>, Query, description = "Results at most; 100 if not given.", minimum = 1, maximum = 4096),
    ),
    responses(
        (status = 200, description = "Results.", body = SummationRounds),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such group.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn rounds(
    app: App,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<SummationRounds>, ApiError> {
    let params = params.allow(&["key", "limit"])?;
    let key = params.number("key", 0..=u32::MAX)?;
    let limit = params.number("limit", LIMITS)?.unwrap_or(LIMIT_DEFAULT);
    let wanted = id.clone();
    let found = app
        .read(move |model, diagnosis, now| view::summation_rounds(model, diagnosis, now, &wanted, key, limit))
        .await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("summation group", &id))
}

/// As many as are remembered.
const LIMITS: RangeInclusive<usize> = 1..=MAX_GROUP_ROUNDS;
const LIMIT_DEFAULT: usize = 100;
