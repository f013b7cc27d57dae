//! Ends of connections that do not fit: GIDs of two kinds, packets of two sizes. Who differs from most of the job is named; of two
//! alone, who can less. That indices of GIDs differ, or what ports could at most, is no trouble: what they use counts.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::{Evidence, FindingKind, Severity};
use ringscope_model::{End, GidKind, Name};

use super::links::{Link, Links, Place, port, ports};
use super::{OTHER_KIND, SMALLER_MTU, TOO_LARGE, trouble};
use crate::hardware::Trouble;

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
        for (place, end) in [(link.place(), &link.one.local), (link.peer.clone(), &link.one.remote)] {
            if end.gid_kind != GidKind::Unspecified {
                kinds.entry(place).or_default().insert(end.gid_kind.into());
            }
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
            let is_local = rarity(&own, local) <= rarity(&link.peer, remote);
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

fn mtus(links: &Links<'_>) -> Vec<(Name, Trouble)> {
    let mut found: BTreeMap<Place, Trouble> = BTreeMap::new();
    for link in links.all.iter().filter(|link| is_of_now(link)) {
        let (local, remote, path) =
            (link.one.local.mtu_bytes, link.one.remote.mtu_bytes, link.one.path_mtu_bytes);
        let (own, peer) = (link.place(), link.peer.clone());
        let (place, is, other, theirs) =
            if local <= remote { (own, local, peer, remote) } else { (peer, remote, own, local) };
        if is == 0 || is == theirs {
            continue;
        }
        let is_too_large = path > is;
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
            "{} can packets of {is} bytes, {} at the other end of its connection {theirs}{uses}",
            port(&place),
            port(&other)
        );
        let text = format!("MTU {local} here, {remote} there, {path} in use");
        let evidence = vec![Evidence { file: link.one.file.to_string(), line: 0, text }];
        let one = trouble((FindingKind::MtuMismatch, cause, severity), place.1.clone(), message, evidence);
        match found.get(&place) {
            Some(known) if known.severity >= one.severity => {}
            _ => {
                found.insert(place, one);
            }
        }
    }
    found.into_iter().map(|((host, _), one)| (host, one)).collect()
}

const fn kind_words(kind: GidKind) -> &'static str {
    match kind {
        GidKind::Unspecified => "a kind that is not known",
        GidKind::Infiniband => "InfiniBand",
        GidKind::RoceV1 => "RoCE v1",
        GidKind::RoceV2 => "RoCE v2",
    }
}
