//! `GET audit`: who did what.

use axum::Json;
use ringscope_api::{AuditEntry, Page, Problem};
use ringscope_store::AuditQuery;

use super::App;
use super::problem::ApiError;
use super::query::Params;

/// What was done, and refused, the newest first: levels, imports, what is said of incidents, tokens and sign-ins.
#[utoipa::path(get, path = "/api/v1/audit", tag = "access",
    params(
        ("who" = Option<String>, Query, description = "Only of who has this name.", max_length = 200),
        ("action" = Option<String>, Query, description = "Only this action, e.g. `token_create`.", max_length = 200),
        ("limit" = Option<u32>, Query, description = "Entries of a page; 100 if not given.", minimum = 1, maximum = 1000),
        ("cursor" = Option<u64>, Query, description = "`next_cursor` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of entries.", body = Page<AuditEntry>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The daemon has no database.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(app: App, params: Params) -> Result<Json<Page<AuditEntry>>, ApiError> {
    let params = params.allow(&["who", "action", "limit", "cursor"])?;
    let limit = params.number("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    let query = AuditQuery {
        before: params.number("cursor", 0..=u64::MAX)?,
        who: params.short("who")?,
        action: params.short("action")?,
        limit: limit + 1,
    };
    let mut items = app.gate.audit(query).await?;
    let has_more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = items.last().filter(|_| has_more).map(|entry| entry.id.to_string());
    Ok(Json(Page { items, next_cursor }))
}

const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 1000;
