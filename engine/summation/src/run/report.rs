//! What a group's thread says of itself when it is asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::requests::Requests;
use crate::server::sums::Spread;
use rsccl_collective::net::control::lock;

/// A service, as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// Rounds of parts that have got a result.
    pub(crate) finished_rounds: u64,
    /// Bytes of the contributions in them.
    pub(crate) summed_bytes: u64,
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
    /// For what: `push` or `pull`; `start` where workers have not pushed anything yet.
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
    /// [`Waiting::phase`] where answers are not taken.
    pub(crate) const PULL: &str = "pull";
}

/// Asks a group's thread, from any other.
#[derive(Clone, Debug)]
pub(crate) struct Probe(pub(super) Arc<Requests>);

/// The question, and the answer.
#[derive(Debug, Default)]
pub(super) struct Asked {
    is_asked: AtomicBool,
    answer: Mutex<Option<Report>>,
    changed: Condvar,
}

impl Probe {
    /// What the thread says; nothing if it says nothing for this long.
    pub(crate) fn ask(&self, most: Duration) -> Option<Report> {
        let asked = self.0.asked();
        *lock(&asked.answer) = None;
        asked.is_asked.store(true, Ordering::Release);
        self.0.wake_driver();
        let silent = |answer: &mut Option<Report>| answer.is_none();
        let answer = asked.changed.wait_timeout_while(lock(&asked.answer), most, silent);
        answer.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

impl Asked {
    /// For the driver: answers if it was asked. Costs one load where it was not.
    pub(super) fn answer(&self, report: impl FnOnce() -> Report) {
        if self.is_asked.load(Ordering::Acquire) && self.is_asked.swap(false, Ordering::AcqRel) {
            *lock(&self.answer) = Some(report());
            self.changed.notify_all();
        }
    }
}
