//! Small pages for browsers that come back from signing in elsewhere: the rest is the UI's.
//!
//! One that came by way of another site brings no `SameSite=Strict` cookie to where it is redirected; from a page of our
//! own it does. So what ends a sign-in is a page that leads on, and no redirect.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use reqwest::Url;

use super::problem::ApiError;

/// A page that leads on to `address`.
pub(super) fn lead_on(address: &str) -> Response {
    let address = escape(address);
    let head = format!(r#"<meta http-equiv="refresh" content="0;url={address}">"#);
    page(StatusCode::OK, "Signed in", &head, &format!(r#"<p>Signed in. <a href="{address}">Go on</a></p>"#))
}

/// What went wrong, as a page for browsers and as a problem for programs. `home` is where one tries again.
pub(super) fn refuse(error: ApiError, headers: &HeaderMap, home: &str) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    if !accepted.contains("text/html") {
        return error.into_response();
    }
    let (status, words) = error.words();
    let body = format!(r#"<p>{}</p><p><a href="{}">Back to signing in</a></p>"#, escape(words), escape(home));
    page(status, "Not signed in", "", &body)
}

fn page(status: StatusCode, title: &str, head: &str, body: &str) -> Response {
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta name=\"viewport\" content=\"width=device-width\">{head}<title>{title} · ringscope</title></head>\
         <body><main><h1>{title}</h1>{body}</main></body></html>\n"
    );
    (status, [(header::CONTENT_TYPE, PAGE_TYPE)], text).into_response()
}

/// A place of the page, as `return` names it: a path, perhaps with what stands behind `?` and `#`, and never another site.
pub(super) fn place(text: Option<&str>) -> Result<String, ApiError> {
    let Some(text) = text else { return Ok("/".to_owned()) };
    let is_path = text.starts_with('/') && !text.starts_with("//") && !text.starts_with("/api/");
    let is_plain = text.len() <= PLACE_BYTES_MAX && !text.chars().any(|c| c == '\\' || c.is_control());
    // What browsers make of it counts.
    let base = Url::parse("http://ringscope.invalid").ok();
    let stays = base.is_some_and(|base| base.join(text).is_ok_and(|there| there.origin() == base.origin()));
    if is_path && is_plain && stays {
        return Ok(text.to_owned());
    }
    let detail = format!(
        "return must be a place of the page, e.g. /#/hosts, below {PLACE_BYTES_MAX} bytes, and never another site"
    );
    Err(ApiError::bad_request(detail))
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Content type of these pages.
pub(super) const PAGE_TYPE: &str = "text/html; charset=utf-8";
/// The longest place has a search and a time range.
const PLACE_BYTES_MAX: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_of_the_page_are_led_to() {
        for good in ["/", "/#/hosts/node-a?x=1", "/jobs/a%2Fb", "/?theme=dark#/rings"] {
            assert_eq!(place(Some(good)).unwrap(), good);
        }
        assert_eq!(place(None).unwrap(), "/");
        let long = format!("/{}", "x".repeat(PLACE_BYTES_MAX));
        for bad in [
            "//evil.example",
            "///evil.example",
            "https://evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "evil",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/\n/evil.example",
            " //evil.example",
            "/api/v1/session/oidc",
            "",
            &long,
        ] {
            assert!(place(Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn nothing_that_others_say_is_html() {
        assert_eq!(escape("<a href='\"&\">"), "&lt;a href=&#39;&quot;&amp;&quot;&gt;");
    }
}
