//! `GET jobs/{job}/timeline`: operations of all ranks side by side.

use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{Problem, Timeline};
use ringscope_view as view;

use super::App;
use super::problem::ApiError;
use super::query::Params;

/// The operations of a job over time, all ranks side by side.
///
/// Times are by the daemon's clock: how the clocks of hosts differ is found from the collectives themselves and taken out. At the
/// level counters some operations of each communicator are told, the same ones by all ranks; at higher levels all.
#[utoipa::path(get, path = "/api/v1/jobs/{job}/timeline", tag = "jobs",
    params(
        ("job" = String, Path, description = "Job id."),
        ("from" = Option<String>, Query, description = "First moment, RFC 3339 or milliseconds since 1970; a minute before \
            the last if not given."),
        ("to" = Option<String>, Query, description = "Last moment; now if not given."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 200_000, description = "Operations at most; 20000 if not given. Where \
            there are more, those of rounder numbers are shown, the same ones of all ranks; of the roundest some ranks, if need be."),
    ),
    responses(
        (status = 200, description = "The timeline. What it lacks is said in lacks.", body = Timeline),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such job.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn timeline(
    app: App,
    Path(job): Path<String>,
    params: Params,
) -> Result<Json<Timeline>, ApiError> {
    let params = params.allow(&["from", "to", "limit"])?;
    let to = params.time("to")?.unwrap_or_else(clock::now);
    let before = to.0.saturating_sub(u64::try_from(SHOWN.as_nanos()).unwrap_or(u64::MAX));
    let from = params.time("from")?.unwrap_or(Timestamp(before));
    if from > to {
        return Err(ApiError::bad_request("the parameter from must be before to"));
    }
    let limit = params.number("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT);
    let wanted = job.clone();
    let found = app.read(move |model, _, _| view::timeline(model, &wanted, from, to, limit)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("job", &job))
}

/// What is shown if nobody says from when.
const SHOWN: Duration = Duration::from_secs(60);
/// A hundred bytes each, before they are packed.
const LIMIT_MAX: usize = 200_000;
const LIMIT: usize = 20_000;
