//! What a scrape reads of each communicator in use: its ranks are walked once, and those that have a series for each of their
//! hosts once more.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ringscope_api::{CommunicatorState, Severity};
use ringscope_judge::Diagnosis;
use ringscope_model::{Communicator, CommunicatorId, Facts, Model, Name, ProcessState, RankRef, Sample};
use ringscope_wire::Primitive;
use rustc_hash::FxHashSet;

use super::room::{Candidate, Choice, Level};

/// A communicator in use.
pub(super) struct Known<'a> {
    communicator: &'a Communicator,
    name: Name,
    n_nodes: u32,
    /// Its only host.
    one_host: Option<&'a Name>,
    n_hosts: usize,
    is_unhealthy: bool,
    /// Sums over its ranks.
    totals: Vec<Sample>,
    /// Channels of the host that is worst off.
    worst: Option<HostChannels>,
}

/// What the families show of a communicator.
pub(super) struct Shown {
    pub(super) id: CommunicatorId,
    pub(super) comm_hash: u64,
    pub(super) job: Name,
    pub(super) name: Name,
    pub(super) n_ranks: u32,
    pub(super) n_nodes: u32,
    /// By host and primitive, or with an empty host: of all its hosts.
    pub(super) samples: Vec<Sample>,
    pub(super) channels: Vec<HostChannels>,
}

/// Both channel counts of the rank of a host that is worst off.
pub(super) struct HostChannels {
    pub(super) host: Name,
    pub(super) init: Option<u32>,
    pub(super) last: Option<u32>,
}

/// All that are in use, by id. What was imported is the past: no alert is to come of it.
pub(super) fn in_use<'a>(model: &'a Model, diagnosis: &Diagnosis) -> Vec<Known<'a>> {
    let known = model.communicators().filter_map(|communicator| Known::of(communicator, model, diagnosis));
    let mut known: Vec<Known<'_>> = known.collect();
    known.sort_unstable_by_key(|one| one.communicator.id());
    known
}

/// Drops all but the unhealthy and largest `max`, and returns how many.
pub(super) fn keep_most(candidates: &mut Vec<Candidate<CommunicatorId>>, max: Option<usize>) -> usize {
    let beyond = candidates.len().saturating_sub(max.unwrap_or(usize::MAX));
    if beyond > 0 {
        candidates.sort_by_key(|one| (!one.unhealthy, Reverse(one.size), one.key));
        candidates.truncate(candidates.len() - beyond);
    }
    beyond
}

impl<'a> Known<'a> {
    fn of(communicator: &'a Communicator, model: &'a Model, diagnosis: &Diagnosis) -> Option<Self> {
        let mut walk = Walk::default();
        let (state, _) = communicator
            .state_of(communicator.ranks(model).inspect(|rank| walk.add(communicator.id(), rank)));
        if state == CommunicatorState::Ended || !walk.lives {
            return None;
        }
        let is_bad = |severity| severity >= Severity::Warning;
        let (worst, facts) = walk.worst.unzip();
        Some(Self {
            communicator,
            name: communicator.name(model).cloned().unwrap_or_default(),
            n_nodes: walk.n_nodes.unwrap_or_else(|| u32::try_from(walk.hosts.len()).unwrap_or(u32::MAX)),
            one_host: walk.last_host.filter(|_| walk.hosts.len() == 1),
            n_hosts: walk.hosts.len(),
            is_unhealthy: diagnosis.firing_of(communicator.id()).any(|finding| is_bad(finding.severity)),
            totals: walk.totals,
            worst: worst.zip(facts).map(|(host, facts)| channels_of(host, facts)),
        })
    }

    /// What its series would take.
    pub(super) fn candidate(&self) -> Candidate<CommunicatorId> {
        let of_samples: usize = self.totals.iter().map(n_series).sum();
        let n_worst = if self.is_unhealthy { self.n_hosts.min(WORST_HOSTS_MAX) } else { 1 };
        let whole = of_samples + CHANNEL_SERIES * n_worst + INFO_SERIES;
        // Not each host has called each primitive; where one has, it has no more.
        let of_hosts = (of_samples + CHANNEL_SERIES + WIRE_SERIES).saturating_mul(self.n_hosts) + INFO_SERIES;
        Candidate {
            key: self.communicator.id(),
            unhealthy: self.is_unhealthy,
            size: u64::from(self.communicator.n_ranks()),
            whole,
            detail: of_hosts.saturating_sub(whole),
        }
    }

    /// What the families show of it, if anything.
    pub(super) fn shown(self, model: &Model, choice: &Choice<CommunicatorId>) -> Option<Shown> {
        let communicator = self.communicator;
        let (samples, channels) = match choice.level(&communicator.id())? {
            Level::Detail => (model.samples(&[communicator.id()].into()), by_host(communicator, model)),
            Level::Whole if self.is_unhealthy => {
                let mut channels = by_host(communicator, model);
                channels.sort_by(|one, other| one.share().total_cmp(&other.share()));
                channels.truncate(WORST_HOSTS_MAX);
                (self.whole(), channels)
            }
            Level::Whole => (self.whole(), self.worst.into_iter().collect()),
        };
        Some(Shown {
            id: communicator.id(),
            comm_hash: communicator.comm_hash(),
            job: communicator.job().clone(),
            name: self.name,
            n_ranks: communicator.n_ranks(),
            n_nodes: self.n_nodes,
            samples,
            channels,
        })
    }

    /// Sums over all hosts have the name of one only where there is no other.
    fn whole(&self) -> Vec<Sample> {
        let host = self.one_host.map(ToString::to_string).unwrap_or_default();
        self.totals.iter().map(|sample| Sample { host: host.clone(), ..sample.clone() }).collect()
    }
}

/// What a walk over the ranks of a communicator has met.
#[derive(Default)]
struct Walk<'a> {
    /// Whether any was not imported.
    lives: bool,
    n_nodes: Option<u32>,
    hosts: FxHashSet<&'a str>,
    last_host: Option<&'a Name>,
    totals: Vec<Sample>,
    worst: Option<(&'a Name, &'a Facts)>,
}

impl<'a> Walk<'a> {
    fn add(&mut self, id: CommunicatorId, rank: &RankRef<'a>) {
        self.lives |= rank.process.state() != ProcessState::Imported;
        self.n_nodes = self.n_nodes.max(rank.facts.n_nodes);
        let host = &rank.identity.host;
        // Ranks of a host mostly follow each other.
        if self.last_host.is_none_or(|last| !Name::ptr_eq(last, host)) {
            self.hosts.insert(host);
            self.last_host = Some(host);
        }
        if self.worst.is_none_or(|(_, worst)| share(rank.facts) < share(worst)) {
            self.worst = Some((host, rank.facts));
        }
        let knows_completion = rank.knows_completion();
        for (primitive, counted) in rank.local.counters().iter() {
            let known = self.totals.iter().position(|sum| sum.primitive == primitive);
            let place = known.unwrap_or_else(|| {
                self.totals.push(nothing(id, primitive));
                self.totals.len() - 1
            });
            let (sum, totals) = (&mut self.totals[place], counted.totals());
            sum.issued_calls = sum.issued_calls.saturating_add(totals.issued_calls);
            sum.issued_bytes = sum.issued_bytes.saturating_add(totals.issued_bytes);
            sum.completed_calls = sum.completed_calls.saturating_add(totals.completed_calls);
            sum.completed_bytes = sum.completed_bytes.saturating_add(totals.completed_bytes);
            sum.captured_calls = sum.captured_calls.saturating_add(totals.captured_calls);
            sum.replayed_calls = sum.replayed_calls.saturating_add(totals.replayed_calls);
            sum.knows_completion &= knows_completion;
        }
    }
}

/// Nobody counts the bytes on links where hosts are not told apart.
fn nothing(comm: CommunicatorId, primitive: Primitive) -> Sample {
    Sample {
        comm,
        host: String::new(),
        primitive,
        issued_calls: 0,
        issued_bytes: 0,
        completed_calls: 0,
        completed_bytes: 0,
        captured_calls: 0,
        replayed_calls: 0,
        intra_bytes: None,
        inter_bytes: None,
        knows_completion: true,
    }
}

/// The two counts of one host are those of one rank, the one with the least init for its final: so that an
/// expression over both is true of a host exactly if it is true of one of its ranks.
fn by_host(communicator: &Communicator, model: &Model) -> Vec<HostChannels> {
    let mut hosts: BTreeMap<&Name, &Facts> = BTreeMap::new();
    for rank in communicator.ranks(model) {
        hosts
            .entry(&rank.identity.host)
            .and_modify(|worst| {
                if share(rank.facts) < share(worst) {
                    *worst = rank.facts;
                }
            })
            .or_insert(rank.facts);
    }
    hosts.into_iter().map(|(host, facts)| channels_of(host, facts)).collect()
}

fn channels_of(host: &Name, facts: &Facts) -> HostChannels {
    HostChannels { host: host.clone(), init: facts.init_channels, last: facts.final_channels }
}

impl HostChannels {
    fn share(&self) -> f64 {
        share_of(self.init, self.last)
    }
}

fn share(rank: &Facts) -> f64 {
    share_of(rank.init_channels, rank.final_channels)
}

/// `init / final`; a rank that says less comes after those that say both.
fn share_of(init: Option<u32>, last: Option<u32>) -> f64 {
    match (init, last) {
        (Some(init), Some(last)) => f64::from(init) / f64::from(last.max(1)),
        (Some(_), None) | (None, Some(_)) => f64::MAX,
        (None, None) => f64::INFINITY,
    }
}

/// Series of a primitive, on one host or on all: calls and bytes issued and completed, the backlog, and what graphs do.
fn n_series(sample: &Sample) -> usize {
    if is_captured(sample) { 7 } else { 5 }
}

/// Whether its calls are in graphs: else there is nothing to tell of captured calls, nor of their runs.
pub(super) fn is_captured(sample: &Sample) -> bool {
    sample.captured_calls > 0 || sample.replayed_calls > 0
}

/// Init and final.
const CHANNEL_SERIES: usize = 2;
/// Intra and inter.
const WIRE_SERIES: usize = 2;
/// What is known of a communicator, and its ranks.
const INFO_SERIES: usize = 2;
/// Hosts with the worst channels of an unhealthy communicator that has no series for each of its hosts.
const WORST_HOSTS_MAX: usize = 16;
