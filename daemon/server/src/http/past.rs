//! `GET past`: how everything stood at a moment, and the rings of communicators that are no longer in memory.

use axum::Json;
use ringscope_access::Tenant;
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{Past, Problem, Rings};
use ringscope_store::{Metric, PastQuery, Store};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::ApiError;
use super::query::Params;
use super::series::{self, Asked};
use super::{App, Whole};
use crate::past as told;

/// The routes of what was.
pub(super) fn routes() -> OpenApiRouter<Whole> {
    OpenApiRouter::new()
        .routes(routes!(series::series))
        .routes(routes!(series::pace::series))
        .routes(routes!(past))
}

/// How everything stood at a moment of the past: hosts, findings, incidents, the communicators in use, and the pace of jobs.
///
/// From what the database keeps: where processes ran, what was found from when to when, which communicators lived, and counters over
/// time. Of what nobody recorded it says that it is unknown, never that it was well.
#[utoipa::path(get, path = "/api/v1/past", tag = "history",
    params(
        ("at" = String, Query, description = "The moment: RFC 3339, or milliseconds since 1970."),
        ("job" = Option<String>, Query, description = "Only of this job and its hosts."),
    ),
    responses(
        (status = 200, description = "How everything stood.", body = Past),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is away, or there is none.", body = Problem,
            content_type = "application/problem+json"),
    ))]
async fn past(app: App, params: Params) -> Result<Json<Past>, ApiError> {
    let params = params.allow(&["at", "job"])?;
    let at = params.time("at")?.ok_or_else(|| {
        ApiError::bad_request("the parameter at is missing; give a moment, e.g. 2026-01-31T12:00:00Z")
    })?;
    let now = clock::now();
    if at > now {
        return Err(ApiError::bad_request(format!(
            "the parameter at is {at}, which is to come; it is {now} now"
        )));
    }
    let query = PastQuery { at, job: params.owned("job"), of_names: app.tenant().map(Tenant::prefix) };
    let kept = store(&app)?.past(&query).await.map_err(|error| series::away(&error))?;
    let told::Rates { by_host, by_comm, .. } = rates(&app, &query, now).await?;
    let paces = series::pace::around(&app, query.job.as_deref(), at, now).await?;
    Ok(Json(told::past((at, now), query.job.as_deref(), kept, told::Rates { by_host, by_comm, paces })))
}

/// The rings of a communicator that the daemon no longer knows. `None`: the database has none of it, or there is no database.
pub(super) async fn kept_rings(app: &App, id: &str) -> Result<Option<Rings>, ApiError> {
    let Ok(store) = store(app) else { return Ok(None) };
    let of_names = app.tenant().map(Tenant::prefix);
    let hops = store.kept_hops(id, of_names.as_deref()).await.map_err(|error| series::away(&error))?;
    Ok((!hops.is_empty()).then(|| told::rings(id, &hops)))
}

/// The database, where there is one and it answers.
fn store(app: &App) -> Result<Store, ApiError> {
    series::store(app)?.ok_or_else(|| {
        ApiError::unavailable(
            "no-database",
            "this daemon keeps nothing of the past, for it was started without a database; give it one with --database-url",
        )
    })
}

/// Completed bytes per second around the moment, of what has some.
async fn rates(app: &App, query: &PastQuery, now: Timestamp) -> Result<told::Rates, ApiError> {
    let asked = Asked::rate_around(Metric::CompletedBytes, query.job.clone(), query.at, now);
    let mut rates = told::Rates::default();
    for line in series::read(app, &asked).await?.lines {
        let Some(Some(rate)) = line.values.first().copied() else { continue };
        for (name, rates) in [(line.host, &mut rates.by_host), (line.comm, &mut rates.by_comm)] {
            if let Some(name) = name {
                *rates.entry(name).or_default() += rate;
            }
        }
    }
    Ok(rates)
}
