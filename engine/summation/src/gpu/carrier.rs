//! Takes the calls with memory of a GPU. The first one starts a thread that follows them all ([`super::following`]) and ends
//! with the group's session, when nothing is under way.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::driver::{self, Driver, Place, Stream};
use super::following;
use super::shared::Shared;
use super::transfer::{Contribution, Side, Transfer};
use crate::run::group::Handle;
use crate::run::promise::Promise;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
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

impl Carrier {
    /// With so much pinned memory at most; what has waited for a GPU for `warning` is named in the log.
    pub(crate) fn new(staging_bytes: usize, warning: Duration) -> Self {
        Self { shared: Arc::new(Shared::new(staging_bytes, warning)), thread: Mutex::default() }
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
        self.shared.wait_until_left();
    }

    /// Waits until nothing is under way, and gives all memory, streams and events back to the driver. It keeps all of it where
    /// a GPU has still to write some, and does not: the driver would wait for that GPU.
    pub(crate) fn close(&self) {
        self.shared.close();
        let Some(thread) = lock(&self.thread).take() else { return };
        // That thread itself may be the last that knows of the session.
        if thread.thread().id() != std::thread::current().id() {
            // What it had under way has been told if it panicked.
            let _ = thread.join();
        }
        if self.shared.has_left_any_behind() {
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
        self.start(driver)?;
        let (lane, what) = ((context, call.stream), (call.tensor, call.send.region.len()));
        let (sides, ends) = ((send, recv), (contribution, promise));
        // The copy is put on the stream and the call in the queue under one lock, so that both have one order.
        self.shared.send_off(|| Transfer::begin(&self.shared.means(driver), what, lane, sides, ends))?;
        Ok(handle)
    }

    fn start(&self, driver: &'static Driver) -> Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let builder = std::thread::Builder::new().name("rsccl-gpu".to_owned());
            let started = builder.spawn(move || following::follow(&shared, driver));
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
