//! How much of what a host's ranks sent went through which NIC.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Name, Process, RankRef};

/// What ranks sent through one NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) bytes: u64,
    /// Its part of what went to some peer is not known, because several NICs lead there.
    pub(super) is_estimated: bool,
}

/// By the name that rings give the NIC. A NIC through which only ranks send whose bytes nobody counts is not in it.
pub(super) fn shares<'a>(processes: impl Iterator<Item = &'a Process>) -> BTreeMap<Name, Share> {
    let mut shares: BTreeMap<Name, Share> = BTreeMap::new();
    for rank in processes.flat_map(Process::ranks) {
        if rank.ended().is_none() && rank.is_measured(true) {
            add(&mut shares, &rank);
        }
    }
    shares
}

fn add(shares: &mut BTreeMap<Name, Share>, rank: &RankRef<'_>) {
    let mut nics: BTreeMap<u32, BTreeSet<&Name>> = BTreeMap::new();
    for place in rank.facts.rings.values().filter(|place| !place.nic.is_empty()) {
        nics.entry(place.next).or_default().insert(&place.nic);
    }
    for (peer, nics) in nics {
        let links = rank.local.links().iter().filter(|((_, to), _)| *to == peer);
        let bytes = links.fold(0_u64, |sum, (_, sent)| sum.saturating_add(sent.bytes));
        for nic in &nics {
            let share = shares.entry((*nic).clone()).or_default();
            share.bytes = share.bytes.saturating_add(bytes / nics.len() as u64);
            share.is_estimated |= nics.len() > 1;
        }
    }
}
