//! Requests that another daemon of the same database hands on to the one that leads: from whom they came there, believed for the
//! secret of the leader's term, which only those have that may read the database.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;

use ringscope_store::TermSecret;

use super::connections::Line;
use super::problem::ApiError;

/// The header; no client's is believed.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-ringscope-forwarded");

/// That another daemon has looked by which name this request called it: an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forwarded;

/// The secret of the term in which this daemon leads. `None`: it is alone.
#[derive(Clone, Debug)]
pub(super) struct Term(pub(super) Option<TermSecret>);

/// What the daemon that hands a request on says of it.
pub(super) fn value(secret: &TermSecret, line: &Line) -> Option<HeaderValue> {
    said(secret, line.is_tls, line.peer)
}

/// What it says of a question of its own, which comes from nobody.
pub(super) fn of_itself(secret: &TermSecret) -> Option<HeaderValue> {
    said(secret, true, SocketAddr::from(([0, 0, 0, 0], 0)))
}

fn said(TermSecret(secret): &TermSecret, is_tls: bool, peer: SocketAddr) -> Option<HeaderValue> {
    let scheme = if is_tls { "https" } else { "http" };
    let mut value = HeaderValue::from_str(&format!("{secret} {scheme} {peer}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Puts the first line of a request in the place of that between two daemons.
pub(super) async fn believe(State(Term(secret)): State<Term>, mut request: Request, next: Next) -> Response {
    let Some(said) = request.headers_mut().remove(HEADER) else { return next.run(request).await };
    let parsed = said.to_str().ok().and_then(parse);
    let Some((shown, is_tls, peer)) = parsed else { return next.run(request).await };
    match secret {
        Some(TermSecret(secret)) if bool::from(secret.as_bytes().ct_eq(shown.as_bytes())) => {
            if let Some(line) = request.extensions_mut().get_mut::<Line>() {
                (line.peer, line.is_tls) = (peer, is_tls);
            }
            request.extensions_mut().insert(Forwarded);
            next.run(request).await
        }
        // Of a term that is over, or of a client that makes it up: taken as the client's, it would be that of the wrong one.
        _ => not_led_here().into_response(),
    }
}

/// A request that was handed on came to a daemon that does not lead, or leads in another term.
pub(super) fn not_led_here() -> ApiError {
    let detail = "another daemon handed this on to this one, which does not lead now; ask again in a moment";
    ApiError::unavailable(NOT_LEADING, detail)
}

/// What kind of problem that is.
pub(super) const NOT_LEADING: &str = "not-leading";

/// Whether a daemon has handed it on.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER)
}

fn parse(said: &str) -> Option<(String, bool, SocketAddr)> {
    let mut parts = said.split(' ');
    let (secret, scheme, peer) = (parts.next()?, parts.next()?, parts.next()?);
    Some((secret.to_owned(), scheme == "https", peer.parse().ok()?))
}
