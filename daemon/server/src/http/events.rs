//! `GET events`: what changed, as it changes.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use ringscope_access::Who;
use ringscope_api::{Changed, Problem};
use tokio::sync::broadcast::error::RecvError;

use super::App;
use super::caller::Caller;
use super::problem::ApiError;
use super::query::Params;
use super::shares::Parties;

/// Server-sent events `changed`, at most one per 500 ms; a comment every 10 s keeps the connection open.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    responses(
        (status = 200, description = "A stream of `event: changed`, each with a `Changed` as its data.",
        body = Changed, content_type = "text/event-stream"),
        (status = 429, description = "Who asks, or their tenant, has all the streams that one may have.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn events(
    app: App,
    Extension(caller): Extension<Caller>,
    Extension(parties): Extension<Parties>,
    who: Option<Extension<Who>>,
    headers: HeaderMap,
    params: Params,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    params.allow(&[])?;
    let permit = app.guard.stream(&parties)?;
    let mut changes = app.hub.subscribe();
    let stream = async_stream::stream! {
        let _permit = permit;
        let asked = who.map(|Extension(who)| (who.role, who.tenant));
        loop {
            let change = tokio::select! {
                () = app.stop.cancelled() => return,
                change = changes.recv() => change,
            };
            // A token that was revoked meanwhile opens nothing any more.
            let now = caller.identify(&app.gate, &headers).await.ok().map(|who| (who.role, who.tenant));
            if now != asked {
                return;
            }
            match change {
                Ok(change) => {
                    if let Ok(event) = Event::default().event("changed").json_data(&change) {
                        yield Ok(event);
                    }
                }
                // The next one says "look again" just as well.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    };
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)))
}

/// Shorter than proxies cut silent connections after.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
