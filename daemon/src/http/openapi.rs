//! The OpenAPI document.

use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::App;
use crate::api;

/// An empty router whose document has the introduction.
pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "ringscope",
        description = "What a collective communication library hides: rings and channels, bytes, and which node holds \
                       the others back. Bytes are bytes, bandwidth is bytes per second, durations are seconds, times \
                       are RFC 3339 in UTC. Errors are RFC 9457 problem details.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "jobs", description = "Jobs: all processes that name the same job id."),
        (name = "communicators", description = "Communicators: their ranks, rings, counters and operations."),
        (name = "nodes", description = "Hosts, and whether they hold others back."),
        (name = "findings", description = "What diagnosis concludes."),
        (name = "search", description = "By a part of a name."),
        (name = "history", description = "Counters over time, from the database."),
        (name = "plots", description = "Pictures."),
        (name = "events", description = "What changed, as it changes."),
        (name = "agents", description = "For agents only."),
    ),
    components(schemas(api::Changed, api::Problem))
)]
struct Document;
