//! What a group's thread says of itself when it is asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::server::sums::Spread;
use rsccl_collective::lock::lock;

/// A service, as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// Rounds of parts that have got a result.
    pub(crate) finished_rounds: u64,
    /// Bytes of the contributions in them.
    pub(crate) summed_bytes: u64,
    /// Contributions that there was no memory for at first, which came twice (`RSUM_KEPT_BYTES`).
    pub(crate) turned_away: u64,
    /// Of the rounds that wait for somebody, the one with the lowest number.
    pub(crate) waiting: Option<Waiting>,
    /// Where contributions are added as they come: how far apart the workers are.
    pub(crate) asynchronous: Option<Spread>,
}

/// A round that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Waiting {
    /// Of this tensor,
    pub(crate) tensor: String,
    /// of its part with this key.
    pub(crate) key: u32,
    /// Which.
    pub(crate) round: u64,
    /// For what: `push` or `pull`; `start` where workers have not pushed anything yet, `leave` where some have left.
    pub(crate) phase: &'static str,
    /// For whom.
    pub(crate) workers: Vec<usize>,
    /// For how long, in seconds; up to one less than it is.
    pub(crate) waited_s: u64,
}

impl Waiting {
    /// [`Waiting::phase`] where nothing was pushed.
    pub(crate) const START: &str = "start";
    /// [`Waiting::phase`] where contributions are missing.
    pub(crate) const PUSH: &str = "push";
    /// [`Waiting::phase`] where workers have left, or declared more, and others have not.
    pub(crate) const LEAVE: &str = "leave";
    /// [`Waiting::phase`] where answers are not taken.
    pub(crate) const PULL: &str = "pull";
}

/// The question, and the answer.
#[derive(Debug, Default)]
pub(super) struct Asked {
    is_asked: AtomicBool,
    answer: Mutex<Option<Report>>,
    changed: Condvar,
}

impl Asked {
    /// Asks, and `wake`s who is to answer; nothing if it says nothing for this long.
    pub(super) fn ask(&self, wake: impl FnOnce(), most: Duration) -> Option<Report> {
        *lock(&self.answer) = None;
        self.is_asked.store(true, Ordering::Release);
        wake();
        let silent = |answer: &mut Option<Report>| answer.is_none();
        let answer = self.changed.wait_timeout_while(lock(&self.answer), most, silent);
        answer.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// For the driver: answers if it was asked. Costs one load where it was not.
    pub(super) fn answer(&self, report: impl FnOnce() -> Report) {
        if self.is_asked.load(Ordering::Acquire) && self.is_asked.swap(false, Ordering::AcqRel) {
            *lock(&self.answer) = Some(report());
            self.changed.notify_all();
        }
    }
}
