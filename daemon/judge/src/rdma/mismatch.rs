//! Ends of connections that do not fit: GIDs of two kinds, packets of two sizes. Who differs from most of the job is named; of two
//! alone, who has the rarer kind or takes the smaller packets. The other end is named only where its own process says the same.
//! That indices of GIDs differ, or what ports could at most, is no trouble: what they use counts.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::{Evidence, FindingKind, Severity};
use ringscope_model::{End, GidKind, Name};

use super::links::{Link, Links, Place, port, ports};
use super::{OTHER_KIND, SMALLER_MTU, TOO_LARGE, trouble};
use crate::hardware::trouble::Trouble;

pub(super) fn judge(links: &Links<'_>) -> Vec<(Name, Trouble)> {
    let mut found = gids(links);
    found.extend(mtus(links));
    found
}

/// The ports of a job, with the kinds of GID that its connections use there.
type Kinds = BTreeMap<Place, BTreeSet<i32>>;

fn gids(links: &Links<'_>) -> Vec<(Name, Trouble)> {
    let mut by_job: BTreeMap<&Name, Kinds> = BTreeMap::new();
    for link in links.all.iter().filter(|link| is_of_now(link)) {
        let kinds = by_job.entry(&link.identity.job).or_default();
        // Only what a process says of its own end counts.
        let kind = link.one.local.gid_kind;
        if kind != GidKind::Unspecified {
            kinds.entry(link.place()).or_default().insert(kind.into());
        }
    }
    let mut found: BTreeMap<Place, Trouble> = BTreeMap::new();
    for link in links.all.iter().filter(|link| is_of_now(link)) {
        let (local, remote) = (link.one.local.gid_kind, link.one.remote.gid_kind);
        if let Some(kinds) = by_job.get(&link.identity.job)
            && [local, remote].iter().all(|kind| *kind != GidKind::Unspecified)
            && local != remote
        {
            let own = link.place();
            // Who has the rarer kind; of two alone, the first by name, so that both ends' word is one.
            let rarity = |place: &Place, kind: GidKind| {
                (kinds.values().filter(|of| of.contains(&kind.into())).count(), place.clone())
            };
            let is_local = rarity(&own, local) <= rarity(&link.peer, remote)
                || !link.is_told_there(|end| end.gid_kind == remote);
            let (place, kind, other, other_kind) = match is_local {
                true => (own, local, link.peer.clone(), remote),
                false => (link.peer.clone(), remote, own, local),
            };
            found.entry(place.clone()).or_insert_with(|| pair(link, &place, kind, (&other, other_kind)));
        }
    }
    for kinds in by_job.values() {
        for (place, one) in rails(kinds) {
            found.entry(place).or_insert(one);
        }
    }
    found.into_iter().map(|((host, _), one)| (host, one)).collect()
}

/// Whether the connection says how the ends are now.
fn is_of_now(link: &Link<'_>) -> bool {
    link.one.is_in_use() || !link.one.error.is_empty()
}

fn pair(link: &Link<'_>, place: &Place, kind: GidKind, (other, other_kind): (&Place, GidKind)) -> Trouble {
    let message = format!(
        "{} uses a GID of {}, {} at the other end of its connection one of {}: these do not reach each other",
        port(place),
        kind_words(kind),
        port(other),
        kind_words(other_kind)
    );
    let line = |end: &End| {
        let gid = end.gid_text().unwrap_or_else(|| "no GID".to_owned());
        let text = format!("{}: {gid}, {}", end.label(), kind_words(end.gid_kind));
        Evidence { file: link.one.file.to_string(), line: 0, text }
    };
    let evidence = vec![line(&link.one.local), line(&link.one.remote)];
    let mut found = trouble(
        (FindingKind::GidMismatch, OTHER_KIND, Severity::Critical),
        place.1.clone(),
        message,
        evidence,
    );
    found.culprits = vec![other.0.to_string()].into_iter().filter(|host| **host != *place.0).collect();
    found
}

/// Hosts whose port of one name uses another kind than that of most hosts of the job.
fn rails(kinds: &Kinds) -> Vec<(Place, Trouble)> {
    let mut by_rail: BTreeMap<&Name, BTreeMap<i32, Vec<&Place>>> = BTreeMap::new();
    for (place, of) in kinds {
        if let (Some(kind), 1) = (of.first(), of.len()) {
            by_rail.entry(&place.1).or_default().entry(*kind).or_default().push(place);
        }
    }
    let mut found = Vec::new();
    for (rail, hosts) in by_rail {
        let n: usize = hosts.values().map(Vec::len).sum();
        let Some((most, usual)) = hosts.iter().find(|(_, places)| places.len() * 2 > n) else { continue };
        for (kind, others) in hosts.iter().filter(|(kind, _)| *kind != most) {
            let words = |kind: i32| kind_words(GidKind::try_from(kind).unwrap_or_default());
            for place in others {
                let message = format!(
                    "{} uses a GID of {}, {rail} of most hosts of the job one of {} ({})",
                    port(place),
                    words(*kind),
                    words(*most),
                    ports(usual.iter().copied())
                );
                let what = (FindingKind::GidMismatch, OTHER_KIND, Severity::Warning);
                found.push(((*place).clone(), trouble(what, place.1.clone(), message, Vec::new())));
            }
        }
    }
    found
}

/// The sizes of packets that the ports of a job take, by rail and port.
type Sizes<'l> = BTreeMap<&'l Name, BTreeMap<Name, BTreeMap<Place, u32>>>;

/// Ports of a rail from which on most of them say which size is the usual one.
const MIN_RAIL_PORTS: usize = 3;

fn mtus(links: &Links<'_>) -> Vec<(Name, Trouble)> {
    let mut sizes = Sizes::new();
    for link in links.all.iter().filter(|link| is_of_now(link) && link.one.local.mtu_bytes > 0) {
        let (place, rails) = (link.place(), sizes.entry(&link.identity.job).or_default());
        rails.entry(place.1.clone()).or_default().insert(place, link.one.local.mtu_bytes);
    }
    let mut found: BTreeMap<Place, Trouble> = BTreeMap::new();
    let mut of_both: BTreeMap<&Name, BTreeMap<Place, Trouble>> = BTreeMap::new();
    for link in links.all.iter().filter(|link| is_of_now(link)) {
        let (local, remote) = (link.one.local.mtu_bytes, link.one.remote.mtu_bytes);
        if local == remote || local == 0 || remote == 0 {
            continue;
        }
        let job = &link.identity.job;
        let differs = |place: &Place, is: u32| {
            let rail = sizes.get(job).and_then(|rails| rails.get(&place.1));
            rail.and_then(usual).is_some_and(|usual| usual != is)
        };
        let (own_differs, other_differs) = (differs(&link.place(), local), differs(&link.peer, remote));
        let is_local = if own_differs == other_differs { local < remote } else { own_differs };
        let is_local = is_local || !link.is_told_there(|end| end.mtu_bytes == remote);
        let known = match own_differs == other_differs {
            true => of_both.entry(job).or_default(),
            false => &mut found,
        };
        let (place, one) = sizes_of(link, is_local);
        match known.get(&place) {
            Some(known) if known.severity >= one.severity => {}
            _ => {
                known.insert(place, one);
            }
        }
    }
    for mut ports in of_both.into_values() {
        let more = ports.len().saturating_sub(1);
        let Some(place) = worst(&ports) else { continue };
        let Some(mut one) = ports.remove(&place) else { continue };
        if more > 0 {
            one.message = format!("{}; and {more} more ports of the job differ so", one.message);
        }
        found.entry(place).or_insert(one);
    }
    found.into_iter().map(|((host, _), one)| (host, one)).collect()
}

/// The size that more than half of the ports of a rail take.
fn usual(rail: &BTreeMap<Place, u32>) -> Option<u32> {
    if rail.len() < MIN_RAIL_PORTS {
        return None;
    }
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    rail.values().for_each(|size| *counts.entry(*size).or_default() += 1);
    counts.into_iter().find(|(_, n)| n * 2 > rail.len()).map(|(size, _)| size)
}

/// The first of those that are worst.
fn worst(ports: &BTreeMap<Place, Trouble>) -> Option<Place> {
    let severity = ports.values().map(|one| one.severity).max()?;
    ports.iter().find(|(_, one)| one.severity == severity).map(|(place, _)| place.clone())
}

/// That the ends of a connection take packets of two sizes. `is_local`: this end is to blame.
fn sizes_of(link: &Link<'_>, is_local: bool) -> (Place, Trouble) {
    let (local, remote, path) =
        (link.one.local.mtu_bytes, link.one.remote.mtu_bytes, link.one.path_mtu_bytes);
    let (own, peer) = (link.place(), link.peer.clone());
    let (place, is, other, theirs) =
        if is_local { (own, local, peer, remote) } else { (peer, remote, own, local) };
    let is_too_large = path > local.min(remote);
    let (cause, severity) = match is_too_large {
        true => (TOO_LARGE, Severity::Critical),
        false => (SMALLER_MTU, Severity::Warning),
    };
    let uses = match path {
        0 => String::new(),
        path if is_too_large => format!(": their connection uses {path}, which cannot arrive"),
        path => format!(": their connection uses {path}"),
    };
    let message = format!(
        "{} takes packets of up to {is} bytes, {} at the other end of its connection of up to {theirs}{uses}",
        port(&place),
        port(&other)
    );
    let text = format!("MTU {local} here, {remote} there, {path} in use");
    let evidence = vec![Evidence { file: link.one.file.to_string(), line: 0, text }];
    let one = trouble((FindingKind::MtuMismatch, cause, severity), place.1.clone(), message, evidence);
    (place, one)
}

const fn kind_words(kind: GidKind) -> &'static str {
    match kind {
        GidKind::Unspecified => "a kind that is not known",
        GidKind::Infiniband => "InfiniBand",
        GidKind::RoceV1 => "RoCE v1",
        GidKind::RoceV2 => "RoCE v2",
    }
}
