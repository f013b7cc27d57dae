//! Sign-ins that were begun and not finished. Each is for the browser that has its cookie, once, and not for long.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use openidconnect::{Nonce, PkceCodeVerifier};
use ringscope_access::{Hash, hash_of};
use ringscope_api::clock::Timestamp;
use subtle::ConstantTimeEq as _;

use super::OidcError;

/// One that was begun.
#[derive(Debug)]
pub(super) struct Pending {
    /// What the provider sends back.
    pub(super) state: String,
    /// What the ID token must have.
    pub(super) nonce: Nonce,
    /// What the code is taken with.
    pub(super) verifier: PkceCodeVerifier,
    /// Where the page was.
    pub(super) place: String,
    /// Where it was begun from.
    pub(super) origin: IpAddr,
    /// And when.
    pub(super) at: Timestamp,
}

/// Those that were begun, by what is in their browsers' cookies.
#[derive(Debug, Default)]
pub(super) struct Begun {
    by_cookie: HashMap<Hash, Pending>,
}

impl Begun {
    /// Another one. Of too many the oldest ends: of its own address first.
    pub(super) fn add(&mut self, cookie: Hash, pending: Pending) {
        let now = pending.at;
        self.by_cookie.retain(|_, one| now.since(one.at) < PENDING_MAX);
        let of_address = self.by_cookie.iter().filter(|(_, one)| one.origin == pending.origin);
        let oldest = if of_address.clone().count() >= OF_ADDRESS_MAX {
            of_address.min_by_key(|(_, one)| one.at).map(|(hash, _)| *hash)
        } else if self.by_cookie.len() >= ALL_MAX {
            self.by_cookie.iter().min_by_key(|(_, one)| one.at).map(|(hash, _)| *hash)
        } else {
            None
        };
        if let Some(oldest) = oldest {
            self.by_cookie.remove(&oldest);
        }
        self.by_cookie.insert(cookie, pending);
    }

    /// The one that one of these cookies is for, which is over with that; `state` is what the provider has sent back.
    pub(super) fn take(
        &mut self,
        cookies: &[&str],
        state: &str,
        now: Timestamp,
    ) -> Result<Pending, OidcError> {
        let mut refused = OidcError::NotBegun;
        for cookie in cookies {
            let hash = hash_of(cookie);
            let Some(pending) = self.by_cookie.get(&hash).filter(|one| now.since(one.at) < PENDING_MAX)
            else {
                continue;
            };
            // Whoever has a browser come here with another state ends nothing by that.
            if !bool::from(pending.state.as_bytes().ct_eq(state.as_bytes())) {
                refused = OidcError::OtherState;
                continue;
            }
            return self.by_cookie.remove(&hash).ok_or(OidcError::NotBegun);
        }
        Err(refused)
    }
}

/// Who has to find a second factor first needs minutes.
pub(super) const PENDING_MAX: Duration = Duration::from_secs(600);
/// Of one address: a company behind one, on the morning after everybody's session has ended.
const OF_ADDRESS_MAX: usize = 500;
/// Of all: 4 MB.
const ALL_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn pending(state: &str, address: [u8; 4], at_s: u64) -> Pending {
        Pending {
            state: state.to_owned(),
            nonce: Nonce::new("n".to_owned()),
            verifier: PkceCodeVerifier::new("v".repeat(43)),
            place: "/".to_owned(),
            origin: address.into(),
            at: Timestamp(at_s * S),
        }
    }

    #[test]
    fn one_that_was_begun_is_for_its_browser_once_and_not_for_long() {
        let mut begun = Begun::default();
        begun.add(hash_of("mine"), pending("state", [10, 0, 0, 1], 1));
        let mut take =
            |cookie: &str, state: &str, at_s: u64| begun.take(&[cookie], state, Timestamp(at_s * S));
        assert!(matches!(take("theirs", "state", 2), Err(OidcError::NotBegun)));
        assert!(matches!(take("mine", "other", 2), Err(OidcError::OtherState)));
        assert!(matches!(take("mine", "", 2), Err(OidcError::OtherState)));
        assert!(matches!(take("mine", "state", 601), Err(OidcError::NotBegun)), "ten minutes are over");
        assert!(take("mine", "state", 600).is_ok());
        assert!(matches!(take("mine", "state", 600), Err(OidcError::NotBegun)), "it was used");
    }

    #[test]
    fn whoever_begins_thousands_ends_nobody_elses() {
        let mut begun = Begun::default();
        begun.add(hash_of("mine"), pending("state", [10, 0, 0, 1], 1));
        for n in 0..2 * OF_ADDRESS_MAX {
            begun.add(hash_of(&n.to_string()), pending("theirs", [10, 0, 0, 2], 2));
        }
        assert_eq!(begun.by_cookie.len(), OF_ADDRESS_MAX + 1);
        assert!(begun.take(&["mine"], "state", Timestamp(3 * S)).is_ok());
    }
}
