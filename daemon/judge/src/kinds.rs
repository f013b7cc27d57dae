//! How hosts that found few channels are built otherwise than all that found more. Hosts are of a few kinds, however many
//! there are: kinds are compared, not hosts.

use std::collections::{BTreeMap, HashMap};

use ringscope_model::Name;

use super::facts::HostChannels;
use super::hardware::Build;

/// What is compared of a host.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Kind {
    build: Build,
    n_ranks: usize,
    /// What searches there found.
    init: u32,
    highest_init: u32,
}

/// The hosts of one kind.
#[derive(Default)]
struct Hosts<'h> {
    names: Vec<&'h Name>,
    /// Place of the last one among all hosts.
    last: usize,
}

/// Of hosts whose lowest init is `base`: how each differs from every one that found more, so that it cannot be expected to find
/// as many. Other models do; other numbers of GPUs, NICs or ranks only where another host is like it, for one alone may have
/// lost some. Who differs from none, or not from all, is left out.
pub(super) fn built_otherwise<'h>(
    hosts: &'h [HostChannels],
    base: u32,
    build: impl Fn(&Name) -> Build,
) -> HashMap<&'h Name, String> {
    let mut kinds: BTreeMap<Kind, Hosts<'h>> = BTreeMap::new();
    for (at, host) in hosts.iter().enumerate() {
        let (n_ranks, init, highest_init) = (host.places.len(), host.init, host.highest_init);
        let kind = Kind { build: build(&host.host), n_ranks, init, highest_init };
        let its = kinds.entry(kind).or_default();
        its.names.push(&host.host);
        its.last = at;
    }
    let culprits = kinds.iter().filter(|(kind, _)| kind.init == base);
    let told = culprits.filter_map(|(kind, its)| Some((its, kind.otherwise(its, &kinds)?)));
    told.flat_map(|(its, how)| its.names.iter().map(move |name| (*name, how.clone()))).collect()
}

impl Kind {
    /// How hosts of this kind differ from every one that found more.
    fn otherwise(&self, its: &Hosts<'_>, kinds: &BTreeMap<Self, Hosts<'_>>) -> Option<String> {
        let is_like = |other: &Self| {
            let is_other = other != self || its.names.len() > 1;
            is_other && self.build.other_models(&other.build).is_none() && self.numbers(other).is_none()
        };
        let has_like = kinds.keys().any(is_like);
        let mut how: Option<(usize, String)> = None;
        for (other, theirs) in kinds.iter().filter(|(other, _)| other.highest_init > self.init) {
            let differs = self.build.other_models(&other.build);
            let differs = differs.or_else(|| self.numbers(other).filter(|_| has_like))?;
            // Of several differences that from the last host is told.
            if how.as_ref().is_none_or(|(last, _)| theirs.last > *last) {
                how = Some((theirs.last, differs));
            }
        }
        how.map(|(_, how)| how)
    }

    fn numbers(&self, other: &Self) -> Option<String> {
        let (n, others) = (self.n_ranks, other.n_ranks);
        let ranks = (others != n).then(|| format!("it has {n} of the ranks, they {others}"));
        self.build.other_numbers(&other.build).or(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::Bounds;

    fn host(at: usize, n_ranks: usize, init: u32) -> HostChannels {
        HostChannels {
            host: format!("node-{at:05}").into(),
            init,
            highest_init: init,
            places: (0..n_ranks).collect(),
            bounds: Bounds::default(),
        }
    }

    fn told(hosts: &[HostChannels]) -> Vec<(String, String)> {
        let told = built_otherwise(hosts, 4, |_| Build::default());
        let mut told: Vec<_> = told.into_iter().map(|(host, how)| (host.to_string(), how)).collect();
        told.sort();
        told
    }

    #[test]
    fn another_number_counts_where_another_host_is_like_it() {
        let how = "it has 4 of the ranks, they 8".to_owned();
        let two = [host(0, 8, 8), host(1, 4, 4), host(2, 4, 4)];
        assert_eq!(told(&two), [("node-00001".to_owned(), how.clone()), ("node-00002".to_owned(), how)]);
        assert_eq!(told(&[host(0, 8, 8), host(1, 4, 4)]), [], "one alone may have lost some");
        assert_eq!(told(&[host(0, 8, 8), host(1, 4, 8), host(2, 4, 4)]), [], "one like it found more");
    }

    /// Half of twelve thousand hosts hold the others back: each compared with each would be 36 million comparisons.
    #[test]
    fn of_many_culprits_among_many_hosts_each_is_looked_at_once() {
        let hosts: Vec<HostChannels> =
            (0..12_500).map(|at| if at % 2 == 0 { host(at, 8, 8) } else { host(at, 4, 4) }).collect();
        let asked = std::cell::Cell::new(0);
        let build = |_: &Name| {
            asked.set(asked.get() + 1);
            Build::default()
        };
        assert_eq!(built_otherwise(&hosts, 4, build).len(), 6_250);
        assert_eq!(asked.get(), hosts.len(), "each is looked at once");
    }
}
