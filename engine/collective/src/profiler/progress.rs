//! NCCL's progress thread, as a profiler knows it: takes what has happened to proxies and channels from whoever runs the
//! operations, and tells the plugin of it, in order (`ncclProxyProgress` in `src/proxy.cc`).
//!
//! So an event may come after its operation is over. Between its events it tells what it does itself, where the plugin
//! asks for ProxyCtrl: Idle and Active as its operations stand or move, Sleep and Wakeup when there are none, Append
//! when it takes up new ones.
//!
//! It must never be waited for with a lock held that an abort needs, except by who has a full queue before it, which an
//! abort empties.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::lock::lock;
use crate::log::{self, Level, subsystem};
use crate::profiler::event::{Descriptor, Details, State, Work, kind};
use crate::profiler::plugin::{Context, Handle};

/// Events that wait at most. NCCL's pool has room for 2048 operations of each local rank (`MAX_OPS_PER_PEER` in
/// `src/include/proxy.h`); an operation has about 8 events here.
const MAX_QUEUED: usize = 16 * 1024;
/// Events that are taken at once: after so many, who waits for room has some.
const BATCH: usize = 256;
/// Events that 2.32's thread of the channels has begun and not ended at most; what would be one more is dropped. The real
/// number is not known.
const MAX_IN_FLIGHT: usize = 4 * 1024;

/// What is above an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parent {
    /// One of which the plugin has been told.
    Told(Handle),
    /// One before it in the same queue.
    Queued(u64),
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Start { number: u64, parent: Parent, rank: c_int, work: Work },
    State { number: u64, state: State },
    Stop { number: u64 },
}

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

#[derive(Debug)]
struct Shared {
    context: Arc<Context>,
    /// Whether it is the thread of the proxies, which tells of itself.
    tells_control: bool,
    queue: Mutex<Queue>,
    came: Condvar,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// The number of the last event that began.
    last: u64,
    /// Events that began and have not been told to be over.
    in_flight: usize,
    dropped: u64,
    has_thread: bool,
    sleeps: bool,
    ending: Ending,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ending {
    #[default]
    No,
    /// Once all is told.
    Drained,
    /// Now: what was not told never is.
    Aborted,
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
        match thread.spawn(move || Thread { shared: &shared, handles: HashMap::new(), idle: false }.run()) {
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

/// The thread's own.
struct Thread<'a> {
    shared: &'a Shared,
    /// The plugin's handles of events that are not over.
    handles: HashMap<u64, Handle>,
    /// Whether nothing has moved lately.
    idle: bool,
}

impl<'a> Thread<'a> {
    fn run(&mut self) {
        while let Some(batch) = self.take() {
            let is_op = |item: &&Item| {
                matches!(item, Item::Start { work: Work::ProxyOp(_) | Work::KernelCh { .. }, .. })
            };
            let ops = batch.iter().filter(is_op).count();
            if ops > 0 {
                let ops = c_int::try_from(ops).unwrap_or(c_int::MAX);
                self.control(&[State::ProxyCtrlAppend, State::ProxyCtrlAppendEnd(ops)]);
            }
            if self.idle {
                self.idle = false;
                self.control(&[State::ProxyCtrlActive]);
            }
            for item in batch {
                if lock(&self.shared.queue).ending == Ending::Aborted {
                    return;
                }
                self.tell(item);
            }
        }
    }

    /// What is there, once something is; nothing at the end.
    fn take(&mut self) -> Option<Vec<Item>> {
        let shared = self.shared;
        let mut queue = lock(&shared.queue);
        if queue.items.is_empty() && queue.ending == Ending::No {
            drop(queue);
            queue = self.wait();
        }
        let is_over = match queue.ending {
            Ending::No => false,
            Ending::Drained => queue.items.is_empty(),
            Ending::Aborted => true,
        };
        if is_over {
            return None;
        }
        let n = queue.items.len().min(BATCH);
        let batch: Vec<Item> = queue.items.drain(..n).collect();
        let stopped = batch.iter().filter(|item| matches!(item, Item::Stop { .. })).count();
        queue.in_flight -= stopped.min(queue.in_flight);
        shared.left.notify_all();
        Some(batch)
    }

    fn wait(&mut self) -> MutexGuard<'a, Queue> {
        let shared = self.shared;
        if !self.idle {
            self.idle = true;
            self.control(&[State::ProxyCtrlIdle]);
        }
        let sleep = if self.handles.is_empty() { self.control_start() } else { None };
        sleep.into_iter().for_each(|sleep| shared.context.record(sleep, State::ProxyCtrlSleep));
        let mut queue = lock(&shared.queue);
        while queue.items.is_empty() && queue.ending == Ending::No {
            queue.sleeps = true;
            queue = shared.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.sleeps = false;
        let Some(sleep) = sleep else { return queue };
        drop(queue);
        shared.context.record(sleep, State::ProxyCtrlWakeup);
        shared.context.stop(sleep);
        lock(&shared.queue)
    }

    fn tell(&mut self, item: Item) {
        let context = &self.shared.context;
        match item {
            Item::Start { number, parent, rank, work } => {
                let parent = match parent {
                    Parent::Told(handle) => handle,
                    Parent::Queued(number) => self.handles.get(&number).copied().unwrap_or(Handle::NONE),
                };
                let descriptor = Descriptor { parent: parent.pointer(), rank, details: Details::from(work) };
                self.handles.insert(number, context.start(&descriptor));
            }
            Item::State { number, state } => {
                if let Some(handle) = self.handles.get(&number) {
                    context.record(*handle, state);
                }
            }
            Item::Stop { number } => {
                if let Some(handle) = self.handles.remove(&number) {
                    context.stop(handle);
                }
            }
        }
    }

    /// An event of itself, with these states.
    fn control(&self, states: &[State]) {
        let Some(handle) = self.control_start() else { return };
        states.iter().for_each(|state| self.shared.context.record(handle, *state));
        self.shared.context.stop(handle);
    }

    /// The mask counts as it is now, as in NCCL.
    fn control_start(&self) -> Option<Handle> {
        let context = &self.shared.context;
        let wanted = self.shared.tells_control && context.mask() & kind::PROXY_CTRL != 0;
        let control = Descriptor { parent: Handle::NONE.pointer(), rank: 0, details: Details::ProxyCtrl };
        wanted.then(|| context.start(&control))
    }
}
