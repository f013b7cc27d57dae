//! The clocks of hosts against ours, so that times of several hosts can be laid side by side.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;

use super::super::{Model, Name};
use super::DRIFT_PPM;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostClock {
    /// How far it is ahead of ours, at the end of the time that was asked for.
    pub offset_ns: i64,
    /// How much further it gets ahead in a second of that time, against the reference.
    pub gains_ns: i64,
    /// How far times of this host, so corrected, may be wrong against those of the reference.
    pub error_ns: u64,
    /// Where that is known from.
    pub basis: ClockBasis,
    /// The host against whose clock it is known. Empty: none.
    pub reference: Name,
}

/// The clocks of some hosts over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostClocks {
    by_host: BTreeMap<Name, HostClock>,
    to: Timestamp,
}

impl Model {
    /// The clocks of these hosts from one time of ours to another, so that their times can be compared: hosts that share
    /// collectives are aligned by these, and all of them together with ours by what their agents say.
    #[must_use]
    pub fn clocks<'n>(
        &self,
        hosts: impl IntoIterator<Item = &'n Name>,
        (from, to): (Timestamp, Timestamp),
    ) -> HostClocks {
        let hosts: Vec<&Name> = hosts.into_iter().collect();
        let offsets = |at: Timestamp| self.clocks.offsets(hosts.iter().copied(), at.0);
        let known = offsets(to);
        let before = if to.since(from) >= GAIN_OVER { offsets(from) } else { BTreeMap::new() };
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
            Some(offset) => {
                let ahead_ns = ahead.get(&offset.reference).copied().unwrap_or_default();
                aligned(host, offset, before.get(host), ahead_ns, to.since(from))
            }
            None => by_agent(host, of_agents.get(host).copied(), is_alone),
        };
        HostClocks { by_host: hosts.iter().map(|host| (Name::clone(host), of_host(host))).collect(), to }
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
    pub fn all(&self) -> impl Iterator<Item = (&Name, &HostClock)> {
        self.by_host.iter()
    }

    /// One host's.
    #[must_use]
    pub fn of(&self, host: &str) -> Option<&HostClock> {
        self.by_host.get(host)
    }

    /// A time of a host's clock by ours. Of a host that is not among these, as it was told.
    #[must_use]
    pub fn ours_ns(&self, host: &str, at_ns: u64) -> u64 {
        self.by_host.get(host).map_or(at_ns, |clock| clock.ours_ns(at_ns, self.to))
    }

    /// When the time ends that was asked for.
    #[must_use]
    pub fn to(&self) -> Timestamp {
        self.to
    }
}

impl HostClock {
    /// A time of its clock by ours. `to`: when [`HostClock::offset_ns`] is of.
    #[must_use]
    pub fn ours_ns(&self, at_ns: u64, to: Timestamp) -> u64 {
        let ours = i128::from(at_ns) - i128::from(self.offset_ns);
        let gained = (ours - i128::from(to.0)) * i128::from(self.gains_ns) / 1_000_000_000;
        u64::try_from((ours - gained).max(0)).unwrap_or(u64::MAX)
    }
}

/// By collectives, at the end of a time so long; `before`: at its beginning, if it is long enough to tell drift.
fn aligned(
    host: &Name,
    offset: &Offset,
    before: Option<&Offset>,
    ahead_ns: i64,
    time: Duration,
) -> HostClock {
    let is_reference = *host == offset.reference;
    let before = before.filter(|before| before.reference == offset.reference);
    let gained = before.map_or(0, |before| offset.offset_ns.saturating_sub(before.offset_ns));
    let gains_ns = gained / i64::try_from(time.as_secs()).unwrap_or(i64::MAX).max(1);
    HostClock {
        offset_ns: ahead_ns.saturating_add(offset.offset_ns),
        gains_ns: gains_ns.clamp(-DRIFT_PPM * 1_000, DRIFT_PPM * 1_000),
        error_ns: offset.error_ns.max(before.map_or(0, |before| before.error_ns)),
        basis: if is_reference { ClockBasis::Reference } else { ClockBasis::Collectives },
        reference: Name::clone(&offset.reference),
    }
}

/// By its agent. One host alone has nobody to be compared with.
fn by_agent(host: &Name, offset_ns: Option<i64>, is_alone: bool) -> HostClock {
    let by_agent = HostClock {
        offset_ns: offset_ns.unwrap_or_default(),
        gains_ns: 0,
        error_ns: OF_AGENT_NS,
        basis: if offset_ns.is_some() { ClockBasis::Agent } else { ClockBasis::Unknown },
        reference: Name::default(),
    };
    match is_alone {
        true => {
            HostClock { error_ns: 0, basis: ClockBasis::Reference, reference: Name::clone(host), ..by_agent }
        }
        false => by_agent,
    }
}

/// Zero where there is none: nobody has read them since this daemon started.
fn median(mut told: Vec<i64>) -> i64 {
    told.sort_unstable();
    told.get(told.len() / 2).copied().unwrap_or_default()
}

/// Over less, what is taken for drift may be the error of the bounds.
const GAIN_OVER: Duration = Duration::from_secs(10);
