//! Shares: of what all clients have together, one token, person, address or tenant gets a part, and never what others need.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Extensions;
use ringscope_access::{Tenant, Who};

/// What one request counts for: its tenant, if it has one, and who sends it.
#[derive(Clone, Debug, Default)]
pub(super) struct Parties(Vec<Party>);

/// Whose share it is.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Party {
    /// All tokens and people of a tenant.
    Tenant(Tenant),
    /// A token with its sessions, or a person: id and name.
    Known(String, String),
    /// Where nothing says who it is.
    Address(IpAddr),
}

/// A bounded number of something, and who has how much of it.
#[derive(Debug)]
pub(super) struct Shares {
    /// What all may have.
    all: usize,
    /// What one may have.
    one: usize,
    taken: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by: HashMap<Party, usize>,
}

/// What somebody has; it is given back with this.
#[derive(Debug)]
pub(super) struct Taken {
    shares: Arc<Shares>,
    parties: Parties,
    n: usize,
}

/// Why there is no more.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Full {
    /// All have as much as there may be.
    All,
    /// This one has its share.
    One(Party),
}

impl Parties {
    /// Whom a request from `address` counts for.
    pub(super) fn of(who: Option<&Who>, address: IpAddr) -> Self {
        let tenant = who.and_then(|who| who.tenant.clone()).map(Party::Tenant);
        let known = who.filter(|who| !who.id.is_empty());
        let known = known.map(|who| Party::Known(who.id.clone(), who.name.clone()));
        Self(tenant.into_iter().chain([known.unwrap_or_else(|| Party::Address(network(address)))]).collect())
    }

    /// What the door noted of a request.
    pub(super) fn noted(request: &Extensions) -> Self {
        request.get().cloned().unwrap_or_default()
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(tenant) => write!(f, "the tenant {tenant}"),
            Self::Known(_, name) => write!(f, "{name:?}"),
            Self::Address(address) => write!(f, "the address {address}"),
        }
    }
}

impl Shares {
    /// So many for all, of which one has at most `one`.
    pub(super) fn new(all: usize, one: usize) -> Arc<Self> {
        Arc::new(Self { all, one, taken: Mutex::default() })
    }

    /// What all may have.
    pub(super) const fn all(&self) -> usize {
        self.all
    }

    /// What one may have.
    pub(super) const fn one(&self) -> usize {
        self.one
    }

    /// Nothing yet, for these.
    pub(super) fn nothing(self: &Arc<Self>, parties: &Parties) -> Taken {
        Taken { shares: Arc::clone(self), parties: parties.clone(), n: 0 }
    }

    /// One, for these.
    pub(super) fn take(self: &Arc<Self>, parties: &Parties) -> Result<Taken, Full> {
        let mut taken = self.nothing(parties);
        taken.grow(1, 0)?;
        Ok(taken)
    }

    /// What all have now.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.counts().all
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// What it is now.
    pub(super) const fn n(&self) -> usize {
        self.n
    }

    /// Takes so many more, and leaves at least `left` of what all may have.
    pub(super) fn grow(&mut self, n: usize, left: usize) -> Result<(), Full> {
        let Shares { all, one, .. } = *self.shares;
        let mut counts = self.shares.counts();
        let has = |party: &Party| counts.by.get(party).copied().unwrap_or_default();
        if let Some(party) = self.parties.0.iter().find(|party| has(party).saturating_add(n) > one) {
            return Err(Full::One(party.clone()));
        }
        if counts.all.saturating_add(n) > all.saturating_sub(left) {
            return Err(Full::All);
        }
        counts.all += n;
        for party in &self.parties.0 {
            *counts.by.entry(party.clone()).or_default() += n;
        }
        self.n += n;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut counts = self.shares.counts();
        counts.all -= self.n;
        for party in &self.parties.0 {
            if let Some(has) = counts.by.get_mut(party) {
                *has -= self.n;
                if *has == 0 {
                    counts.by.remove(party);
                }
            }
        }
    }
}

/// What counts as one: an IPv6 host has a whole /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(tenant: &str, id: &str) -> Parties {
        let who =
            Who { id: id.to_owned(), name: id.to_owned(), tenant: tenant.parse().ok(), ..Who::anybody() };
        Parties::of(Some(&who), IpAddr::from([10, 0, 0, 1]))
    }

    fn fill(shares: &Arc<Shares>, parties: &Parties) -> (Vec<Taken>, Full) {
        let mut taken = Vec::new();
        loop {
            match shares.take(parties) {
                Ok(one) => taken.push(one),
                Err(full) => return (taken, full),
            }
        }
    }

    #[test]
    fn one_gets_its_share_and_others_theirs() {
        let shares = Shares::new(6, 3);
        let (mine, full) = fill(&shares, &who("", "mine"));
        assert_eq!((mine.len(), full.to_string_of()), (3, "\"mine\"".to_owned()));
        let (others, full) = fill(&shares, &who("", "other"));
        assert_eq!((others.len(), full.to_string_of()), (3, "\"other\"".to_owned()));
        assert_eq!(shares.take(&who("", "third")).unwrap_err(), Full::All);
        drop(mine);
        assert_eq!(fill(&shares, &who("", "third")).0.len(), 3);
        drop(others);
        assert_eq!((shares.taken(), shares.counts().by.len()), (0, 0), "nothing is left over");
    }

    #[test]
    fn the_tokens_of_a_tenant_have_one_share_together() {
        let shares = Shares::new(6, 3);
        let (mine, _) = fill(&shares, &who("acme", "one"));
        assert_eq!(shares.take(&who("acme", "two")).unwrap_err().to_string_of(), "the tenant acme");
        assert_eq!(fill(&shares, &who("globex", "three")).0.len(), 3);
        drop(mine);
    }

    #[test]
    fn who_is_not_known_counts_by_address_and_an_ipv6_host_has_one() {
        let shares = Shares::new(6, 3);
        let at = |address: &str| Parties::of(Some(&Who::anybody()), address.parse().unwrap());
        let (_mine, full) = fill(&shares, &at("2001:db8::1"));
        assert_eq!(full.to_string_of(), "the address 2001:db8::");
        shares.take(&at("2001:db8::2")).unwrap_err();
        shares.take(&at("2001:db8:0:1::1")).unwrap();
        shares.take(&at("192.0.2.1")).unwrap();
    }

    #[test]
    fn what_is_to_be_left_is_left() {
        let shares = Shares::new(10, 10);
        let mut taken = shares.nothing(&who("", "mine"));
        taken.grow(6, 4).unwrap();
        assert_eq!(taken.grow(1, 4), Err(Full::All));
        taken.grow(4, 0).unwrap();
        assert_eq!((taken.n(), shares.taken()), (10, 10));
    }

    impl Full {
        fn to_string_of(&self) -> String {
            match self {
                Self::All => "all".to_owned(),
                Self::One(party) => party.to_string(),
            }
        }
    }
}
