//! `GET nodes`: hosts.

use axum::Json;
use axum::extract::{Path, State};

use super::App;
use super::page::Paging;
use super::problem::ApiError;
use super::query::Params;
use crate::api::{HostDetail, HostSummary, Page, Problem};
use crate::view;

/// Every host, by name.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes",
    params(
        ("limit" = Option<u32>, Query, description = "Items of a page, 1 to 1000; 100 if not given."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of hosts.", body = Page<HostSummary>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(
    State(app): State<App>,
    params: Params,
) -> Result<Json<Page<HostSummary>>, ApiError> {
    let params = params.allow(&["limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let hosts = app.read(view::hosts).await?;
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
    State(app): State<App>,
    Path(host): Path<String>,
    params: Params,
) -> Result<Json<HostDetail>, ApiError> {
    params.allow(&[])?;
    let wanted = host.clone();
    let found = app.read(move |model, diagnosis, now| view::host(model, diagnosis, now, &wanted)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("node", &host))
}
