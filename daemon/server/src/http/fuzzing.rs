//! Doors for the fuzzers in `fuzz/`: what a request brings is found and unpacked here as the handlers do it. No part of the
//! API: nothing else may use it.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};

use super::caller;
use super::cookies::{self, Cookie};
use super::packing::Packing;
use super::problem::ApiError;
use super::session::SESSION_S;
use super::shares::Parties;
use super::uploads::Uploads;
use ringscope_wire::batch::Scales;

/// What stands behind `Authorization: Bearer`.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    caller::bearer(headers)
}

/// What cookies of our name hold.
#[must_use]
pub fn cookies(headers: &HeaderMap) -> Vec<&str> {
    cookies::sessions(headers).collect()
}

/// The cookie that a browser is given for a session. `None`: a header cannot hold it.
#[must_use]
pub fn session_cookie(value: &str, is_secure: bool) -> Option<HeaderValue> {
    Cookie::Session.set(value, is_secure, SESSION_S).ok()
}

/// Unpacks the body of a batch and weighs it on the way: its bytes and its weight. `None`: it is refused.
#[must_use]
pub fn unpacked(encoding: &str, packed: Vec<u8>, most: usize, weight_max: u64) -> Option<(Vec<u8>, u64)> {
    let mut scales = Scales::new(weight_max);
    let mut held = Arc::new(Uploads::new(most)).begin(&Parties::default());
    let weigh = |piece: &[u8]| scales.put(piece).map_err(|error| ApiError::bad_request(error.to_string()));
    let bytes = Packing::of(encoding)?.unpack(packed, most, &mut held, weigh).ok()?;
    Some((bytes, scales.weight()))
}
