//! The UI, carried inside the binary.

use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use rust_embed::{EmbeddedFile, RustEmbed};

use super::problem::ApiError;

/// What `web/` was built into.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Dist;

/// A file of the UI; the page itself for any path that is not the API's: the UI has routes of its own.
pub(super) async fn asset(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    if path.starts_with("api/") || path == "api" {
        return StatusCode::NOT_FOUND.into_response();
    }
    if method != Method::GET && method != Method::HEAD {
        let problem =
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "only GET and HEAD");
        return ([(header::ALLOW, "GET, HEAD")], problem).into_response();
    }
    match Dist::get(path) {
        Some(file) => file_response(path, file, &headers),
        None if is_file => StatusCode::NOT_FOUND.into_response(),
        None => match Dist::get(PAGE) {
            Some(file) => file_response(PAGE, file, &headers),
            None => ApiError::internal(&"the UI was not built into this binary").into_response(),
        },
    }
}

fn file_response(path: &str, file: EmbeddedFile, headers: &HeaderMap) -> Response {
    let hash = file.metadata.sha256_hash();
    let digits: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let etag = format!("\"{digits}\"");
    // Vite puts a hash of the contents into the names below assets/.
    let cache = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).unwrap_or_default();
    let headers = [(header::ETAG, etag.clone()), (header::CACHE_CONTROL, cache.to_owned())];
    // A proxy that compresses makes the tag weak: W/"..".
    if known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    let kind = file.metadata.mimetype().to_owned();
    (headers, [(header::CONTENT_TYPE, kind)], Body::from(file.data)).into_response()
}

/// The page that every route of the UI starts from.
const PAGE: &str = "index.html";
