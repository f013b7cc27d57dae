use ringscope_api::Role;

use super::*;

const S: u64 = 1_000_000_000;

fn book(expires_at: Option<Timestamp>) -> (Book, Secret) {
    let secret = Secret::token([7; 40]);
    let token = Token {
        id: secret.id.clone(),
        name: "grafana".to_owned(),
        role: Role::Read,
        tenant: None,
        created_at: Timestamp(S),
        created_by: String::new(),
        expires_at,
        revoked_at: None,
        unwritten: None,
        last_used_at: None,
    };
    let mut book = Book::default();
    assert!(!book.has_tokens());
    book.add_token(TokenRow { token, hash: secret.hash });
    (book, secret)
}

#[test]
fn a_token_opens_until_it_ends() {
    let (mut book, secret) = book(Some(Timestamp(10 * S)));
    let who = book.token(&secret.text, Timestamp(9 * S)).unwrap();
    assert_eq!((who.name.as_str(), who.role, who.known_by), ("grafana", Role::Read, KnownBy::Token));
    assert_eq!(book.token(&secret.text, Timestamp(10 * S)), Err(Refusal::Expired(Timestamp(10 * S))));
    let other = Secret::token([8; 40]);
    assert_eq!(book.token(&other.text, Timestamp(S)), Err(Refusal::Unknown));
    let forged = format!("rsc_{}_{}", secret.id, "0".repeat(64));
    assert_eq!(book.token(&forged, Timestamp(S)), Err(Refusal::Unknown));
    assert_eq!(book.token("hunter2", Timestamp(S)), Err(Refusal::Malformed));
}

#[test]
fn what_is_revoked_opens_nothing_nor_do_its_sessions() {
    let (mut book, secret) = book(None);
    let session = Secret::session([3; 32]);
    let who = book.begin(&secret.text, session.hash, Timestamp(S)).unwrap().who;
    assert_eq!(who.known_by, KnownBy::Session);
    assert_eq!(book.session(&session.text, Timestamp(2 * S)).unwrap().name, "grafana");
    book.revoke(&secret.id, Timestamp(3 * S));
    assert_eq!(book.token(&secret.text, Timestamp(4 * S)), Err(Refusal::Revoked(Timestamp(3 * S))));
    assert_eq!(book.session(&session.text, Timestamp(4 * S)), Err(Refusal::Revoked(Timestamp(3 * S))));
    assert_eq!(book.recognise(&secret.text).unwrap().token.as_ref(), Some(&secret.id));
    let forged = format!("rsc_{}_{}", secret.id, "0".repeat(64));
    assert_eq!(book.recognise(&forged), None, "an id alone, which many know, accuses nobody");
    assert!(book.has_tokens(), "the daemon does not open again");
}

#[test]
fn what_is_revoked_stays_so_while_the_database_does_not_know_it() {
    let (mut book, secret) = book(None);
    let rows = vec![book.tokens[&secret.id].clone()];
    let revoked = Err(Refusal::Revoked(Timestamp(3 * S)));
    assert_eq!(book.revoke("nobody", Timestamp(3 * S)), None);
    assert_eq!(book.revoke(&secret.id, Timestamp(3 * S)).unwrap().revoked_at, Some(Timestamp(3 * S)));
    book.not_written(&secret.id, "the disk is full");
    for s in 4..7 {
        book.set_tokens(rows.clone(), book.changes());
        assert_eq!(book.token(&secret.text, Timestamp(s * S)), revoked);
        assert_eq!(book.tokens()[0].unwritten.as_deref(), Some("the disk is full"));
    }
    assert_eq!(book.unwritten(), [(secret.id.clone(), Timestamp(3 * S))]);
    let before = book.changes();
    book.written(&secret.id);
    book.set_tokens(rows, before);
    assert_eq!(book.token(&secret.text, Timestamp(8 * S)), revoked, "what was read before it was written");
    assert_eq!((book.unwritten(), book.tokens()[0].unwritten.clone()), (Vec::new(), None));
}

#[test]
fn sessions_end_unused_or_old() {
    let hour = 3600 * S;
    let (mut book, secret) = book(None);
    let begin = |book: &mut Book, byte| {
        let session = Secret::session([byte; 32]);
        book.begin(&secret.text, session.hash, Timestamp(S)).unwrap();
        session.text
    };
    let unused = begin(&mut book, 1);
    assert!(book.session(&unused, Timestamp(S + 12 * hour - 1)).is_ok());
    let unused = begin(&mut book, 2);
    assert_eq!(book.session(&unused, Timestamp(S + 12 * hour)), Err(Refusal::SessionOver));
    let used = begin(&mut book, 3);
    for n in 1..7 * 24 {
        assert!(book.session(&used, Timestamp(S + n * hour)).is_ok(), "{n}");
    }
    assert_eq!(book.session(&used, Timestamp(S + 7 * 24 * hour)), Err(Refusal::SessionOver));
    let left = begin(&mut book, 4);
    assert!(book.end(&left).is_some() && book.end(&left).is_none());
    assert_eq!(book.session(&left, Timestamp(S)), Err(Refusal::SessionOver));
}

#[test]
fn a_token_has_a_hundred_sessions_at_most() {
    let (mut book, secret) = book(None);
    let mut begin = |n: u8| {
        let session = Secret::session([n; 32]);
        (session.text, book.begin(&secret.text, session.hash, Timestamp(S + u64::from(n))).unwrap().ended)
    };
    let first = begin(0);
    assert!((1..100).all(|n| begin(n).1.is_none()));
    assert_eq!(begin(100).1, Some(hash_of(&first.0)));
    assert_eq!(book.sessions.len(), 100);
    assert_eq!(book.session(&first.0, Timestamp(2 * S)), Err(Refusal::SessionOver));
}

#[test]
fn use_is_noted_once_a_minute_and_survives_a_refresh() {
    let (mut book, secret) = book(None);
    let rows = vec![book.tokens[&secret.id].clone()];
    for at in [10, 20, 69] {
        book.token(&secret.text, Timestamp(at * S)).unwrap();
    }
    assert_eq!(book.take_used().tokens, [(secret.id.clone(), Timestamp(10 * S))]);
    book.set_tokens(Vec::new(), book.changes() - 1);
    assert!(book.has_tokens(), "what was read before the last change says nothing");
    book.set_tokens(rows, book.changes());
    assert_eq!(book.tokens[&secret.id].token.last_used_at, Some(Timestamp(10 * S)));
    book.token(&secret.text, Timestamp(70 * S)).unwrap();
    assert_eq!(book.take_used().tokens.len(), 1);
    book.set_tokens(Vec::new(), book.changes());
    assert_eq!(book.token(&secret.text, Timestamp(71 * S)), Err(Refusal::Unknown), "gone from the database");
}
