//! What a request says of who sends it.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use ringscope_access::Who;

use super::connections::Line;
use super::cookies;
use super::problem::ApiError;
use crate::gate::{Asking, Denied, Gate};

/// Where a request came from, and what it brought.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    peer: IpAddr,
    /// Where it came from at first, if a proxy that is believed says so.
    pub(super) origin: IpAddr,
    /// Whether whoever asks came by TLS, to this daemon or to a proxy before it.
    pub(super) is_by_tls: bool,
    bearer: Option<String>,
    cookies: Vec<String>,
}

impl Caller {
    /// What `request` says.
    pub(super) fn of(request: &Request, gate: &Gate) -> Result<Self, ApiError> {
        let Some(line) = request.extensions().get::<Line>() else {
            return Err(ApiError::internal(&"a request without a connection"));
        };
        let (peer, headers) = (line.peer.ip(), request.headers());
        let forwarded: Vec<&str> =
            headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
        Ok(Self {
            peer,
            origin: gate.origin(peer, &forwarded),
            is_by_tls: line.is_tls || says_https(headers, gate.trusts(peer)),
            bearer: bearer(headers).map(ToOwned::to_owned),
            cookies: cookies::sessions(headers).map(ToOwned::to_owned).collect(),
        })
    }

    /// Who sends it.
    pub(super) async fn identify(&self, gate: &Gate, headers: &HeaderMap) -> Result<Who, Denied> {
        let header = |name: &str| {
            let mut values = headers.get_all(name).iter();
            // Of two, one may be of the client.
            let (Some(value), None) = (values.next(), values.next()) else { return None };
            value.to_str().ok()
        };
        let asking = Asking {
            peer: self.peer,
            bearer: self.bearer.as_deref(),
            cookies: self.cookies.iter().map(String::as_str).collect(),
            header: &header,
        };
        gate.identify(&asking).await
    }

    /// The token that it brought.
    pub(super) fn bearer(&self) -> Option<&str> {
        self.bearer.as_deref()
    }

    /// The sessions that its cookies name.
    pub(super) fn cookies(&self) -> &[String] {
        &self.cookies
    }
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    // Others are of a proxy in front.
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether the page that asks came by https, in the words of the browser, or of a proxy that is believed.
fn says_https(headers: &HeaderMap, has_proxy: bool) -> bool {
    let begins = |name: &str, with: &str| {
        let said = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim_start();
        said.get(..with.len()).is_some_and(|said| said.eq_ignore_ascii_case(with))
    };
    begins("origin", "https://") || has_proxy && begins("x-forwarded-proto", "https")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(all: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_browser_and_a_listed_proxy_say_that_it_is_https() {
        let proto = || header::HeaderName::from_static("x-forwarded-proto");
        for (name, value, has_proxy, expected) in [
            (header::ORIGIN, "https://ring.example", false, true),
            (header::ORIGIN, "http://ring.example", true, false),
            (proto(), "https", true, true),
            (proto(), "HTTPS, http", true, true),
            (proto(), "http", true, false),
            (proto(), "https", false, false),
        ] {
            assert_eq!(says_https(&headers(&[(name.clone(), value)]), has_proxy), expected, "{name} {value}");
        }
        assert!(!says_https(&headers(&[]), true));
    }

    #[test]
    fn tokens_are_found_and_what_is_of_others_left() {
        let of = |name: header::HeaderName, value| headers(&[(name, value)]);
        assert_eq!(bearer(&of(header::AUTHORIZATION, "bearer  x ")), Some("x"));
        assert_eq!(bearer(&of(header::AUTHORIZATION, "Basic dTpw")), None);
    }
}
