//! `session`: browsers sign in and out, and ask who they are.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use ringscope_access::Who;
use ringscope_api::{Problem, Role, Session, SignIn};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::Caller;
use super::cookies::Cookie;
use super::door::Told;
use super::problem::ApiError;
use super::query::Params;
use super::said::Said;
use super::{Whole, openapi};

/// Every route here.
pub(super) fn routes() -> OpenApiRouter<Whole> {
    openapi::router().routes(routes!(get, create, delete))
}

/// Who asks, and what they may do.
#[utoipa::path(get, path = "/api/v1/session", tag = "access",
    responses((status = 200, description = "Who asks.", body = Session)))]
pub(super) async fn get(params: Params, Extension(who): Extension<Who>) -> Result<Json<Session>, ApiError> {
    params.allow(&[])?;
    Ok(Json(session(&who)))
}

/// Signs a browser in: with a token, once; after that its cookie says who it is.
#[utoipa::path(post, path = "/api/v1/session", tag = "access",
    request_body = SignIn,
    responses(
        (status = 200, description = "Signed in. The cookie is HttpOnly and SameSite=Strict.", body = Session),
        (status = 401, description = "The token opens nothing.", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "The token is for agents, or a page of another origin asked.", body = Problem,
            content_type = "application/problem+json"),
        (status = 415, description = "The body is not said to be application/json.", body = Problem,
            content_type = "application/problem+json"),
        (status = 429, description = "Too many failed from this address.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn create(
    State(Whole(app)): State<Whole>,
    Extension(caller): Extension<Caller>,
    params: Params,
    Said(body): Said,
) -> Result<Response, ApiError> {
    params.allow(&[])?;
    // What is wrong with it is not repeated: it may be a secret all the same.
    let told: SignIn = serde_json::from_slice(&body)
        .map_err(|_| ApiError::bad_request(r#"the body must be JSON like {"token": "rsc_..."}"#))?;
    if let Some(wait) = app.gate.wait(caller.origin) {
        return Err(ApiError::too_often(wait, "too many wrong tokens came from this address: wait a minute"));
    }
    let token = told.token.trim();
    let (cookie, who) = match app.gate.sign_in(token).await.map_err(|error| ApiError::internal(&error))? {
        Ok(begun) => begun,
        Err(denied @ crate::gate::Denied::NotYet) => {
            return Err(ApiError::unavailable("tokens-unknown", denied.to_string()));
        }
        Err(denied) => {
            let is_told = app.gate.failed_to_sign_in(caller.origin);
            let (who, is_told) = app.gate.token_refused(token, || is_told);
            let told =
                Told { who, detail: denied.to_string(), of_stranger: Some(is_told), ..Told::default() };
            let refused = ApiError::unauthorized(denied.to_string());
            return Ok((Extension(told), refused).into_response());
        }
    };
    if who.role == Role::Ingest {
        app.gate.sign_out(&cookie).await;
        let detail = "this token is for agents: it sends, and sees nothing. Sign in with one of the role read, operate or admin";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", detail));
    }
    let answer = Json(session(&who));
    let told = Told { who: Some(who), ..Told::default() };
    let mut response = (Extension(told), answer).into_response();
    let cookie = Cookie::Session.set(&cookie, caller.is_by_tls, SESSION_S)?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Signs a browser out.
#[utoipa::path(delete, path = "/api/v1/session", tag = "access",
    responses(
        (status = 204, description = "Signed out, if it was in."),
        (status = 403, description = "A page of another origin asked.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn delete(
    State(Whole(app)): State<Whole>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    params.allow(&[])?;
    let who = caller.identify(&app.gate, &headers).await.ok();
    let mut was_in = false;
    for cookie in caller.cookies() {
        was_in |= app.gate.sign_out(cookie).await;
    }
    let told = Told { who: who.filter(|_| was_in), ..Told::default() };
    let mut response = (Extension(told), StatusCode::NO_CONTENT).into_response();
    for is_secure in [false, true] {
        response.headers_mut().append(header::SET_COOKIE, Cookie::Session.set("", is_secure, 0)?);
    }
    Ok(response)
}

fn session(who: &Who) -> Session {
    Session {
        name: who.name.clone(),
        role: who.role,
        tenant: who.tenant.as_ref().map(ToString::to_string),
        known_by: who.known_by,
        ends_at: who.ends_at,
    }
}

/// As long as a session lasts at most; the daemon ends it, whatever the browser thinks.
pub(super) const SESSION_S: u64 = 7 * 24 * 3600;
