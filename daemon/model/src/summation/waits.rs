//! Rounds that are not over.

use std::cmp::Reverse;
use std::time::Duration;

use ringscope_api::clock::Timestamp;

use super::super::Model;
use super::super::limits::{MAX_WAITS, STALE_AFTER};
use super::Group;
use super::group::end;
use super::member::{Member, Place};

/// A round that is not over, and for whom it waits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's SummationWait")]
pub struct Wait<'a> {
    /// Number of the service.
    pub service: usize,
    /// Whose service that is.
    pub of: Place,
    pub key: u32,
    pub tensor: &'a str,
    pub round: u64,
    pub for_push: bool,
    pub workers: &'a [u32],
    pub age: Duration,
    /// When it began, by our clock.
    pub since: Timestamp,
    /// The age when it was told last: it may have been over the next moment.
    pub age_told: Duration,
}

impl Group {
    /// Rounds that are not over, the longest first, at most [`MAX_WAITS`].
    #[must_use]
    pub fn waits<'a>(&'a self, model: &'a Model, now: Timestamp) -> Vec<Wait<'a>> {
        let mut waits = self.all_waits(model, now);
        waits.truncate(MAX_WAITS);
        waits
    }

    /// The same, all of them: each service tells of [`MAX_WAITS`] at most. Of a round that a worker sums for its host first there
    /// are two: that of the part's owner, for that worker, and that of the worker, for those of its host.
    #[must_use]
    pub fn all_waits<'a>(&'a self, model: &'a Model, now: Timestamp) -> Vec<Wait<'a>> {
        let owners =
            self.services().filter_map(|service| Some(((service.index, service.place), service.owner?)));
        let owners = owners.filter(|(_, owner)| end(owner, model).is_none());
        let mut waits: Vec<Wait<'_>> =
            owners.flat_map(|(service, owner)| waits_of(service, owner, model, now)).collect();
        waits.sort_by_key(|wait| (Reverse(wait.age), wait.service, wait.key));
        waits
    }

    /// The same as services told of them last, whether their processes have ended since or not: who ends in good order has told by
    /// then that nothing waits any more.
    #[must_use]
    pub fn last_waits<'a>(&'a self, model: &'a Model) -> Vec<Wait<'a>> {
        let owners =
            self.services().filter_map(|service| Some(((service.index, service.place), service.owner?)));
        let mut waits: Vec<Wait<'_>> =
            owners.flat_map(|(service, owner)| waits_of(service, owner, model, owner.at)).collect();
        waits.sort_by_key(|wait| (Reverse(wait.age), wait.service, wait.key));
        waits
    }
}

fn waits_of<'a>(
    (service, of): (usize, Place),
    owner: &'a Member,
    model: &Model,
    now: Timestamp,
) -> impl Iterator<Item = Wait<'a>> {
    let process = model.processes.get(&owner.process);
    // A process of which nothing is heard may have gone on since.
    let is_silent = process.is_some_and(|process| model.is_silent(process, now, STALE_AFTER));
    let more = if is_silent { Duration::ZERO } else { now.since(owner.at) };
    owner.told.waits.iter().map(move |told| Wait {
        service,
        of,
        key: told.key,
        tensor: &told.tensor,
        round: told.round,
        for_push: told.for_push,
        workers: &told.workers,
        age: Duration::from_nanos(told.age_ns).saturating_add(more),
        since: Timestamp(owner.at.0.saturating_sub(told.age_ns)),
        age_told: Duration::from_nanos(told.age_ns),
    })
}
