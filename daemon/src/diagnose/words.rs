//! Findings in words, for an operator: who, how many, and what it costs.

use std::collections::BTreeMap;

use super::channels::Bound;
use super::facts::HostChannels;
use crate::model::Name;

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
    /// "host-2 found 1 channel, the others 2: every rank runs on 2 channels instead of 4".
    pub(super) fn shortfall(
        &self,
        host: &HostChannels,
        runs_on: Option<u32>,
        instead: Option<u32>,
    ) -> String {
        let found = channels(self.base);
        let part = if host.highest_init > host.init { " on some of its ranks" } else { "" };
        let also: Vec<&Name> = self.culprits.iter().copied().filter(|other| **other != host.host).collect();
        let also = if also.is_empty() { String::new() } else { format!(" (so did {})", list(&also)) };
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
        format!("{} found {found}{part}{also}, {others} {more}{effect}", host.host)
    }

    /// "host-0 found 2 channels but runs on 2 instead of 4: host-2 found only 1".
    pub(super) fn capped(&self, host: &HostChannels, runs_on: u32, instead: u32) -> String {
        format!(
            "{} found {} but runs on {runs_on} instead of {instead}: {} found only {}",
            host.host,
            channels(host.init),
            list(self.culprits),
            self.base
        )
    }
}

/// "host-2 found 1 channel; in its previous communicator of this shape it found 2".
pub(super) fn regression(host: &str, init: u32, before: u32) -> String {
    format!("{host} found {}; in its previous communicator of this shape it found {before}", channels(init))
}

/// "rank 3 on host-1 found 1 channel but runs on 8: NCCL_MIN_NCHANNELS=8 raises it".
pub(super) fn raised(rank: u32, host: &str, init: u32, final_channels: u32, min: Option<&Bound>) -> String {
    let why = match min {
        Some(bound) => format!("{}={} raises it", bound.name, bound.channels),
        None => "more than twice as many, and no known rule explains it".to_owned(),
    };
    format!("rank {rank} on {host} found {} but runs on {final_channels}: {why}", channels(init))
}

/// "the ranks disagree on the number of channels (host-0: 2, host-1: 4): the communicator will hang".
pub(super) fn disagreement(first_with: &BTreeMap<u32, &Name>) -> String {
    let each: Vec<String> = first_with.iter().take(NAMED).map(|(n, host)| format!("{host}: {n}")).collect();
    format!("the ranks disagree on the number of channels ({}): the communicator will hang", each.join(", "))
}

/// "rank 3", "ranks 0 and 4", "ranks 0 to 7", "ranks 0, 2, 4 and 5 more". Ascending.
pub(super) fn ranks(ranks: &[u32]) -> String {
    let (Some(first), Some(last)) = (ranks.first(), ranks.last()) else { return "no rank".to_owned() };
    if ranks.len() == 1 {
        return format!("rank {first}");
    }
    if ranks.len() > 2 && (last - first) as usize + 1 == ranks.len() {
        return format!("ranks {first} to {last}");
    }
    let names: Vec<Name> = ranks.iter().take(NAMED + 1).map(|rank| rank.to_string().into()).collect();
    let more = ranks.len() - names.len().min(NAMED);
    match names.as_slice() {
        names if ranks.len() <= NAMED => format!("ranks {}", list(&names.iter().collect::<Vec<_>>())),
        names => format!(
            "ranks {} and {more} more",
            names[..NAMED].iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
        ),
    }
}

fn channels(n: u32) -> String {
    if n == 1 { "1 channel".to_owned() } else { format!("{n} channels") }
}

/// "host-1", "host-1 and host-2", "host-1, host-2, host-3 and 4 more".
fn list(hosts: &[&Name]) -> String {
    let names: Vec<&str> = hosts.iter().take(NAMED).map(|host| &***host).collect();
    match (names.as_slice(), hosts.len().saturating_sub(NAMED)) {
        ([first @ .., last], 0) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        (names, 0) => names.concat(),
        (names, more) => format!("{} and {more} more", names.join(", ")),
    }
}

/// More names than this tell an operator nothing that the page does not tell better.
const NAMED: usize = 3;
