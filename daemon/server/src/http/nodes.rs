//! `GET nodes`: hosts.

use axum::Json;
use axum::extract::Path;
use ringscope_api::{Connection, HostChannels, HostDetail, HostSummary, Page, Problem};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;
use ringscope_view as view;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::page::{PageParams, Paging};
use super::problem::ApiError;
use super::query::Params;
use super::{App, Whole};

/// The routes of this room.
pub(super) fn routes() -> OpenApiRouter<Whole> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(channels))
        .routes(routes!(connections))
}

/// Every host, by name.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes",
    params(
        ("job" = Option<String>, Query, description = "Only those on which this job has, or had, a process. They stand as \
            it does there, without what is found about other jobs."),
        ("degraded" = Option<bool>, Query, description = "Only those with, or without, a firing finding of severity \
            warning or above."),
        ("q" = Option<String>, Query, description = "Only those with this in their name, whatever the case.", max_length = 200),
        PageParams,
    ),
    responses(
        (status = 200, description = "A page of hosts.", body = Page<HostSummary>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(app: App, params: Params) -> Result<Json<Page<HostSummary>>, ApiError> {
    let params = params.allow(&["job", "degraded", "q", "limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let filter = view::HostFilter {
        job: params.owned("job"),
        degraded: params.boolean("degraded")?,
        part: params.part("q")?,
    };
    let list = move |model: &Model, diagnosis: &Diagnosis, now| match &filter.job {
        Some(job) => view::hosts_of_job(model, diagnosis, now, job, filter.keeps(model)),
        None => view::hosts(model, diagnosis, now, filter.keeps(model)),
    };
    let hosts = app.read(list).await?;
    Ok(Json(paging.page(hosts, |host| host.host.clone())))
}

/// One host with its ranks and its findings.
#[utoipa::path(get, path = "/api/v1/nodes/{host}", tag = "nodes",
    params(("host" = String, Path, description = "Name of the host.")),
    responses(
        (status = 200, description = "The host.", body = HostDetail),
        (status = 404, description = "No such host.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn one(
    app: App,
    Path(host): Path<String>,
    params: Params,
) -> Result<Json<HostDetail>, ApiError> {
    params.allow(&[])?;
    let wanted = host.clone();
    let found = app.read(move |model, diagnosis, now| view::host(model, diagnosis, now, &wanted)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("node", &host))
}

/// What a host found in each of its communicators, those that have ended among them, the newest first.
#[utoipa::path(get, path = "/api/v1/nodes/{host}/channels", tag = "nodes",
    params(("host" = String, Path, description = "Name of the host."), PageParams),
    responses(
        (status = 200, description = "A page of communicators.", body = Page<HostChannels>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such host.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn channels(
    app: App,
    Path(host): Path<String>,
    params: Params,
) -> Result<Json<Page<HostChannels>>, ApiError> {
    let params = params.allow(&["limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let wanted = host.clone();
    let found = app.read(move |model, diagnosis, _| view::host_channels(model, diagnosis, &wanted)).await?;
    let channels = found.ok_or_else(|| ApiError::unknown("node", &host))?;
    Ok(Json(paging.page(channels, |one| one.comm.clone())))
}

/// The RDMA connections of a host's processes that live, those that failed first: both ends, queue pairs and what went over them.
#[utoipa::path(get, path = "/api/v1/nodes/{host}/connections", tag = "nodes",
    params(("host" = String, Path, description = "Name of the host."), PageParams),
    responses(
        (status = 200, description = "A page of connections.", body = Page<Connection>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such host.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn connections(
    app: App,
    Path(host): Path<String>,
    params: Params,
) -> Result<Json<Page<Connection>>, ApiError> {
    let params = params.allow(&["limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let wanted = host.clone();
    let found = app.read(move |model, _, _| view::connections(model, &wanted)).await?;
    let connections = found.ok_or_else(|| ApiError::unknown("node", &host))?;
    Ok(Json(paging.page(connections, |one| one.id.clone())))
}
