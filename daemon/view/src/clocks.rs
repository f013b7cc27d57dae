//! The clocks of hosts.

use ringscope_api::clock::Timestamp;
use ringscope_api::{ClockBasis, HostClock};
use ringscope_model::{self as model, Communicator, HostClocks, Model, Name, Process};

use super::text;

/// The clocks of all hosts with processes that live, as of now, where anything tells of them.
#[must_use]
pub fn host_clocks(model: &Model, now: Timestamp) -> Vec<HostClock> {
    let all =
        model.hosts().filter_map(|(name, mut processes)| processes.any(Process::is_living).then_some(name));
    let all: Vec<&Name> = all.collect();
    let clocks = model.clocks(all, (now, now));
    let known = clocks.all().filter(|(_, clock)| clock.basis != model::ClockBasis::Unknown);
    known.map(|(host, clock)| clock_to_api(host, clock)).collect()
}

/// The clock of a host, as of now.
pub(super) fn host_clock(model: &Model, host: &Name, now: Timestamp) -> HostClock {
    let all: Vec<&Name> = model.hosts().map(|(name, _)| name).collect();
    let clocks = model.clocks(all, (now, now));
    clocks.of(host).map_or_else(
        || HostClock {
            host: host.to_string(),
            offset_s: 0.0,
            error_s: 0.0,
            basis: ClockBasis::Unknown,
            reference: None,
        },
        |clock| clock_to_api(host, clock),
    )
}

/// A clock of the model as the API shows it.
pub(super) fn clock_to_api(host: &Name, clock: &model::HostClock) -> HostClock {
    HostClock {
        host: host.to_string(),
        offset_s: seconds(clock.offset_ns),
        error_s: seconds(i64::try_from(clock.error_ns).unwrap_or(i64::MAX)),
        basis: match clock.basis {
            model::ClockBasis::Reference => ClockBasis::Reference,
            model::ClockBasis::Collectives => ClockBasis::Collectives,
            model::ClockBasis::Agent => ClockBasis::Agent,
            model::ClockBasis::Unknown => ClockBasis::Unknown,
        },
        reference: text(&clock.reference),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a difference of clocks; nanoseconds up to a hundred days")]
fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// The clocks of a communicator's ranks.
pub(super) struct RankClocks<'c> {
    /// By rank.
    by_rank: Vec<Option<&'c model::HostClock>>,
    to: Timestamp,
}

impl<'c> RankClocks<'c> {
    pub(super) fn of(model: &Model, known: &Communicator, clocks: &'c HostClocks) -> Self {
        let hosts = known.hosts_by_rank(model).into_iter();
        Self { by_rank: hosts.map(|host| clocks.of(host?)).collect(), to: clocks.to() }
    }

    /// As many as the highest rank heard of needs.
    pub(super) fn n_ranks(&self) -> usize {
        self.by_rank.len()
    }

    /// A time that a rank told, by our clock.
    pub(super) fn ours_ns(&self, rank: u32, at_ns: u64) -> u64 {
        let clock = self.by_rank.get(rank as usize).copied().flatten();
        clock.map_or(at_ns, |clock| clock.ours_ns(at_ns, self.to))
    }
}
