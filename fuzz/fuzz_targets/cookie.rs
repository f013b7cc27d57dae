//! Browsers come with what may be cookies, sign in and out, time passes and tokens are revoked: one thing a line, by its first
//! byte. A cookie opens only what was begun and is not over, a session that was just begun opens, and of one request four
//! cookies are looked at.
#![no_main]

use std::collections::HashMap;

use axum::http::header::COOKIE;
use libfuzzer_sys::fuzz_target;
use ringscope_access::{Book, Person, Secret};
use ringscope_api::Role;
use ringscope_api::clock::Timestamp;
use ringscope_server::http::fuzzing::{cookies, session_cookie};

mod known;

const HOUR_NS: u64 = 3_600_000_000_000;

/// What must be so of a session: when it was begun, and whether its token holds.
struct Session {
    began: Timestamp,
    of_token: bool,
}

fuzz_target!(|data: &[u8]| {
    let mut all = All {
        book: known::book(),
        now: Timestamp(HOUR_NS),
        begun: HashMap::new(),
        is_revoked: false,
        begins: 0,
    };
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Some((what, rest)) = line.split_first() else { continue };
        match what {
            b't' => all.now.0 += u64::from(rest.first().copied().unwrap_or(1)) * HOUR_NS,
            b'b' => all.begin(rest),
            b'p' => all.begin_person(rest),
            b'r' => all.revoke(),
            b'o' => all.present(rest, true),
            _ => all.present(rest, false),
        }
    }
});

struct All {
    book: Book,
    now: Timestamp,
    begun: HashMap<String, Session>,
    is_revoked: bool,
    /// Begun in all.
    begins: usize,
}

impl All {
    fn begin(&mut self, rest: &[u8]) {
        let session = Secret::session([rest.first().copied().unwrap_or(0); 32]);
        let [opens, _, _] = known::tokens();
        let begun = self.book.begin(&opens.text, session.hash, self.now);
        assert_eq!(begun.is_err(), self.is_revoked);
        if begun.is_ok() {
            self.begins += 1;
            self.begun.insert(session.text, Session { began: self.now, of_token: true });
        }
    }

    fn begin_person(&mut self, rest: &[u8]) {
        let mut random = [0; 32];
        // None of a token's.
        random[0] = 1;
        random[31] = rest.first().copied().unwrap_or(0);
        let session = Secret::session(random);
        let person =
            Person { name: "ann".to_owned(), subject: "17".to_owned(), role: Role::Operate, tenant: None };
        self.book.begin_person(person, session.hash, self.now);
        self.begins += 1;
        self.begun.insert(session.text, Session { began: self.now, of_token: false });
    }

    fn revoke(&mut self) {
        let [opens, _, _] = known::tokens();
        self.book.revoke(&opens.id, self.now);
        self.is_revoked = true;
    }

    fn present(&mut self, header: &[u8], signs_out: bool) {
        let headers = known::headers(&COOKIE, header.split(|byte| *byte == b'\r'));
        let cookies = cookies(&headers);
        assert!(cookies.len() <= 4);
        for cookie in cookies {
            let opens = self.book.session(cookie, self.now).is_ok();
            match self.begun.get(cookie) {
                None => assert!(!opens, "{cookie:?} was not begun, or is over"),
                Some(session) if session.of_token && self.is_revoked => {
                    assert!(!opens, "its token was revoked")
                }
                Some(session) => {
                    let hours = (self.now.0 - session.began.0) / HOUR_NS;
                    assert!(!opens || hours < 7 * 24, "{hours} hours old");
                    // Of one person twenty live at once, of one token more.
                    assert!(opens || hours > 0 || self.begins >= 20, "just begun");
                }
            }
            if opens {
                let value =
                    session_cookie(cookie, cookie.len() % 2 == 0).expect("what was begun goes into a header");
                assert!(value.to_str().is_ok_and(|value| value.contains(cookie)));
            }
            if signs_out {
                // What is over may still lie there: to end it is no harm.
                let was_there = self.book.end(cookie).is_some();
                assert!(was_there || !opens);
                assert!(self.book.session(cookie, self.now).is_err(), "signed out");
                self.begun.remove(cookie);
            }
        }
    }
}
