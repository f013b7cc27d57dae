//! `GET series`: history.

mod lines;

use axum::Json;
use axum::extract::State;

use self::lines::{By, Lines, Shape};
use super::App;
use super::problem::ApiError;
use super::query::{Params, wrong};
use crate::api::{Problem, Series};
use crate::clock::{self, Timestamp};
use crate::config::duration;
use crate::ingest::StoreState;
use crate::store::{Metric, SeriesQuery};
use ringscope_wire::Primitive;

/// Of what, and of which time, for the document.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "Asked reads them, with words for every mistake")]
pub(super) struct HistoryParams {
    /// Only this job.
    job: Option<String>,
    /// Only this communicator.
    comm: Option<String>,
    /// Only this host.
    host: Option<String>,
    /// Only this primitive.
    primitive: Option<String>,
    /// First moment, RFC 3339 or milliseconds since 1970; 15 minutes before `to` if not given.
    from: Option<String>,
    /// Last moment; now if not given.
    to: Option<String>,
    /// Time between points, e.g. `10s`; so that there are at most 300 if not given.
    step: Option<String>,
}

/// A counter over time, from the database.
#[utoipa::path(get, path = "/api/v1/series", tag = "history",
    params(
        ("metric" = String, Query, description = "The counter; backlog_bytes: issued and not completed."),
        HistoryParams,
        ("rate" = Option<bool>, Query, description = "Per second instead of cumulative. Not of backlog_bytes."),
        ("by" = Option<By>, Query, description = "What is not summed beside primitives; primitive if not given: \
            nothing."),
        ("by_host" = Option<bool>, Query, description = "The same as by=host."),
    ),
    responses(
        (status = 200, description = "One line a primitive, and host or communicator if asked for.", body = Series),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is away.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn series(State(app): State<App>, params: Params) -> Result<Json<Series>, ApiError> {
    let params = params.allow(&PARAMETERS)?;
    let metrics = Metric::ALL.map(|metric| (metric.label(), metric));
    let Some(metric) = params.word("metric", &metrics)? else {
        let allowed: Vec<&str> = metrics.iter().map(|(word, _)| *word).collect();
        return Err(ApiError::bad_request(format!(
            "the parameter metric is missing; allowed: {}",
            allowed.join(", ")
        )));
    };
    let rate = params.boolean("rate")?.unwrap_or(false);
    if rate && !metric.is_counter() {
        return Err(ApiError::bad_request("the parameter rate is \"true\"; allowed of backlog_bytes: false"));
    }
    Ok(Json(read(&app, &Asked::from_params(&params, metric, rate, clock::now())?).await?))
}

/// What the store has of it.
pub(super) async fn read(app: &App, asked: &Asked) -> Result<Series, ApiError> {
    let Asked { query, shape } = asked;
    let mut lines = Lines::new(*shape);
    let is_whole = match app.keeper.state() {
        StoreState::Open(store) => store
            .series(query, |point| lines.take(point, EVEN_GAP_MS + point.apart_ms))
            .await
            .map_err(|error| ApiError::unavailable("store-away", error.to_string()))?,
        StoreState::None => true,
        StoreState::Opening => {
            return Err(ApiError::unavailable("store-opening", "the database is being opened"));
        }
        StoreState::Away(reason) => return Err(ApiError::unavailable("store-away", reason)),
    };
    let lines = is_whole.then(|| lines.finish()).flatten().ok_or_else(|| {
        ApiError::bad_request(
            "that is more than one answer carries; give job, comm, host or primitive, a longer step or less time",
        )
    })?;
    let metric = query.metric;
    let unit = if shape.rate { format!("{}_per_second", metric.unit()) } else { metric.unit().to_owned() };
    let times = (query.from_ms..).step_by(usize::try_from(query.step_ms).unwrap_or(1));
    Ok(Series {
        metric: metric.label().to_owned(),
        unit,
        step_s: shape.step_s(),
        times_ms: times.take(shape.buckets).map(i64::unsigned_abs).collect(),
        lines,
    })
}

/// A checked request.
pub(super) struct Asked {
    query: SeriesQuery,
    shape: Shape,
}

impl Asked {
    /// Checks what says which samples and which times.
    pub(super) fn from_params(
        params: &Params,
        metric: Metric,
        rate: bool,
        now: Timestamp,
    ) -> Result<Self, ApiError> {
        let primitives = Primitive::ALL.map(|primitive| (primitive.label(), primitive));
        let primitive = params.word("primitive", &primitives)?;
        let to_ms = params.time("to")?.unwrap_or(now).unix_ms().cast_signed();
        let from_ms = params.time("from")?.map(|from| from.unix_ms().cast_signed());
        let from_ms = from_ms.unwrap_or(to_ms - RANGE_DEFAULT_MS);
        if from_ms >= to_ms || from_ms < SeriesQuery::LOOK_BACK_MS {
            return Err(ApiError::bad_request("the parameter from must be before to, and after 1970"));
        }
        let range_ms = to_ms - from_ms;
        let step_ms = match params.text("step") {
            Some(text) => step(text, range_ms)?,
            // On whole seconds.
            None => ((range_ms / POINTS_DEFAULT).max(STEP_DEFAULT_MIN_MS) + 999) / 1000 * 1000,
        };
        // On multiples of the step, so that two requests with overlapping times agree.
        let from_ms = from_ms - from_ms % step_ms;
        // Nothing is known of the future; and a rate of a time that is not over looks like a fall.
        let known_ms = now.unix_ms().cast_signed() - if rate { SETTLED_MS } else { 0 };
        let end_ms = to_ms.min(known_ms).max(from_ms);
        let buckets = if rate {
            ((end_ms - from_ms) / step_ms).max(1)
        } else {
            (end_ms - from_ms + step_ms - 1) / step_ms
        };
        let by = match params.boolean("by_host")? {
            Some(true) => By::Host,
            _ => params
                .word("by", &[("primitive", By::Primitive), ("host", By::Host), ("comm", By::Comm)])?
                .unwrap_or(By::Primitive),
        };
        let query = SeriesQuery {
            metric,
            job: params.owned("job"),
            comm: params.owned("comm"),
            host: params.owned("host"),
            primitive: primitive.map(|primitive| primitive.label().to_owned()),
            from_ms,
            to_ms: end_ms,
            step_ms,
        };
        let buckets = usize::try_from(buckets).unwrap_or(0);
        Ok(Self { query, shape: Shape { from_ms, buckets, step_ms, rate, by } })
    }
}

fn step(text: &str, range_ms: i64) -> Result<i64, ApiError> {
    let least_ms = (range_ms / POINTS_MAX).max(STEP_MIN_MS);
    let step = duration(text).or_else(|_| duration(&format!("{text}s")));
    let step_ms = step.ok().and_then(|step| i64::try_from(step.as_millis()).ok());
    step_ms
        .filter(|step_ms| (least_ms..=STEP_MAX_MS).contains(step_ms))
        .ok_or_else(|| wrong("step", text, &format!("allowed for this time: {least_ms}ms to 7d, e.g. 10s")))
}

const PARAMETERS: [&str; 11] =
    ["metric", "job", "comm", "host", "primitive", "from", "to", "step", "rate", "by", "by_host"];
/// What [`step`] reads.
pub(super) const STEP_PATTERN: &str = "^[0-9]+(ms|s|m|h|d)?$";
/// Samples further apart than this were an idle time, not a slow sampler.
const EVEN_GAP_MS: i64 = 15_000;
/// So long it takes until what happened is in the store: the interval of samples and that of writing.
const SETTLED_MS: i64 = 2_000;
/// What a person looks at first.
const RANGE_DEFAULT_MS: i64 = 15 * 60 * 1000;
/// Points that a chart on a screen shows.
const POINTS_DEFAULT: i64 = 300;
/// Most points of a line.
const POINTS_MAX: i64 = 5000;
/// Two samples, so that a rate does not jump with the moment of the sample.
const STEP_DEFAULT_MIN_MS: i64 = 2000;
/// History is no finer.
const STEP_MIN_MS: i64 = 1000;
const STEP_MAX_MS: i64 = 7 * 86_400_000;
