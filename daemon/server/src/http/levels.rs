//! `GET` and `PUT jobs/{job}/level`.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::{Extension, Json};
use ringscope_api::clock;
use ringscope_api::{JobLevel, LevelChoice, LevelWish, Problem};

use super::App;
use super::door::Told;
use super::problem::ApiError;
use super::query::Params;
use super::said::{Said, read};
use crate::hub::Hub;

/// How much the collectors of a job ask the library for, and what is wished for.
#[utoipa::path(get, path = "/api/v1/jobs/{job}/level", tag = "jobs",
    params(("job" = String, Path, description = "Job id.")),
    responses(
        (status = 200, description = "The wish, and what each process reports.", body = JobLevel),
        (status = 404, description = "No such job.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn get(
    app: App,
    Path(job): Path<String>,
    params: Params,
) -> Result<Json<JobLevel>, ApiError> {
    params.allow(&[])?;
    on_hub(&app, job, |hub, job| hub.level(job, clock::now())).await
}

/// Wishes for another level while the job runs. The agents of the job hear of it within five seconds and tell each
/// process once; processes of the job that start later are told too. A daemon that starts again has forgotten the wish.
#[utoipa::path(put, path = "/api/v1/jobs/{job}/level", tag = "jobs",
    params(("job" = String, Path, description = "Job id.")),
    request_body = LevelWish,
    responses(
        (status = 200, description = "Wished for; what each process reported before.", body = JobLevel),
        (status = 400, description = "The body is not the JSON object that it must be.", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "No such job.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The body is not said to be application/json.", body = Problem,
            content_type = "application/problem+json"),
        (status = 422, description = "No such level.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn put(
    app: App,
    Path(job): Path<String>,
    params: Params,
    Said(body): Said,
) -> Result<(Extension<Told>, Json<JobLevel>), ApiError> {
    params.allow(&[])?;
    let wish: LevelWish = read(&body, r#"{"level": "steps"}"#)?;
    let choice: LevelChoice = wish.level.parse().map_err(|error: ringscope_api::UnknownLevel| {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown-level", error.to_string())
    })?;
    let whole = app.whole_hub();
    let wish = move |hub: &Hub, job: &str| {
        let now = clock::now();
        let level = hub.wish_level(job, choice, now)?;
        whole.and_then(|whole| whole.wish_level(job, choice, now));
        Some(level)
    };
    let level = on_hub(&app, job, wish).await?;
    Ok((Extension(Told { detail: choice.label().to_owned(), ..Told::default() }), level))
}

/// Asks the hub on a thread of its own: whoever holds it for long keeps no other route waiting.
async fn on_hub(
    app: &App,
    job: String,
    ask: impl FnOnce(&Hub, &str) -> Option<JobLevel> + Send + 'static,
) -> Result<Json<JobLevel>, ApiError> {
    let hub = Arc::clone(&app.hub);
    let asked = tokio::task::spawn_blocking(move || ask(&hub, &job).ok_or(job)).await;
    match asked.map_err(|error| ApiError::internal(&error))? {
        Ok(level) => Ok(Json(level)),
        Err(job) => Err(ApiError::unknown("job", &job)),
    }
}
