//! The OpenAPI document.

mod parameters;

use ringscope_access::Need;
use ringscope_api as api;
use utoipa::OpenApi;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

use super::cookies::Cookie;
use super::problem::PROBLEM_TYPE;
use super::{Whole, needs};

/// An empty router whose document has the introduction.
pub(super) fn router() -> OpenApiRouter<Whole> {
    OpenApiRouter::with_openapi(Document::openapi())
}

/// Gives every operation a name of its own, the answers that any of its kind can have, and its parameters their schemas.
pub(super) fn complete(document: &mut utoipa::openapi::OpenApi) {
    schemes(document);
    for (path, item) in &mut document.paths.paths {
        let operations = [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("delete", &mut item.delete),
        ];
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
            let need = needs::need(&method.to_uppercase(), path);
            operation.security = Some(security(need));
            if need != Some(Need::Public) {
                let is_write = WRITES.contains(&method);
                for (status, description) in of_who_asks(is_write) {
                    known.entry(status.to_owned()).or_insert_with(|| problem(&description).into());
                }
            }
            if method == "get" && !is_stream && !IS_OF_WHO_ASKS.contains(&path.as_str()) {
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

/// What is to be sent along: a token, or the cookie of who signed in.
fn security(need: Option<Need>) -> Vec<SecurityRequirement> {
    match need {
        Some(Need::Public) => Vec::new(),
        _ => SCHEMES.map(|name| SecurityRequirement::new(name, Vec::<String>::new())).to_vec(),
    }
}

/// What may be said of who asks.
fn of_who_asks(is_write: bool) -> [(&'static str, String); 2] {
    let may_not = "Who asks may not do this";
    [
        ("401", "Who asks is not known: send a token, or sign in.".to_owned()),
        (
            "403",
            if is_write {
                format!("{may_not}, or a page of another origin asked for it.")
            } else {
                format!("{may_not}.")
            },
        ),
    ]
}

/// How the daemon knows who asks.
fn schemes(document: &mut utoipa::openapi::OpenApi) {
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "A token, as `ringscope token create` makes it. Nothing is needed of who reaches a daemon without tokens on its own machine.",
    ));
    let cookie = ApiKeyValue::with_description(
        Cookie::Session.name(false),
        "Of who signed in; by TLS its name begins with __Host-.",
    );
    let components = document.components.get_or_insert_default();
    let all = [SecurityScheme::Http(token.build()), SecurityScheme::ApiKey(ApiKey::Cookie(cookie))];
    let all = all.map(RefOr::T);
    components.security_schemes.extend(SCHEMES.map(ToOwned::to_owned).into_iter().zip(all));
}

const SCHEMES: [&str; 2] = ["token", "session"];
/// Answers that are made for who asks: no cache has them.
const IS_OF_WHO_ASKS: [&str; 6] = [
    "/api/v1/session",
    "/api/v1/session/ways",
    "/api/v1/session/oidc",
    "/api/v1/session/oidc/callback",
    "/api/v1/tokens",
    "/api/v1/audit",
];
/// What any request may be answered with, by method.
const EVERYWHERE: [(&str, &[&str], &str); 10] = [
    ("400", &ALL, "The path or a parameter cannot be read."),
    ("403", &WRITES, "A page of another origin asked for it."),
    ("408", &["put", "post"], "Nothing of the body came for a while."),
    ("413", &["put", "post"], "The body is too large."),
    ("414", &ALL, "Path and query are too long."),
    ("421", &ALL, "The header Host is none of the daemon's names."),
    (
        "429",
        &WRITES,
        "Who asks, or their tenant, has all that one may have of it: wait until they have less.",
    ),
    ("431", &ALL, "The headers are too large."),
    ("503", &ALL, "Too many ask at once, or the database is away: ask again later."),
    ("504", &ALL, "It took too long: ask for less."),
];
const ALL: [&str; 4] = ["get", "put", "post", "delete"];
const WRITES: [&str; 3] = ["put", "post", "delete"];

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
        (name = "access", description = "Who may do what: tokens, signing in, and who did what."),
    ),
    servers((url = "/", description = "The daemon that serves this document.")),
    components(schemas(api::Changed, api::Problem, super::series::By))
)]
struct Document;
