//! Threads that add contributions up, encode and decode, while the driver moves bytes. They sleep while there is nothing to do,
//! and wake the driver when something is done. Nothing is locked while they work.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::coding::Job;
use crate::server::addition::Addition;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::kernels::control::use_standard_floats;
use rsccl_collective::lock::lock;
use rsccl_collective::net::control::Health;

/// Below this a task takes less time than the hand-over to another thread and back.
const INLINE_BYTES: usize = 128 * 1024;

/// The threads, and what they have to do. Whoever is free takes the most urgent task, so parts of any sizes keep all of
/// them busy.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    n_threads: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Tasks of one kind that are done.
#[derive(Debug)]
struct Done<T> {
    tasks: Mutex<Vec<T>>,
    are_there: AtomicBool,
}

#[derive(Debug)]
enum Task {
    Add(Addition),
    Code(Job),
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    additions: Done<Addition>,
    jobs: Done<Job>,
    has_panicked: AtomicBool,
    health: Arc<Health>,
}

#[derive(Debug, Default)]
struct State {
    /// By urgency, lowest first, and in the order in which they came.
    waiting: BTreeMap<(u32, u64), Task>,
    n_submitted: u64,
    is_over: bool,
}

impl Pool {
    /// So many threads, which wake the driver of the communicator with this health. None: the driver does all itself.
    pub(super) fn start(n_threads: usize, health: &Arc<Health>) -> Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            additions: Done::default(),
            jobs: Done::default(),
            has_panicked: AtomicBool::new(false),
            health: Arc::clone(health),
        });
        let pool = Self { shared, n_threads, threads: Mutex::default() };
        for index in 0..n_threads {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new().name(format!("rsccl-adder-{index}"));
            let thread = thread.spawn(move || shared.work());
            let thread = thread.map_err(|error| Error::system("starting a thread that adds", &error))?;
            lock(&pool.threads).push(thread);
        }
        Ok(pool)
    }

    /// Has an addition done: now, or by a thread, lower `urgency` first.
    pub(super) fn add(&self, urgency: u32, mut addition: Addition) -> Option<Addition> {
        if self.is_for_caller(addition.size_bytes()) {
            addition.run();
            return Some(addition);
        }
        self.submit(urgency, Task::Add(addition));
        None
    }

    /// Has a part encoded or decoded: now, or by a thread, lower `urgency` first.
    pub(super) fn code(&self, urgency: u32, mut job: Job) -> Option<Job> {
        if self.is_for_caller(job.size_bytes()) {
            job.run();
            return Some(job);
        }
        self.submit(urgency, Task::Code(job));
        None
    }

    /// The additions that were done since the last call.
    pub(super) fn take(&self) -> Result<Vec<Addition>> {
        self.take_of(&self.shared.additions)
    }

    /// The parts that were encoded or decoded since the last call.
    pub(super) fn take_coded(&self) -> Result<Vec<Job>> {
        self.take_of(&self.shared.jobs)
    }

    /// Once the threads have ended: the parts that none of them had begun to encode or decode.
    pub(super) fn take_left(&self) -> Vec<Job> {
        let left = std::mem::take(&mut lock(&self.shared.state).waiting).into_values();
        let job = |task| if let Task::Code(job) = task { Some(job) } else { None };
        left.filter_map(job).collect()
    }

    /// Ends the threads: on return none works any more, and what they had not begun is left.
    pub(super) fn stop(&self) {
        lock(&self.shared.state).is_over = true;
        self.shared.changed.notify_all();
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join();
        }
    }

    fn is_for_caller(&self, size_bytes: usize) -> bool {
        self.n_threads == 0 || size_bytes < INLINE_BYTES
    }

    fn submit(&self, urgency: u32, task: Task) {
        let mut state = lock(&self.shared.state);
        let number = state.n_submitted;
        state.n_submitted += 1;
        state.waiting.insert((urgency, number), task);
        drop(state);
        self.shared.changed.notify_one();
    }

    fn take_of<T>(&self, done: &Done<T>) -> Result<Vec<T>> {
        if self.shared.has_panicked.load(Ordering::Acquire) {
            return Err(Error::Internal("a thread that adds panicked".to_owned()));
        }
        Ok(done.take())
    }
}

impl<T> Done<T> {
    fn push(&self, task: T) {
        lock(&self.tasks).push(task);
        self.are_there.store(true, Ordering::Release);
    }

    fn take(&self) -> Vec<T> {
        if !self.are_there.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&self.tasks))
    }
}

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self { tasks: Mutex::default(), are_there: AtomicBool::new(false) }
    }
}

impl Shared {
    fn work(&self) {
        use_standard_floats();
        while let Some(task) = self.next() {
            if catch_unwind(AssertUnwindSafe(|| self.run(task))).is_err() {
                self.has_panicked.store(true, Ordering::Release);
            }
            self.health.wake_runner();
        }
    }

    fn run(&self, task: Task) {
        match task {
            Task::Add(mut addition) => {
                addition.run();
                self.additions.push(addition);
            }
            Task::Code(mut job) => {
                job.run();
                self.jobs.push(job);
            }
        }
    }

    fn next(&self) -> Option<Task> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.is_over;
        let state = self.changed.wait_while(lock(&self.state), idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_over { None } else { state.waiting.pop_first().map(|(_, task)| task) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::message::{Admission, Answer, Pull, Push, Pushed};
    use crate::server::part::Part;
    use crate::server::reduction::Reduction;
    use crate::server::service::Service;
    use rsccl_collective::types::DataType;

    const KEYS: u32 = 6;

    /// Of two contributions, each of bytes `key + 1`.
    fn addition(service: &mut Service, key: u32, size_bytes: usize) -> Addition {
        let reduction = Reduction::Sum;
        for worker in 0..2 {
            let push = Push { key, round: 0, worker, size_bytes, reduction };
            let Ok(Admission::Into(mut landing)) = service.push(&push) else { panic!("no room") };
            landing.bytes_mut().fill(u8::try_from(key + 1).unwrap());
            if let Ok(Pushed::Add(addition)) = service.pushed(landing) {
                return addition;
            }
        }
        panic!("no addition")
    }

    fn add_all(n_threads: usize, count: usize) {
        let part = Part { count, data_type: DataType::U8, codec: None };
        let parts = (0..KEYS).map(|key| (key, part));
        let mut service = Service::new(2, parts);
        let health = Arc::new(Health::new().unwrap());
        let pool = Pool::start(n_threads, &health).unwrap();
        let mut done = Vec::new();
        for key in 0..KEYS {
            done.extend(pool.add(KEYS - key, addition(&mut service, key, count)));
        }
        assert!(done.is_empty() || done.len() == KEYS as usize, "small ones at once, large ones later");
        while done.len() < KEYS as usize {
            done.extend(pool.take().unwrap());
            std::thread::yield_now();
        }
        for addition in done {
            service.added(addition).unwrap();
        }
        for key in 0..KEYS {
            let pull = Pull { key, round: 0, worker: 1 };
            let Ok(Answer::Ready(sum)) = service.pull(&pull) else { panic!("no sum") };
            assert!(sum.bytes().iter().all(|byte| u32::from(*byte) == 2 * (key + 1)));
        }
    }

    #[test]
    fn additions_are_done_by_any_number_of_threads() {
        for n_threads in [0, 1, 3] {
            add_all(n_threads, INLINE_BYTES);
            add_all(n_threads, 10);
        }
    }
}
