//! Tokens made, listed and revoked.

use ringscope_access::{Secret, Tenant, TokenRow, hash_of};
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::unseen::is_odd;
use ringscope_api::{NewToken, Role, TOKEN_LIFE_S_MAX, TOKEN_NAME_CHARS_MAX, Token, TokenWish};
use ringscope_store::Store;

use super::{Gate, NotKept};

/// Why nothing became of a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Wish(String),
    /// There is no such token.
    #[error("no token has the id {0:?}; `ringscope token list` shows those that there are")]
    Unknown(String),
    /// There are as many as there may be.
    #[error(
        "there are 10000 tokens already, those that were revoked among them; give several hosts one token"
    )]
    Full,
    /// It cannot be kept, or what is kept cannot be had.
    #[error(transparent)]
    NotKept(#[from] NotKept),
    /// The system has none to give.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
}

/// A new token, and what is to be kept of it.
///
/// # Errors
/// [`TokenError::Wish`], [`TokenError::Random`].
pub fn made(wish: &TokenWish, by: &str, now: Timestamp) -> Result<(NewToken, TokenRow), TokenError> {
    check(wish)?;
    let mut random = [0; 40];
    getrandom::fill(&mut random).map_err(|error| TokenError::Random(error.to_string()))?;
    let Secret { id, text, hash } = Secret::token(random);
    let token = token(id, wish, by, now);
    Ok((NewToken { secret: text, token: token.clone() }, TokenRow { token, hash }))
}

/// What is to be kept of a token that was made elsewhere.
///
/// # Errors
/// [`TokenError::Wish`]: it is none.
pub fn adopted(
    secret: &str,
    name: &str,
    role: Role,
    by: &str,
    now: Timestamp,
) -> Result<TokenRow, TokenError> {
    let wish = TokenWish { name: name.to_owned(), role, tenant: None, expires_in_s: None };
    check(&wish)?;
    let Some(id) = Secret::id_in(secret) else {
        let detail = format!(
            "the token of the role {} is none: expected rsc_, 16 hexadecimal digits, _ and 64 more, in small letters",
            role.label()
        );
        return Err(TokenError::Wish(detail));
    };
    Ok(TokenRow { token: token(id.to_owned(), &wish, by, now), hash: hash_of(secret) })
}

fn token(id: String, wish: &TokenWish, by: &str, now: Timestamp) -> Token {
    Token {
        id,
        name: wish.name.trim().to_owned(),
        role: wish.role,
        tenant: wish.tenant.clone(),
        created_at: now,
        created_by: by.to_owned(),
        expires_at: wish
            .expires_in_s
            .map(|s| Timestamp(now.0.saturating_add(s.saturating_mul(1_000_000_000)))),
        revoked_at: None,
        unwritten: None,
        last_used_at: None,
    }
}

/// Whether what is wished makes sense.
fn check(wish: &TokenWish) -> Result<(), TokenError> {
    let name = wish.name.trim();
    match name.chars().count() {
        0 => {
            return Err(TokenError::Wish(
                "name is empty: say what the token is for, e.g. prometheus".to_owned(),
            ));
        }
        n if n > TOKEN_NAME_CHARS_MAX => {
            let detail = format!("name has {n} characters; allowed: at most {TOKEN_NAME_CHARS_MAX}");
            return Err(TokenError::Wish(detail));
        }
        _ if name.chars().any(|c| c.is_control() || is_odd(c)) => {
            return Err(TokenError::Wish("name has characters that nobody sees".to_owned()));
        }
        _ => {}
    }
    if let Some(tenant) = &wish.tenant {
        tenant.parse::<Tenant>().map_err(TokenError::Wish)?;
        if wish.role == Role::Admin {
            return Err(TokenError::Wish(
                "an admin is of no tenant: leave out tenant, or take another role".to_owned(),
            ));
        }
    }
    if let Some(seconds) = wish.expires_in_s.filter(|seconds| !(1..=TOKEN_LIFE_S_MAX).contains(seconds)) {
        let detail =
            format!("expires_in_s is {seconds}; allowed: 1 to {TOKEN_LIFE_S_MAX}, or none for no end");
        return Err(TokenError::Wish(detail));
    }
    Ok(())
}

impl Gate {
    /// Makes a token, which opens from now on.
    ///
    /// # Errors
    /// [`TokenError`]; then there is none.
    pub async fn create(&self, wish: &TokenWish, by: &str) -> Result<NewToken, TokenError> {
        let store = self.store()?;
        let (made, row) = made(wish, by, clock::now())?;
        match store.add_token(&row).await {
            Ok(true) => {}
            Ok(false) => return Err(TokenError::Full),
            Err(error) => return Err(NotKept::away(error).into()),
        }
        self.book().add_token(row);
        Ok(made)
    }

    /// Every token, the newest first. While the database does not answer, as they were known last: whoever must revoke one
    /// needs its id.
    ///
    /// # Errors
    /// [`TokenError`].
    pub async fn tokens(&self) -> Result<Vec<Token>, TokenError> {
        match self.refreshed().await {
            Err(NotKept::Away(_)) if self.is_known() => {}
            answer => answer?,
        }
        Ok(self.book().tokens())
    }

    /// Has the tokens as the database has them now.
    async fn refreshed(&self) -> Result<(), NotKept> {
        let store = self.store()?;
        self.keep_used(&store).await;
        self.refresh(&store).await.map_err(NotKept::away)
    }

    /// Revokes a token: it opens nothing on this daemon from now on, nor do the sessions that were begun with it. Where the
    /// database does not take that, the token says so, and [`super::run`] tries again until it does.
    ///
    /// # Errors
    /// [`TokenError`]: no such token is known.
    pub async fn revoke(&self, id: &str) -> Result<Token, TokenError> {
        let now = clock::now();
        if matches!(self.store(), Err(NotKept::NoDatabase)) {
            return Err(NotKept::NoDatabase.into());
        }
        if self.book().revoke(id, now).is_none() {
            // It may have been made a moment ago, by somebody else.
            self.refreshed().await?;
            if self.book().revoke(id, now).is_none() {
                return Err(TokenError::Unknown(id.chars().take(SHOWN_CHARS).collect()));
            }
        }
        match self.store() {
            Ok(store) => self.write_revoked(&store).await,
            Err(away) => self.book().not_written(id, &away.to_string()),
        }
        let known = self.book().tokens().into_iter().find(|token| token.id == id);
        known.ok_or_else(|| TokenError::Unknown(id.chars().take(SHOWN_CHARS).collect()))
    }

    /// Tells the database what was revoked here.
    pub(super) async fn write_revoked(&self, store: &Store) {
        let unwritten = self.book().unwritten();
        let mut why = None;
        for (id, at) in unwritten {
            if why.is_none() {
                match store.revoke_token(&id, at).await {
                    Ok(()) => {
                        self.book().written(&id);
                        continue;
                    }
                    Err(error) => why = Some(error.to_string()),
                }
            }
            // Where one is not taken the others would not be, each after a wait.
            self.book().not_written(&id, why.as_deref().unwrap_or_default());
        }
    }

    /// What is to be said to whoever looks at the daemon: what was revoked and may open again after a restart.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let tokens = self.book().tokens().into_iter();
        let unwritten = tokens.filter_map(|token| token.unwritten.map(|why| (token.name, token.id, why)));
        unwritten
            .take(NOTICES_MAX)
            .map(|(name, id, why)| {
                format!(
                    "the token {name} ({id}) is revoked on this daemon and not yet in its database ({why}); it is tried again \
                     every second, and a restart before that lets the token in again"
                )
            })
            .collect()
    }
}

/// How much of what was sent is repeated.
const SHOWN_CHARS: usize = 100;
/// Tokens that notices name.
const NOTICES_MAX: usize = 4;
