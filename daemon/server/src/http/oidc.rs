//! `session/oidc`: browsers sign in at an OpenID provider.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::InvalidHeaderValue;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use openidconnect::RedirectUrl;
use ringscope_api::clock;
use ringscope_api::{OidcWay, Problem, SignInWays};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::Caller;
use super::cookies::Cookie;
use super::door::Told;
use super::problem::ApiError;
use super::query::Params;
use super::session::SESSION_S;
use super::{App, Whole, openapi, returning};
use crate::oidc::{Answer, Oidc, OidcError};

/// Every route here.
pub(super) fn routes() -> OpenApiRouter<Whole> {
    openapi::router().routes(routes!(ways)).routes(routes!(begin)).routes(routes!(finish))
}

/// How a browser signs in, besides with a token.
#[utoipa::path(get, path = "/api/v1/session/ways", tag = "access",
    responses((status = 200, description = "The ways that there are.", body = SignInWays)))]
pub(super) async fn ways(
    State(Whole(app)): State<Whole>,
    params: Params,
) -> Result<Json<SignInWays>, ApiError> {
    params.allow(&[])?;
    let oidc = app.oidc.as_ref().map(|oidc| OidcWay {
        issuer_host: oidc.issuer_host(),
        // At the address that the provider sends back to, for the cookie is that address's.
        address: format!("{}{BEGIN}", oidc.page()),
        away: oidc.away(),
    });
    Ok(Json(SignInWays { oidc }))
}

/// Sends a browser to the OpenID provider to sign in there.
#[utoipa::path(get, path = "/api/v1/session/oidc", tag = "access",
    params(("return" = Option<String>, Query, description = "Place of the page to come back to, e.g. `/#/hosts`.", max_length = 2000)),
    responses(
        (status = 303, description = "To the provider. A cookie, HttpOnly and SameSite=Lax, ties the answer to this browser for ten minutes."),
        (status = 404, description = "This daemon knows no OpenID provider.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn begin(
    State(Whole(app)): State<Whole>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let params = params.allow(&["return"])?;
    let oidc = known(&app)?;
    let place = returning::place(params.text("return"))?;
    let begun = match oidc.begin(place, caller.origin, clock::now()).await {
        Ok(begun) => begun,
        Err(error) => return Ok(returning::refuse(error.into(), &headers, &home(oidc))),
    };
    let address = begun.address.parse().map_err(|error: InvalidHeaderValue| ApiError::internal(&error))?;
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(header::LOCATION, address);
    let cookie = Cookie::SigningIn.set(&begun.cookie, is_secure(oidc), begun.lasts.as_secs())?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Where the provider sends the browser back to: signs it in, and leads it to where the page was.
#[utoipa::path(get, path = "/api/v1/session/oidc/callback", tag = "access",
    params(
        ("state" = Option<String>, Query, description = "As it was sent to the provider.", max_length = 200),
        ("code" = Option<String>, Query, description = "Of the provider, for once.", max_length = 2000),
        ("iss" = Option<String>, Query, description = "The provider, if it names itself.", max_length = 500),
        ("error" = Option<String>, Query, description = "Why the provider has signed nobody in.", max_length = 200),
        ("error_description" = Option<String>, Query, description = "The same in words.", max_length = 1000),
    ),
    responses(
        (status = 200, description = "Signed in: a page that leads on. The cookie is HttpOnly and SameSite=Strict.", content_type = "text/html"),
        (status = 400, description = "This browser has begun no such sign-in, or the provider takes the code no more. Browsers get a page.", body = Problem,
            content_type = "application/problem+json"),
        (status = 403, description = "The provider has refused the person, cannot be believed, or names no group that counts. Browsers get a page.", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "This daemon knows no OpenID provider.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many failed from this address.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn finish(
    State(Whole(app)): State<Whole>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    // Providers add parameters of their own.
    params: Params,
) -> Result<Response, ApiError> {
    let oidc = known(&app)?;
    if let Some(wait) = app.gate.wait(caller.origin) {
        let error = ApiError::too_often(wait, "too many sign-ins from this address failed: wait a minute");
        return Ok(returning::refuse(error, &headers, &home(oidc)));
    }
    let cookies: Vec<&str> = Cookie::SigningIn.sent(&headers, is_secure(oidc)).collect();
    let answer = Answer {
        state: params.text("state"),
        code: params.text("code"),
        issuer: params.text("iss"),
        error: params.text("error"),
        error_description: params.text("error_description"),
    };
    let returned = match oidc.finish(&cookies, answer).await {
        Ok(returned) => returned,
        Err(error) => {
            let is_told = app.gate.failed_to_sign_in(caller.origin);
            let detail = format!("OIDC, {}: {error}", oidc.issuer_host());
            let told = Told { detail, of_stranger: Some(is_told), ..Told::default() };
            let refused = returning::refuse(error.into(), &headers, &home(oidc));
            return Ok((Extension(told), refused).into_response());
        }
    };
    let detail = format!("OIDC, {}, sub {}", oidc.issuer_host(), returned.person.subject);
    let signed_in = app.gate.sign_in_person(returned.person);
    let (cookie, who) = signed_in.map_err(|error| ApiError::internal(&error))?;
    let told = Told { who: Some(who), detail, ..Told::default() };
    let page = returning::lead_on(&format!("{}{}", oidc.page(), returned.place));
    let mut response = (Extension(told), page).into_response();
    let is_secure = is_secure(oidc);
    for cookie in
        [Cookie::Session.set(&cookie, is_secure, SESSION_S)?, Cookie::SigningIn.set("", is_secure, 0)?]
    {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Where a provider sends browsers back to, for a page at this address.
///
/// # Errors
/// It is no address.
pub fn callback(page: &str) -> Result<RedirectUrl, String> {
    RedirectUrl::new(format!("{page}{CALLBACK}")).map_err(|error| error.to_string())
}

fn known(app: &App) -> Result<&Arc<Oidc>, ApiError> {
    app.oidc.as_ref().ok_or_else(|| {
        let detail = "this daemon knows no OpenID provider (--oidc-issuer): sign in with a token";
        ApiError::new(StatusCode::NOT_FOUND, "no-oidc", detail)
    })
}

fn home(oidc: &Oidc) -> String {
    format!("{}/", oidc.page())
}

/// Browsers come back to the page's address, whatever is between.
fn is_secure(oidc: &Oidc) -> bool {
    oidc.page().starts_with("https://")
}

impl From<OidcError> for ApiError {
    fn from(error: OidcError) -> Self {
        let detail = error.to_string();
        let (status, kind) = match error {
            OidcError::Away { .. } => return Self::unavailable("oidc-away", detail),
            OidcError::Secret(_) | OidcError::Random(_) => return Self::internal(&detail),
            OidcError::NotBegun | OidcError::OtherState | OidcError::NoCode => {
                (StatusCode::BAD_REQUEST, "sign-in-not-begun")
            }
            OidcError::Code(_) => (StatusCode::BAD_REQUEST, "code-refused"),
            OidcError::Refused(_) => (StatusCode::FORBIDDEN, "refused-by-provider"),
            OidcError::Untrusted(_) => (StatusCode::FORBIDDEN, "provider-not-believed"),
            OidcError::NoAccess { .. } => (StatusCode::FORBIDDEN, "no-access"),
        };
        Self::new(status, kind, detail)
    }
}

const BEGIN: &str = "/api/v1/session/oidc";
const CALLBACK: &str = "/api/v1/session/oidc/callback";
