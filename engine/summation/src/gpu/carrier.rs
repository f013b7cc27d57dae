//! Takes the calls with memory of a GPU. The first one starts a thread that follows them all ([`super::following`]) and ends
//! with the group's session, when nothing is under way.

use std::any::Any;
use std::ffi::c_void;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::driver::{self, Context, Driver, Place, Stream};
use super::following::Following;
use super::lanes::Lanes;
use super::staging::Staging;
use super::transfer::{Contribution, Means, Side, Transfer};
use crate::run::group::Handle;
use crate::run::promise::Promise;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::log;
use rsccl_collective::memory::Region;

/// A call's buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    /// Where it lies.
    pub(crate) address: *const c_void,
    /// The same with its length, which may only be used where it is this machine's memory.
    pub(crate) region: Region,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission {
    /// Which tensor.
    pub(crate) tensor: usize,
    /// The contribution.
    pub(crate) send: Buffer,
    /// Where the sum goes.
    pub(crate) recv: Buffer,
    /// The caller's stream.
    pub(crate) stream: Stream,
}

/// Takes calls.
#[derive(Debug)]
pub(crate) struct Carrier {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What callers and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    staging: Staging,
    lanes: Lanes,
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

impl Carrier {
    /// With so much pinned memory at most; what has waited for a GPU for `warning` is named in the log.
    pub(crate) fn new(staging_bytes: usize, warning: Duration) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let (staging, lanes) = (Staging::new(staging_bytes), Lanes::default());
        let shared = Shared { staging, lanes, warning, state, changed };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Contributes what the call's stream has left in its buffer; over when the sum is in the other one.
    ///
    /// # Errors
    /// There is no driver, the stream is being captured, a buffer is another GPU's, there is no pinned memory, or the
    /// driver refuses: nothing has been contributed then.
    pub(crate) fn push_pull(&self, call: &Submission, contribution: Contribution) -> Result<Handle> {
        let driver = driver::loaded().ok_or_else(no_driver)?.as_ref().map_err(Clone::clone)?;
        driver.relaxed(|| self.begin(driver, call, contribution))
    }

    /// Waits until the group has all contributions that were submitted before, or has failed. What is submitted by other ways
    /// would overtake them.
    pub(crate) fn wait_until_left(&self) {
        let leaving = |state: &mut State| state.n_leaving > 0;
        let waited = self.shared.changed.wait_while(lock(&self.shared.state), leaving);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until nothing is under way, and gives all memory, streams and events back to the driver. It keeps all of it where
    /// a GPU has still to write some, and does not: the driver would wait for that GPU.
    pub(crate) fn close(&self) {
        lock(&self.shared.state).is_closing = true;
        self.shared.changed.notify_all();
        let Some(thread) = lock(&self.thread).take() else { return };
        // That thread itself may be the last that knows of the session.
        if thread.thread().id() != std::thread::current().id() {
            // What it had under way has been told if it panicked.
            let _ = thread.join();
        }
        if lock(&self.shared.state).n_left_behind > 0 {
            return;
        }
        let Some(Ok(driver)) = driver::loaded() else { return };
        driver.relaxed(|| {
            let Some(context) = self.shared.lanes.close(driver) else { return };
            // A context that has failed gives nothing back; it ends with the process.
            self.shared.staging.drain().iter().for_each(|memory| drop(driver.unpin(context, memory)));
        });
    }

    fn begin(
        &self,
        driver: &'static Driver,
        call: &Submission,
        contribution: Contribution,
    ) -> Result<Handle> {
        if driver.is_capturing(call.stream)? {
            let text = "the stream is being captured into a graph, which would not contribute when it runs: call \
                        rsum_push_pull_on_stream outside of captures";
            return Err(Error::InvalidUsage(text.to_owned()));
        }
        let places = [call.send, call.recv].map(|buffer| driver.place_of(buffer.address));
        let context = driver.context_of(call.stream)?;
        let device = driver.device_of(context)?;
        let send = side("send", call.send, places[0], device)?;
        let recv = side("recv", call.recv, places[1], device)?;
        let (handle, promise) = Promise::new();
        let lane = (context, call.stream);
        self.send_off(driver, call, lane, (send, recv), (contribution, promise))?;
        Ok(handle)
    }

    /// The copy is put on the stream and the call in the queue under one lock, so that both have one order.
    fn send_off(
        &self,
        driver: &'static Driver,
        call: &Submission,
        lane: (Context, Stream),
        sides: (Side, Side),
        ends: (Contribution, Promise),
    ) -> Result<()> {
        self.start(driver)?;
        let mut state = lock(&self.shared.state);
        if let Some(refusal) = state.refusal() {
            return Err(refusal);
        }
        let what = (call.tensor, call.send.region.len());
        let transfer = Transfer::begin(&self.shared.means(driver), what, lane, sides, ends)?;
        state.n_leaving += 1;
        state.arrived.push(transfer);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn start(&self, driver: &'static Driver) -> Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let builder = std::thread::Builder::new().name("rsccl-gpu".to_owned());
            let started = builder.spawn(move || shared.run(driver));
            *thread = Some(started.map_err(|error| Error::system("starting the thread for GPUs", &error))?);
        }
        Ok(())
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// What the calls need.
    pub(super) fn means(&self, driver: &'static Driver) -> Means<'_> {
        Means { driver, staging: &self.staging, lanes: &self.lanes }
    }

    fn run(&self, driver: &'static Driver) {
        let follow = || driver.relaxed(|| Following::new(self, driver).run());
        match catch_unwind(AssertUnwindSafe(follow)) {
            Ok(0) => {}
            Ok(n_left_behind) => {
                lock(&self.state).n_left_behind = n_left_behind;
                let text = format!(
                    "summation: a GPU has still to copy {n_left_behind} contributions that nobody reads any more, and has \
                     not for seconds: pinned memory, streams and events of this group stay until the process ends"
                );
                log::warn(0, &text);
            }
            Err(panic) => self.break_down(&*panic),
        }
    }

    /// The thread has panicked: what was under way has been told, and nothing is taken any more.
    fn break_down(&self, panic: &(dyn Any + Send)) {
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

/// A buffer of the GPU that the stream is of, or of this machine.
fn side(name: &str, buffer: Buffer, place: Place, device: i32) -> Result<Side> {
    match place {
        Place::Host => Ok(Side::Host(buffer.region)),
        Place::Device(of, pointer) if of == device => Ok(Side::Device(pointer)),
        Place::Device(of, _) => {
            let text = format!("{name} lies in the memory of GPU {of}, and the stream is of GPU {device}");
            Err(Error::InvalidArgument(text))
        }
    }
}

fn no_driver() -> Error {
    let name = driver::LIBRARY;
    Error::InvalidUsage(format!(
        "no CUDA driver ({name}) is loaded in this process, so there is no stream: call rsum_push_pull_async"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_panic_of_the_thread_calls_are_told_of_it() {
        let carrier = Carrier::new(0, Duration::MAX);
        lock(&carrier.shared.state).n_leaving = 1;
        let panic = catch_unwind(|| std::panic::resume_unwind(Box::new("no such lane"))).unwrap_err();
        carrier.shared.break_down(&*panic);
        carrier.wait_until_left();
        let error = lock(&carrier.shared.state).refusal().unwrap().to_string();
        assert!(error.contains("has panicked (no such lane)"), "{error}");
        carrier.close();
        let error = lock(&carrier.shared.state).refusal().unwrap().to_string();
        assert!(error.contains("has panicked (no such lane)"), "{error}");
    }
}
