//! `GET health`: the one sentence.

use std::sync::Arc;

use axum::Json;
use ringscope_api::clock;
use ringscope_api::{Health, Problem};
use ringscope_judge::health;
use ringscope_view as view;

use super::App;
use super::problem::ApiError;
use super::query::Params;
use super::restoring;

/// How everything stands, in one sentence. Page, terminal and exit statuses say what this says.
#[utoipa::path(get, path = "/api/v1/health", tag = "health",
    params(
        ("job" = Option<String>, Query, description = "Only this job, also one that has ended, and its hosts."),
        ("host" = Option<String>, Query, description = "Only this host and its jobs."),
    ),
    responses(
        (status = 200, description = "How everything stands.", body = Health),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn health(app: App, params: Params) -> Result<Json<Health>, ApiError> {
    let params = params.allow(&["job", "host"])?;
    let (job, host) = (params.owned("job"), params.owned("host"));
    let with_paths = app.tenant().is_none();
    let (tls, gate) = (app.tls.clone(), app.of_tenant.is_none().then(|| Arc::clone(&app.gate)));
    let keeper = app.keeper.clone();
    let unreached = with_paths.then(|| app.unreached.get().cloned()).flatten();
    let mut health = app
        .read(move |model, diagnosis, now| {
            view::health(model, diagnosis, now, job.as_deref(), host.as_deref())
        })
        .await?;
    let now = clock::now();
    if let Some(cut) = keeper.cut(with_paths, now) {
        health::cut_off(&mut health, cut);
    }
    if let Some(tls) = tls {
        health.notices.extend(tls.state().notices(now, with_paths));
    }
    health.notices.extend(restoring::notice(&keeper));
    health.notices.extend(unreached);
    health.notices.extend(gate.into_iter().flat_map(|gate| gate.notices()));
    Ok(Json(health))
}
