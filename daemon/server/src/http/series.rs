//! `GET series`: history.

mod lines;
pub(super) mod pace;
pub(super) mod summation;

use axum::Json;

pub(super) use self::lines::By;
use ringscope_access::Tenant;
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{Problem, Series, SeriesLine};
use ringscope_store::{Metric, Reading, SeriesQuery, Store, StoreError};
use ringscope_wire::Primitive;

use self::lines::{Apart, How, LineKey, Lines, Shape};
use super::App;
use super::problem::ApiError;
use super::query::{Params, wrong};
use crate::ingest::StoreState;
use ringscope_api::words::parse_duration;

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
pub(super) async fn series(app: App, params: Params) -> Result<Json<Series>, ApiError> {
    let params = params.allow(&PARAMETERS)?;
    let (metric, rate) = metric(&params, Metric::OF_COMMUNICATORS)?;
    Ok(Json(read(&app, &Asked::from_params(&params, metric, rate, clock::now())?).await?))
}

/// The metric asked for, one of `all`, and whether its growth per second is.
pub(super) fn metric<const N: usize>(params: &Params, all: [Metric; N]) -> Result<(Metric, bool), ApiError> {
    let metrics = all.map(|metric| (metric.label(), metric));
    let Some(metric) = params.word("metric", &metrics)? else {
        let allowed = metrics.map(|(word, _)| word).join(", ");
        return Err(ApiError::bad_request(format!("the parameter metric is missing; allowed: {allowed}")));
    };
    let rate = params.boolean("rate")?.unwrap_or(false);
    if rate && !metric.is_counter() {
        let word = metric.label();
        return Err(ApiError::bad_request(format!(
            "the parameter rate is \"true\"; allowed of {word}: false"
        )));
    }
    Ok((metric, rate))
}

/// What the store has of it, of communicators.
pub(super) async fn read(app: &App, asked: &Asked) -> Result<Series, ApiError> {
    let line = |(key, values): (LineKey, Vec<Option<f64>>)| SeriesLine {
        primitive: key.kind.unwrap_or_default(),
        host: key.host,
        comm: key.id,
        values,
    };
    Ok(Series {
        metric: asked.query.metric.label().to_owned(),
        unit: asked.unit(),
        step_s: asked.shape.step_s(),
        times_ms: asked.times_ms(),
        lines: lines(app, asked).await?.into_iter().map(line).collect(),
    })
}

async fn lines(app: &App, asked: &Asked) -> Result<Vec<(LineKey, Vec<Option<f64>>)>, ApiError> {
    let Asked { query, shape } = asked;
    let query = &SeriesQuery { of_jobs: app.tenant().map(Tenant::prefix), ..query.clone() };
    let mut lines = Lines::new(*shape);
    let is_whole = match store(app)? {
        Some(store) => store
            .series(query, |point| lines.take(point, EVEN_GAP_MS + point.apart_ms))
            .await
            .map_err(|error| away(&error))?,
        None => true,
    };
    is_whole.then(|| lines.finish()).flatten().ok_or_else(too_much)
}

/// The database, if it answers. `None`: there is none.
pub(super) fn store(app: &App) -> Result<Option<Store>, ApiError> {
    match app.keeper.state() {
        StoreState::Open(store) => Ok(Some(store)),
        StoreState::None => Ok(None),
        StoreState::Opening => Err(ApiError::unavailable("store-opening", "the database is being opened")),
        StoreState::Away(away) => Err(ApiError::unavailable("store-away", away.reason)),
    }
}

/// Says of a store that it did not answer.
pub(super) fn away(error: &StoreError) -> ApiError {
    match error {
        StoreError::Moving { .. } => ApiError::unavailable("history-moving", error.to_string()),
        error => ApiError::unavailable("store-away", error.to_string()),
    }
}

fn too_much() -> ApiError {
    ApiError::bad_request(
        "that is more than one answer carries; give job, comm, host or primitive, a longer step or less time",
    )
}

/// A checked request.
pub(super) struct Asked {
    query: SeriesQuery,
    shape: Shape,
}

impl Asked {
    fn unit(&self) -> String {
        let unit = self.query.metric.unit();
        if self.shape.how == How::Rate { format!("{unit}_per_second") } else { unit.to_owned() }
    }

    fn times_ms(&self) -> Vec<u64> {
        let times = (self.query.from_ms..).step_by(usize::try_from(self.query.step_ms).unwrap_or(1));
        times.take(self.shape.buckets).map(i64::unsigned_abs).collect()
    }

    /// Checks what says which samples and which times.
    pub(super) fn from_params(
        params: &Params,
        metric: Metric,
        rate: bool,
        now: Timestamp,
    ) -> Result<Self, ApiError> {
        let primitives = Primitive::ALL.map(|primitive| (primitive.label(), primitive));
        let primitive = params.word("primitive", &primitives)?;
        let by = match params.boolean("by_host")? {
            Some(true) => By::Host,
            _ => params
                .word("by", &[("primitive", By::Primitive), ("host", By::Host), ("comm", By::Comm)])?
                .unwrap_or(By::Primitive),
        };
        let mut asked = Self::of_all(params, metric, rate, now)?;
        asked.shape.apart = by.apart();
        asked.query = SeriesQuery {
            job: params.owned("job"),
            id: params.owned("comm"),
            host: params.owned("host"),
            kind: primitive.map(|primitive| primitive.label().to_owned()),
            ..asked.query
        };
        Ok(asked)
    }

    /// Growth per second around a moment, in one step: all primitives together, a line for each communicator and host.
    pub(super) fn rate_around(metric: Metric, job: Option<String>, at: Timestamp, now: Timestamp) -> Self {
        let (now_ms, at_ms) = (now.unix_ms().cast_signed(), at.unix_ms().cast_signed());
        // Of what is long ago only the last value of each minute may be kept.
        let is_old = now_ms - at_ms > OLD_MS;
        let (around_ms, gap_ms) =
            if is_old { (2 * MINUTE_MS, MINUTE_MS + EVEN_GAP_MS) } else { (AROUND_MS, EVEN_GAP_MS) };
        let to_ms = (at_ms + around_ms / 2).min(now_ms - SETTLED_MS);
        let from_ms = (to_ms - around_ms).max(SeriesQuery::LOOK_BACK_MS);
        let query = SeriesQuery {
            of_jobs: None,
            metric,
            job,
            id: None,
            host: None,
            kind: None,
            from_ms,
            // The sample that ends its last growth may come later.
            to_ms: from_ms + around_ms + gap_ms,
            step_ms: around_ms,
        };
        let apart = Apart { kind: false, host: true, id: true };
        let shape = Shape { from_ms, buckets: 1, step_ms: around_ms, how: How::Rate, apart };
        Self { query, shape }
    }

    /// Checks what says which times; of every series, all in one line.
    fn of_all(params: &Params, metric: Metric, rate: bool, now: Timestamp) -> Result<Self, ApiError> {
        let Times { from_ms, to_ms, step_ms, buckets } = Times::from_params(params, rate, now)?;
        let (job, id, host, kind) = (None, None, None, None);
        let query = SeriesQuery { of_jobs: None, metric, job, id, host, kind, from_ms, to_ms, step_ms };
        let how = match metric.reading() {
            _ if rate => How::Rate,
            Reading::Worst => How::Worst,
            Reading::Counter | Reading::Value => How::Value,
        };
        let apart = Apart { kind: false, host: false, id: false };
        Ok(Self { query, shape: Shape { from_ms, buckets, step_ms, how, apart } })
    }
}

/// Which times are asked for: from, to, and steps of so long, so many.
struct Times {
    from_ms: i64,
    to_ms: i64,
    step_ms: i64,
    buckets: usize,
}

impl Times {
    /// `rate`: each step tells of what happened in it.
    fn from_params(params: &Params, rate: bool, now: Timestamp) -> Result<Self, ApiError> {
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
        let to_ms = to_ms.min(known_ms).max(from_ms);
        let buckets = if rate {
            ((to_ms - from_ms) / step_ms).max(1)
        } else {
            (to_ms - from_ms + step_ms - 1) / step_ms
        };
        Ok(Self { from_ms, to_ms, step_ms, buckets: usize::try_from(buckets).unwrap_or(0) })
    }
}

fn step(text: &str, range_ms: i64) -> Result<i64, ApiError> {
    let least_ms = (range_ms / POINTS_MAX).max(STEP_MIN_MS);
    let step = parse_duration(text).or_else(|_| parse_duration(&format!("{text}s")));
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
/// So much time a rate of one moment is taken over: some samples.
const AROUND_MS: i64 = 20_000;
/// After so long samples may have left their minutes, whatever the retention is.
const OLD_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;
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
