//! The services of a group, as members tell of them.

use std::time::Duration;

use ringscope_api::SummationRole as Role;
use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{SummationService, SummationTraffic};

use super::super::Model;
use super::super::rate::real;
use super::Group;
use super::member::{Member, Place, sum};

/// One service.
#[derive(Clone, Copy, Debug)]
pub struct Service<'a> {
    /// Number among the services.
    pub index: usize,
    /// Whose it is.
    pub place: Place,
    /// What it owns, and should.
    pub told: &'a SummationService,
    /// Its process's word. Absent: not heard of.
    pub owner: Option<&'a Member>,
    group: &'a Group,
}

impl<'a> Service<'a> {
    pub(super) fn of(
        group: &'a Group,
        (n_workers, n_servers): (u32, u32),
        index: usize,
        told: &'a SummationService,
    ) -> Option<Self> {
        let number = u32::try_from(index).ok()?;
        let place = match number.checked_sub(n_servers) {
            None => (Role::Server, number),
            Some(worker) if worker < n_workers => (Role::Worker, worker),
            Some(_) => return None,
        };
        Some(Self { index, place, told, owner: group.member(place), group })
    }

    /// Host of its process as members tell. Empty: not told.
    #[must_use]
    pub fn told_host(&self) -> &'a str {
        &self.told.host
    }

    /// Host of its process, as members tell or as it says itself. Empty: not known.
    #[must_use]
    pub fn host(&self, model: &'a Model) -> &'a str {
        let said = || self.group.process(self.place, model)?.identity().map(|identity| &*identity.host);
        if self.told.host.is_empty() { said().unwrap_or_default() } else { self.told_host() }
    }

    /// Part of all bytes that it owns.
    #[must_use]
    pub fn share(&self) -> f64 {
        f64::from(self.told.share_ppm) / PPM
    }

    /// Part of all bytes that it should own.
    #[must_use]
    pub fn optimal_share(&self) -> f64 {
        f64::from(self.told.optimal_share_ppm) / PPM
    }

    /// What it owns as a multiple of what it should. `None`: it owns next to nothing, or should own nothing.
    #[must_use]
    pub fn over_optimum(&self) -> Option<f64> {
        let (share, optimal) = (self.share(), self.optimal_share());
        (share >= SHARE_MIN && optimal > 0.0).then_some(share / optimal)
    }

    /// Whether any member says that it was lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.words().any(|told| told.lost)
    }

    /// Bytes per second that workers pushed to it over the last seconds.
    #[must_use]
    pub fn pushed_bytes_per_s(&self, now: Timestamp) -> f64 {
        self.group.workers().map(|(_, worker)| worker.pushed_bytes_per_s(self.index, now)).sum()
    }

    /// The same that they pulled.
    #[must_use]
    pub fn pulled_bytes_per_s(&self, now: Timestamp) -> f64 {
        self.group.workers().map(|(_, worker)| worker.pulled_bytes_per_s(self.index, now)).sum()
    }

    /// Of the traffic of all workers with it, the sum of something.
    #[must_use]
    pub fn traffic(&self, of: impl Fn(&SummationTraffic) -> u64) -> u64 {
        self.words().fold(0, |total, told| total.saturating_add(sum(&told.traffic, &of)))
    }

    /// How long it takes to sum a MiB of contributions. `None`: it has not summed.
    #[must_use]
    pub fn sum_per_mib(&self) -> Option<Duration> {
        let told = self.owner?.told();
        let mib = real(told.summed_bytes) / f64::from(1 << 20);
        Duration::try_from_secs_f64(real(told.summing_ns) / mib / 1e9).ok().filter(|_| mib > 0.0)
    }

    fn words(&self) -> impl Iterator<Item = &'a SummationService> {
        let index = self.index;
        self.group.members().filter_map(move |(_, member)| member.told.services.get(index))
    }
}

/// Less than this of all bytes is nothing, however many times its optimum it is.
pub const SHARE_MIN: f64 = 0.005;
/// Shares are told in millionths.
const PPM: f64 = 1e6;
