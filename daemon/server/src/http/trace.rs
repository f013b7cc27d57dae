//! `GET communicators/{id}/trace`: operations for Perfetto and chrome://tracing.

use axum::Json;
use axum::extract::Path;
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{Problem, Trace};
use ringscope_view as view;

use super::App;
use super::problem::ApiError;
use super::query::Params;

/// The operations of a communicator as a trace that Perfetto and chrome://tracing open.
///
/// Times are by the daemon's clock, so ranks of several hosts stand side by side. At the levels counters and events some operations
/// are told, the same ones by all ranks, at channels and steps all; the newest 16384 of each communicator are kept, and 64 of each rank.
#[utoipa::path(get, path = "/api/v1/communicators/{id}/trace", tag = "communicators",
    params(
        ("id" = String, Path, description = "Communicator id: twelve hexadecimal digits."),
        ("from" = Option<String>, Query, description = "First moment, RFC 3339 or milliseconds since 1970; all that is \
            kept if not given."),
        ("to" = Option<String>, Query, description = "Last moment; now if not given."),
        ("format" = Option<String>, Query, description = "chrome if not given: Perfetto reads it too."),
    ),
    responses(
        (status = 200, description = "The trace. What it lacks is said in otherData.", body = Trace),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such communicator.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn trace(app: App, Path(id): Path<String>, params: Params) -> Result<Json<Trace>, ApiError> {
    let params = params.allow(&["from", "to", "format"])?;
    params.word("format", &FORMATS)?;
    let from = params.time("from")?.unwrap_or(Timestamp(0));
    let to = params.time("to")?.unwrap_or_else(clock::now);
    if from > to {
        return Err(ApiError::bad_request("the parameter from must be before to"));
    }
    let wanted = id.clone();
    let found = app.read(move |model, _, now| view::trace(model, now, &wanted, from, to));
    found.await?.map(Json).ok_or_else(|| ApiError::unknown("communicator", &id))
}

pub(super) const FORMATS: [(&str, ()); 1] = [("chrome", ())];
