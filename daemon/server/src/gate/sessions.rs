//! Browsers sign in and out.

use ringscope_access::{Begun, Person, Secret, Who};
use ringscope_api::clock;

use super::{Denied, Gate, TokenError};
use crate::ingest::StoreState;

impl Gate {
    /// Begins a session with a token: what goes into the cookie, and who it is.
    ///
    /// # Errors
    /// Why the token opens nothing; the outer one: there are no random bytes.
    pub async fn sign_in(&self, token: &str) -> Result<Result<(String, Who), Denied>, TokenError> {
        self.settle().await;
        let session = new_session()?;
        let begun = self.book().begin(token, session.hash, clock::now());
        let Begun { session: row, who, ended } = match begun {
            Ok(begun) => begun,
            Err(refusal) => return Ok(Err(self.unless_known(refusal.into()))),
        };
        if let StoreState::Open(store) = self.keeper.state() {
            let kept = async {
                if let Some(ended) = &ended {
                    store.remove_session(ended).await?;
                }
                store.add_session(&row).await
            };
            if let Err(error) = kept.await {
                tracing::warn!(%error, "a session is not stored: it ends with this process");
            }
        }
        Ok(Ok((session.text, who)))
    }

    /// Begins a session of somebody whom an OpenID provider has named: what goes into the cookie, and who it is.
    ///
    /// # Errors
    /// There are no random bytes.
    pub fn sign_in_person(&self, person: Person) -> Result<(String, Who), TokenError> {
        let session = new_session()?;
        let who = self.book().begin_person(person, session.hash, clock::now());
        Ok((session.text, who))
    }

    /// Ends a session. False: there was none.
    pub async fn sign_out(&self, cookie: &str) -> bool {
        let Some(hash) = self.book().end(cookie) else { return false };
        if let StoreState::Open(store) = self.keeper.state()
            && let Err(error) = store.remove_session(&hash).await
        {
            tracing::warn!(%error, "a session that was ended here would go on after a restart of the daemon");
        }
        true
    }
}

fn new_session() -> Result<Secret, TokenError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| TokenError::Random(error.to_string()))?;
    Ok(Secret::session(random))
}
