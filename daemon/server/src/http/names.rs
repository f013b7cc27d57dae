//! Which names the daemon answers to, and whose pages may make it do something.
//!
//! A browser that opened a stranger's page stands inside the cluster's network. The page may have its own name lead to this
//! daemon and so count as one of the daemon's pages (DNS rebinding): so the daemon answers only to addresses, which no
//! stranger can name, and to its own names. And the page may send without reading the answer: so what has effects is taken
//! from no page but the daemon's, and only with a content type that a page cannot send unasked.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use reqwest::Url;
use ringscope_tls::Own;

use super::forwarded::Forwarded;
use super::problem::ApiError;

/// The daemon's names.
#[derive(Clone, Debug)]
pub(super) struct Names(Arc<Known>);

#[derive(Debug)]
struct Known {
    hosts: BTreeSet<String>,
    /// Where people open the page, if that is not where the daemon listens.
    public: Option<Url>,
    /// The certificate, where TLS is spoken: what it names is the daemon's.
    certificate: Option<Arc<Own>>,
}

impl Names {
    /// The machine's own names, those that the configuration gives, that of the address where people open the page, and
    /// those of the certificate.
    pub(super) fn new(
        machine: &str,
        allowed: &[String],
        public_url: Option<&str>,
        certificate: Option<Arc<Own>>,
    ) -> Self {
        let public = public_url.and_then(|url| Url::parse(url).ok());
        let first_label = machine.split('.').next().unwrap_or_default();
        let own = [machine, first_label, "localhost"].into_iter();
        let public_host = public.as_ref().and_then(Url::host_str);
        let hosts = own.chain(allowed.iter().map(String::as_str)).chain(public_host).map(plain);
        let hosts = hosts.filter(|host| !host.is_empty()).collect();
        Self(Arc::new(Known { hosts, public, certificate }))
    }

    /// Whether the daemon answers to a name.
    fn is_own(&self, host: &str) -> bool {
        let host = plain(host);
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || host.ends_with(".localhost")
            || self.0.hosts.contains(&host)
            || self.0.certificate.as_ref().is_some_and(|certificate| certificate.is_for(&host))
    }

    /// What a request calls the daemon. `None`: it does not say, as only programs do.
    fn called(&self, request: &Request) -> Result<Option<Authority>, ApiError> {
        let mut all = request.headers().get_all(header::HOST).iter();
        let (said, more) = (all.next(), all.next());
        if more.is_some() {
            return Err(ApiError::bad_request("the header Host comes twice"));
        }
        let said = said.filter(|said| !said.is_empty()).map(|said| Authority::try_from(said.as_bytes()));
        let said =
            said.transpose().map_err(|_| ApiError::bad_request("the header Host is no host and port"))?;
        // The daemon that handed it on has looked.
        let is_checked = request.extensions().get::<Forwarded>().is_some();
        for authority in request.uri().authority().into_iter().chain(&said) {
            if !is_checked && !self.is_own(authority.host()) {
                return Err(misdirected(authority.host()));
            }
        }
        Ok(request.uri().authority().cloned().or(said))
    }

    /// Whether a page is one of the daemon's: its origin is what the request calls the daemon.
    fn is_ours(&self, origin: &str, called: Option<&Authority>) -> bool {
        let Ok(origin) = Url::parse(origin) else { return false };
        let is_here = called.is_some_and(|called| {
            let port = called.port_u16().or_else(|| default_port(origin.scheme()));
            origin.host_str().is_some_and(|host| plain(host) == plain(called.host()))
                && origin.port_or_known_default() == port
        });
        is_here || self.0.public.as_ref().is_some_and(|public| public.origin() == origin.origin())
    }

    /// Whether a page of another origin sent a request.
    fn is_foreign(&self, headers: &HeaderMap, called: Option<&Authority>) -> bool {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("null"));
        match (text("origin"), text("sec-fetch-site")) {
            // No page can set it. A proxy may have changed what the request calls the daemon.
            (_, Some("same-origin")) => false,
            (Some(origin), _) => !self.is_ours(origin, called),
            (None, Some(site)) => site != "none",
            (None, None) => false,
        }
    }
}

/// A page of another origin sent it, and it has effects: an extension of the request.
#[derive(Clone, Copy, Debug)]
struct Foreign;

/// Answers only to who calls the daemon by one of its names, and marks what [`refuse_foreign`] refuses.
pub(super) async fn check(State(names): State<Names>, mut request: Request, next: Next) -> Response {
    let called = match names.called(&request) {
        Ok(called) => called,
        Err(refused) => return refused.into_response(),
    };
    let has_effects = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if has_effects && names.is_foreign(request.headers(), called.as_ref()) {
        request.extensions_mut().insert(Foreign);
    }
    next.run(request).await
}

/// Does nothing for pages of others. Called where it is known who asks, so that the audit trail has it.
pub(super) fn refuse_foreign(request: &Request) -> Result<(), ApiError> {
    if request.extensions().get::<Foreign>().is_none() {
        return Ok(());
    }
    let detail = "a page of another origin sent this; what changes something is taken only from the daemon's own page and \
                  from programs. If a proxy stands before the daemon, give the address at which people open the page with \
                  --public-url";
    Err(ApiError::new(StatusCode::FORBIDDEN, "foreign-origin", detail))
}

/// Refuses what a page of anybody can send without asking, unless the browser says that it is one of the daemon's.
pub(super) fn refuse_unasked(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let kind = text("content-type").and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    let is_unasked = UNASKED.iter().any(|unasked| kind.eq_ignore_ascii_case(unasked));
    // An origin that is not ours was refused before.
    let is_ours = text("origin").is_some() || text("sec-fetch-site") == Some("same-origin");
    if !is_unasked || is_ours {
        return Ok(());
    }
    let kind: String = kind.chars().take(SHOWN_CHARS_MAX).collect();
    let detail = format!(
        "the content-type is {kind:?}, expected e.g. application/octet-stream, which no page of another origin can send \
         unasked; with curl: -H 'Content-Type: application/octet-stream'"
    );
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail))
}

fn misdirected(host: &str) -> ApiError {
    let host: String = host.chars().take(SHOWN_CHARS_MAX).collect();
    let detail = format!(
        "this daemon answers to addresses, localhost, the name of its machine and names that it was given, and {host:?} is \
         none of these. If it is right, start the daemon with --allowed-host {host}"
    );
    ApiError::new(StatusCode::MISDIRECTED_REQUEST, "unknown-host", detail)
}

/// As names are compared.
fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Content types of the requests that a browser sends for any page (Fetch: "CORS-safelisted"); none is one of them.
const UNASKED: [&str; 4] = ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];
/// A name has no more.
const SHOWN_CHARS_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let allowed = ["ringscope.cluster".to_owned(), "Watch.Example.ORG".to_owned()];
        Names::new("node-1.lan", &allowed, Some("https://rings.example.org/x"), None)
    }

    #[test]
    fn only_addresses_and_own_names_are_answered_to() {
        for own in [
            "127.0.0.1",
            "10.0.0.7",
            "[::1]",
            "[fd00::7]",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "node-1",
            "node-1.lan",
            "ringscope.cluster",
            "watch.example.org",
            "rings.example.org",
        ] {
            assert!(names().is_own(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "node-1.evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "1",
            "node-2",
        ] {
            assert!(!names().is_own(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_page_is_ours_by_its_origin() {
        let at = |called: &str| called.parse::<Authority>().unwrap();
        for (origin, called, expected) in [
            ("http://127.0.0.1:9440", "127.0.0.1:9440", true),
            ("http://node-1", "node-1:80", true),
            ("https://node-1", "node-1", true),
            ("http://[::1]:9440", "[::1]:9440", true),
            ("https://rings.example.org", "10.0.0.7:9440", true),
            ("http://rings.example.org", "10.0.0.7:9440", false),
            ("http://127.0.0.1:9441", "127.0.0.1:9440", false),
            ("http://evil.example", "127.0.0.1:9440", false),
            ("null", "127.0.0.1:9440", false),
        ] {
            assert_eq!(names().is_ours(origin, Some(&at(called))), expected, "{origin} {called}");
        }
    }
}
