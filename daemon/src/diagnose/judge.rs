//! The conditions, each on the facts of one communicator. Pure.

use std::collections::BTreeMap;

use super::channels::{Bounds, Cause, predict};
use super::facts::{Channels, HostChannels};
use super::words;
use crate::api::{Evidence, FindingKind, Severity};
use crate::model::Name;

/// A condition that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Which.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// Subject; of a communicator the host of its lowest rank.
    pub host: Name,
    /// Subject, if it is a rank.
    pub rank: Option<u32>,
    /// Subject, if it is a channel of that rank.
    pub channel: Option<u32>,
    /// One word why.
    pub cause: &'static str,
    /// Hosts to blame, if not the subject.
    pub culprits: Vec<String>,
    /// In words.
    pub message: String,
    /// The lines that prove it.
    pub evidence: Vec<Evidence>,
}

/// Everything that holds for a communicator. `previous`: what each host found in the one before of the same shape.
#[must_use]
pub(super) fn judge(channels: &Channels, previous: Option<&BTreeMap<Name, u32>>) -> Vec<Judgement> {
    if !channels.is_live {
        return Vec::new();
    }
    let mut judgements: Vec<Judgement> = final_disagrees(channels).into_iter().collect();
    let all_known =
        channels.base.is_some() && channels.ranks.iter().all(|rank| rank.final_channels.is_some());
    if all_known {
        let hosts = channels.hosts();
        judgements.extend(init_below_half_final(channels));
        judgements.extend(uneven(channels, &hosts));
        judgements.extend(regressions(&hosts, previous));
    }
    judgements
}

fn final_disagrees(channels: &Channels) -> Option<Judgement> {
    let mut first_with: BTreeMap<u32, &Name> = BTreeMap::new();
    for rank in &channels.ranks {
        if let Some(final_channels) = rank.final_channels {
            first_with.entry(final_channels).or_insert(&rank.host);
        }
    }
    let host = channels.ranks.first()?.host.clone();
    (first_with.len() > 1).then(|| Judgement {
        kind: FindingKind::FinalDisagrees,
        severity: Severity::Critical,
        host,
        rank: None,
        channel: None,
        cause: if channels.ranks.iter().any(|rank| rank.bounds != channels.ranks[0].bounds) {
            "different_settings"
        } else {
            Cause::Unexplained.label()
        },
        culprits: Vec::new(),
        message: words::disagreement(&first_with),
        evidence: Vec::new(),
    })
}

fn init_below_half_final(channels: &Channels) -> impl Iterator<Item = Judgement> {
    channels.ranks.iter().filter_map(|rank| {
        let (init, final_channels) = (rank.init?, rank.final_channels?);
        if u64::from(init) * 2 >= u64::from(final_channels) {
            return None;
        }
        let is_explained = rank.cause() == Cause::MinNchannels;
        let min = rank.bounds.min.as_ref().filter(|_| is_explained);
        Some(Judgement {
            kind: FindingKind::InitBelowHalfFinal,
            severity: if is_explained { Severity::Info } else { Severity::Warning },
            host: rank.host.clone(),
            rank: Some(rank.rank),
            channel: None,
            cause: if is_explained { rank.cause() } else { Cause::Unexplained }.label(),
            culprits: Vec::new(),
            message: words::raised(rank.rank, &rank.host, init, final_channels, min),
            evidence: Vec::new(),
        })
    })
}

/// Who holds the others back, and who is held back.
fn uneven(channels: &Channels, hosts: &[HostChannels]) -> Vec<Judgement> {
    let Some(base) = channels.base else { return Vec::new() };
    let more: Vec<u32> =
        channels.ranks.iter().filter_map(|rank| rank.init).filter(|init| *init > base).collect();
    let (Some(least), Some(most)) = (more.iter().min().copied(), more.iter().max().copied()) else {
        return Vec::new();
    };
    let culprits: Vec<&Name> = hosts.iter().filter(|host| host.init == base).map(|host| &host.host).collect();
    let uneven = words::Uneven { base, least, most, culprits: &culprits, n_hosts: hosts.len() };
    let runs_on = |host: &HostChannels| {
        let rank = channels.ranks.iter().find(|rank| rank.host == host.host);
        rank.and_then(|rank| rank.final_channels).unwrap_or_default()
    };
    let judge_host = |host: &HostChannels| {
        if host.init == base {
            Some(shortfall(host, &uneven, channels.final_channels))
        } else {
            capped(host, &uneven, runs_on(host))
        }
    };
    hosts.iter().filter_map(judge_host).collect()
}

fn shortfall(host: &HostChannels, uneven: &words::Uneven<'_>, runs_on: Option<u32>) -> Judgement {
    let instead = lost(runs_on, uneven.least, &host.bounds);
    Judgement {
        kind: FindingKind::ChannelShortfall,
        // With settings that allow no more channels anyway, a node that finds fewer costs none.
        severity: if runs_on.is_some() && instead.is_none() { Severity::Warning } else { Severity::Critical },
        host: host.host.clone(),
        rank: None,
        channel: None,
        cause: "fewer_channels",
        culprits: Vec::new(),
        message: uneven.shortfall(host, runs_on, instead),
        evidence: Vec::new(),
    }
}

fn capped(host: &HostChannels, uneven: &words::Uneven<'_>, runs_on: u32) -> Option<Judgement> {
    let instead = lost(Some(runs_on), host.init, &host.bounds)?;
    Some(Judgement {
        kind: FindingKind::CappedByPeer,
        severity: Severity::Info,
        host: host.host.clone(),
        rank: None,
        channel: None,
        cause: "peer_limits",
        culprits: uneven.culprits.iter().map(ToString::to_string).collect(),
        message: uneven.capped(host, runs_on, instead),
        evidence: Vec::new(),
    })
}

/// Channels there would be with this base, if that is more than there are.
fn lost(runs_on: Option<u32>, base: u32, bounds: &Bounds) -> Option<u32> {
    Some(predict(base, bounds)).filter(|instead| runs_on.is_some_and(|runs_on| *instead > runs_on))
}

fn regressions(hosts: &[HostChannels], previous: Option<&BTreeMap<Name, u32>>) -> Vec<Judgement> {
    let Some(previous) = previous else { return Vec::new() };
    let judge_host = |host: &HostChannels| {
        let before = previous.get(&host.host).copied().filter(|before| *before > host.init)?;
        Some(Judgement {
            kind: FindingKind::ChannelRegression,
            severity: Severity::Warning,
            host: host.host.clone(),
            rank: None,
            channel: None,
            cause: "fewer_channels",
            culprits: Vec::new(),
            message: words::regression(&host.host, host.init, before),
            evidence: Vec::new(),
        })
    };
    hosts.iter().filter_map(judge_host).collect()
}
