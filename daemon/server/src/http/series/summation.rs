//! `GET summation/groups/{id}/series`: the history of a group.

use axum::Json;
use axum::extract::Path;
use ringscope_api::clock;
use ringscope_api::{Problem, SummationSeries, SummationSeriesLine};
use ringscope_model::summation::GroupId;
use ringscope_store::Metric;

use super::lines::{Apart, LineKey};
use super::{Asked, lines, metric};
use crate::http::App;
use crate::http::problem::ApiError;
use crate::http::query::Params;

/// A figure of a summation group over time, from the database; also of a group that the daemon has forgotten.
#[utoipa::path(get, path = "/api/v1/summation/groups/{id}/series", tag = "summation",
    params(
        ("id" = String, Path, description = "Group id: twelve hexadecimal digits."),
        ("metric" = String, Query, description = "The figure. Counters: pushed_bytes, pulled_bytes, summed_bytes, \
            finished_rounds. As it was: share_ppm, optimal_share_ppm. spread_ns: the worst in each step, over the \
            rounds that were told, of the time from the first to the last contribution."),
        ("rate" = Option<bool>, Query, description = "Per second instead of cumulative. Of counters only."),
        ("by_service" = Option<bool>, Query, description = "A line for each service; summed over them (of spread_ns the \
            worst) if not given."),
        ("from" = Option<String>, Query, description = "First moment; 15 minutes before `to` if not given."),
        ("to" = Option<String>, Query, description = "Last moment; now if not given."),
        ("step" = Option<String>, Query, description = "Time between points, e.g. `10s`; so that there are at most 300 \
            if not given."),
    ),
    responses(
        (status = 200, description = "One line, or one a service. None: nothing is recorded.", body = SummationSeries),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Not the id of a group.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is away.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(in crate::http) async fn series(
    app: App,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<SummationSeries>, ApiError> {
    let params = params.allow(&PARAMETERS)?;
    let group: GroupId = id.parse().map_err(|_| ApiError::unknown("summation group", &id))?;
    let (metric, rate) = metric(&params, Metric::OF_SUMMATIONS)?;
    let by_service = params.boolean("by_service")?.unwrap_or(false);
    let mut asked = Asked::of_all(&params, metric, rate, clock::now())?;
    asked.query.id = Some(group.to_string());
    asked.shape.apart = Apart { kind: by_service, host: by_service, id: false };
    let mut lines: Vec<SummationSeriesLine> = lines(&app, &asked).await?.into_iter().map(line).collect();
    lines.sort_by_key(|line| line.service);
    Ok(Json(SummationSeries {
        metric: metric.label().to_owned(),
        unit: asked.unit(),
        step_s: asked.shape.step_s(),
        times_ms: asked.times_ms(),
        lines,
    }))
}

fn line((key, values): (LineKey, Vec<Option<f64>>)) -> SummationSeriesLine {
    SummationSeriesLine { service: key.kind.and_then(|kind| kind.parse().ok()), host: key.host, values }
}

const PARAMETERS: [&str; 6] = ["metric", "rate", "by_service", "from", "to", "step"];
