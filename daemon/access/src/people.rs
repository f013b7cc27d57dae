//! Sessions of people whom an OpenID provider has named, in memory alone: what their groups may do is settled when they
//! sign in, so a restart, after which groups may count otherwise, asks the provider again.

use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{KnownBy, Role};

use super::token::Hash;
use super::{Refusal, Tenant, Who};

/// Somebody whom a provider has named and whose groups may do something.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Person {
    /// As people read it.
    pub name: String,
    /// The provider's own name for them, which no two share.
    pub subject: String,
    /// What their groups may do.
    pub role: Role,
    /// Whose jobs they see.
    pub tenant: Option<Tenant>,
}

/// The sessions of people.
#[derive(Debug, Default)]
pub(super) struct People {
    sessions: HashMap<Hash, Session>,
}

#[derive(Debug)]
struct Session {
    person: Person,
    began_at: Timestamp,
    seen_at: Timestamp,
}

impl People {
    /// Begins a session.
    pub(super) fn begin(&mut self, person: Person, session: Hash, now: Timestamp) -> Who {
        self.sessions.retain(|_, one| !one.is_over(now));
        let of_them = self.sessions.iter().filter(|(_, one)| one.person.subject == person.subject);
        let too_many = of_them.clone().count() >= SESSIONS_OF_PERSON_MAX;
        let oldest = if too_many {
            of_them.min_by_key(|(_, one)| one.seen_at).map(|(hash, _)| *hash)
        } else if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.iter().min_by_key(|(_, one)| one.seen_at).map(|(hash, _)| *hash)
        } else {
            None
        };
        if let Some(oldest) = oldest {
            self.sessions.remove(&oldest);
        }
        let begun = Session { person, began_at: now, seen_at: now };
        let who = begun.who();
        self.sessions.insert(session, begun);
        who
    }

    /// Whose session this is.
    pub(super) fn session(&mut self, hash: &Hash, now: Timestamp) -> Result<Who, Refusal> {
        let session = self.sessions.get_mut(hash).ok_or(Refusal::SessionOver)?;
        if session.is_over(now) {
            self.sessions.remove(hash);
            return Err(Refusal::SessionOver);
        }
        session.seen_at = session.seen_at.max(now);
        Ok(session.who())
    }

    /// Ends a session. False: there was none.
    pub(super) fn end(&mut self, hash: &Hash) -> bool {
        self.sessions.remove(hash).is_some()
    }
}

impl Session {
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.began_at) >= SESSION_MAX
    }

    fn who(&self) -> Who {
        let Person { name, subject, role, tenant } = self.person.clone();
        let life_ns = u64::try_from(SESSION_MAX.as_nanos()).unwrap_or(u64::MAX);
        let ends_at = Some(Timestamp(self.began_at.0.saturating_add(life_ns)));
        Who { name, id: subject, token: None, role, tenant, known_by: KnownBy::Session, ends_at }
    }
}

/// A shift. Who has left a group loses what it may do by then, and who has not signs in again by one click.
const SESSION_MAX: Duration = Duration::from_secs(12 * 3600);
/// As of tokens: browsers of everybody who is ever on call.
const SESSIONS_MAX: usize = 10_000;
/// Browsers of one person. Beyond, their session that was not used for the longest time ends, and nobody else's.
const SESSIONS_OF_PERSON_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600 * 1_000_000_000;

    fn person(subject: &str) -> Person {
        Person { name: "Ann".to_owned(), subject: subject.to_owned(), role: Role::Read, tenant: None }
    }

    #[test]
    fn a_session_ends_after_a_shift_or_when_told() {
        let mut people = People::default();
        let who = people.begin(person("1"), [1; 32], Timestamp(HOUR));
        assert_eq!((who.ends_at, who.known_by), (Some(Timestamp(13 * HOUR)), KnownBy::Session));
        assert_eq!(people.session(&[1; 32], Timestamp(12 * HOUR)), Ok(who));
        assert_eq!(people.session(&[2; 32], Timestamp(12 * HOUR)), Err(Refusal::SessionOver));
        assert_eq!(people.session(&[1; 32], Timestamp(13 * HOUR)), Err(Refusal::SessionOver));
        people.begin(person("1"), [3; 32], Timestamp(HOUR));
        assert!(people.end(&[3; 32]) && !people.end(&[3; 32]));
    }

    #[test]
    fn one_person_with_many_browsers_ends_nobody_elses_session() {
        let mut people = People::default();
        people.begin(person("other"), [255; 32], Timestamp(0));
        for n in 0..=SESSIONS_OF_PERSON_MAX {
            let n = u8::try_from(n).unwrap();
            people.begin(person("1"), [n; 32], Timestamp(u64::from(n)));
        }
        assert_eq!(people.session(&[0; 32], Timestamp(HOUR)), Err(Refusal::SessionOver));
        assert!(people.session(&[1; 32], Timestamp(HOUR)).is_ok());
        assert!(people.session(&[255; 32], Timestamp(HOUR)).is_ok());
    }
}
