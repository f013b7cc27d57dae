//! The clocks of hosts against ours, so that times of several hosts can be laid side by side.

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;

use super::super::{Model, Name};
use super::walk::Offset;

/// How far the way of an agent's batches may be wrong as a measure of its host's clock: no request takes longer.
const OF_AGENT_NS: u64 = 2_000_000_000;

/// Where it is known from how a host's clock differs from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockBasis {
    /// The others' clocks are told against this one.
    Reference,
    /// Operations in which nobody completes before all have called.
    Collectives,
    /// The times at which its agent sent its batches, and at which they came.
    Agent,
    /// Nothing: it is taken to be right.
    Unknown,
}

/// The clock of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostClock {
    /// How far it is ahead of ours.
    pub offset_ns: i64,
    /// How far times of this host, so corrected, may be wrong against those of the reference.
    pub error_ns: u64,
    /// Where that is known from.
    pub basis: ClockBasis,
}

/// The clocks of some hosts at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostClocks {
    by_host: BTreeMap<Name, HostClock>,
}

impl Model {
    /// The clocks of these hosts at a time of ours, as far as each other's times are concerned: the hosts that share
    /// collectives are aligned by these, and all of them together with ours by what their agents say.
    #[must_use]
    pub fn clocks<'n>(&self, hosts: impl IntoIterator<Item = &'n Name>, at: Timestamp) -> HostClocks {
        let hosts: Vec<&Name> = hosts.into_iter().collect();
        let known = self.clocks.offsets(hosts.iter().copied(), at.0);
        let of_agents: BTreeMap<&Name, i64> =
            hosts.iter().filter_map(|host| Some((*host, self.offset_of_agent(host)?))).collect();
        // How far each reference is ahead of ours, by what the agents of all its hosts say.
        let mut ahead: BTreeMap<&Name, Vec<i64>> = BTreeMap::new();
        for (host, offset) in &known {
            let told = of_agents.get(host).map(|told| told.saturating_sub(offset.offset_ns));
            ahead.entry(&offset.reference).or_default().extend(told);
        }
        let ahead: BTreeMap<&Name, i64> =
            ahead.into_iter().map(|(host, told)| (host, median(told))).collect();
        let is_alone = hosts.len() == 1;
        let of_host = |host: &Name| match known.get(host) {
            Some(offset) => aligned(host, offset, ahead.get(&offset.reference).copied().unwrap_or_default()),
            None if is_alone => HostClock {
                offset_ns: of_agents.get(host).copied().unwrap_or_default(),
                error_ns: 0,
                basis: ClockBasis::Reference,
            },
            None => match of_agents.get(host) {
                Some(offset) => {
                    HostClock { offset_ns: *offset, error_ns: OF_AGENT_NS, basis: ClockBasis::Agent }
                }
                None => HostClock { offset_ns: 0, error_ns: OF_AGENT_NS, basis: ClockBasis::Unknown },
            },
        };
        HostClocks { by_host: hosts.iter().map(|host| (Name::clone(host), of_host(host))).collect() }
    }

    /// How far the clock of a host is ahead of ours, by the newest batch of its agent.
    fn offset_of_agent(&self, host: &Name) -> Option<i64> {
        let processes = self.hosts.get(host)?.iter().filter_map(|id| self.processes.get(id));
        let newest =
            processes.filter_map(|process| self.clock_of(process)).max_by_key(|reading| reading.at)?;
        i64::try_from(i128::from(newest.read_at.0) - i128::from(newest.at.0)).ok()
    }
}

impl HostClocks {
    /// Each host's, by name.
    pub fn all(&self) -> impl Iterator<Item = (&Name, HostClock)> {
        self.by_host.iter().map(|(host, clock)| (host, *clock))
    }

    /// One host's.
    #[must_use]
    pub fn of(&self, host: &str) -> Option<HostClock> {
        self.by_host.get(host).copied()
    }

    /// A time of a host's clock by ours.
    #[must_use]
    pub fn ours_ns(&self, host: &str, at_ns: u64) -> u64 {
        let offset_ns = self.by_host.get(host).map_or(0, |clock| clock.offset_ns);
        let ours = i128::from(at_ns) - i128::from(offset_ns);
        u64::try_from(ours.max(0)).unwrap_or(u64::MAX)
    }
}

fn aligned(host: &Name, offset: &Offset, ahead_ns: i64) -> HostClock {
    let is_reference = *host == offset.reference;
    HostClock {
        offset_ns: ahead_ns.saturating_add(offset.offset_ns),
        error_ns: offset.error_ns,
        basis: if is_reference { ClockBasis::Reference } else { ClockBasis::Collectives },
    }
}

/// Zero where there is none: nobody has read them since this daemon started.
fn median(mut told: Vec<i64>) -> i64 {
    told.sort_unstable();
    told.get(told.len() / 2).copied().unwrap_or_default()
}
