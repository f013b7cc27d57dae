//! What callers have found out about their parameters: told with every sample from the first comparison on, and at once where
//! it shows a difference, because a job may end by that.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::facts::to_u32;
use rsccl_collective::lock::lock;

/// For how long a caller waits until a difference is told: its driver may have ended.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// [`Kept::equal_steps`]: there was no such comparison.
const NEVER: u64 = u64::MAX;

/// What one comparison has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) steps: u64,
    pub(crate) every: u64,
    pub(crate) n_parameters: u64,
    pub(crate) n_different: u64,
    /// The first parameter that differs, and its hash on each worker. None: all are the same.
    pub(crate) difference: Option<(CString, Vec<u64>)>,
}

/// What all of a group have come to.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    count: u64,
    at_ns: u64,
    last: Compared,
    equal_steps: u64,
    /// The first comparison with a difference, with its time, since all were the same.
    first: Option<(Compared, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Comparisons {
    state: Mutex<State>,
    changed: Condvar,
    has_news: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    kept: Option<Arc<Kept>>,
    /// [`Kept::count`] that the watcher knows.
    n_told: u64,
}

impl Comparisons {
    /// Takes one in; whether it shows a difference.
    pub(super) fn hear(&self, compared: Compared, at_ns: u64) -> bool {
        let mut state = lock(&self.state);
        let is_different = compared.difference.is_some();
        state.kept = Some(Arc::new(Kept::after(state.kept.as_deref(), compared, at_ns)));
        self.has_news.store(true, Ordering::Release);
        is_different
    }

    /// Whether there is something that no sample has told.
    pub(super) fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Acquire)
    }

    /// What a sample is to tell. The caller says then that it was [`told`](Self::told).
    pub(super) fn latest(&self) -> Option<Arc<Kept>> {
        self.has_news.store(false, Ordering::Release);
        lock(&self.state).kept.clone()
    }

    /// The watcher knows it.
    pub(super) fn told(&self, kept: Option<&Kept>) {
        let Some(kept) = kept else { return };
        lock(&self.state).n_told = kept.count;
        self.changed.notify_all();
    }

    /// Until the watcher knows the newest one, or for as long as that could take.
    pub(super) fn wait_until_told(&self) {
        let is_open = |state: &mut State| state.kept.as_ref().is_some_and(|kept| kept.count > state.n_told);
        let waited = self.changed.wait_timeout_while(lock(&self.state), MAX_WAIT, is_open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Kept {
    fn after(before: Option<&Self>, last: Compared, at_ns: u64) -> Self {
        let count = before.map_or(0, |before| before.count) + 1;
        if last.difference.is_none() {
            return Self { count, at_ns, equal_steps: last.steps, first: None, last };
        }
        let first = before.and_then(|before| before.first.clone()).unwrap_or_else(|| (last.clone(), at_ns));
        let equal_steps = before.map_or(NEVER, |before| before.equal_steps);
        Self { count, at_ns, equal_steps, first: Some(first), last }
    }

    /// As the interface has it, as long as this lives.
    pub(super) fn to_abi(&self) -> rsum_observer::Comparison {
        let (first, different_at_ns) =
            self.first.as_ref().map_or((None, 0), |(first, at)| (Some(first), *at));
        let difference = first.and_then(|first| first.difference.as_ref());
        let hashes = difference.map(|(_, hashes)| hashes.as_slice()).unwrap_or_default();
        rsum_observer::Comparison {
            count: self.count,
            every: self.last.every,
            steps: self.last.steps,
            at_ns: self.at_ns,
            n_parameters: self.last.n_parameters,
            n_different: self.last.n_different,
            equal_steps: self.equal_steps,
            different_steps: first.map_or(0, |first| first.steps),
            different_at_ns,
            parameter: difference.map_or(c"".as_ptr(), |(parameter, _)| parameter.as_ptr()),
            hashes: hashes.as_ptr(),
            n_workers: to_u32(hashes.len()),
            reserved: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(steps: u64, parameter: Option<&str>) -> Compared {
        let difference = parameter.map(|name| (CString::new(name).unwrap(), vec![1, 1, 2]));
        Compared { steps, every: 2, n_parameters: 9, n_different: difference.is_some().into(), difference }
    }

    #[test]
    fn the_first_difference_is_kept_until_all_are_the_same_again() {
        let comparisons = Comparisons::default();
        assert!(comparisons.latest().is_none() && !comparisons.has_news());
        for (steps, parameter, is_different) in [(0, None, false), (2, Some("b"), true), (4, Some("a"), true)]
        {
            assert_eq!(comparisons.hear(compared(steps, parameter), 10 + steps), is_different);
        }
        assert!(comparisons.has_news());
        let kept = comparisons.latest().unwrap();
        assert!(!comparisons.has_news());
        let told = kept.to_abi();
        assert_eq!((told.count, told.steps, told.at_ns, told.equal_steps), (3, 4, 14, 0));
        assert_eq!((told.different_steps, told.different_at_ns, told.n_workers), (2, 12, 3));
        assert_eq!(kept.first.as_ref().unwrap().0, compared(2, Some("b")));
        comparisons.hear(compared(6, None), 16);
        let told = comparisons.latest().unwrap().to_abi();
        assert_eq!((told.n_different, told.equal_steps, told.n_workers, told.different_at_ns), (0, 6, 0, 0));
    }

    #[test]
    fn a_difference_without_an_equal_comparison_before_it_says_so() {
        let comparisons = Comparisons::default();
        comparisons.hear(compared(0, Some("a")), 10);
        assert_eq!(comparisons.latest().unwrap().to_abi().equal_steps, NEVER);
    }
}
