//! What callers ask of the driver's thread, and what it tells them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::report::Asked;
use crate::placement::assign::Placement;
use crate::server::reduction::Reduction;
use rsccl_collective::clock;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::memory::Region;
use rsccl_collective::net::control::Health;

/// Pushes that are not over, at most; a call that would submit one more waits, or is refused where none of them is pulled.
/// More than a model has tensors.
const MAX_OPEN: usize = 16 * 1024;

/// What a caller asks.
#[derive(Debug)]
pub(super) enum Request {
    /// A contribution to the next round of a tensor, which stays unchanged until its sum is there.
    Push { ticket: u64, tensor: usize, send: Region, reduction: Reduction, submitted_ns: u64 },
    /// The sum of the round that a push with this ticket contributes to.
    Pull { ticket: u64, recv: Region, ending: Ending },
}

/// Where a caller learns how its request ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending(Arc<Slot>);

#[derive(Debug, Default)]
struct Slot {
    outcome: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

/// The way between callers and the driver.
#[derive(Debug)]
pub(super) struct Requests {
    state: Mutex<State>,
    changed: Condvar,
    has_some: AtomicBool,
    is_closing: AtomicBool,
    /// Once it is closing: whether for good.
    is_last: AtomicBool,
    asked: Asked,
    health: Arc<Health>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Request>,
    n_open: usize,
    /// Of those that are open: whose sums are not asked for.
    n_unpulled: usize,
    next_ticket: u64,
    is_started: bool,
    placement: Option<Arc<Placement>>,
    /// Whether the workers go on with another generation.
    goes_on: bool,
    /// How the driver ended.
    over: Option<Result<()>>,
}

impl Ending {
    /// It has ended.
    pub(super) fn set(&self, outcome: Result<()>) {
        *lock(&self.0.outcome) = Some(outcome);
        self.0.changed.notify_all();
    }

    /// How it ended, if it has.
    pub(super) fn poll(&self) -> Option<Result<()>> {
        lock(&self.0.outcome).clone()
    }

    /// Waits until it has ended, but not longer than this; nothing if it has not.
    pub(super) fn wait_for(&self, most: Duration) -> Option<Result<()>> {
        let open = |outcome: &mut Option<Result<()>>| outcome.is_none();
        let (outcome, _) = self
            .0
            .changed
            .wait_timeout_while(lock(&self.0.outcome), most, open)
            .unwrap_or_else(PoisonError::into_inner);
        outcome.clone()
    }

    /// Waits until it has ended.
    pub(super) fn wait(&self) -> Result<()> {
        let open = |outcome: &mut Option<Result<()>>| outcome.is_none();
        let outcome = self.0.changed.wait_while(lock(&self.0.outcome), open);
        outcome.unwrap_or_else(PoisonError::into_inner).clone().unwrap_or(Ok(()))
    }
}

impl Requests {
    /// To a driver of the communicator with this health.
    pub(super) fn new(health: Arc<Health>) -> Self {
        let no = || AtomicBool::new(false);
        let (state, changed, asked) = (Mutex::default(), Condvar::new(), Asked::default());
        Self { state, changed, has_some: no(), is_closing: no(), is_last: no(), asked, health }
    }

    /// Submits a contribution; its ticket. Waits while too many are open.
    ///
    /// # Errors
    /// None of those is pulled, so that none of them ever ends; or the driver has ended.
    pub(super) fn push(&self, tensor: usize, send: Region, reduction: Reduction) -> Result<u64> {
        let is_stuck = |state: &State| state.n_unpulled >= MAX_OPEN;
        let full = |state: &mut State| state.n_open >= MAX_OPEN && state.over.is_none() && !is_stuck(state);
        let mut state =
            self.changed.wait_while(lock(&self.state), full).unwrap_or_else(PoisonError::into_inner);
        if let Some(over) = &state.over {
            return Err(ended(over));
        }
        if is_stuck(&state) {
            let text = format!("{MAX_OPEN} pushes are not pulled, as many as there may be: pull some first");
            return Err(Error::InvalidUsage(text));
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.n_open += 1;
        state.n_unpulled += 1;
        let submitted_ns = clock::monotonic_ns();
        state.queue.push_back(Request::Push { ticket, tensor, send, reduction, submitted_ns });
        drop(state);
        self.wake();
        Ok(ticket)
    }

    /// Asks for a sum.
    pub(super) fn pull(&self, ticket: u64, recv: Region) -> Ending {
        let (mut state, ending) = (lock(&self.state), Ending::default());
        state.n_unpulled = state.n_unpulled.saturating_sub(1);
        match &state.over {
            Some(over) => ending.set(Err(ended(over))),
            None => state.queue.push_back(Request::Pull { ticket, recv, ending: ending.clone() }),
        }
        drop(state);
        self.wake();
        ending
    }

    /// No more will be submitted: at all, or before more is declared.
    pub(super) fn close(&self, is_last: bool) {
        self.is_last.store(is_last, Ordering::Release);
        self.is_closing.store(true, Ordering::Release);
        self.health.wake_runner();
    }

    /// Waits until the driver has started, or ended before that.
    pub(super) fn wait_for_start(&self) -> Result<()> {
        let waits = |state: &mut State| !state.is_started && state.over.is_none();
        let state = self.changed.wait_while(lock(&self.state), waits);
        state.unwrap_or_else(PoisonError::into_inner).over.clone().unwrap_or(Ok(()))
    }

    /// Waits until the driver has ended.
    pub(super) fn wait_for_end(&self) -> Result<()> {
        let state = self.changed.wait_while(lock(&self.state), |state| state.over.is_none());
        state.unwrap_or_else(PoisonError::into_inner).over.clone().unwrap_or(Ok(()))
    }

    /// For the driver: what was submitted since the last call.
    pub(super) fn take(&self) -> VecDeque<Request> {
        if !self.has_some.swap(false, Ordering::Acquire) {
            return VecDeque::new();
        }
        std::mem::take(&mut lock(&self.state).queue)
    }

    /// For the driver: whether no more will be submitted.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closing.load(Ordering::Acquire) && !self.has_some.load(Ordering::Acquire)
    }

    /// For the driver: whether it is closed for good.
    pub(super) fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Acquire)
    }

    /// Once the driver knows it: who owns what.
    pub(super) fn placement(&self) -> Option<Arc<Placement>> {
        lock(&self.state).placement.clone()
    }

    /// Once the driver has ended: whether the workers go on with another generation.
    pub(super) fn goes_on(&self) -> bool {
        lock(&self.state).goes_on
    }

    /// For the driver: who owns what.
    pub(super) fn place(&self, placement: &Arc<Placement>) {
        lock(&self.state).placement = Some(Arc::clone(placement));
    }

    /// What the driver is asked.
    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Lets the driver look.
    pub(super) fn wake_driver(&self) {
        self.health.wake_runner();
    }

    /// For the driver: it has started.
    pub(super) fn start(&self) {
        lock(&self.state).is_started = true;
        self.changed.notify_all();
    }

    /// For the driver: so many pushes are over.
    pub(super) fn finish(&self, n: usize) {
        let mut state = lock(&self.state);
        state.n_open = state.n_open.saturating_sub(n);
        drop(state);
        self.changed.notify_all();
    }

    /// For the driver: it has ended, and with it all that was asked, also what was `taken` and not looked at.
    pub(super) fn end(&self, outcome: &Result<()>, goes_on: bool, taken: VecDeque<Request>) {
        let mut state = lock(&self.state);
        state.goes_on = goes_on;
        state.over = Some(outcome.clone());
        for request in taken.into_iter().chain(std::mem::take(&mut state.queue)) {
            if let Request::Pull { ending, .. } = request {
                ending.set(Err(ended(outcome)));
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn wake(&self) {
        self.has_some.store(true, Ordering::Release);
        self.health.wake_runner();
    }
}

/// What a request is told that comes after the end.
fn ended(outcome: &Result<()>) -> Error {
    let left = || Error::InvalidUsage("the summation group has ended".to_owned());
    outcome.as_ref().err().cloned().unwrap_or_else(left)
}
