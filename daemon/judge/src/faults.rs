//! Conditions that are not about the number of channels: odd hops, and what is not seen. Pure.

use std::collections::BTreeSet;

use ringscope_api::{Evidence, FindingKind, OddHop, Severity};

use super::facts::Channels;
use super::hops::OddHost;
use super::judgement::{Blame, Judgement, MAX_PROOF};
use super::words;

/// Hops that are odd among their like, by host and reason.
pub(super) fn odd_hops(channels: &Channels) -> impl Iterator<Item = Judgement> {
    channels.odd.iter().map(|odd| {
        let one = |values: BTreeSet<u32>| match values.len() {
            1 => values.first().copied(),
            _ => None,
        };
        Judgement {
            blame: Blame::default(),
            kind: match odd.odd {
                OddHop::CrossRail => FindingKind::RailMismatch,
                OddHop::Fallback | OddHop::NoGpuDirect => FindingKind::TransportFallback,
            },
            severity: Severity::Warning,
            host: odd.host.clone(),
            rank: one(odd.hops.iter().map(|hop| hop.rank).collect()),
            channel: one(odd.hops.iter().map(|hop| hop.channel).collect()),
            nic: None,
            cause: odd.cause,
            culprits: Vec::new(),
            message: words::odd_hops(odd),
            evidence: proof(channels, odd),
        }
    })
}

/// The lines of both ends of its first hops.
fn proof(channels: &Channels, odd: &OddHost) -> Vec<Evidence> {
    let lines = odd.hops.iter().flat_map(|hop| {
        let of = |rank: u32, fact: String| {
            (channels.rank(rank).into_iter())
                .flat_map(|rank| rank.proof(&[fact.as_str()]).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        let receives = odd.odd == OddHop::CrossRail;
        let mut lines = of(hop.rank, format!("send/{}", hop.channel));
        if receives {
            lines.extend(of(hop.next, format!("recv/{}", hop.channel)));
        }
        lines
    });
    lines.take(MAX_PROOF).collect()
}

/// What of the communicator is not seen. One finding, however much is lacking: one remedy often mends all.
pub(super) fn partly_seen(channels: &Channels) -> Option<Judgement> {
    let lacks = &channels.coverage.lacks;
    let host = channels.ranks.first()?.host.clone();
    let loses_calls = lacks.iter().any(|lack| lack.loses_calls);
    (!lacks.is_empty()).then(|| Judgement {
        blame: Blame::default(),
        kind: FindingKind::PartlySeen,
        severity: if loses_calls { Severity::Warning } else { Severity::Info },
        host,
        rank: None,
        channel: None,
        nic: None,
        cause: lacks.iter().find(|lack| lack.loses_calls).or(lacks.first()).map_or("", |lack| lack.cause),
        culprits: Vec::new(),
        message: lacks.iter().map(super::coverage::Lack::words).collect::<Vec<_>>().join("; "),
        evidence: Vec::new(),
    })
}
