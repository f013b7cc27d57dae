//! Who may do what. Decides, and nothing else: no I/O, no clock, no HTTP; what is random comes as an argument.

mod book;
mod groups;
mod people;
mod proxy;
mod refused;
mod sender;
mod tenant;
mod throttle;
mod token;

pub use book::{Begun, Book, Refusal, SessionRow, TokenRow, Used, sessions_over};
pub use groups::{Groups, NoAccess, group_role, group_tenant};
pub use people::Person;
pub use proxy::{NoRole, Proxies, RoleOfGroup, Trusted};
pub use refused::Refused;
pub use sender::Sender;
pub use tenant::{Tenant, nobodys, without_tenants};
pub use throttle::Throttle;
pub use token::{Hash, Secret, hash_of};

use ringscope_api::clock::Timestamp;
use ringscope_api::{KnownBy, Role};

/// What a request needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// Nothing.
    Public,
    /// Somebody who is known, whatever they may do.
    Known,
    /// Somebody of this role, or of one that includes it.
    Role(Role),
}

/// Who asks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Who {
    /// Name of a token, or of a person as a proxy or an OpenID provider says it.
    pub name: String,
    /// What no two share: id of the token, also of a session that was begun with it, or what a proxy or provider calls the
    /// person. Empty: nobody in particular.
    pub id: String,
    /// Id of the token that says so. `None`: a proxy, a provider or nobody does.
    pub token: Option<String>,
    /// What they may do.
    pub role: Role,
    /// Whose jobs and hosts they see. `None`: everybody's.
    pub tenant: Option<Tenant>,
    /// How that is known.
    pub known_by: KnownBy,
    /// When a session ends.
    pub ends_at: Option<Timestamp>,
}

impl Who {
    /// Whoever asks where nothing is needed. Tokens are made by who may write to the database, and by no stranger.
    #[must_use]
    pub const fn anybody() -> Self {
        Self {
            name: String::new(),
            id: String::new(),
            token: None,
            role: Role::Operate,
            tenant: None,
            known_by: KnownBy::Nothing,
            ends_at: None,
        }
    }

    /// Whether they may do what needs this.
    #[must_use]
    pub fn may(&self, need: Need) -> bool {
        match need {
            Need::Public | Need::Known => true,
            Need::Role(role) => includes(self.role, role),
        }
    }
}

/// Whether who has `role` may do what `needed` may.
fn includes(role: Role, needed: Role) -> bool {
    match role {
        Role::Admin => true,
        Role::Operate => needed != Role::Admin,
        Role::Read | Role::Ingest => role == needed,
    }
}

/// When something is needed of who asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Doors {
    /// Never.
    Open,
    /// As soon as there is a token: only this machine reaches the daemon.
    UntilToken,
    /// Always.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_include_what_they_say() {
        let may = |role| {
            let who = Who { role, known_by: KnownBy::Token, ..Who::anybody() };
            Role::ALL.map(|needed| who.may(Need::Role(needed)))
        };
        assert_eq!(may(Role::Ingest), [true, false, false, false]);
        assert_eq!(may(Role::Read), [false, true, false, false]);
        assert_eq!(may(Role::Operate), [true, true, true, false]);
        assert_eq!(may(Role::Admin), [true; 4]);
        let anybody = Role::ALL.map(|needed| Who::anybody().may(Need::Role(needed)));
        assert_eq!(anybody, [true, true, true, false], "nobody makes tokens from outside unasked");
    }
}
