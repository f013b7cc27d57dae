//! Threads that add contributions up while the driver moves bytes. They sleep while there is nothing to add, and wake the
//! driver when they have a result. Nothing is locked while they add.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::server::addition::Addition;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::net::control::Health;

/// Below this an addition takes less time than the hand-over to another thread and back.
const INLINE_BYTES: usize = 128 * 1024;

/// The threads, and what they have to do. Whoever is free takes the most urgent addition, so parts of any sizes keep all of
/// them busy.
#[derive(Debug)]
pub(super) struct Adders {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    has_done: AtomicBool,
    health: Arc<Health>,
}

#[derive(Debug, Default)]
struct State {
    /// By urgency, lowest first, and in the order in which they came.
    waiting: BTreeMap<(u32, u64), Addition>,
    n_submitted: u64,
    done: Vec<Addition>,
    has_panicked: bool,
    is_over: bool,
}

impl Adders {
    /// So many threads, which wake the driver of the communicator with this health. None: the driver adds itself.
    pub(super) fn start(n_threads: usize, health: &Arc<Health>) -> Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            has_done: AtomicBool::new(false),
            health: Arc::clone(health),
        });
        let mut adders = Self { shared, threads: Vec::new() };
        for index in 0..n_threads {
            let shared = Arc::clone(&adders.shared);
            let thread = std::thread::Builder::new().name(format!("rsccl-adder-{index}"));
            let thread = thread.spawn(move || shared.work());
            adders
                .threads
                .push(thread.map_err(|error| Error::system("starting a thread that adds", &error))?);
        }
        Ok(adders)
    }

    /// Has an addition done: now, or by a thread, lower `urgency` first.
    pub(super) fn add(&self, urgency: u32, mut addition: Addition) -> Option<Addition> {
        if self.threads.is_empty() || addition.size_bytes() < INLINE_BYTES {
            addition.run();
            return Some(addition);
        }
        let mut state = lock(&self.shared.state);
        let number = state.n_submitted;
        state.n_submitted += 1;
        state.waiting.insert((urgency, number), addition);
        drop(state);
        self.shared.changed.notify_one();
        None
    }

    /// What was done since the last call.
    pub(super) fn take(&self) -> Result<Vec<Addition>> {
        if !self.shared.has_done.swap(false, Ordering::Acquire) {
            return Ok(Vec::new());
        }
        let mut state = lock(&self.shared.state);
        if state.has_panicked {
            return Err(Error::Internal("a thread that adds panicked".to_owned()));
        }
        Ok(std::mem::take(&mut state.done))
    }
}

impl Shared {
    fn work(&self) {
        while let Some(mut addition) = self.next() {
            let ran = catch_unwind(AssertUnwindSafe(|| addition.run()));
            let mut state = lock(&self.state);
            match ran {
                Ok(()) => state.done.push(addition),
                Err(_) => state.has_panicked = true,
            }
            drop(state);
            self.has_done.store(true, Ordering::Release);
            self.health.wake_runner();
        }
    }

    fn next(&self) -> Option<Addition> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.is_over;
        let state = self.changed.wait_while(lock(&self.state), idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_over { None } else { state.waiting.pop_first().map(|(_, addition)| addition) }
    }
}

impl Drop for Adders {
    fn drop(&mut self) {
        lock(&self.shared.state).is_over = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::message::{Admission, Answer, Epochs, Pull, Push, Pushed};
    use crate::server::part::{Association, Part, Reduction};
    use crate::server::service::Service;
    use rsccl_collective::types::DataType;

    const KEYS: u32 = 6;

    /// Of two contributions, each of bytes `key + 1`.
    fn addition(service: &mut Service, key: u32, size_bytes: usize) -> Addition {
        let (reduction, epochs) = (Reduction::Sum, Epochs::default());
        for worker in 0..2 {
            let push = Push { key, round: 0, worker, size_bytes, reduction, epochs };
            let Ok(Admission::Into(mut landing)) = service.push(&push) else { panic!("no room") };
            landing.bytes_mut().fill(u8::try_from(key + 1).unwrap());
            if let Ok(Pushed::Complete(addition)) = service.pushed(landing) {
                return addition;
            }
        }
        panic!("no addition")
    }

    fn add_all(n_threads: usize, count: usize) {
        let part = Part { count, data_type: DataType::U8, codec: None };
        let parts = (0..KEYS).map(|key| (key, part));
        let mut service = Service::new(2, parts, Association::Left, Epochs::default());
        let health = Arc::new(Health::new().unwrap());
        let adders = Adders::start(n_threads, &health).unwrap();
        let mut done = Vec::new();
        for key in 0..KEYS {
            done.extend(adders.add(KEYS - key, addition(&mut service, key, count)));
        }
        assert!(done.is_empty() || done.len() == KEYS as usize, "small ones at once, large ones later");
        while done.len() < KEYS as usize {
            done.extend(adders.take().unwrap());
            std::thread::yield_now();
        }
        for addition in done {
            service.added(addition).unwrap();
        }
        for key in 0..KEYS {
            let pull = Pull { key, round: 0, worker: 1, epochs: Epochs::default() };
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
