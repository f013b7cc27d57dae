//! The connections of all living processes, by the ports that they join. Pure.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::words;
use ringscope_model::{Connection, Identity, Model, Name, Process};

use super::NAMED;

/// A port: host, and device as its findings name it.
pub(super) type Place = (Name, Name);

/// One connection, seen from the process that told of it.
#[derive(Clone)]
pub(super) struct Link<'m> {
    pub(super) process: &'m Process,
    pub(super) identity: &'m Identity,
    pub(super) one: &'m Connection,
    /// The port at the other end.
    pub(super) peer: Place,
}

impl Link<'_> {
    /// The port at this end.
    pub(super) fn place(&self) -> Place {
        (self.identity.host.clone(), self.one.local.label())
    }

    /// "rank 3 of host-0".
    pub(super) fn whose(&self) -> String {
        let host = &self.identity.host;
        match self.identity.global_rank {
            Some(rank) => format!("rank {rank} of {host}"),
            None => format!("process {} of {host}", self.identity.pid),
        }
    }

    /// "rxe0 of host-1 (rank 1)".
    pub(super) fn to(&self) -> String {
        let rank = self.one.remote.global_rank.map(|rank| format!(" (rank {rank})")).unwrap_or_default();
        format!("{}{rank}", port(&self.peer))
    }
}

/// All of them.
pub(super) struct Links<'m> {
    pub(super) all: Vec<Link<'m>>,
    by_place: BTreeMap<Place, Vec<usize>>,
}

impl<'m> Links<'m> {
    pub(super) fn of(model: &'m Model) -> Self {
        let mut all = Vec::new();
        let hosts = Hosts::of(model);
        for process in model.hosts().flat_map(|(_, processes)| processes).filter(|one| one.is_living()) {
            let Some(identity) = process.identity() else { continue };
            all.extend(process.connections().map(|one| {
                let host = hosts.known(&one.remote.host).unwrap_or_else(|| one.remote.host.clone());
                Link { process, identity, one, peer: (host, one.remote.label()) }
            }));
        }
        let mut by_place: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
        for (index, link) in all.iter().enumerate() {
            by_place.entry(link.place()).or_default().push(index);
        }
        Self { all, by_place }
    }

    /// The connections of one port.
    pub(super) fn at(&self, place: &Place) -> impl Iterator<Item = &Link<'m>> {
        let found = self.by_place.get(place).map(Vec::as_slice).unwrap_or_default();
        found.iter().filter_map(|index| self.all.get(*index))
    }

    /// The ports that a port sends to over connections that are in use. What comes over the others it does not lose.
    pub(super) fn peers(&self, place: &Place) -> BTreeSet<Place> {
        let sends = |link: &&Link<'_>| link.one.is_send && link.one.is_in_use();
        self.at(place).filter(sends).map(|link| link.peer.clone()).collect()
    }
}

/// Processes name the host at the other end as it names itself, which may be cut at its first dot, or not.
struct Hosts<'m> {
    names: BTreeSet<&'m Name>,
    /// None: several have it.
    short: BTreeMap<&'m str, Option<&'m Name>>,
}

impl<'m> Hosts<'m> {
    fn of(model: &'m Model) -> Self {
        let names: BTreeSet<&Name> = model.hosts().map(|(name, _)| name).collect();
        let mut short: BTreeMap<&str, Option<&Name>> = BTreeMap::new();
        for name in &names {
            short.entry(first_label(name)).and_modify(|known| *known = None).or_insert(Some(*name));
        }
        Self { names, short }
    }

    fn known(&self, told: &Name) -> Option<Name> {
        let exact = self.names.get(told).copied();
        exact.or_else(|| self.short.get(first_label(told)).copied().flatten()).cloned()
    }
}

fn first_label(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// "rxe0 of host-1".
pub(super) fn port((host, nic): &Place) -> String {
    format!("{nic} of {host}")
}

/// "rxe0 of host-1 and rxe0 of host-2".
pub(super) fn ports<'p>(places: impl IntoIterator<Item = &'p Place>) -> String {
    words::list(places.into_iter().map(port).collect::<Vec<_>>(), NAMED)
}

/// The ports in trouble, each with those that its trouble leads to.
pub(super) type Led = BTreeMap<Place, BTreeSet<Place>>;

/// The one port that the trouble of every other port leads to, where there is but one, and at least `min_others` of them. It may
/// be in trouble itself: what that leads to says nothing about it, as no port leads to itself.
pub(super) fn culprit(led: &Led, min_others: usize) -> Option<Place> {
    let targets: BTreeSet<&Place> = led.values().flatten().collect();
    let is_culprit = |target: &&&Place| {
        let others = led.iter().filter(|(place, _)| place != *target);
        others.clone().count() >= min_others.max(1) && others.clone().all(|(_, to)| to.contains(**target))
    };
    let mut found = targets.iter().filter(is_culprit);
    let only = found.next()?;
    found.next().is_none().then(|| Place::clone(only))
}

/// The same ports in groups that have none to do with one another: trouble in one does not hide who is to blame in another.
pub(super) fn apart(led: Led) -> Vec<Led> {
    let mut groups: Vec<(BTreeSet<Place>, Led)> = Vec::new();
    for (place, to) in led {
        let mut all: BTreeSet<Place> = to.iter().chain([&place]).cloned().collect();
        let mut members = Led::from([(place, to)]);
        for (other, of_other) in
            groups.extract_if(.., |(other, _)| !other.is_disjoint(&all)).collect::<Vec<_>>()
        {
            all.extend(other);
            members.extend(of_other);
        }
        groups.push((all, members));
    }
    groups.into_iter().map(|(_, members)| members).collect()
}
