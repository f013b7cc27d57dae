//! What a `cudaStream_t` means on a CPU: operations run in the order they were enqueued, one at a time, by whoever is
//! there: the caller of a small one on an idle stream, who waits for the stream, or the stream's worker thread.
//!
//! The NULL stream is one default stream of the process. Calls return once their operation is enqueued;
//! [`Stream::synchronize`] waits for all of it and returns the first error since the last synchronize.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::fork::Owner;
use crate::kernels::control::use_standard_floats;
use crate::lock::lock;
use crate::recent::{Place, Version};

/// Operations that wait on one stream: a call that enqueues one more returns when there are so many again.
const MAX_QUEUED: usize = 16 * 1024;

/// A stream's unit of work.
pub(crate) type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// A stream.
#[derive(Default)]
pub(crate) struct Stream {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Where the worker waits: what it cannot take must not wake it.
    takeable: Condvar,
    /// Whether who waits for the stream leaves its work to the worker, as to a GPU.
    is_device: AtomicBool,
    owner: Owner,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    enqueued: u64,
    finished: u64,
    /// The first error that nobody has synchronized with, and which operation of the stream it was, from 1 on.
    error: Option<(u64, Error)>,
    /// Somebody runs the work that was taken last: the worker, or a caller.
    running: bool,
    /// Threads that wait for a change, the worker aside.
    sleepers: usize,
    worker_sleeps: bool,
    has_worker: bool,
    closing: bool,
}

/// Streams by handle; 0 is the default stream.
static STREAMS: LazyLock<Mutex<HashMap<usize, Arc<Stream>>>> = LazyLock::new(Mutex::default);
static VERSION: Version = Version::new();

thread_local! {
    static LAST: Place<Stream> = const { RefCell::new(None) };
}

/// A new stream's handle.
pub(crate) fn create() -> usize {
    let stream = Arc::new(Stream::default());
    let handle = Arc::as_ptr(&stream).addr();
    let mut streams = lock(&STREAMS);
    VERSION.change();
    streams.insert(handle, stream);
    handle
}

/// The stream of a handle. CUDA's names for the legacy and the per-thread default stream (1 and 2) mean the default one.
pub(crate) fn find(handle: usize) -> Result<Arc<Stream>> {
    let found = VERSION.find(&LAST, handle, || look_up(handle))?;
    if found.owner.is_this() {
        return Ok(found);
    }
    if handle > 2 {
        let text =
            format!("this process was forked from the one whose stream {handle:#x} is: make one of its own");
        return Err(Error::InvalidUsage(text));
    }
    // The parent's has a worker that does not exist here.
    let own = Arc::<Stream>::default();
    let mut streams = lock(&STREAMS);
    VERSION.change();
    std::mem::forget(streams.insert(0, Arc::clone(&own)));
    Ok(own)
}

fn look_up(handle: usize) -> Result<Arc<Stream>> {
    let mut streams = lock(&STREAMS);
    if handle <= 2 {
        return Ok(Arc::clone(streams.entry(0).or_default()));
    }
    let found = streams.get(&handle).map(Arc::clone);
    found.ok_or_else(|| Error::InvalidArgument(format!("{handle:#x} is no stream of rscclStreamCreate")))
}

/// Forgets a stream; its queued work is still done.
pub(crate) fn destroy(handle: usize) -> Result<()> {
    let mut streams = lock(&STREAMS);
    VERSION.change();
    let stream = if handle > 2 { streams.remove(&handle) } else { None };
    drop(streams);
    let stream =
        stream.ok_or_else(|| Error::InvalidArgument(format!("{handle:#x} is no stream to destroy")))?;
    lock(&stream.queue).closing = true;
    stream.takeable.notify_one();
    Ok(())
}

impl Stream {
    /// Appends work, and starts the worker if there is none.
    pub(crate) fn enqueue(self: &Arc<Self>, work: Work) -> Result<()> {
        let mut queue = lock(&self.queue);
        self.start_worker(&mut queue)?;
        queue.waiting.push_back(work);
        queue.enqueued += 1;
        self.tell(&queue);
        Ok(())
    }

    /// Waits while too much is enqueued: for who has enqueued, and holds nothing that others need.
    pub(crate) fn wait_for_room(&self) {
        let mut queue = lock(&self.queue);
        while queue.waiting.len() > MAX_QUEUED {
            queue = self.wait(queue);
        }
    }

    /// Makes the caller the one who runs the stream's next work, if nothing is queued or running.
    pub(crate) fn try_begin(&self) -> bool {
        let mut queue = lock(&self.queue);
        let idle = queue.finished == queue.enqueued;
        if idle {
            queue.enqueued += 1;
            queue.running = true;
        }
        idle
    }

    /// What [`Stream::try_begin`] began is over.
    pub(crate) fn finish(&self, outcome: Result<()>) {
        let mut queue = lock(&self.queue);
        queue.finish(outcome);
        self.tell(&queue);
    }

    /// What [`Stream::try_begin`] began is gone on with by `rest`, before anything else on the stream.
    pub(crate) fn hand_over(self: &Arc<Self>, rest: Work) -> Result<()> {
        let mut queue = lock(&self.queue);
        let started = self.start_worker(&mut queue);
        queue.running = false;
        queue.waiting.push_front(rest);
        self.tell(&queue);
        started
    }

    /// From now on nobody but the worker runs its work.
    pub(crate) fn leave_to_worker(&self) {
        self.is_device.store(true, Ordering::Relaxed);
    }

    /// Waits for all that was enqueued before; returns the first error since the last call. Runs itself what the worker
    /// has not begun, unless that is left to the worker.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let mut queue = lock(&self.queue);
        let target = queue.enqueued;
        while queue.finished < target {
            let work = if self.is_device.load(Ordering::Relaxed) { None } else { queue.take() };
            queue = match work {
                Some(work) => self.run_one(queue, work),
                None => self.wait(queue),
            };
        }
        queue.error.take().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// How many operations were enqueued so far.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.queue).enqueued
    }

    /// Waits until the first `count` operations are over, for so long at most: whether they are. An error of one of them
    /// stays for [`Stream::synchronize`].
    pub(crate) fn wait_for(&self, count: u64, at_most: Duration) -> Result<bool> {
        let mut queue = lock(&self.queue);
        if queue.finished < count {
            queue.sleepers += 1;
            let waited = self.changed.wait_timeout_while(queue, at_most, |queue| queue.finished < count);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.sleepers -= 1;
        }
        // Not before: those behind the one that failed may still use their memory.
        if queue.finished < count {
            return Ok(false);
        }
        match &queue.error {
            Some((failed, error)) if *failed <= count => Err(error.clone()),
            _ => Ok(true),
        }
    }

    /// Whether all is done.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.finished == queue.enqueued
    }

    fn start_worker(self: &Arc<Self>, queue: &mut Queue) -> Result<()> {
        if queue.has_worker {
            return Ok(());
        }
        let stream = Arc::clone(self);
        let worker = std::thread::Builder::new().name("rsccl-stream".to_owned());
        worker.spawn(move || stream.work()).map_err(|error| Error::no_thread("a stream's thread", &error))?;
        queue.has_worker = true;
        Ok(())
    }

    fn work(&self) {
        use_standard_floats();
        let mut queue = lock(&self.queue);
        loop {
            queue = match queue.take() {
                Some(work) => self.run_one(queue, work),
                None if queue.closing && queue.waiting.is_empty() => break,
                None => self.wait_for_work(queue),
            };
        }
        queue.has_worker = false;
    }

    fn run_one<'a>(&'a self, queue: MutexGuard<'a, Queue>, work: Work) -> MutexGuard<'a, Queue> {
        drop(queue);
        let outcome = catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|_| Err(Error::Internal("an operation panicked".to_owned())));
        let mut queue = lock(&self.queue);
        queue.finish(outcome);
        self.tell(&queue);
        queue
    }

    fn wait<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.sleepers += 1;
        queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        queue.sleepers -= 1;
        queue
    }

    fn wait_for_work<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.worker_sleeps = true;
        queue = self.takeable.wait(queue).unwrap_or_else(PoisonError::into_inner);
        queue.worker_sleeps = false;
        queue
    }

    /// A notification is a system call, even where nobody sleeps.
    fn tell(&self, queue: &Queue) {
        if queue.worker_sleeps && !queue.running && !queue.waiting.is_empty() {
            self.takeable.notify_one();
        }
        if queue.sleepers > 0 {
            self.changed.notify_all();
        }
    }
}

impl Queue {
    /// The next work, if none is running; it runs from now on.
    fn take(&mut self) -> Option<Work> {
        if self.running {
            return None;
        }
        let work = self.waiting.pop_front()?;
        self.running = true;
        Some(work)
    }

    fn finish(&mut self, outcome: Result<()>) {
        self.running = false;
        self.finished += 1;
        if let Err(error) = outcome {
            self.error.get_or_insert((self.finished, error));
        }
    }
}

/// A moment on one stream that another waits for.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    reached: Mutex<bool>,
    changed: Condvar,
}

impl Moment {
    /// It has come.
    pub(crate) fn reach(&self) {
        *lock(&self.reached) = true;
        self.changed.notify_all();
    }

    /// Waits for it.
    pub(crate) fn wait(&self) {
        let waiting = |reached: &mut bool| !*reached;
        drop(self.changed.wait_while(lock(&self.reached), waiting).unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_runs_in_order_and_the_first_error_stays() {
        let stream = find(create()).unwrap();
        let (done, order) = mpsc::channel();
        for index in 0..3 {
            let done = done.clone();
            let work = move || {
                done.send(index).unwrap();
                if index == 0 { Ok(()) } else { Err(Error::Internal(index.to_string())) }
            };
            stream.enqueue(Box::new(work)).unwrap();
        }
        assert_eq!(stream.synchronize(), Err(Error::Internal("1".to_owned())));
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(stream.synchronize(), Ok(()));
    }

    #[test]
    fn a_panic_is_an_error() {
        let stream = find(create()).unwrap();
        stream.enqueue(Box::new(|| panic!("on purpose"))).unwrap();
        assert_eq!(stream.synchronize().unwrap_err().code(), 3);
    }

    #[test]
    fn unknown_handles_are_refused() {
        assert!(find(0xdead_beef).is_err());
        assert!(destroy(0).is_err());
        let handle = create();
        destroy(handle).unwrap();
        assert!(find(handle).is_err());
    }
}
