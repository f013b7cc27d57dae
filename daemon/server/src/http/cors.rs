//! Who else's pages may read the API: nobody, unless the configuration names them.

use axum::http::{HeaderValue, Method, header};
use tower_http::cors::CorsLayer;

/// Lets pages of `origins` send GETs, with a token, never with the cookie of who signed in. `None`: there are none.
pub(super) fn layer(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    let layer =
        CorsLayer::new().allow_methods([Method::GET, Method::HEAD]).allow_headers([header::AUTHORIZATION]);
    let layer = layer.expose_headers([header::ETAG, header::RETRY_AFTER]);
    (!origins.is_empty()).then(|| layer.allow_origin(origins))
}
