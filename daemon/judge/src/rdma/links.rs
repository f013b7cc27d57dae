//! The connections of all living processes, by the ports that they join. Pure.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::clock::Timestamp;
use ringscope_api::words;
use ringscope_model::{Connection, ConnectionState, End, Identity, Job, Model, Name, Process};

/// Names that one sentence has.
pub(super) const NAMED: usize = 3;

/// A port: host, and device as its findings name it.
pub(super) type Place = (Name, Name);

/// Ports of one process that are looked at: who invents some makes few findings.
const MAX_PORTS: usize = 16;

/// One connection, seen from the process that told of it.
#[derive(Clone)]
pub(super) struct Link<'m> {
    pub(super) process: &'m Process,
    pub(super) identity: &'m Identity,
    pub(super) one: &'m Connection,
    /// The port at the other end.
    pub(super) peer: Place,
    /// The process there, as far as it is known; it may have ended.
    pub(super) other: Option<&'m Process>,
}

impl Link<'_> {
    /// The port at this end.
    pub(super) fn place(&self) -> Place {
        (self.identity.host.clone(), self.one.local.label())
    }

    /// Whether it had met its other end.
    pub(super) fn knows_its_other_end(&self) -> bool {
        !self.one.remote.host.is_empty()
    }

    /// "rank 3 of host-0".
    pub(super) fn whose(&self) -> String {
        let host = &self.identity.host;
        match self.identity.global_rank {
            Some(rank) => format!("rank {rank} of {host}"),
            None => format!("process {} of {host}", self.identity.pid),
        }
    }

    /// Numbers of its queue pairs.
    pub(super) fn queue_pairs(&self) -> impl Iterator<Item = u32> {
        self.one.queue_pairs.iter().map(|pair| pair.number)
    }

    /// Whether the process at the other end says the same of its own port.
    pub(super) fn is_told_there(&self, same: impl Fn(&End) -> bool) -> bool {
        let mut own = self.other.into_iter().filter(|other| other.is_living()).flat_map(Process::connections);
        own.any(|one| one.local.label() == self.peer.1 && same(&one.local))
    }

    /// "rxe0 of host-1 (rank 1)".
    pub(super) fn to(&self) -> String {
        let rank = self.one.remote.global_rank.map(|rank| format!(" (rank {rank})")).unwrap_or_default();
        format!("{}{rank}", port(&self.peer))
    }
}

/// When a connection failed, or a queue pair of it: by our clock, as it was told. Absent: it has not.
pub(super) fn failed_at(one: &Connection) -> Option<Timestamp> {
    match one.state {
        ConnectionState::Failed => Some(one.since),
        _ => one.broken_since,
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
        for (_, job) in model.jobs() {
            let tells = |process: &&Process| process.is_living() && process.connections().next().is_some();
            let mut peers = None;
            for process in job.processes(model).filter(tells) {
                let Some(identity) = process.identity() else { continue };
                let peers = peers.get_or_insert_with(|| Peers::of(model, job));
                all.extend(of_few_ports(process).map(|one| {
                    let other = peers.at(&one.remote);
                    let host = other.and_then(Process::identity).map(|other| other.host.clone());
                    let host = host.or_else(|| hosts.known(&one.remote.host));
                    let host = host.unwrap_or_else(|| one.remote.host.clone());
                    Link { process, identity, one, peer: (host, one.remote.label()), other }
                }));
            }
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

/// The connections of the first ports that a process tells of.
fn of_few_ports(process: &Process) -> impl Iterator<Item = &Connection> {
    let mut ports: BTreeSet<(&Name, u32)> = BTreeSet::new();
    process.connections().filter(move |one| {
        let port = (&one.local.device, one.local.port);
        ports.contains(&port) || ports.len() < MAX_PORTS && ports.insert(port)
    })
}

/// The processes of a job, as connections of it name them.
struct Peers<'m> {
    by_rank: BTreeMap<u32, Vec<&'m Process>>,
    by_pid: BTreeMap<u32, Vec<&'m Process>>,
}

impl<'m> Peers<'m> {
    fn of(model: &'m Model, job: &'m Job) -> Self {
        let mut peers = Self { by_rank: BTreeMap::new(), by_pid: BTreeMap::new() };
        for process in job.processes(model) {
            let Some(identity) = process.identity() else { continue };
            if let Some(rank) = identity.global_rank {
                peers.by_rank.entry(rank).or_default().push(process);
            }
            peers.by_pid.entry(identity.pid).or_default().push(process);
        }
        peers
    }

    /// Who that is: of its rank, else of its host and pid. Of several, as of a job that was started again: of the same pid,
    /// else living, else the newest.
    fn at(&self, end: &End) -> Option<&'m Process> {
        let is_of_host = |process: &&Process| is_same_host(&end.host, host_of(process));
        let found: Vec<&'m Process> = match end.global_rank.and_then(|rank| self.by_rank.get(&rank)) {
            Some(of_rank) => of_rank.clone(),
            None if end.global_rank.is_some() || end.pid == 0 => Vec::new(),
            None => self.by_pid.get(&end.pid)?.iter().copied().filter(is_of_host).collect(),
        };
        found.into_iter().max_by_key(|process| {
            let identity = process.identity();
            let is_it = identity.is_some_and(|one| one.pid == end.pid && is_same_host(&end.host, &one.host));
            (is_it, process.is_living(), identity.map(|one| one.started))
        })
    }
}

fn host_of(process: &Process) -> &str {
    process.identity().map_or("", |identity| &identity.host)
}

/// Whether two names are of one host: one may be cut at its first dot. Two that both have a domain differ where that does.
fn is_same_host(one: &str, other: &str) -> bool {
    let is_cut = |short: &str, long: &str| !short.contains('.') && first_label(long) == short;
    one == other || is_cut(one, other) || is_cut(other, one)
}

/// Processes name the host at the other end as it names itself, which may be cut at its first dot, or not.
struct Hosts<'m> {
    names: BTreeSet<&'m Name>,
    by_first_label: BTreeMap<&'m str, Vec<&'m Name>>,
}

impl<'m> Hosts<'m> {
    fn of(model: &'m Model) -> Self {
        let names: BTreeSet<&Name> = model.hosts().map(|(name, _)| name).collect();
        let mut by_first_label: BTreeMap<&str, Vec<&Name>> = BTreeMap::new();
        for name in &names {
            by_first_label.entry(first_label(name)).or_default().push(name);
        }
        Self { names, by_first_label }
    }

    /// The one host that is meant. `None`: no known one, or one of several.
    fn known(&self, told: &Name) -> Option<Name> {
        if self.names.contains(told) {
            return Some(told.clone());
        }
        let mut alike =
            self.by_first_label.get(first_label(told))?.iter().filter(|name| is_same_host(told, name));
        let only = alike.next()?;
        alike.next().is_none().then(|| Name::clone(only))
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
