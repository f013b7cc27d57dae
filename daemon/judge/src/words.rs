//! Findings in words, for an operator: who, how many, and what it costs.

use std::collections::BTreeMap;

use ringscope_api::OddHop;
use ringscope_api::words::{list, ranks};
use ringscope_model::Name;

use super::channels::Cause;
use super::facts::{Channels, HostChannels};
use super::hardware::Explanation;
use super::hops::OddHost;
use super::predict::{self, HOPPER_BW};
use super::rank_channels::RankChannels;

/// Some hosts found fewer channels than others.
pub(super) struct Uneven<'a> {
    /// The fewest.
    pub(super) base: u32,
    /// The fewest and the most that the others found.
    pub(super) least: u32,
    pub(super) most: u32,
    /// Hosts that found the fewest.
    pub(super) culprits: &'a [&'a Name],
    pub(super) n_hosts: usize,
}

impl Uneven<'_> {
    /// "host-2 found 1 channel because mlx5_3 is down, the others 2: every rank runs on 2 channels instead of 4".
    pub(super) fn shortfall(
        &self,
        host: &HostChannels,
        runs_on: Option<u32>,
        instead: Option<u32>,
        why: Option<&Explanation>,
    ) -> String {
        let found = channels(self.base);
        let part = if host.highest_init > host.init { " on some of its ranks" } else { "" };
        let also: Vec<&Name> = self.culprits.iter().copied().filter(|other| **other != host.host).collect();
        let also = if also.is_empty() { String::new() } else { format!(" (so did {})", list(&also, NAMED)) };
        let others = match self.n_hosts - self.culprits.len() {
            0 => "its other ranks",
            1 => "the other host",
            _ => "the others",
        };
        let others =
            if self.n_hosts > 1 && self.n_hosts == self.culprits.len() { "other ranks" } else { others };
        let more = if self.least == self.most {
            self.most.to_string()
        } else {
            format!("{} to {}", self.least, self.most)
        };
        let effect = match (runs_on, instead) {
            (None, _) => String::new(),
            (Some(runs_on), Some(instead)) => {
                format!(": every rank runs on {} instead of {instead}", channels(runs_on))
            }
            (Some(runs_on), None) => format!(": no channel is lost, the settings allow only {runs_on}"),
        };
        let why = because(why);
        format!("{} found {found}{part}{why}{also}, {others} {more}{effect}", host.host)
    }

    /// "host-0 found 2 channels but runs on 2 instead of 4: host-2 found only 1".
    pub(super) fn capped(&self, host: &HostChannels, runs_on: u32, instead: u32) -> String {
        format!(
            "{} found {} but runs on {runs_on} instead of {instead}: {} found only {}",
            host.host,
            channels(host.init),
            list(self.culprits, NAMED),
            self.base
        )
    }
}

/// "host-2 found 1 channel because mlx5_3 is down; in its previous communicator of this shape it found 2".
pub(super) fn regression(host: &str, init: u32, before: u32, why: Option<&Explanation>) -> String {
    format!(
        "{host} found {}{}; in its previous communicator of this shape it found {before}",
        channels(init),
        because(why)
    )
}

fn because(why: Option<&Explanation>) -> String {
    why.map(|why| format!(" because {}", why.words)).unwrap_or_default()
}

/// "rank 3 on host-1 found 1 channel but runs on 8: NCCL_MIN_NCHANNELS=8 raises it".
pub(super) fn raised(rank: u32, host: &str, init: u32, final_channels: u32, why: Option<String>) -> String {
    let why = why.unwrap_or_else(|| "more than twice as many, and no known rule explains it".to_owned());
    format!("rank {rank} on {host} found {} but runs on {final_channels}: {why}", channels(init))
}

/// "every rank runs on 1 channel, where the library's rules give 2: most likely a setting that its log does not print …".
pub(super) fn unexplained(last: u32, finals: &[u32]) -> String {
    let finals: Vec<String> = finals.iter().map(ToString::to_string).collect();
    format!(
        "every rank runs on {}, where the library's rules give {}: most likely a setting that nothing tells of; look for \
         NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS and ncclConfig_t.maxCTAs",
        channels(last),
        finals.join(" or ")
    )
}

/// "the ranks disagree on the number of channels (host-0: 2, host-1: 4): the communicator will hang".
pub(super) fn disagreement(first_with: &BTreeMap<u32, &Name>) -> String {
    let each: Vec<String> = first_with.iter().take(NAMED).map(|(n, host)| format!("{host}: {n}")).collect();
    format!("the ranks disagree on the number of channels ({}): the communicator will hang", each.join(", "))
}

/// Why a rank runs on more than twice what it found.
pub(super) fn why(cause: Cause, channels: &Channels, rank: &RankChannels) -> Option<String> {
    let judged = channels.judged.as_ref()?;
    let outcome = judged.of_bounds(&rank.bounds).outcomes.get(&rank.final_channels?)?;
    let steps = predict::in_words(outcome, &judged.inputs, &rank.bounds);
    if cause == Cause::MinNchannels {
        let bound = rank.bounds.min(&outcome.assumed.rules)?;
        return Some(format!("{}={} raises it", bound.name, bound.channels));
    }
    let step = steps.into_iter().find(|step| step.cause == cause.label())?;
    let inferred = if step.inferred { ", as far as can be inferred" } else { "" };
    Some(format!("{}{inferred}", step.text))
}

/// "; its ring of 20 GB/s also keeps the library from doubling for Hopper".
pub(super) fn also_hopper_off(rank: &RankChannels) -> String {
    format!("; its {} also keeps the library from doubling them for Hopper", slowness(rank))
}

/// "host-2's ring of 20 GB/s inside the node keeps the library from doubling channels for Hopper: every rank …".
pub(super) fn hopper_off(rank: &RankChannels, runs_on: u32, instead: u32) -> String {
    format!(
        "{}: its {} keeps the library from doubling channels for Hopper: every rank runs on {} instead of {instead}",
        rank.host,
        slowness(rank),
        channels(runs_on)
    )
}

fn slowness(rank: &RankChannels) -> String {
    match (rank.ring_bw_intra, rank.compute_capability) {
        (Some(bw), _) if bw <= HOPPER_BW => format!("ring of {bw} GB/s inside the node (45 is not enough)"),
        (_, Some(cc)) => format!("GPU of compute capability {}.{}", cc / 10, cc % 10),
        _ => "ring".to_owned(),
    }
}

/// "; NCCL node 0 is host-0 and host-1", "; it is NCCL nodes 2 (rank 2) and 3 (rank 3)". Empty: the host is the node.
pub(super) fn nodes(channels: &Channels, host: &Name) -> String {
    let odd: Vec<_> = channels.odd_nodes(host).collect();
    let Some((index, first)) = odd.first() else { return String::new() };
    if first.hosts.len() > 1 {
        return format!("; NCCL node {index} is {}", list(&first.hosts, NAMED));
    }
    let each = odd.iter().map(|(index, node)| format!("{index} ({})", ranks(&node.ranks)));
    format!("; to the library this host is {} nodes: {}", odd.len(), list(each, NAMED))
}

/// "host-2 sends over NET/Socket where others use NET/IB: rank 4, channels 0 to 3".
pub(super) fn odd_hops(odd: &OddHost) -> String {
    let set = |values: std::collections::BTreeSet<u32>| values.into_iter().collect::<Vec<u32>>();
    let senders = ranks(&set(odd.hops.iter().map(|hop| hop.rank).collect()));
    let of = ranks(&set(odd.hops.iter().map(|hop| hop.channel).collect())).replace("rank", "channel");
    let (host, first) = (&odd.host, &odd.first);
    let what = match odd.odd {
        OddHop::CrossRail => {
            let nics = first.nics.as_ref().map(|(send, receive)| (&**send, &**receive));
            let (send, receive) = nics.unwrap_or(("one NIC", "another"));
            format!(
                "rails are crossed at {host}: {} sends on {send} and {} receives on {receive}, while most hops stay on {}",
                first.host, first.next_host, odd.usual
            )
        }
        OddHop::NoGpuDirect => {
            format!("{host} sends without {}, through the host's memory, while others use it", odd.usual)
        }
        OddHop::Fallback => {
            format!("{host} sends over {} where others use {}", first.transport, odd.usual)
        }
    };
    format!("{what}: {senders}, {of}")
}

fn channels(n: u32) -> String {
    if n == 1 { "1 channel".to_owned() } else { format!("{n} channels") }
}

/// More names than this tell an operator nothing that the page does not tell better.
const NAMED: usize = 4;
