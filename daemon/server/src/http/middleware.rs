//! What every response gets on its way out.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::problem::{ApiError, PROBLEM_TYPE};
use super::returning::PAGE_TYPE;

/// Makes problems of the bare errors that axum and the layers answer with: 400, 404, 405, 413, 415, 504.
pub(super) async fn problems(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let is_problem = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| {
        [PROBLEM_TYPE, PAGE_TYPE].iter().any(|known| kind.as_bytes() == known.as_bytes())
    });
    if !is_error || is_problem {
        return response;
    }
    let (kind, detail) = match status {
        StatusCode::BAD_REQUEST => {
            ("bad-request", "the path or the query cannot be read: percent-encode UTF-8")
        }
        StatusCode::PAYLOAD_TOO_LARGE => ("too-large", "the body is larger than any that makes sense here"),
        StatusCode::NOT_FOUND => ("unknown-route", "no such route; /api/v1/openapi.json lists them"),
        StatusCode::METHOD_NOT_ALLOWED => {
            ("method-not-allowed", "the route has other methods: see the header Allow")
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            ("unsupported-encoding", "the body's content-encoding must be gzip, zstd or none")
        }
        StatusCode::GATEWAY_TIMEOUT => ("timeout", "that took too long; ask for less, e.g. a shorter time"),
        _ => ("error", "the request could not be answered"),
    };
    let mut problem = ApiError::new(status, kind, detail).into_response();
    if let Some(allow) = response.headers().get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allow.clone());
    }
    problem
}

/// Headers that make browsers strict, and keep what changes out of caches.
pub(super) async fn security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The UI loads nothing from elsewhere and is framed by nobody; `data:` is for icons in its style sheet.
const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; img-src 'self' data:; object-src 'none'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
];
