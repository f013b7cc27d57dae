//! NCCL's progress thread, as a profiler knows it: takes what has happened to proxies and channels from whoever runs the
//! operations, and tells the plugin of it, in order (`ncclProxyProgress` in `src/proxy.cc`).
//!
//! So an event may come after its operation is over.
//!
//! It must never be waited for with a lock held that an abort needs, except by who has a full queue before it, which an
//! abort empties.

mod queue;
mod thread;

use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::lock::lock;
use crate::log::{self, Level, subsystem};
use crate::profiler::event::{State, Work};
use crate::profiler::plugin::Context;
pub(crate) use crate::profiler::progress::queue::Parent;
use crate::profiler::progress::queue::{Ending, Item, Queue, Shared};
use crate::profiler::progress::thread::Thread;

/// Beginnings, states and ends of events that wait at most. NCCL's pool has room for 2048 operations of each local rank
/// (`MAX_OPS_PER_PEER` in `src/include/proxy.h`), and an operation has eight of them or more here.
const MAX_QUEUED: usize = 16 * 1024;
/// Events that 2.32's thread of the channels has begun and not ended at most; what would be one more is dropped. The real
/// number is not known.
const MAX_IN_FLIGHT: usize = 4 * 1024;

/// What is to be done when nobody has room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// The operation waits, as in NCCL for its proxy.
    Wait,
    /// The event is dropped, as by 2.32's thread of the channels.
    Drop,
}

/// A thread that tells a plugin of events.
#[derive(Debug)]
pub(crate) struct Progress {
    shared: Arc<Shared>,
    name: String,
    when_full: WhenFull,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Progress {
    /// Of this `name`; its thread starts with the first event.
    pub(crate) fn new(context: Arc<Context>, name: String, when_full: WhenFull) -> Self {
        let shared = Shared {
            context,
            tells_control: when_full == WhenFull::Wait,
            queue: Mutex::default(),
            came: Condvar::new(),
            left: Condvar::new(),
        };
        Self { shared: Arc::new(shared), name, when_full, thread: Mutex::new(None) }
    }

    /// Starts the thread, if it has not.
    pub(crate) fn begin(&self) {
        self.start_thread(&mut lock(&self.shared.queue));
    }

    /// An event begins; nothing if it will not be told.
    pub(crate) fn start(&self, parent: Parent, rank: c_int, work: Work) -> Option<u64> {
        let mut queue = self.room()?;
        if self.when_full == WhenFull::Drop && queue.in_flight >= MAX_IN_FLIGHT {
            queue.dropped += 1;
            return None;
        }
        self.start_thread(&mut queue);
        queue.last += 1;
        queue.in_flight += 1;
        let number = queue.last;
        self.push(&mut queue, Item::Start { number, parent, rank, work });
        Some(number)
    }

    /// Something happens to it.
    pub(crate) fn record(&self, number: u64, state: State) {
        if let Some(mut queue) = self.room() {
            self.push(&mut queue, Item::State { number, state });
        }
    }

    /// It is over.
    pub(crate) fn stop(&self, number: u64) {
        if let Some(mut queue) = self.room() {
            self.push(&mut queue, Item::Stop { number });
        }
    }

    /// Tells no more: only what is being told now will have been. Does not wait.
    pub(crate) fn abort(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.ending = Ending::Aborted;
        queue.items.clear();
        self.shared.came.notify_all();
        self.shared.left.notify_all();
    }

    /// Tells what is left, unless it was aborted, and ends. Waits for a plugin that has not returned, as NCCL does
    /// (`ncclProxyProgressDestroy`).
    pub(crate) fn end(&self) {
        let mut queue = lock(&self.shared.queue);
        if queue.ending == Ending::No {
            queue.ending = Ending::Drained;
        }
        self.shared.came.notify_all();
        self.shared.left.notify_all();
        drop(queue);
        if let Some(thread) = lock(&self.thread).take() {
            // What has panicked has told nothing more, which is all that can be known.
            let _ = thread.join();
        }
        let dropped = std::mem::take(&mut lock(&self.shared.queue).dropped);
        if dropped > 0 {
            let text = format!("{dropped} events of {} were dropped", self.name);
            log::write(Level::Info, subsystem::PROFILE, 0, &text);
        }
    }

    /// The queue, once it has room; nothing when it takes no more.
    fn room(&self) -> Option<MutexGuard<'_, Queue>> {
        let full = |queue: &mut Queue| queue.ending == Ending::No && queue.items.len() >= MAX_QUEUED;
        let queue = lock(&self.shared.queue);
        let queue = self.shared.left.wait_while(queue, full).unwrap_or_else(PoisonError::into_inner);
        (queue.ending == Ending::No).then_some(queue)
    }

    fn push(&self, queue: &mut Queue, item: Item) {
        queue.items.push_back(item);
        if queue.sleeps {
            queue.sleeps = false;
            self.shared.came.notify_one();
        }
    }

    fn start_thread(&self, queue: &mut Queue) {
        if queue.has_thread || queue.ending != Ending::No {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(self.name.clone());
        match thread.spawn(move || Thread::new(&shared).run()) {
            Ok(thread) => {
                *lock(&self.thread) = Some(thread);
                queue.has_thread = true;
            }
            Err(error) => {
                // Nobody would ever take an event.
                queue.ending = Ending::Aborted;
                let text =
                    format!("{} could not be started, so that a profiler hears less: {error}", self.name);
                log::write(Level::Warn, subsystem::PROFILE, 0, &text);
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.abort();
        self.end();
    }
}
