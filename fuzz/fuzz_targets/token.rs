//! Presents what may be a token: as the headers Authorization of a request, one a line, and as the JSON of signing in. Only the
//! one token that opens does, and no refusal repeats what was presented.
#![no_main]

use axum::http::header::AUTHORIZATION;
use libfuzzer_sys::fuzz_target;
use ringscope_access::{Refusal, Secret};
use ringscope_api::SignIn;
use ringscope_api::clock::Timestamp;
use ringscope_server::http::fuzzing::bearer;

mod known;

fuzz_target!(|data: &[u8]| {
    let headers = known::headers(&AUTHORIZATION, data.split(|byte| *byte == b'\n'));
    if let Some(text) = bearer(&headers) {
        present(text);
    }
    if let Ok(sign_in) = serde_json::from_slice::<SignIn>(data) {
        present(sign_in.token.trim());
    }
    if let Ok(text) = std::str::from_utf8(data) {
        present(text);
    }
});

fn present(text: &str) {
    let (mut book, now) = (known::book(), Timestamp(known::ENDED.0 + 1));
    let [opens, revoked, ended] = known::tokens();
    let expected = if text == opens.text {
        Ok(())
    } else if text == revoked.text {
        Err(Refusal::Revoked(known::ENDED))
    } else if text == ended.text {
        Err(Refusal::Expired(known::ENDED))
    } else if Secret::id_in(text).is_some() {
        assert!(text.len() == opens.text.len() && text.is_ascii(), "{text:?}");
        Err(Refusal::Unknown)
    } else {
        Err(Refusal::Malformed)
    };
    let found = book.token(text, now).map(|who| assert_eq!(who.name, "grafana"));
    assert_eq!(found, expected, "{text:?}");
    assert_eq!(book.begin(text, [1; 32], now).map(|_| ()), expected, "{text:?}");
    assert!(!book.is_own(text) && book.session(text, now).is_err(), "{text:?}");
    assert_eq!(book.take_used().tokens.len(), usize::from(expected.is_ok()));
    if let Err(refusal) = expected
        && Secret::id_in(text).is_some()
    {
        assert!(!refusal.to_string().contains(text), "{refusal}");
    }
}
