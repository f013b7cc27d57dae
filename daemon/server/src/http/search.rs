//! `GET search`.

use axum::Json;
use ringscope_api::{Problem, SearchHit};
use ringscope_view as view;

use super::App;
use super::problem::ApiError;
use super::query::Params;

/// Jobs, hosts, communicators, ranks (`rank 12`, `rank 12 of world`) and NICs (`mlx5_3`, `mlx5_3@host-17`) by a part of
/// their name, id or hash, whatever the case, the best first. Summation groups also by their session, their job, a host of
/// their servers, or a class of tensors that they sum (`gradient`, `parameter`, `other`).
#[utoipa::path(get, path = "/api/v1/search", tag = "search",
    params(
        ("q" = String, Query, description = "What to look for.", max_length = 200),
        ("limit" = Option<u32>, Query, description = "Hits; 20 if not given.", minimum = 1, maximum = 100),
    ),
    responses(
        (status = 200, description = "The best hits; none for nothing.", body = Vec<SearchHit>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn search(app: App, params: Params) -> Result<Json<Vec<SearchHit>>, ApiError> {
    let params = params.allow(&["q", "limit"])?;
    let wanted = params.short("q")?.unwrap_or_default().to_owned();
    let limit = params.number("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    Ok(Json(app.read(move |model, _, now| view::search(model, &wanted, limit, now)).await?))
}

/// What a list below a search field shows.
const LIMIT_DEFAULT: usize = 20;
/// Who needs more wants a list with a filter.
const LIMIT_MAX: usize = 100;
