//! What a `cudaStream_t` means on a CPU: a worker thread that runs operations in the order they were enqueued.
//!
//! The NULL stream is one default stream of the process. Calls return once their operation is enqueued;
//! [`Stream::synchronize`] waits for all of it and returns the first error since the last synchronize.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::net::control::lock;

/// Operations that wait on one stream at most; a call that would enqueue one more waits.
const MAX_QUEUED: usize = 16 * 1024;

/// A stream's unit of work.
pub(crate) type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// A stream.
#[derive(Default)]
pub(crate) struct Stream {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    enqueued: u64,
    finished: u64,
    error: Option<Error>,
    has_worker: bool,
    closing: bool,
}

/// Streams by handle; 0 is the default stream.
static STREAMS: LazyLock<Mutex<HashMap<usize, Arc<Stream>>>> = LazyLock::new(Mutex::default);

/// A new stream's handle.
pub(crate) fn create() -> usize {
    let stream = Arc::new(Stream::default());
    let handle = Arc::as_ptr(&stream).addr();
    lock(&STREAMS).insert(handle, stream);
    handle
}

/// The stream of a handle. CUDA's names for the legacy and the per-thread default stream (1 and 2) mean the default one.
pub(crate) fn find(handle: usize) -> Result<Arc<Stream>> {
    let mut streams = lock(&STREAMS);
    if handle <= 2 {
        return Ok(Arc::clone(streams.entry(0).or_default()));
    }
    let found = streams.get(&handle).map(Arc::clone);
    found.ok_or_else(|| Error::InvalidArgument(format!("{handle:#x} is no stream of rscclStreamCreate")))
}

/// Forgets a stream; its queued work is still done.
pub(crate) fn destroy(handle: usize) -> Result<()> {
    let stream = lock(&STREAMS).remove(&handle).filter(|_| handle > 2);
    let stream =
        stream.ok_or_else(|| Error::InvalidArgument(format!("{handle:#x} is no stream to destroy")))?;
    lock(&stream.queue).closing = true;
    stream.changed.notify_all();
    Ok(())
}

impl Stream {
    /// Appends work, and starts the worker if there is none.
    pub(crate) fn enqueue(self: &Arc<Self>, work: Work) -> Result<()> {
        let full = |queue: &mut Queue| queue.waiting.len() >= MAX_QUEUED;
        let mut queue =
            self.changed.wait_while(lock(&self.queue), full).unwrap_or_else(PoisonError::into_inner);
        if !queue.has_worker {
            let stream = Arc::clone(self);
            let worker = std::thread::Builder::new().name("rsccl-stream".to_owned());
            worker
                .spawn(move || stream.run())
                .map_err(|error| Error::system("starting a stream's thread", &error))?;
            queue.has_worker = true;
        }
        queue.waiting.push_back(work);
        queue.enqueued += 1;
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for all that was enqueued before; returns the first error since the last call.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let queue = lock(&self.queue);
        let target = queue.enqueued;
        let unfinished = |queue: &mut Queue| queue.finished < target;
        let mut queue = self.changed.wait_while(queue, unfinished).unwrap_or_else(PoisonError::into_inner);
        queue.error.take().map_or(Ok(()), Err)
    }

    /// Whether all is done.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.finished == queue.enqueued
    }

    fn run(&self) {
        while let Some(work) = self.next() {
            let result = catch_unwind(AssertUnwindSafe(work))
                .unwrap_or_else(|_| Err(Error::Internal("an operation panicked".to_owned())));
            let mut queue = lock(&self.queue);
            queue.finished += 1;
            if let Err(error) = result {
                queue.error.get_or_insert(error);
            }
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Work> {
        let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closing;
        let mut queue =
            self.changed.wait_while(lock(&self.queue), idle).unwrap_or_else(PoisonError::into_inner);
        let work = queue.waiting.pop_front();
        queue.has_worker = work.is_some();
        work
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
