//! What callers and the thread that follows the calls share.

use std::any::Any;
use std::mem;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::driver::Driver;
use super::lanes::Lanes;
use super::staging::Staging;
use super::transfer::{Means, Transfer};
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) staging: Staging,
    pub(super) lanes: Lanes,
    /// `RSUM_WARN_S`: what has waited so long for a GPU is named in the log.
    pub(super) warning: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: Vec<Transfer>,
    /// Calls whose contributions have still to leave the GPU.
    n_leaving: usize,
    is_closing: bool,
    /// What the thread has panicked with.
    panicked: Option<String>,
    /// Contributions that a GPU has still to copy at the end of the thread.
    n_left_behind: usize,
}

impl Shared {
    /// With so much pinned memory at most.
    pub(super) fn new(staging_bytes: usize, warning: Duration) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { staging: Staging::new(staging_bytes), lanes: Lanes::default(), warning, state, changed }
    }

    /// What the calls need.
    pub(super) fn means(&self, driver: &'static Driver) -> Means<'_> {
        Means { driver, staging: &self.staging, lanes: &self.lanes }
    }

    /// Begins a call and puts it into the queue, under one lock.
    ///
    /// # Errors
    /// No call is taken any more, or that of beginning it.
    pub(super) fn send_off(&self, begin: impl FnOnce() -> Result<Transfer>) -> Result<()> {
        let mut state = lock(&self.state);
        if let Some(refusal) = state.refusal() {
            return Err(refusal);
        }
        state.arrived.push(begin()?);
        state.n_leaving += 1;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until the group has all contributions that were submitted before, or has failed.
    pub(super) fn wait_until_left(&self) {
        let leaving = |state: &mut State| state.n_leaving > 0;
        let waited = self.changed.wait_while(lock(&self.state), leaving);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// No more calls come.
    pub(super) fn close(&self) {
        lock(&self.state).is_closing = true;
        self.changed.notify_all();
    }

    /// The thread has ended, and a GPU has still to copy so many contributions.
    pub(super) fn leave_behind(&self, n: usize) {
        lock(&self.state).n_left_behind = n;
    }

    /// Whether a GPU may still write what was pinned, after the thread's end.
    pub(super) fn has_left_any_behind(&self) -> bool {
        lock(&self.state).n_left_behind > 0
    }

    /// The thread has panicked: what was under way has been told, and nothing is taken any more.
    pub(super) fn break_down(&self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it does not say why");
        let mut state = lock(&self.state);
        state.panicked = Some(text.to_owned());
        state.n_leaving = 0;
        state.arrived.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// The calls that have come since.
    pub(super) fn arrived(&self) -> Vec<Transfer> {
        mem::take(&mut lock(&self.state).arrived)
    }

    /// So many contributions are the group's by now, or will never be.
    pub(super) fn have_left(&self, n: usize) {
        if n == 0 {
            return;
        }
        let mut state = lock(&self.state);
        state.n_leaving = state.n_leaving.saturating_sub(n);
        drop(state);
        self.changed.notify_all();
    }

    /// Whether the group is being left.
    pub(super) fn is_closing(&self) -> bool {
        lock(&self.state).is_closing
    }

    /// Waits for a call; whether none will come any more.
    pub(super) fn is_over(&self) -> bool {
        let idle = |state: &mut State| state.arrived.is_empty() && !state.is_closing;
        let state = self.changed.wait_while(lock(&self.state), idle).unwrap_or_else(PoisonError::into_inner);
        state.arrived.is_empty()
    }

    /// Sleeps so long, or until a call comes.
    pub(super) fn sleep(&self, pause: Duration) {
        let quiet = |state: &mut State| state.arrived.is_empty();
        drop(self.changed.wait_timeout_while(lock(&self.state), pause, quiet));
    }
}

impl State {
    /// Why no call is taken any more.
    fn refusal(&self) -> Option<Error> {
        if let Some(why) = &self.panicked {
            let text = format!(
                "the library's thread for GPUs has panicked ({why}) and takes no more calls: leave the group by \
                 rsum_shutdown and join it anew, and report this"
            );
            return Some(Error::Internal(text));
        }
        self.is_closing.then(|| Error::InvalidUsage("the group is being left".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn after_a_panic_of_the_thread_calls_are_told_of_it() {
        let shared = Shared::new(0, Duration::MAX);
        lock(&shared.state).n_leaving = 1;
        let panic = catch_unwind(|| std::panic::resume_unwind(Box::new("no such lane"))).unwrap_err();
        shared.break_down(&*panic);
        shared.wait_until_left();
        let error = lock(&shared.state).refusal().unwrap().to_string();
        assert!(error.contains("has panicked (no such lane)"), "{error}");
        shared.close();
        let error = lock(&shared.state).refusal().unwrap().to_string();
        assert!(error.contains("has panicked (no such lane)"), "{error}");
    }
}
