//! `GET jobs/{job}/pace/series`: how fast a job went over time; and how fast all jobs went at a moment.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use ringscope_access::Tenant;
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{PaceSeries, PastPace, Problem};
use ringscope_store::{PaceQuery, PaceRow};

use super::{MINUTE_MS, OLD_MS, Times, away, store, too_much};
use crate::http::App;
use crate::http::problem::ApiError;
use crate::http::query::Params;
use crate::past::Means;

/// How fast a job went over time, from the database: how long its steps took, and where that time went.
///
/// From a sample each ten seconds, of totals: each step of time has the mean of all of it, however long it is. Null where nothing was
/// recorded: the daemon did not run, the job had fewer than five steps, or its agents did not tell.
#[utoipa::path(get, path = "/api/v1/jobs/{job}/pace/series", tag = "history",
    params(
        ("job" = String, Path, description = "Job id."),
        ("from" = Option<String>, Query, description = "First moment, RFC 3339 or milliseconds since 1970; 15 minutes before `to` if \
            not given."),
        ("to" = Option<String>, Query, description = "Last moment; now if not given."),
        ("step" = Option<String>, Query, description = "Time between points, e.g. `10s`; so that there are at most 300 if not given."),
    ),
    responses(
        (status = 200, description = "Its pace.", body = PaceSeries),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is away.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(in crate::http) async fn series(
    app: App,
    Path(job): Path<String>,
    params: Params,
) -> Result<Json<PaceSeries>, ApiError> {
    let params = params.allow(&["from", "to", "step"])?;
    let Times { from_ms, to_ms, step_ms, buckets } = Times::from_params(&params, true, clock::now())?;
    let mut means = Means::new(from_ms, step_ms, buckets);
    let query = PaceQuery { of_jobs: None, job: Some(job.clone()), from_ms, to_ms, step_ms };
    read(&app, query, |row| means.take(row)).await?;
    Ok(Json(means.finish(&job)))
}

/// How fast jobs went around a moment: all, or one.
pub(in crate::http) async fn around(
    app: &App,
    job: Option<&str>,
    at: Timestamp,
    now: Timestamp,
) -> Result<Vec<PastPace>, ApiError> {
    let (now_ms, at_ms) = (now.unix_ms().cast_signed(), at.unix_ms().cast_signed());
    let around_ms = if now_ms - at_ms > OLD_MS { 2 * MINUTE_MS } else { MINUTE_MS };
    let from_ms = at_ms - around_ms / 2;
    let query = PaceQuery {
        of_jobs: None,
        job: job.map(str::to_owned),
        from_ms,
        // The sample that ends its last step may come later.
        to_ms: from_ms + around_ms + MINUTE_MS,
        step_ms: MINUTE_MS,
    };
    let mut jobs: BTreeMap<String, Means> = BTreeMap::new();
    read(app, query, |row| {
        let means = jobs.entry(row.job.clone()).or_insert_with(|| Means::new(from_ms, around_ms, 1));
        means.take(row);
    })
    .await?;
    Ok(jobs.iter().filter_map(|(job, means)| means.mean(job)).collect())
}

async fn read(app: &App, query: PaceQuery, take: impl FnMut(PaceRow)) -> Result<(), ApiError> {
    let query = PaceQuery { of_jobs: app.tenant().map(Tenant::prefix), ..query };
    let is_whole = match store(app)? {
        Some(store) => store.paces(&query, take).await.map_err(|error| away(&error))?,
        None => true,
    };
    is_whole.then_some(()).ok_or_else(too_much)
}
