//! The tokens and sessions that hold, in memory: to look somebody up costs one hash and asks no database.

use std::collections::HashMap;
use std::time::Duration;

use subtle::ConstantTimeEq as _;

use super::Who;
use super::people::{People, Person};
use super::token::{Hash, Secret, hash_of};
use crate::api::{KnownBy, Token};
use crate::clock::Timestamp;

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRow {
    /// What everybody may know of it.
    pub token: Token,
    /// Of the whole token.
    pub hash: Hash,
}

/// A browser that has signed in, as it is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionRow {
    /// Of what is in its cookie.
    pub hash: Hash,
    /// Id of the token that it was begun with: it ends with that.
    pub token: String,
    /// When it was begun.
    pub began_at: Timestamp,
    /// When it was last used, to the minute.
    pub seen_at: Timestamp,
}

/// When tokens, by id, and sessions were used.
#[derive(Debug)]
pub struct Used {
    /// Of tokens.
    pub tokens: Vec<(String, Timestamp)>,
    /// Of sessions.
    pub sessions: Vec<(Hash, Timestamp)>,
}

/// A session that was begun.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The session.
    pub session: SessionRow,
    /// Whose it is.
    pub who: Who,
    /// One that ended for it: the token had as many as it may have.
    pub ended: Option<Hash>,
}

/// Why a token or cookie opens nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It looks like nothing of ours.
    #[error("what was sent is not a token of ringscope: one looks like rsc_ID_SECRET and has 85 characters")]
    Malformed,
    /// Nobody has that one.
    #[error(
        "this token is not known here: was it made for another daemon? `ringscope token list` shows those that are"
    )]
    Unknown,
    /// Somebody took it back.
    #[error("this token was revoked at {0}: ask whoever runs the daemon for a new one")]
    Revoked(Timestamp),
    /// Its time is over.
    #[error("this token has ended at {0}: ask whoever runs the daemon for a new one")]
    Expired(Timestamp),
    /// A cookie that holds no more.
    #[error("this session is over: sign in again")]
    SessionOver,
}

/// The tokens and sessions that are known.
#[derive(Debug, Default)]
pub struct Book {
    tokens: HashMap<String, TokenRow>,
    sessions: HashMap<Hash, SessionRow>,
    people: People,
    /// Tokens and sessions of which is to be kept when they were used.
    used_tokens: HashMap<String, Timestamp>,
    used_sessions: HashMap<Hash, Timestamp>,
    /// A token of this process's own agent.
    own: Option<Hash>,
    /// How often tokens were added or revoked here.
    changes: u64,
}

impl Book {
    /// Lets in who shows this secret, as the agent inside this process.
    pub fn set_own(&mut self, own: Hash) {
        self.own = Some(own);
    }

    /// Whether any token was ever made.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// How often tokens were added or revoked here: to be noted before they are read elsewhere.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// These were all tokens when there had been so many changes: if there were more since, they may be missing there.
    /// When a token was used is kept if that is newer here.
    pub fn set_tokens(&mut self, tokens: Vec<TokenRow>, changes: u64) {
        if changes != self.changes {
            return;
        }
        let mut before = std::mem::take(&mut self.tokens);
        for mut row in tokens {
            if let Some(old) = before.remove(&row.token.id) {
                row.token.last_used_at = row.token.last_used_at.max(old.token.last_used_at);
            }
            self.tokens.insert(row.token.id.clone(), row);
        }
    }

    /// A token was made.
    pub fn add_token(&mut self, row: TokenRow) {
        self.changes += 1;
        self.tokens.insert(row.token.id.clone(), row);
    }

    /// A token was revoked; at once, and all its sessions with it.
    pub fn revoke(&mut self, id: &str, now: Timestamp) {
        self.changes += 1;
        if let Some(row) = self.tokens.get_mut(id) {
            row.token.revoked_at.get_or_insert(now);
        }
    }

    /// Whose token this is.
    ///
    /// # Errors
    /// Why it opens nothing.
    pub fn token(&mut self, text: &str, now: Timestamp) -> Result<Who, Refusal> {
        self.token_row(text, now).map(|row| who(&row.token, KnownBy::Token, None))
    }

    fn token_row(&mut self, text: &str, now: Timestamp) -> Result<&TokenRow, Refusal> {
        let id = Secret::id_in(text).ok_or(Refusal::Malformed)?;
        let row = self.tokens.get_mut(id).ok_or(Refusal::Unknown)?;
        // In the same time wherever they differ.
        if !bool::from(row.hash.ct_eq(&hash_of(text))) {
            return Err(Refusal::Unknown);
        }
        holds(&row.token, now)?;
        if is_news(row.token.last_used_at, now) {
            row.token.last_used_at = Some(now);
            self.used_tokens.insert(row.token.id.clone(), now);
        }
        Ok(row)
    }

    /// Whether this is the secret of this process's own agent.
    #[must_use]
    pub fn is_own(&self, text: &str) -> bool {
        self.own.is_some_and(|own| bool::from(own.ct_eq(&hash_of(text))))
    }

    /// Begins a session with a token.
    ///
    /// # Errors
    /// Why the token opens nothing.
    pub fn begin(&mut self, token: &str, session: Hash, now: Timestamp) -> Result<Begun, Refusal> {
        let row = self.token_row(token, now)?;
        let begun = SessionRow { hash: session, token: row.token.id.clone(), began_at: now, seen_at: now };
        let who = who(&row.token, KnownBy::Session, Some(ends_at(&begun)));
        let of_token = self.sessions.values().filter(|one| one.token == begun.token);
        let ended = (of_token.clone().count() >= SESSIONS_OF_TOKEN_MAX)
            .then(|| of_token.min_by_key(|one| one.seen_at).map(|one| one.hash))
            .flatten();
        if let Some(ended) = ended {
            self.sessions.remove(&ended);
        }
        self.add_session(begun.clone());
        Ok(Begun { session: begun, who, ended })
    }

    /// A session of before. Of more than [`SESSIONS_MAX`] the one that was not used for the longest time goes.
    pub fn add_session(&mut self, session: SessionRow) {
        if self.sessions.len() >= SESSIONS_MAX {
            let oldest = self.sessions.values().min_by_key(|one| one.seen_at).map(|one| one.hash);
            if let Some(oldest) = oldest {
                self.sessions.remove(&oldest);
            }
        }
        self.sessions.insert(session.hash, session);
    }

    /// Whose session this is.
    ///
    /// # Errors
    /// [`Refusal::SessionOver`], or why its token opens nothing any more.
    pub fn session(&mut self, text: &str, now: Timestamp) -> Result<Who, Refusal> {
        let hash = hash_of(text);
        let Some(session) = self.sessions.get_mut(&hash) else { return self.people.session(&hash, now) };
        if is_over(session, now) {
            self.sessions.remove(&hash);
            return Err(Refusal::SessionOver);
        }
        let row = self.tokens.get(&session.token).ok_or(Refusal::SessionOver)?;
        if let Err(refusal) = holds(&row.token, now) {
            self.sessions.remove(&hash);
            return Err(refusal);
        }
        if is_news(Some(session.seen_at), now) {
            session.seen_at = now;
            self.used_sessions.insert(hash, now);
        }
        Ok(who(&row.token, KnownBy::Session, Some(ends_at(session))))
    }

    /// Begins a session of somebody whom an OpenID provider has named.
    pub fn begin_person(&mut self, person: Person, session: Hash, now: Timestamp) -> Who {
        self.people.begin(person, session, now)
    }

    /// Ends a session; its hash, if there was one.
    pub fn end(&mut self, text: &str) -> Option<Hash> {
        let hash = hash_of(text);
        let was_there = self.sessions.remove(&hash).is_some() || self.people.end(&hash);
        was_there.then_some(hash)
    }

    /// What is to be kept of when tokens and sessions were used; empty from here on.
    pub fn take_used(&mut self) -> Used {
        Used {
            tokens: std::mem::take(&mut self.used_tokens).into_iter().collect(),
            sessions: std::mem::take(&mut self.used_sessions).into_iter().collect(),
        }
    }
}

/// The moment before which a session that was begun, or last used, is over: (begun, used).
#[must_use]
pub fn sessions_over(now: Timestamp) -> (Timestamp, Timestamp) {
    let before =
        |time: Duration| Timestamp(now.0.saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
    (before(SESSION_MAX), before(SESSION_IDLE_MAX))
}

fn who(token: &Token, known_by: KnownBy, ends_at: Option<Timestamp>) -> Who {
    let tenant = token.tenant.as_deref().and_then(|tenant| tenant.parse().ok());
    Who { name: token.name.clone(), role: token.role, tenant, known_by, ends_at }
}

fn holds(token: &Token, now: Timestamp) -> Result<(), Refusal> {
    match (token.revoked_at, token.expires_at) {
        (Some(at), _) => Err(Refusal::Revoked(at)),
        (None, Some(at)) if at <= now => Err(Refusal::Expired(at)),
        _ => Ok(()),
    }
}

fn is_over(session: &SessionRow, now: Timestamp) -> bool {
    now.since(session.began_at) >= SESSION_MAX || now.since(session.seen_at) >= SESSION_IDLE_MAX
}

fn ends_at(session: &SessionRow) -> Timestamp {
    Timestamp(session.began_at.0.saturating_add(u64::try_from(SESSION_MAX.as_nanos()).unwrap_or(u64::MAX)))
}

fn is_news(last: Option<Timestamp>, now: Timestamp) -> bool {
    last.is_none_or(|last| now.since(last) >= USED_STEP)
}

/// However much it is used: a lost laptop is no key for ever.
const SESSION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Unused: a night. A page that is open uses it.
const SESSION_IDLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Browsers of everybody who is ever on call.
const SESSIONS_MAX: usize = 10_000;
/// Of one token: a team that shares one. Beyond, its session that was not used for the longest time ends, and nobody else's.
const SESSIONS_OF_TOKEN_MAX: usize = 100;
/// How finely it is noted when a token was used: nobody asks more, and an agent uses its own four times a second.
const USED_STEP: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Role;

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
        assert!(book.has_tokens(), "the daemon does not open again");
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
        assert_eq!(
            book.token(&secret.text, Timestamp(71 * S)),
            Err(Refusal::Unknown),
            "gone from the database"
        );
    }
}
