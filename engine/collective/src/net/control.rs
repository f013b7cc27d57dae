//! A communicator's health: whether it has failed, through whom, and what its threads tell each other about it.
//!
//! The first failure wins. Rank 0 is where failures meet: what it adopts first, all ranks report, so that every survivor
//! names the rank that died and not the neighbour through which it noticed.

use std::ffi::c_int;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::lock::lock;
use crate::net::account::{Account, Activity};
use crate::net::wake::Wake;
use crate::transport::shm::doorbell::Ringer;

/// How long a rank that noticed trouble waits for rank 0's word before it blames its neighbour.
const VERDICT_WAIT: Duration = Duration::from_millis(1500);
/// The same where rank 0 asks all ranks first, on a machine that does much else.
const DISPUTE_WAIT: Duration = Duration::from_secs(20);

/// Why a communicator is of no more use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// NCCL's result code for the survivors.
    pub(crate) code: c_int,
    /// What happened, with the rank's name.
    pub what: String,
    /// That two ranks' calls do not fit together, and how: rank 0 asks all ranks whose call is another one than the others'.
    pub(crate) mismatch: Option<String>,
}

/// Messages between rank 0 and the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Control {
    /// Are you there? Rank 0 asks.
    Ping,
    /// What are you in, though it may have stood still for a moment only? Rank 0 asks, where calls do not fit together.
    Ask,
    /// I am, and this far.
    Pong(Account),
    /// I am done with this communicator; my silence from now on is no failure.
    Leave,
    /// To rank 0: I suspect this. From rank 0: it is so.
    Failed(Failure),
}

/// What is under way and needs all ranks of a communicator, such as a child that is being made.
pub(crate) trait Dependent: Send + Sync + std::fmt::Debug + 'static {
    /// Ends it with an error.
    fn call_off(&self);
}

/// A connection that a peer has made for its sends.
#[derive(Debug)]
pub struct Inbound {
    /// The channel.
    pub channel: u32,
    /// The rank at the other end.
    pub peer: usize,
    /// All its sockets, tuned.
    pub streams: Vec<TcpStream>,
}

/// What the threads of a communicator share.
#[derive(Debug)]
pub struct Health {
    failure: Mutex<Option<Failure>>,
    /// How the last call on it that ran in the background has failed, for those who ask.
    outcome: Mutex<Option<Failure>>,
    failed: Condvar,
    suspicion: Mutex<Option<Failure>>,
    has_failed: AtomicBool,
    /// How often it has been failed.
    fails: AtomicU64,
    has_error: AtomicBool,
    inbound: Mutex<Vec<Inbound>>,
    has_inbound: AtomicBool,
    children: Mutex<Vec<Weak<dyn Dependent>>>,
    /// Children that an abort calls off, whatever they need; nothing once there was one.
    made: Mutex<Option<Vec<Weak<dyn Dependent>>>>,
    coordinator_gone: AtomicBool,
    /// What this rank is at.
    pub activity: Activity,
    leaving: AtomicBool,
    /// Wakes the thread that runs operations.
    pub runner: Wake,
    /// The same, where it sleeps on shared memory.
    pub(crate) bell: OnceLock<Ringer>,
    /// Wakes the thread that watches.
    pub(crate) watcher: Wake,
}

impl Failure {
    /// That ends the communicator as it is.
    pub fn new(code: c_int, what: String) -> Self {
        Self { code, what, mismatch: None }
    }

    /// As an error of the call or operation that `context` names.
    pub fn error(&self, context: &str) -> Error {
        Error::from_code(self.code, format!("{context}: {}", self.what))
    }
}

impl Health {
    /// A healthy start.
    pub fn new() -> Result<Self> {
        Ok(Self::woken_by(Wake::new()?, Wake::new()?))
    }

    /// The same, with what wakes the thread that runs operations and the one that watches.
    pub(crate) fn woken_by(runner: Wake, watcher: Wake) -> Self {
        Self {
            failure: Mutex::new(None),
            outcome: Mutex::new(None),
            failed: Condvar::new(),
            suspicion: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            fails: AtomicU64::new(0),
            has_error: AtomicBool::new(false),
            inbound: Mutex::new(Vec::new()),
            has_inbound: AtomicBool::new(false),
            children: Mutex::default(),
            made: Mutex::new(Some(Vec::new())),
            coordinator_gone: AtomicBool::new(false),
            activity: Activity::default(),
            leaving: AtomicBool::new(false),
            runner,
            bell: OnceLock::new(),
            watcher,
        }
    }

    /// Wakes the thread that runs operations, wherever it sleeps.
    pub fn wake_runner(&self) {
        self.runner.set();
        self.bell.get().into_iter().for_each(Ringer::ring);
    }

    /// Whether there is a failure: one load, for those who look often.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Whether calls are answered with an error: one load. What is in flight may wait all the same.
    pub(crate) fn has_error(&self) -> bool {
        self.has_error.load(Ordering::Acquire)
    }

    /// The failure, if there is one.
    pub fn failure(&self) -> Option<Failure> {
        let failure = lock(&self.failure).clone();
        failure.or_else(|| lock(&self.outcome).clone())
    }

    /// Whether an operation has failed, or may not go on, whatever has become of calls in the background.
    pub(crate) fn is_broken(&self) -> bool {
        self.has_error() && lock(&self.failure).is_some()
    }

    /// Adopts a failure, unless there is one already, and wakes everybody.
    pub fn fail(&self, failure: Failure) {
        let mut kept = lock(&self.failure);
        kept.get_or_insert(failure);
        self.has_error.store(true, Ordering::Release);
        self.has_failed.store(true, Ordering::Release);
        self.fails.fetch_add(1, Ordering::AcqRel);
        drop(kept);
        self.failed.notify_all();
        for child in std::mem::take(&mut *lock(&self.children)).iter().filter_map(Weak::upgrade) {
            child.call_off();
        }
        self.wake_runner();
        self.watcher.set();
    }

    /// Adopts a failure for those who ask, unless there is one already, and wakes nobody: what is in flight waits for the
    /// user's abort, as in NCCL.
    pub(crate) fn keep(&self, failure: Failure) {
        lock(&self.failure).get_or_insert(failure);
        self.has_error.store(true, Ordering::Release);
    }

    /// How a call that ran in the background has ended: until the next one has, calls are answered with its failure, and what
    /// is in flight does not care. As `ncclCommSetAsyncError` in NCCL.
    pub(crate) fn set_outcome(&self, outcome: Option<Failure>) {
        let failure = lock(&self.failure);
        let mut kept = lock(&self.outcome);
        *kept = outcome;
        self.has_error.store(failure.is_some() || kept.is_some(), Ordering::Release);
    }

    /// Ends what is in flight with a failure, for which `over` waits; then all is as before, unless something else has failed.
    pub(crate) fn interrupt(&self, failure: Failure, over: impl FnOnce()) {
        let kept = lock(&self.failure);
        let (before, had_failed) = (kept.clone(), self.has_failed());
        let fails = self.fails.load(Ordering::Acquire) + 1;
        drop(kept);
        self.fail(failure);
        over();
        let mut kept = lock(&self.failure);
        if !had_failed && self.fails.load(Ordering::Acquire) == fails {
            *kept = before;
            self.has_failed.store(false, Ordering::Release);
            self.has_error.store(kept.is_some() || lock(&self.outcome).is_some(), Ordering::Release);
        }
    }

    /// The user's abort calls `child` off, as NCCL's does (`childAbortFlag`).
    pub(crate) fn aborts_with(&self, child: &Arc<impl Dependent>) {
        match &mut *lock(&self.made) {
            Some(made) => {
                made.retain(|child| child.strong_count() > 0);
                let weak = Arc::downgrade(child);
                made.push(weak);
            }
            None => child.call_off(),
        }
    }

    /// The user aborts it: what is made of it ends.
    pub(crate) fn abort_children(&self) {
        let made = lock(&self.made).take();
        made.iter().flatten().filter_map(Weak::upgrade).for_each(|child| child.call_off());
    }

    /// `child` needs all ranks, so a failure calls it off.
    pub(crate) fn needed_by(&self, child: &Arc<impl Dependent>) {
        let mut children = lock(&self.children);
        children.retain(|child| child.strong_count() > 0);
        let weak = Arc::downgrade(child);
        children.push(weak);
        drop(children);
        if self.failure().is_some() {
            child.call_off();
        }
    }

    /// Tells rank 0 of a suspicion and waits for its word; without one, the suspicion stands. Returns the failure that
    /// the communicator has then.
    pub fn suspect(&self, suspicion: Failure) -> Failure {
        *lock(&self.suspicion) = Some(suspicion.clone());
        self.watcher.set();
        let wait = match &suspicion.mismatch {
            _ if self.is_coordinator_gone() => Duration::ZERO,
            Some(_) => DISPUTE_WAIT,
            None => VERDICT_WAIT,
        };
        let undecided = |failure: &mut Option<Failure>| failure.is_none();
        let waited = self.failed.wait_timeout_while(lock(&self.failure), wait, undecided);
        let verdict = waited.unwrap_or_else(PoisonError::into_inner).0.clone();
        verdict.unwrap_or_else(|| {
            self.fail(suspicion);
            self.failure().unwrap_or_else(|| Failure::new(3, "unknown failure".to_owned()))
        })
    }

    /// The suspicion that rank 0 has not heard yet.
    pub(crate) fn take_suspicion(&self) -> Option<Failure> {
        lock(&self.suspicion).take()
    }

    /// Rank 0 has left: nobody will answer a suspicion.
    pub(crate) fn set_coordinator_gone(&self) {
        self.coordinator_gone.store(true, Ordering::Release);
    }

    /// Whether nobody judges any more.
    pub(crate) fn is_coordinator_gone(&self) -> bool {
        self.coordinator_gone.load(Ordering::Acquire)
    }

    /// Asks the watcher to say farewell and end.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
        self.watcher.set();
    }

    /// Whether the watcher is to end.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// A peer's connection for its sends has come.
    pub(crate) fn add_inbound(&self, inbound: Inbound) {
        lock(&self.inbound).push(inbound);
        self.has_inbound.store(true, Ordering::Release);
        self.wake_runner();
    }

    /// Whether connections have come: one load.
    pub fn has_inbound(&self) -> bool {
        self.has_inbound.load(Ordering::Acquire)
    }

    /// Connections that have come since the last call.
    pub fn take_inbound(&self) -> Vec<Inbound> {
        self.has_inbound.store(false, Ordering::Release);
        std::mem::take(&mut *lock(&self.inbound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(what: &str) -> Failure {
        Failure::new(6, what.to_owned())
    }

    #[derive(Debug, Default)]
    struct Child(AtomicBool);

    impl Dependent for Child {
        fn call_off(&self) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[test]
    fn an_abort_calls_off_what_is_being_made_of_a_communicator() {
        let health = Health::new().unwrap();
        let [before, after, failed] = std::array::from_fn(|_| Arc::new(Child::default()));
        let is_off = |child: &Child| child.0.load(Ordering::Acquire);
        health.aborts_with(&before);
        health.fail(failure("somebody has gone"));
        assert!(!is_off(&before), "a shrink is made of what has failed");
        health.needed_by(&failed);
        assert!(is_off(&failed));
        health.abort_children();
        health.aborts_with(&after);
        assert!(is_off(&before) && is_off(&after));
    }

    #[test]
    fn the_first_failure_wins() {
        let health = Health::new().unwrap();
        health.fail(failure("first"));
        health.fail(failure("second"));
        assert_eq!(health.suspect(failure("third")), failure("first"));
    }

    #[test]
    fn what_is_only_kept_ends_nothing() {
        let health = Health::new().unwrap();
        health.keep(failure("closed"));
        assert!(health.has_error() && !health.has_failed());
        health.fail(failure("aborted"));
        assert!(health.has_failed());
        assert_eq!(health.failure(), Some(failure("closed")));
    }

    #[test]
    fn an_interrupted_communicator_is_as_before() {
        let health = Health::new().unwrap();
        health.interrupt(failure("shrunk"), || assert!(health.has_failed() && health.is_broken()));
        assert!(!health.has_failed() && !health.has_error() && health.failure().is_none());
        health.keep(failure("closed"));
        health.interrupt(failure("shrunk"), || assert!(health.has_failed()));
        assert!(!health.has_failed() && health.failure() == Some(failure("closed")));
        health.interrupt(failure("shrunk"), || health.fail(failure("aborted")));
        assert!(health.has_failed(), "an abort stays");
        health.interrupt(failure("shrunk"), || ());
        assert!(health.has_failed());
    }

    #[test]
    fn the_outcome_of_a_call_in_the_background_is_told_until_the_next_one() {
        let health = Health::new().unwrap();
        health.set_outcome(Some(failure("no split")));
        assert!(!health.has_failed() && !health.is_broken());
        assert!(health.has_error() && health.failure() == Some(failure("no split")));
        health.set_outcome(None);
        assert!(!health.has_error() && health.failure().is_none());
        health.keep(failure("closed"));
        health.set_outcome(None);
        assert_eq!(health.failure(), Some(failure("closed")));
    }

    #[test]
    fn without_a_coordinator_a_suspicion_stands() {
        let health = Health::new().unwrap();
        health.set_coordinator_gone();
        assert_eq!(health.suspect(failure("neighbour")), failure("neighbour"));
        assert_eq!(health.failure(), Some(failure("neighbour")));
    }
}
