//! The tokens that the daemon knows in the targets `token` and `cookie`; `cargo xtask fuzz` makes seeds of the same.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use ringscope_access::{Book, Secret, TokenRow};
use ringscope_api::{Role, Token};
use ringscope_api::clock::Timestamp;

/// When tokens were made.
pub const BEGAN: Timestamp = Timestamp(1_000_000_000);
/// When one of them ended.
pub const ENDED: Timestamp = Timestamp(2_000_000_000);

/// One that opens, one that was revoked, one that has ended.
pub fn tokens() -> [Secret; 3] {
    [7, 8, 9].map(|byte| Secret::token([byte; 40]))
}

/// A book with these.
pub fn book() -> Book {
    let mut book = Book::default();
    for (secret, (revoked_at, expires_at)) in
        tokens().into_iter().zip([(None, None), (Some(ENDED), None), (None, Some(ENDED))])
    {
        let token = Token {
            id: secret.id.clone(),
            name: "grafana".to_owned(),
            role: Role::Read,
            tenant: None,
            created_at: BEGAN,
            created_by: String::new(),
            expires_at,
            revoked_at,
            unwritten: None,
            last_used_at: None,
        };
        book.add_token(TokenRow { token, hash: secret.hash });
    }
    book
}

/// A request's headers of this name, as far as HTTP takes such values at all.
pub fn headers<'a>(name: &HeaderName, values: impl Iterator<Item = &'a [u8]>) -> HeaderMap {
    let values = values.take(100).filter_map(|value| HeaderValue::from_bytes(value).ok());
    values.map(|value| (name.clone(), value)).collect()
}
