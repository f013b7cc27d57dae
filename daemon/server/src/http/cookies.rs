//! Our cookies: what they are called, how they are read and set.

use axum::http::header::InvalidHeaderValue;
use axum::http::{HeaderMap, HeaderValue, header};

use super::problem::ApiError;

/// One of ours.
#[derive(Clone, Copy)]
pub(super) enum Cookie {
    /// Of who has signed in.
    Session,
    /// Of who is about to, at an OpenID provider.
    SigningIn,
}

impl Cookie {
    /// Where the page came by TLS it has another name: by that browsers take it from this host alone, by TLS alone.
    pub(super) const fn name(self, is_secure: bool) -> &'static str {
        match (self, is_secure) {
            (Self::Session, false) => "ringscope_session",
            (Self::Session, true) => "__Host-ringscope_session",
            (Self::SigningIn, false) => "ringscope_oidc",
            (Self::SigningIn, true) => "__Host-ringscope_oidc",
        }
    }

    /// What a browser sent under this name.
    pub(super) fn sent(self, headers: &HeaderMap, is_secure: bool) -> impl Iterator<Item = &str> {
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let ours = pairs.filter(move |(name, _)| *name == self.name(is_secure)).map(|(_, value)| value);
        ours.take(SENT_MAX)
    }

    /// The header that has a browser keep it for so long; 0: forget it.
    pub(super) fn set(self, value: &str, is_secure: bool, seconds: u64) -> Result<HeaderValue, ApiError> {
        let same_site = match self {
            Self::Session => "Strict",
            // The browser comes back from another site with it.
            Self::SigningIn => "Lax",
        };
        let (name, secure) = (self.name(is_secure), if is_secure { "; Secure" } else { "" });
        let text =
            format!("{name}={value}; Path=/; HttpOnly; SameSite={same_site}; Max-Age={seconds}{secure}");
        text.parse().map_err(|error: InvalidHeaderValue| ApiError::internal(&error))
    }
}

/// What cookies for sessions hold, by either name.
pub(super) fn sessions(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    [false, true].into_iter().flat_map(|is_secure| Cookie::Session.sent(headers, is_secure))
}

/// Cookies of one name that are looked at: a browser sends one.
const SENT_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_found_and_those_of_others_left() {
        let sent =
            "a=b; ringscope_session=one;x; __Host-ringscope_session=two=2; ringscope=3; ringscope_oidc=4";
        let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(sent))]);
        let of = |cookie: Cookie, is_secure| cookie.sent(&headers, is_secure).collect::<Vec<_>>();
        assert_eq!(of(Cookie::Session, false), ["one"]);
        assert_eq!(of(Cookie::Session, true), ["two=2"]);
        assert_eq!(of(Cookie::SigningIn, false), ["4"]);
        assert!(of(Cookie::SigningIn, true).is_empty());
    }
}
