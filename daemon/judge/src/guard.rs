//! One job's facts must not end the judgement of all others: where a look at a job panics, nothing is said of that job.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::Name;

/// The jobs of which a look has panicked.
#[derive(Debug, Default)]
pub(super) struct Guard {
    failed: BTreeMap<Name, Timestamp>,
    n_panics: u64,
}

impl Guard {
    /// Whether a job is left alone after a panic.
    pub(super) fn is_shut(&self, job: &Name, now: Timestamp) -> bool {
        self.failed_at(job).is_some_and(|at| now >= at && now.since(at) < AGAIN_AFTER)
    }

    /// Looks at a job. `None`: that panicked, and what the look has touched is to be thrown away. The panic's words are on the
    /// standard error by then.
    pub(super) fn look<T>(&mut self, job: &Name, now: Timestamp, look: impl FnOnce() -> T) -> Option<T> {
        let looked = catch_unwind(AssertUnwindSafe(look)).ok();
        if looked.is_some() {
            self.failed.remove(job);
        } else {
            self.n_panics = self.n_panics.saturating_add(1);
            self.failed.insert(job.clone(), now);
        }
        looked
    }

    /// When the last look at a job panicked. `None`: it did not.
    pub(super) fn failed_at(&self, job: &Name) -> Option<Timestamp> {
        self.failed.get(job).copied()
    }

    /// Forgets all jobs but these.
    pub(super) fn retain(&mut self, is_known: impl Fn(&Name) -> bool) {
        self.failed.retain(|job, _| is_known(job));
    }

    /// Looks that panicked; cumulative.
    pub(super) fn n_panics(&self) -> u64 {
        self.n_panics
    }
}

/// The next look is likely to end the same way.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_cannot_be_judged_is_left_alone_for_a_while() {
        let (mut guard, job): (Guard, Name) = (Guard::default(), "train".into());
        let at = |s: u64| Timestamp(s * 1_000_000_000);
        assert_eq!(guard.look(&job, at(1), || 7), Some(7));
        assert!(!guard.is_shut(&job, at(1)));
        let panics = || -> u32 { panic!("bad facts, as a test has them") };
        assert_eq!(guard.look(&job, at(2), panics), None);
        assert!(
            guard.is_shut(&job, at(61))
                && !guard.is_shut(&job, at(62))
                && !guard.is_shut(&"other".into(), at(3))
        );
        assert_eq!((guard.failed_at(&job), guard.n_panics()), (Some(at(2)), 1));
        guard.look(&job, at(62), || ());
        assert_eq!(guard.failed_at(&job), None);
    }
}
