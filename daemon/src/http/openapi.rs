//! The OpenAPI document.

mod parameters;

use utoipa::OpenApi;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

use super::App;
use super::problem::PROBLEM_TYPE;
use crate::api;

/// An empty router whose document has the introduction.
pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
}

/// Gives every operation a name of its own, the answers that any of its kind can have, and its parameters their schemas.
pub(super) fn complete(document: &mut utoipa::openapi::OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let operations = [("get", &mut item.get), ("put", &mut item.put), ("post", &mut item.post)];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let words = path.trim_start_matches("/api/v1/").split(|c: char| !c.is_ascii_alphanumeric());
            let words = words.filter(|word| !word.is_empty()).collect::<Vec<_>>();
            operation.operation_id = Some(format!("{method}_{}", words.join("_")));
            for parameter in operation.parameters.iter_mut().flatten() {
                let RefOr::T(parameter) = parameter else { continue };
                if let Some(schema) = parameters::schema(path, &parameter.name) {
                    parameter.schema = Some(schema.into());
                }
            }
            let is_stream = path.ends_with("/events");
            let known = &mut operation.responses.responses;
            if method == "get" && !is_stream {
                let not_modified = "It is still what the client has (If-None-Match).";
                known.entry("304".to_owned()).or_insert_with(|| Response::new(not_modified).into());
            }
            for (status, methods, description) in EVERYWHERE {
                if methods.contains(&method) {
                    known.entry(status.to_owned()).or_insert_with(|| problem(description).into());
                }
            }
        }
    }
}

fn problem(description: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(description).content(PROBLEM_TYPE, content).build()
}

/// What any request may be answered with, by method.
const EVERYWHERE: [(&str, &[&str], &str); 9] = [
    ("400", &["get", "put", "post"], "The path or a parameter cannot be read."),
    ("403", &["put", "post"], "A page of another origin sent it."),
    ("408", &["put", "post"], "Nothing of the body came for a while."),
    ("413", &["put", "post"], "The body is too large."),
    ("414", &["get", "put", "post"], "Path and query are too long."),
    ("421", &["get", "put", "post"], "The header Host is none of the daemon's names."),
    ("431", &["get", "put", "post"], "The headers are too large."),
    ("503", &["get", "put", "post"], "Too many ask at once, or the database is away: ask again later."),
    ("504", &["get", "put", "post"], "It took too long: ask for less."),
];

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
        (name = "health", description = "How everything stands, in one sentence."),
        (name = "findings", description = "What diagnosis concludes."),
        (name = "incidents", description = "Findings with one cause, as one thing to look after."),
        (name = "summation", description = "Groups of the summation service: who owns what, who is late, for whom rounds wait."),
        (name = "search", description = "By a part of a name."),
        (name = "history", description = "Counters over time, from the database."),
        (name = "plots", description = "Pictures."),
        (name = "events", description = "What changed, as it changes."),
        (name = "agents", description = "For agents only."),
    ),
    servers((url = "/", description = "The daemon that serves this document.")),
    components(schemas(api::Changed, api::Problem, super::series::By))
)]
struct Document;
