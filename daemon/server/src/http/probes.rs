//! Probes of the orchestrator, and Prometheus. The first two ask nobody who may be busy.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::problem::ApiError;
use super::{App, Whole};
use crate::ingest::StoreState;
use crate::metrics::Metrics;

/// The process lives.
pub(super) async fn healthz() -> Json<serde_json::Value> {
    Json(serde_json::json!({ "status": "ok" }))
}

/// Batches are taken and stored; else 503 and why not.
pub(super) async fn readyz(State(Whole(app)): State<Whole>) -> Result<Json<serde_json::Value>, ApiError> {
    if app.stop.is_cancelled() {
        return Err(ApiError::unavailable("shutting-down", "the daemon is shutting down"));
    }
    match app.keeper.state() {
        StoreState::Open(_) if !app.gate.is_known() => {
            Err(ApiError::unavailable("tokens-unknown", "the tokens are being read"))
        }
        StoreState::Open(_) => Ok(Json(serde_json::json!({
            "status": "ready",
            "store": "open",
            "unrestored_processes": app.keeper.n_unrestored(),
        }))),
        StoreState::None => Ok(Json(serde_json::json!({ "status": "ready", "store": "none" }))),
        StoreState::Opening => Err(ApiError::unavailable("store-opening", "the database is being opened")),
        // Strangers ask too, and the reason names the database.
        StoreState::Away(_) => Err(ApiError::unavailable(
            "store-away",
            "the database does not answer; the daemon's log says why",
        )),
    }
}

/// What Prometheus scrapes.
pub(super) async fn metrics(app: App) -> Result<Response, ApiError> {
    let metrics = app.metrics();
    let rendered = tokio::task::spawn_blocking(move || metrics.render()).await;
    match rendered {
        Ok(Ok(text)) => Ok(([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], text).into_response()),
        Ok(Err(error)) => Err(ApiError::internal(&error)),
        Err(error) => Err(ApiError::internal(&error)),
    }
}
