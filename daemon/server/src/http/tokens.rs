//! `tokens`: made, listed and revoked.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::{Extension, Json};
use ringscope_access::Who;
use ringscope_api::{NewToken, Page, Problem, Token, TokenWish};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::door::Told;
use super::page::{PageParams, Paging};
use super::problem::ApiError;
use super::query::Params;
use super::said::{Said, read};
use super::{App, Whole, openapi};
use crate::gate::{NotKept, TokenError};

/// Every route here.
pub(super) fn routes() -> OpenApiRouter<Whole> {
    openapi::router().routes(routes!(list, create)).routes(routes!(revoke))
}

/// Every token that was made, the newest first, those that were revoked among them; never a secret.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "access",
    params(PageParams),
    responses(
        (status = 200, description = "A page of tokens.", body = Page<Token>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The daemon has no database.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(app: App, params: Params) -> Result<Json<Page<Token>>, ApiError> {
    let params = params.allow(&["limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    Ok(Json(paging.page(app.gate.tokens().await?, |token| token.id.clone())))
}

/// Makes a token. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "access",
    request_body = TokenWish,
    responses(
        (status = 201, description = "Made.", body = NewToken),
        (status = 400, description = "The body is not the JSON object that it must be.", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "The daemon has no database, or as many tokens as there may be.", body = Problem,
            content_type = "application/problem+json"),
        (status = 415, description = "The body is not said to be application/json.", body = Problem,
            content_type = "application/problem+json"),
        (status = 422, description = "The name is empty or too long, or the end too far away.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn create(
    app: App,
    Extension(who): Extension<Who>,
    params: Params,
    Said(body): Said,
) -> Result<(StatusCode, Extension<Told>, Json<NewToken>), ApiError> {
    params.allow(&[])?;
    let wish: TokenWish = read(&body, r#"{"name": "prometheus", "role": "read"}"#)?;
    let made = app.gate.create(&wish, &who.name).await?;
    let told = Told { detail: words(&made.token), ..Told::default() };
    Ok((StatusCode::CREATED, Extension(told), Json(made)))
}

/// Revokes a token: it opens nothing any more, and the sessions that were begun with it are over. With 202 that is in force on
/// this daemon, and its database, which is away or full, is told as soon as it takes it: see `unwritten`.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "access",
    params(("id" = String, Path, description = "Id of the token.")),
    responses(
        (status = 200, description = "The token as it is then.", body = Token),
        (status = 202, description = "Revoked on this daemon, and not yet in its database.", body = Token),
        (status = 404, description = "No such token.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The daemon has no database.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn revoke(
    app: App,
    Path(id): Path<String>,
    params: Params,
) -> Result<(StatusCode, Extension<Told>, Json<Token>), ApiError> {
    params.allow(&[])?;
    let token = app.gate.revoke(&id).await?;
    let status = if token.unwritten.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Extension(Told { detail: words(&token), ..Told::default() }), Json(token)))
}

fn words(token: &Token) -> String {
    let ends = token.expires_at.map_or_else(String::new, |at| format!(", until {at}"));
    let tenant = token.tenant.as_ref().map_or_else(String::new, |tenant| format!(" of {tenant}"));
    format!("{} ({}), {}{tenant}{ends}", token.name, token.id, token.role.label())
}

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> Self {
        let detail = error.to_string();
        match error {
            TokenError::Wish(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not-acceptable", detail),
            TokenError::Unknown(_) => Self::new(StatusCode::NOT_FOUND, "unknown-token", detail),
            TokenError::Full => Self::new(StatusCode::CONFLICT, "too-many-tokens", detail),
            TokenError::NotKept(error) => error.into(),
            TokenError::Random(_) => Self::internal(&detail),
        }
    }
}

impl From<NotKept> for ApiError {
    fn from(error: NotKept) -> Self {
        let detail = error.to_string();
        match error {
            NotKept::NoDatabase => Self::new(StatusCode::CONFLICT, "no-database", detail),
            NotKept::Away(_) => Self::unavailable("store-away", detail),
        }
    }
}
