//! The tokens and sessions that hold, in memory: to look somebody up costs one hash and asks no database.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{KnownBy, Token};
use subtle::ConstantTimeEq as _;

use super::Who;
use super::people::{People, Person};
use super::token::{Hash, Secret, hash_of};

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

/// A revocation that is in force here and not in the database.
#[derive(Clone, Debug)]
struct Unwritten {
    at: Timestamp,
    why: String,
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
    /// Tokens that were revoked here, of which the database does not know it yet, by id.
    unwritten: BTreeMap<String, Unwritten>,
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
    /// When a token was used is kept if that is newer here, and what was revoked here stays revoked.
    pub fn set_tokens(&mut self, tokens: Vec<TokenRow>, changes: u64) {
        if changes != self.changes {
            return;
        }
        let mut before = std::mem::take(&mut self.tokens);
        for mut row in tokens {
            if let Some(old) = before.remove(&row.token.id) {
                row.token.last_used_at = row.token.last_used_at.max(old.token.last_used_at);
            }
            if let Some(unwritten) = self.unwritten.get(&row.token.id) {
                row.token.revoked_at.get_or_insert(unwritten.at);
                row.token.unwritten = Some(unwritten.why.clone());
            }
            self.tokens.insert(row.token.id.clone(), row);
        }
    }

    /// A token was made.
    pub fn add_token(&mut self, row: TokenRow) {
        self.changes += 1;
        self.tokens.insert(row.token.id.clone(), row);
    }

    /// Revokes a token; at once, and all its sessions with it. Until [`Book::written`] it is in force here alone. Returns it
    /// as it is then; `None`: it is not known here.
    pub fn revoke(&mut self, id: &str, now: Timestamp) -> Option<Token> {
        let row = self.tokens.get_mut(id)?;
        self.changes += 1;
        let at = *row.token.revoked_at.get_or_insert(now);
        self.unwritten
            .entry(id.to_owned())
            .or_insert(Unwritten { at, why: "it is being written".to_owned() });
        Some(row.token.clone())
    }

    /// The database knows that this token is revoked.
    pub fn written(&mut self, id: &str) {
        self.changes += 1;
        self.unwritten.remove(id);
        if let Some(row) = self.tokens.get_mut(id) {
            row.token.unwritten = None;
        }
    }

    /// The database could not be told that this token is revoked: why not.
    pub fn not_written(&mut self, id: &str, why: &str) {
        let Some(unwritten) = self.unwritten.get_mut(id) else { return };
        why.clone_into(&mut unwritten.why);
        if let Some(row) = self.tokens.get_mut(id) {
            row.token.unwritten = Some(why.to_owned());
        }
    }

    /// Tokens that were revoked here, and when, of which the database does not know it yet.
    #[must_use]
    pub fn unwritten(&self) -> Vec<(String, Timestamp)> {
        self.unwritten.iter().map(|(id, one)| (id.clone(), one.at)).collect()
    }

    /// Every token, the newest first.
    #[must_use]
    pub fn tokens(&self) -> Vec<Token> {
        let mut tokens: Vec<Token> = self.tokens.values().map(|row| row.token.clone()).collect();
        tokens
            .sort_by(|one, other| other.created_at.cmp(&one.created_at).then_with(|| one.id.cmp(&other.id)));
        tokens
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

    /// Whose token this is, whether or not it opens anything. `None`: it is none of ours.
    #[must_use]
    pub fn recognise(&self, text: &str) -> Option<Who> {
        let row = self.tokens.get(Secret::id_in(text)?)?;
        bool::from(row.hash.ct_eq(&hash_of(text))).then(|| who(&row.token, KnownBy::Token, None))
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
    Who {
        name: token.name.clone(),
        id: token.id.clone(),
        token: Some(token.id.clone()),
        role: token.role,
        tenant,
        known_by,
        ends_at,
    }
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
mod tests;
