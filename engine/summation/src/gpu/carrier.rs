//! Takes the calls with memory of a GPU, and follows them in a thread of its own, which asks events and handles and sleeps in
//! between. It is started by the first call, and ends with the group's session, when nothing is under way.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::driver::{self, Context, Driver, Place, Stream};
use super::lanes::Lanes;
use super::staging::Staging;
use super::transfer::{Contribute, Look, Means, Side, Transfer};
use crate::run::group::Handle;
use crate::run::promise::Promise;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::memory::Region;

/// Between looks while calls move on: far below the time of a copy of a part.
const SHORTEST: Duration = Duration::from_micros(20);
/// Between looks while nothing moves: a millisecond late after a wait of eight is not noticed.
const LONGEST: Duration = Duration::from_millis(1);

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

#[derive(Debug)]
struct Shared {
    staging: Staging,
    lanes: Lanes,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: Vec<Transfer>,
    /// Calls whose contributions have still to leave the GPU.
    n_leaving: usize,
    is_closing: bool,
}

impl Carrier {
    /// With so much pinned memory at most.
    pub(crate) fn new(staging_bytes: usize) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Shared { staging: Staging::new(staging_bytes), lanes: Lanes::default(), state, changed };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Contributes by `contribute` what the call's stream has left in its buffer; over when the sum is in the other one.
    ///
    /// # Errors
    /// There is no driver, the stream is being captured, a buffer is another GPU's, there is no pinned memory, or the
    /// driver refuses: nothing has been contributed then.
    pub(crate) fn push_pull(&self, call: &Submission, contribute: Contribute) -> Result<Handle> {
        let driver = driver::loaded().ok_or_else(no_driver)?.as_ref().map_err(Clone::clone)?;
        driver.relaxed(|| self.begin(driver, call, contribute))
    }

    /// Waits until the group has all contributions that were submitted before. What is submitted by other ways would
    /// overtake them.
    pub(crate) fn wait_until_left(&self) {
        let leaving = |state: &mut State| state.n_leaving > 0;
        let waited = self.shared.changed.wait_while(lock(&self.shared.state), leaving);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until nothing is under way, and gives all memory, streams and events back to the driver.
    pub(crate) fn close(&self) {
        lock(&self.shared.state).is_closing = true;
        self.shared.changed.notify_all();
        let Some(thread) = lock(&self.thread).take() else { return };
        // That thread itself may be the last that knows of the session.
        if thread.thread().id() != std::thread::current().id() {
            // What it had under way has been told if it panicked.
            let _ = thread.join();
        }
        let Some(Ok(driver)) = driver::loaded() else { return };
        driver.relaxed(|| {
            let Some(context) = self.shared.lanes.close(driver) else { return };
            // A context that has failed gives nothing back; it ends with the process.
            self.shared.staging.drain().iter().for_each(|memory| drop(driver.unpin(context, memory)));
        });
    }

    fn begin(&self, driver: &'static Driver, call: &Submission, contribute: Contribute) -> Result<Handle> {
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
        self.send_off(driver, call, lane, (send, recv), (contribute, promise))?;
        Ok(handle)
    }

    /// The copy is put on the stream and the call in the queue under one lock, so that both have one order.
    fn send_off(
        &self,
        driver: &'static Driver,
        call: &Submission,
        lane: (Context, Stream),
        sides: (Side, Side),
        ends: (Contribute, Promise),
    ) -> Result<()> {
        self.start(driver)?;
        let mut state = lock(&self.shared.state);
        if state.is_closing {
            return Err(Error::InvalidUsage("the group is being left".to_owned()));
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
    fn means(&self, driver: &'static Driver) -> Means<'_> {
        Means { driver, staging: &self.staging, lanes: &self.lanes }
    }

    fn run(&self, driver: &'static Driver) {
        let followed = catch_unwind(AssertUnwindSafe(|| driver.relaxed(|| self.follow(driver))));
        if followed.is_err() {
            let mut state = lock(&self.state);
            state.is_closing = true;
            state.n_leaving = 0;
            state.arrived.clear();
            drop(state);
            self.changed.notify_all();
        }
    }

    fn follow(&self, driver: &'static Driver) {
        let mut under_way = Vec::new();
        let mut pause = SHORTEST;
        loop {
            under_way.append(&mut lock(&self.state).arrived);
            if under_way.is_empty() {
                if self.is_over() {
                    return;
                }
                continue;
            }
            let moved = self.look_at_all(driver, &mut under_way);
            pause = if moved { SHORTEST } else { (pause + pause / 8).min(LONGEST) };
            if !moved {
                self.sleep(pause);
            }
        }
    }

    /// Waits for a call; whether none will come any more.
    fn is_over(&self) -> bool {
        let idle = |state: &mut State| state.arrived.is_empty() && !state.is_closing;
        let state = self.changed.wait_while(lock(&self.state), idle).unwrap_or_else(PoisonError::into_inner);
        state.arrived.is_empty()
    }

    fn sleep(&self, pause: Duration) {
        let quiet = |state: &mut State| state.arrived.is_empty();
        drop(self.changed.wait_timeout_while(lock(&self.state), pause, quiet));
    }

    /// Looks at every call, in their order. Whether any has moved.
    fn look_at_all(&self, driver: &'static Driver, under_way: &mut Vec<Transfer>) -> bool {
        let means = self.means(driver);
        let (mut n_left, mut moved) = (0, false);
        // Tensors with a contribution that has not left: later ones of them wait.
        let mut held = BTreeSet::new();
        for transfer in mem::take(under_way) {
            let (tensor, was_leaving) = (transfer.tensor, transfer.is_leaving());
            let may_leave = !held.contains(&tensor);
            let stays = match transfer.look(&means, may_leave) {
                Look::Waits(transfer) => Some(transfer),
                Look::Moved(transfer) => {
                    moved = true;
                    Some(transfer)
                }
                Look::Over => {
                    moved = true;
                    None
                }
            };
            let is_leaving = stays.as_ref().is_some_and(Transfer::is_leaving);
            n_left += usize::from(was_leaving && !is_leaving);
            if is_leaving {
                held.insert(tensor);
            }
            under_way.extend(stays);
        }
        if n_left > 0 {
            let mut state: MutexGuard<'_, State> = lock(&self.state);
            state.n_leaving = state.n_leaving.saturating_sub(n_left);
            drop(state);
            self.changed.notify_all();
        }
        moved
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
