//! Who stands at the door: joins what `access` decides with the store, which keeps tokens, sessions and the audit trail.
//!
//! Nobody is looked up in the database: tokens are read from it once a second, so one that was revoked there opens nothing
//! a second later, and one that was revoked here opens nothing at once.

mod make;
mod run;
mod sessions;
mod trail;

pub use make::{TokenError, adopted, made};
pub use run::run;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringscope_access::{Book, Doors, Hash, NoRole, Proxies, Refusal, Refused, Throttle, Who};
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{AuditEntry, KnownBy, Role};
use ringscope_store::{AuditQuery, Store, StoreError};
use tokio::sync::watch;
use trail::Trail;

use crate::ingest::{Keeper, StoreState};

/// How a gate is set up.
#[derive(Clone, Debug)]
pub struct GateConfig {
    /// When something is needed.
    pub doors: Doors,
    /// Who else says who somebody is.
    pub proxies: Proxies,
    /// Whether people sign in by an OpenID provider.
    pub has_oidc: bool,
    /// Where tokens are kept, as the operator would write it, without a password.
    pub database: String,
    /// Of the secret of the agent inside this process.
    pub own: Hash,
}

/// Knows who asks.
pub struct Gate {
    config: GateConfig,
    keeper: Keeper,
    book: Mutex<Book>,
    /// Who failed to sign in: they wait.
    sign_ins: Mutex<Throttle>,
    /// Whose tokens opened nothing: no more is said of it. An agent whose token has ended keeps nobody from signing in.
    tokens: Mutex<Throttle>,
    /// Tokens of ours that were refused, and when that was told.
    refused: Mutex<Refused>,
    trail: Arc<Trail>,
    /// Whether the tokens were read.
    known: watch::Sender<bool>,
}

/// What a request brings along.
pub struct Asking<'a> {
    /// Where it came from.
    pub peer: IpAddr,
    /// What stands behind `Authorization: Bearer`.
    pub bearer: Option<&'a str>,
    /// What its cookies of our name hold.
    pub cookies: Vec<&'a str>,
    /// A header that came exactly once.
    pub header: &'a (dyn Fn(&str) -> Option<&'a str> + Sync),
}

/// Why somebody is not known.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// Nobody is, until the database has answered.
    #[error(
        "tokens are kept in the database, which has not answered since the daemon started; its log says why"
    )]
    NotYet,
    /// They bring nothing, and nobody could bring anything.
    #[error(
        "this daemon wants to know who asks, and there is no token yet. Make the first one on its machine, as the user that \
         it runs as: ringscope token create --database '{0}' --name NAME --role admin"
    )]
    NoTokenYet(String),
    /// They bring nothing.
    #[error(
        "this daemon wants to know who asks: give a token, in a file with --token-file, in RINGSCOPE_TOKEN, or as the \
         header Authorization: Bearer TOKEN. `ringscope token create` makes one"
    )]
    Nothing,
    /// A proxy says who they are, and they may do nothing.
    #[error(transparent)]
    NoRole(#[from] NoRole),
    /// They bring something that opens nothing.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

/// Why what the store keeps cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// There is none.
    #[error(
        "this daemon keeps nothing (--database-url none), so it has no tokens and no audit trail: give it a database"
    )]
    NoDatabase,
    /// It does not answer.
    #[error("{0}")]
    Away(String),
}

impl NotKept {
    fn away(error: StoreError) -> Self {
        Self::Away(error.to_string())
    }
}

impl Gate {
    /// A gate over the store that `keeper` opens; [`run`] keeps it current.
    #[must_use]
    pub fn new(config: GateConfig, keeper: Keeper) -> Self {
        let mut book = Book::default();
        book.set_own(config.own);
        Self {
            config,
            keeper,
            book: Mutex::new(book),
            sign_ins: Mutex::default(),
            tokens: Mutex::default(),
            refused: Mutex::default(),
            trail: Arc::default(),
            known: watch::Sender::new(false),
        }
    }

    /// Whether it is known which tokens there are.
    #[must_use]
    pub fn is_known(&self) -> bool {
        *self.known.borrow()
    }

    /// Where a request came from.
    #[must_use]
    pub fn origin(&self, peer: IpAddr, forwarded_for: &[&str]) -> IpAddr {
        self.config.proxies.origin(peer, forwarded_for)
    }

    /// Whether a proxy that is believed is there.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.config.proxies.trusts(peer)
    }

    /// Who asks.
    ///
    /// # Errors
    /// Why that is not known.
    pub async fn identify(&self, asking: &Asking<'_>) -> Result<Who, Denied> {
        self.settle().await;
        self.look_up(asking, clock::now())
    }

    fn look_up(&self, asking: &Asking<'_>, now: Timestamp) -> Result<Who, Denied> {
        let mut book = self.book();
        let is_open = match self.config.doors {
            Doors::Open => true,
            Doors::UntilToken => !book.has_tokens(),
            Doors::Closed => false,
        };
        // Where nothing is needed, who says who they are may not do less for it.
        let at_least = |who: Who| match who.role {
            Role::Ingest | Role::Read if is_open => {
                Who { name: who.name, id: who.id, token: who.token, tenant: who.tenant, ..Who::anybody() }
            }
            _ => who,
        };
        let mut refusal = None;
        if let Some(bearer) = asking.bearer {
            if book.is_own(bearer) {
                let name = "the agent of the daemon's host".to_owned();
                return Ok(Who {
                    name,
                    id: OWN.to_owned(),
                    token: None,
                    role: Role::Ingest,
                    tenant: None,
                    known_by: KnownBy::Token,
                    ends_at: None,
                });
            }
            match book.token(bearer, now) {
                Ok(who) => return Ok(at_least(who)),
                // Who brings a wrong token is not taken for somebody else.
                Err(error) if !is_open => return Err(self.unless_known(error.into())),
                Err(_) => {}
            }
        }
        for cookie in &asking.cookies {
            match book.session(cookie, now) {
                Ok(who) => return Ok(at_least(who)),
                Err(error) => refusal = Some(error),
            }
        }
        match self.config.proxies.who(asking.peer, asking.header) {
            Ok(Some(who)) => return Ok(at_least(who)),
            Ok(None) => {}
            Err(error) if !is_open => return Err(error.into()),
            Err(_) => {}
        }
        if is_open {
            return Ok(Who::anybody());
        }
        let denied = match refusal {
            Some(refusal) => refusal.into(),
            None if book.has_tokens() || self.has_others() => Denied::Nothing,
            None => Denied::NoTokenYet(self.config.database.clone()),
        };
        Err(self.unless_known(denied))
    }

    /// Whether somebody else than a token says who somebody is.
    fn has_others(&self) -> bool {
        self.config.has_oidc || !self.config.proxies.trusted.is_empty()
    }

    fn unless_known(&self, denied: Denied) -> Denied {
        if self.is_known() { denied } else { Denied::NotYet }
    }

    /// Waits, while the database is being opened, until the tokens were read.
    async fn settle(&self) {
        if self.is_known() {
            return;
        }
        let mut known = self.known.subscribe();
        let settled = async {
            while !*known.borrow_and_update() && !matches!(self.keeper.state(), StoreState::Away(_)) {
                let _ = tokio::time::timeout(SETTLE_STEP, known.changed()).await;
            }
        };
        let _ = tokio::time::timeout(SETTLE_MAX, settled).await;
    }

    /// How long this address has to wait before it may try to sign in.
    #[must_use]
    pub fn wait(&self, address: IpAddr) -> Option<Duration> {
        lock(&self.sign_ins).wait(address, clock::now())
    }

    /// Notes that this address failed to sign in. False: it failed so often that no more need be said of it.
    pub fn failed_to_sign_in(&self, address: IpAddr) -> bool {
        lock(&self.sign_ins).failed(address, clock::now())
    }

    /// Notes that a token opened nothing: whose it is, if it is one of ours that was revoked or has ended, and whether that is
    /// to be told. `is_told`: whether it is of one that is not known.
    pub fn token_refused(&self, token: &str, is_told: impl FnOnce() -> bool) -> (Option<Who>, bool) {
        let who = self.book().recognise(token);
        let is_told = match who.as_ref().and_then(|who| who.token.as_deref()) {
            Some(id) => lock(&self.refused).is_news(id, clock::now()),
            None => is_told(),
        };
        (who, is_told)
    }

    /// Notes that a token that nobody knows came from this address. False: so often that no more need be said of it.
    pub fn token_failed(&self, address: IpAddr) -> bool {
        lock(&self.tokens).failed(address, clock::now())
    }

    /// Adds to the audit trail. It is in the store when this returns, unless that is away: then it is as soon as it can be.
    pub async fn record(&self, entry: AuditEntry) {
        self.trail.push(entry);
        if let StoreState::Open(store) = self.keeper.state() {
            self.trail.flush(&store).await;
        }
    }

    /// The same, later: for what strangers can cause as often as they like.
    pub fn record_later(&self, entry: AuditEntry) {
        self.trail.push(entry);
    }

    /// What the audit trail has, what waits to be stored included.
    ///
    /// # Errors
    /// Why that cannot be had.
    pub async fn audit(&self, query: AuditQuery<'_>) -> Result<Vec<AuditEntry>, NotKept> {
        let store = self.store()?;
        self.trail.flush(&store).await;
        store.audit(query).await.map_err(NotKept::away)
    }

    fn store(&self) -> Result<Store, NotKept> {
        match self.keeper.state() {
            StoreState::Open(store) => Ok(store),
            StoreState::None => Err(NotKept::NoDatabase),
            StoreState::Opening => Err(NotKept::Away("the database is being opened".to_owned())),
            StoreState::Away(away) => Err(NotKept::Away(away.reason)),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }
}

fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Id of the agent inside this process, which no token has.
const OWN: &str = "own";
/// A database opens in milliseconds, or is away.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether it is away.
const SETTLE_STEP: Duration = Duration::from_millis(50);
