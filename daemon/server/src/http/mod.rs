//! Routes: the REST API, the probes, `/metrics` and the UI. The only place that knows HTTP.

mod admission;
mod app;
mod audit;
mod cache;
mod caller;
mod communicators;
mod connections;
mod cookies;
mod cors;
mod door;
mod events;
mod findings;
mod forwarded;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod health;
mod import;
mod incidents;
mod ingest;
mod jobs;
mod levels;
mod middleware;
mod names;
mod needs;
mod nodes;
mod oidc;
mod openapi;
mod pace;
mod packing;
mod page;
mod past;
mod plots;
mod probes;
mod problem;
mod query;
mod restoring;
mod returning;
mod runbook;
mod said;
mod search;
mod series;
mod session;
mod shares;
mod standby;
mod summation;
mod switch;
mod timeline;
mod tokens;
mod trace;
mod ui;
mod uploads;

pub use app::App;
use app::Whole;
pub use connections::{Limits, serve};
pub use guard::Guard;
pub use oidc::callback as oidc_callback;
pub use standby::Standby;
pub use switch::Switch;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Router, middleware as axum_middleware};
use ringscope_tls::Own;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};
use tower_http::timeout::TimeoutLayer;
use utoipa_axum::routes;

/// By which names the daemon is called, besides addresses and the name of its machine, and whose pages may read. Who may do
/// what once they have reached it: `needs`.
#[derive(Debug, Default)]
pub struct Addresses<'c> {
    /// Origins whose pages may read.
    pub cors_origins: &'c [String],
    /// Other names of the daemon.
    pub allowed_hosts: &'c [String],
    /// Where people open the page.
    pub public_url: Option<&'c str>,
}

/// Every route over `app`.
pub fn router(app: App, addresses: &Addresses<'_>) -> Router {
    let term = forwarded::Term(app.term_secret.clone());
    routes_over(Whole(Arc::new(app)), addresses)
        .layer(axum_middleware::from_fn_with_state(term, forwarded::believe))
}

fn routes_over(app: Whole, addresses: &Addresses<'_>) -> Router {
    let (api, document) = openapi::router()
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::one))
        .routes(routes!(pace::pace))
        .routes(routes!(timeline::timeline))
        .routes(routes!(levels::get, levels::put))
        .merge(communicators::routes())
        .routes(routes!(trace::trace))
        .merge(nodes::routes())
        .routes(routes!(search::search))
        .routes(routes!(findings::list))
        .routes(routes!(health::health))
        .merge(incidents::routes())
        .routes(routes!(runbook::list))
        .merge(past::routes())
        .merge(summation::routes())
        .merge(plots::routes())
        .split_for_parts();
    let (batches, batches_document) = openapi::router().routes(routes!(ingest::ingest)).split_for_parts();
    let (imports, imports_document) = openapi::router().routes(routes!(import::import)).split_for_parts();
    let (events, events_document) = openapi::router().routes(routes!(events::events)).split_for_parts();
    // What somebody else asked for is not for who asks now: outside of the cache of views.
    let (access, access_document) = openapi::router()
        .merge(session::routes())
        .merge(oidc::routes())
        .merge(tokens::routes())
        .routes(routes!(audit::list))
        .split_for_parts();
    let mut document = document
        .merge_from(batches_document)
        .merge_from(imports_document)
        .merge_from(events_document)
        .merge_from(access_document);
    openapi::complete(&mut document);

    let timeout = TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, REQUEST_TIMEOUT);
    let compression = CompressionLayer::new().compress_when(
        SizeAbove::new(COMPRESS_BYTES_MIN).and(NotForContentType::IMAGES).and(NotForContentType::SSE),
    );
    let views = api
        .route("/api/v1/openapi.json", get(move || std::future::ready(axum::Json(document.clone()))))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum_middleware::from_fn_with_state(app.clone(), uploads::hold_small))
        .layer(compression.clone())
        .layer(axum_middleware::from_fn_with_state(app.clone(), cache::keep))
        .layer(axum_middleware::from_fn_with_state(app.clone(), restoring::admit_gaps))
        .layer(timeout);
    let files = Router::new()
        .route("/metrics", get(probes::metrics))
        .fallback(ui::asset)
        .layer(compression)
        .layer(timeout);
    // Strangers may send these: they hold none of the room of others' uploads, and so little that it need not be counted.
    let access = access.layer(DefaultBodyLimit::max(SIGN_IN_BYTES_MAX)).layer(timeout);
    let certificate = app.0.tls.clone();
    let routes = Router::new()
        .merge(views)
        .merge(files)
        .merge(batches.layer(DefaultBodyLimit::disable()).layer(timeout))
        .merge(imports.layer(DefaultBodyLimit::disable()))
        .merge(events)
        .merge(access)
        .merge(Router::new().route(admission::PATH, post(admission::review)).layer(timeout))
        .route("/healthz", get(probes::healthz))
        .route("/readyz", get(probes::readyz))
        .layer(axum_middleware::from_fn_with_state(app.clone(), door::admit))
        .layer(axum_middleware::from_fn(guard::refuse_large_heads))
        .layer(axum_middleware::map_response(middleware::problems))
        .with_state(app);
    named(routes, addresses, certificate)
}

/// Answers only to who calls the daemon by its names, and tells browsers what they may do.
fn named(routes: Router, addresses: &Addresses<'_>, certificate: Option<Arc<Own>>) -> Router {
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let names = names::Names::new(&machine, addresses.allowed_hosts, addresses.public_url, certificate);
    let routes = routes.layer(axum_middleware::from_fn_with_state(names, names::check));
    let routes = match cors::layer(addresses.cors_origins) {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes.layer(axum_middleware::map_response(middleware::security_headers))
}

/// No view of the model takes a tenth of this; a query of a long history may.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Of a request that is neither a batch nor a file: a wish for a level.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Of one that signs in or makes a token, which has a hundred characters or two: for as many as there are connections.
const SIGN_IN_BYTES_MAX: usize = 4 << 10;
/// Less is one packet anyway.
const COMPRESS_BYTES_MIN: u64 = 1024;
