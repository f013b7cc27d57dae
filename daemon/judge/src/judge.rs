//! The conditions, each on the facts of one communicator. Pure.

use std::collections::BTreeMap;

use ringscope_api::{FindingKind, Severity};
use ringscope_model::Name;

use super::channels::{Bounds, Cause};
use super::facts::{Channels, HostChannels};
use super::hardware::{Build, Explanation};
use super::judgement::{Blame, Judgement, MAX_PROOF};
use super::kinds::built_otherwise;
use super::rank_channels::RankChannels;
use super::{faults, words};

impl Judgement {
    /// The same, where hardware explains it. While a NIC is such that it does, the finding about that NIC is the one to
    /// act on, and this a consequence.
    fn explained(mut self, why: Option<Explanation>) -> Self {
        if let Some(why) = why {
            if why.is_now && why.nic.is_some() {
                self.severity = Severity::Info;
            }
            self.cause = why.cause;
            self.nic = why.nic;
            self.evidence.truncate(MAX_PROOF - 1);
            self.evidence.extend(why.evidence);
            self.evidence.truncate(MAX_PROOF);
        }
        self
    }

    /// The same, where the host is built otherwise than all that found more: nothing is wrong with it.
    fn of_other_hardware(mut self, how: Option<String>) -> Self {
        if let Some(how) = how {
            self.severity = Severity::Info;
            self.cause = OTHER_HARDWARE;
            self.message = format!("{}; {how}: it is no fault", self.message);
        }
        self
    }
}

/// What is known of the hosts that a communicator is on.
pub(super) struct Hosts<'a> {
    /// What the hardware of a host has to do with what it found.
    pub(super) explain: &'a dyn Fn(&Name) -> Option<Explanation>,
    /// What a host is built of.
    pub(super) build: &'a dyn Fn(&Name) -> Option<Build>,
}

/// Everything that holds for a communicator. `previous`: what each host found in the one before of the same shape.
/// `is_settled`: every source has had the time to tell of it.
#[must_use]
pub(super) fn judge(
    channels: &Channels,
    previous: Option<&BTreeMap<Name, u32>>,
    is_settled: bool,
    known: &Hosts<'_>,
) -> Vec<Judgement> {
    if !channels.is_live {
        return Vec::new();
    }
    let mut judgements: Vec<Judgement> = final_disagrees(channels).into_iter().collect();
    let all_known =
        channels.base.is_some() && channels.ranks.iter().all(|rank| rank.final_channels.is_some());
    if all_known {
        let hosts = channels.hosts();
        judgements.extend(init_below_half_final(channels));
        judgements.extend(final_unexplained(channels));
        judgements.extend(uneven(channels, &hosts, known));
        judgements.extend(regressions(channels, &hosts, previous, known));
    }
    judgements.extend(faults::odd_hops(channels));
    if is_settled {
        judgements.extend(faults::partly_seen(channels));
    }
    judgements
}

fn final_disagrees(channels: &Channels) -> Option<Judgement> {
    let mut first_with: BTreeMap<u32, &RankChannels> = BTreeMap::new();
    for rank in &channels.ranks {
        if let Some(final_channels) = rank.final_channels {
            first_with.entry(final_channels).or_insert(rank);
        }
    }
    let host = channels.ranks.first()?.host.clone();
    let hosts = first_with.iter().map(|(n, rank)| (*n, &rank.host)).collect();
    (first_with.len() > 1).then(|| Judgement {
        blame: Blame::default(),
        kind: FindingKind::FinalDisagrees,
        severity: Severity::Critical,
        host,
        rank: None,
        channel: None,
        nic: None,
        cause: if channels.ranks.iter().any(|rank| rank.bounds != channels.ranks[0].bounds) {
            "different_settings"
        } else {
            Cause::Unexplained.label()
        },
        culprits: Vec::new(),
        message: words::disagreement(&hosts),
        evidence: first_with.values().flat_map(|rank| rank.proof(&["final"])).take(MAX_PROOF).collect(),
    })
}

/// Fewer than the rules give. Info: most often a setting that nobody told of, and none of the hosts is to blame.
fn final_unexplained(channels: &Channels) -> Option<Judgement> {
    let prediction = channels.prediction();
    let (last, least) = (channels.final_channels?, *prediction.finals.first()?);
    let rank = channels.ranks.first()?;
    (last < least).then(|| Judgement {
        blame: Blame::default(),
        kind: FindingKind::FinalUnexplained,
        severity: Severity::Info,
        host: rank.host.clone(),
        rank: None,
        channel: None,
        nic: None,
        cause: Cause::Unexplained.label(),
        culprits: Vec::new(),
        message: words::unexplained(last, &prediction.finals),
        evidence: rank.proof(&["init", "tree", "final"]).collect(),
    })
}

fn init_below_half_final(channels: &Channels) -> impl Iterator<Item = Judgement> {
    channels.ranks.iter().filter_map(|rank| {
        let (init, final_channels) = (rank.init?, rank.final_channels?);
        // RCCL has rules of its own: that it raises the number says nothing.
        if u64::from(init) * 2 >= u64::from(final_channels) || rank.causes.contains(&Cause::Rccl) {
            return None;
        }
        let raised = rank.causes.iter().copied().find(|cause| RAISING.contains(cause));
        let cause = raised.filter(|_| !rank.causes.contains(&Cause::Unexplained));
        let why = cause.and_then(|cause| words::why(cause, channels, rank));
        let setting = rank.bounds.min_nchannels.iter().chain(&rank.bounds.min_ctas);
        let setting: Vec<String> = setting.map(|bound| format!("setting/{}", bound.name)).collect();
        let facts: Vec<&str> =
            ["init", "final"].into_iter().chain(setting.iter().map(String::as_str)).collect();
        Some(Judgement {
            blame: Blame::default(),
            kind: FindingKind::InitBelowHalfFinal,
            severity: if cause.is_some() { Severity::Info } else { Severity::Warning },
            host: rank.host.clone(),
            rank: Some(rank.rank),
            channel: None,
            nic: None,
            cause: cause.unwrap_or(Cause::Unexplained).label(),
            culprits: Vec::new(),
            message: words::raised(rank.rank, &rank.host, init, final_channels, why),
            evidence: rank.proof(&facts).take(MAX_PROOF).collect(),
        })
    })
}

/// Who holds the others back, and who is held back.
fn uneven(channels: &Channels, hosts: &[HostChannels], known: &Hosts<'_>) -> Vec<Judgement> {
    let Some(base) = channels.base else { return Vec::new() };
    let more: Vec<u32> =
        channels.ranks.iter().filter_map(|rank| rank.init).filter(|init| *init > base).collect();
    let (Some(least), Some(most)) = (more.iter().min().copied(), more.iter().max().copied()) else {
        return slow_rings(channels, hosts);
    };
    let culprits: Vec<&Name> = hosts.iter().filter(|host| host.init == base).map(|host| &host.host).collect();
    let uneven = words::Uneven { base, least, most, culprits: &culprits, n_hosts: hosts.len() };
    let runs_on = |host: &HostChannels| {
        channels.ranks_of(host).next().and_then(|rank| rank.final_channels).unwrap_or_default()
    };
    let build = |host: &Name| (known.build)(host).unwrap_or_default();
    let otherwise = built_otherwise(hosts, base, build);
    let judge_host = |host: &HostChannels| {
        if host.init == base {
            let why = (known.explain)(&host.host);
            let other = otherwise.get(&host.host).filter(|_| why.is_none()).cloned();
            Some(shortfall(channels, host, hosts, &uneven, why).of_other_hardware(other))
        } else {
            capped(channels, host, &uneven, runs_on(host))
        }
    };
    hosts.iter().filter_map(judge_host).collect()
}

/// The cause where a host is built otherwise.
const OTHER_HARDWARE: &str = "other_hardware";

fn shortfall(
    channels: &Channels,
    host: &HostChannels,
    hosts: &[HostChannels],
    uneven: &words::Uneven<'_>,
    why: Option<Explanation>,
) -> Judgement {
    let hopper = channels.hopper_off(host);
    let by_rules = channels.judged.as_ref().is_some_and(|judged| !judged.is_empty());
    let runs_on = channels.final_channels.filter(|_| by_rules);
    let instead = lost(channels, runs_on, uneven.least, &host.bounds, hopper.is_some());
    let mut message = uneven.shortfall(host, runs_on, instead, why.as_ref());
    if let Some((rank, _)) = hopper {
        message.push_str(&words::also_hopper_off(rank));
    }
    message.push_str(&words::nodes(channels, &host.host));
    let its = channels.ranks_of(host).filter(|rank| rank.init == Some(uneven.base));
    let others = channels.ranks.iter().filter(|rank| rank.init.is_some_and(|init| init > uneven.base));
    let lines = its.clone().take(2).chain(others.take(1)).flat_map(|rank| rank.proof(&["init", "nics"]));
    Judgement {
        blame: Blame::default(),
        kind: FindingKind::ChannelShortfall,
        severity: match (by_rules, instead) {
            // With settings that allow no more channels anyway, a node that finds fewer costs none; and that one with
            // another number of ranks finds fewer is no sign of anything. What it costs under other rules nobody can say.
            (true, None) if runs_on.is_some() => match has_other_ranks(host, hosts) {
                true => Severity::Info,
                false => Severity::Warning,
            },
            (false, _) => Severity::Warning,
            _ => Severity::Critical,
        },
        host: host.host.clone(),
        rank: None,
        channel: None,
        nic: None,
        cause: "fewer_channels",
        culprits: Vec::new(),
        message,
        evidence: lines.chain(its.take(1).flat_map(|rank| rank.proof(&["final"]))).take(MAX_PROOF).collect(),
    }
    .explained(why)
}

/// Whether every host that found more has another number of ranks, as after a shrink.
fn has_other_ranks(host: &HostChannels, hosts: &[HostChannels]) -> bool {
    let mut more = hosts.iter().filter(|other| other.highest_init > host.init);
    more.all(|other| other.places.len() != host.places.len())
}

fn capped(
    channels: &Channels,
    host: &HostChannels,
    uneven: &words::Uneven<'_>,
    runs_on: u32,
) -> Option<Judgement> {
    let instead = lost(channels, Some(runs_on), host.init, &host.bounds, false)?;
    let own = channels.ranks_of(host).next();
    let culprit = channels.ranks.iter().find(|rank| rank.init == Some(uneven.base));
    let evidence = own.into_iter().flat_map(|rank| rank.proof(&["init", "final"]));
    Some(Judgement {
        blame: Blame::default(),
        kind: FindingKind::CappedByPeer,
        severity: Severity::Info,
        host: host.host.clone(),
        rank: None,
        channel: None,
        nic: None,
        cause: "peer_limits",
        culprits: uneven.culprits.iter().map(ToString::to_string).collect(),
        message: uneven.capped(host, runs_on, instead) + &words::nodes(channels, &host.host),
        evidence: evidence
            .chain(culprit.into_iter().flat_map(|rank| rank.proof(&["init"])))
            .take(MAX_PROOF)
            .collect(),
    })
}

/// Hosts that found as many channels as the others, and yet keep the library from doubling them for Hopper.
fn slow_rings(channels: &Channels, hosts: &[HostChannels]) -> Vec<Judgement> {
    let judge_host = |host: &HostChannels| {
        let (rank, instead) = channels.hopper_off(host)?;
        let is_slow = rank.ring_bw_intra.is_some_and(|bw| bw <= super::predict::HOPPER_BW);
        Some(Judgement {
            blame: Blame::default(),
            kind: FindingKind::ChannelShortfall,
            // A cluster of several kinds of GPU is built so.
            severity: if is_slow { Severity::Critical } else { Severity::Info },
            host: host.host.clone(),
            rank: None,
            channel: None,
            nic: None,
            cause: if is_slow { "slow_ring" } else { "older_gpu" },
            culprits: Vec::new(),
            message: words::hopper_off(rank, channels.final_channels.unwrap_or_default(), instead)
                + &words::nodes(channels, &host.host),
            evidence: rank.proof(&["init", "final"]).take(MAX_PROOF).collect(),
        })
    };
    hosts.iter().filter_map(judge_host).collect()
}

/// Channels there would be with this base, if that is more than there are.
fn lost(channels: &Channels, runs_on: Option<u32>, base: u32, bounds: &Bounds, hopper: bool) -> Option<u32> {
    let instead = channels.instead(base, bounds, hopper)?;
    Some(instead).filter(|instead| runs_on.is_some_and(|runs_on| *instead > runs_on))
}

fn regressions(
    channels: &Channels,
    hosts: &[HostChannels],
    previous: Option<&BTreeMap<Name, u32>>,
    known: &Hosts<'_>,
) -> Vec<Judgement> {
    let Some(previous) = previous else { return Vec::new() };
    let judge_host = |host: &HostChannels| {
        let before = previous.get(&host.host).copied().filter(|before| *before > host.init)?;
        let rank = channels.ranks_of(host).find(|rank| rank.init == Some(host.init));
        let why = (known.explain)(&host.host);
        let judgement = Judgement {
            blame: Blame::default(),
            kind: FindingKind::ChannelRegression,
            severity: Severity::Warning,
            host: host.host.clone(),
            rank: None,
            channel: None,
            nic: None,
            cause: "fewer_channels",
            culprits: Vec::new(),
            message: words::regression(&host.host, host.init, before, why.as_ref()),
            evidence: rank.into_iter().flat_map(|rank| rank.proof(&["init"])).take(MAX_PROOF).collect(),
        };
        Some(judgement.explained(why))
    };
    hosts.iter().filter_map(judge_host).collect()
}

/// Rules that give more than twice the base.
const RAISING: [Cause; 5] =
    [Cause::MinNchannels, Cause::Hopper, Cause::Unpack, Cause::Collnet, Cause::NvlsRaise];
