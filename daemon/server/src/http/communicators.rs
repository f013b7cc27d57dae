//! `GET communicators` and what hangs below one.

use axum::Json;
use axum::extract::Path;
use ringscope_api::{
    Bandwidths, CommunicatorDetail, CommunicatorState, CommunicatorSummary, Operation, OperationState, Page,
    Primitives, Problem, Rings,
};
use ringscope_view as view;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::page::{PageParams, Paging};
use super::past;
use super::problem::ApiError;
use super::query::Params;
use super::{App, Whole};

/// The routes of this room.
pub(super) fn routes() -> OpenApiRouter<Whole> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(rings))
        .routes(routes!(primitives))
        .routes(routes!(bandwidth))
        .routes(routes!(operations))
}

/// Communicators, the newest first.
#[utoipa::path(get, path = "/api/v1/communicators", tag = "communicators",
    params(
        ("job" = Option<String>, Query, description = "Only of this job."),
        ("host" = Option<String>, Query, description = "Only those with a rank on this host."),
        ("degraded" = Option<bool>, Query, description = "Only those with, or without, a firing finding of severity \
            warning or above."),
        ("state" = Option<CommunicatorState>, Query, description = "Only in this state."),
        ("q" = Option<String>, Query, description = "Only those with this in their id, hash, name or job, whatever the case.", max_length = 200),
        PageParams,
    ),
    responses(
        (status = 200, description = "A page of communicators.", body = Page<CommunicatorSummary>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn list(app: App, params: Params) -> Result<Json<Page<CommunicatorSummary>>, ApiError> {
    let params = params.allow(&["job", "host", "degraded", "state", "q", "limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let filter = view::CommunicatorFilter {
        job: params.owned("job"),
        host: params.owned("host"),
        degraded: params.boolean("degraded")?,
        state: params.word("state", &STATES)?,
        part: params.part("q")?,
    };
    let list =
        app.read(move |model, diagnosis, now| view::communicators(model, diagnosis, now, &filter)).await?;
    Ok(Json(paging.page(list, |summary| summary.id.clone())))
}

/// One communicator with its ranks: host, GPU, init and final channels, cause, operation.
#[utoipa::path(get, path = "/api/v1/communicators/{id}", tag = "communicators",
    params(("id" = String, Path, description = "Communicator id: twelve hexadecimal digits.")),
    responses(
        (status = 200, description = "The communicator.", body = CommunicatorDetail),
        (status = 404, description = "No such communicator.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn one(app: App, Path(id): Path<String>, params: Params) -> Result<Json<CommunicatorDetail>, ApiError> {
    params.allow(&[])?;
    let wanted = id.clone();
    let found =
        app.read(move |model, diagnosis, now| view::communicator(model, diagnosis, now, &wanted)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("communicator", &id))
}

/// The ring of each channel: its order, or which fragments are missing.
///
/// Of a communicator that ended longer ago than the daemon remembers, what the database keeps of it.
#[utoipa::path(get, path = "/api/v1/communicators/{id}/rings", tag = "communicators",
    params(("id" = String, Path, description = "Communicator id: twelve hexadecimal digits.")),
    responses(
        (status = 200, description = "One ring a channel.", body = Rings),
        (status = 404, description = "No such communicator.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn rings(app: App, Path(id): Path<String>, params: Params) -> Result<Json<Rings>, ApiError> {
    params.allow(&[])?;
    let wanted = id.clone();
    let found = app.read(move |model, diagnosis, now| view::rings(model, diagnosis, now, &wanted)).await?;
    let found = match found {
        None => past::kept_rings(&app, &id).await?,
        found => found,
    };
    found.map(Json).ok_or_else(|| ApiError::unknown("communicator", &id))
}

/// Issued and completed calls and bytes, per primitive, summed and per rank.
#[utoipa::path(get, path = "/api/v1/communicators/{id}/primitives", tag = "communicators",
    params(("id" = String, Path, description = "Communicator id: twelve hexadecimal digits.")),
    responses(
        (status = 200, description = "Its counters.", body = Primitives),
        (status = 404, description = "No such communicator.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn primitives(app: App, Path(id): Path<String>, params: Params) -> Result<Json<Primitives>, ApiError> {
    params.allow(&[])?;
    let wanted = id.clone();
    let found =
        app.read(move |model, diagnosis, now| view::primitives(model, diagnosis, now, &wanted)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("communicator", &id))
}

/// What operations of each size reach, by primitive, beside the best of communicators of as many ranks on as many hosts.
///
/// An operation is timed once all ranks have told of it: from when the last of them called it, or where that is told began it, until the
/// last had completed it. At the level counters one or two a second of each communicator are told, at higher levels all. Kept in memory
/// alone: a restart of the daemon begins anew.
#[utoipa::path(get, path = "/api/v1/communicators/{id}/bandwidth", tag = "communicators",
    params(("id" = String, Path, description = "Communicator id: twelve hexadecimal digits.")),
    responses(
        (status = 200, description = "Bandwidth by size. What is not known is said in lacks.", body = Bandwidths),
        (status = 404, description = "No such communicator.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn bandwidth(app: App, Path(id): Path<String>, params: Params) -> Result<Json<Bandwidths>, ApiError> {
    params.allow(&[])?;
    let wanted = id.clone();
    let found = app.read(move |model, _, _| view::bandwidths(model, &wanted)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("communicator", &id))
}

/// Single calls, the oldest first: those in flight, queued or failed, and the newest completed one of each rank.
#[utoipa::path(get, path = "/api/v1/communicators/{id}/operations", tag = "communicators",
    params(
        ("id" = String, Path, description = "Communicator id: twelve hexadecimal digits."),
        ("state" = Option<OperationState>, Query, description = "Only in this state."),
        PageParams,
    ),
    responses(
        (status = 200, description = "A page of operations.", body = Page<Operation>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such communicator.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn operations(
    app: App,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Page<Operation>>, ApiError> {
    let params = params.allow(&["state", "limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let state = params.word("state", &OPERATION_STATES)?;
    let wanted = id.clone();
    let found = app
        .read(move |model, diagnosis, now| view::operations(model, diagnosis, now, &wanted, state))
        .await?;
    let operations = found.ok_or_else(|| ApiError::unknown("communicator", &id))?;
    let key = |operation: &Operation| {
        format!("{}/{}/{}", operation.rank, operation.primitive, operation.seq_number)
    };
    Ok(Json(paging.page(operations, key)))
}

const STATES: [(&str, CommunicatorState); 4] = [
    ("forming", CommunicatorState::Forming),
    ("active", CommunicatorState::Active),
    ("broken", CommunicatorState::Broken),
    ("ended", CommunicatorState::Ended),
];
const OPERATION_STATES: [(&str, OperationState); 6] = [
    ("issued", OperationState::Issued),
    ("in_flight", OperationState::InFlight),
    ("queued", OperationState::Queued),
    ("completed", OperationState::Completed),
    ("failed", OperationState::Failed),
    ("captured", OperationState::Captured),
];
