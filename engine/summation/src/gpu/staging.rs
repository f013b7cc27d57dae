//! Pinned memory between GPUs and the wire: lent per call, kept for the next step's tensors of the same sizes, bounded.

use std::sync::Mutex;

use super::driver::Pinned;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;

/// Bytes in all, unless set otherwise: the gradients of a model of a billion parameters at once.
pub(crate) const DEFAULT_STAGING_BYTES: u64 = 4 << 30;
/// Sizes are multiples of this, so that tensors of nearly one size share memory: a page of the largest kind that is common
/// without being asked for.
const GRAIN_BYTES: usize = 64 << 10;

/// The memory.
#[derive(Debug)]
pub(super) struct Staging {
    bound_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Pinned>,
    /// Lent and free.
    held_bytes: usize,
}

impl Staging {
    /// Of so many bytes at most.
    pub(super) fn new(bound_bytes: usize) -> Self {
        Self { bound_bytes, state: Mutex::default() }
    }

    /// Memory for so many bytes: free memory that is at most twice as large, else new memory by `pin`. Free memory of other
    /// sizes makes room for it.
    ///
    /// # Errors
    /// It is more than is allowed in all, all that is allowed is lent, or the driver gives no more.
    pub(super) fn take(
        &self,
        size_bytes: usize,
        pin: impl Fn(usize) -> Result<Pinned>,
        unpin: impl Fn(&Pinned) -> Result<()>,
    ) -> Result<Pinned> {
        let tensor_bytes = size_bytes;
        let size_bytes = size_bytes.max(1).next_multiple_of(GRAIN_BYTES);
        if size_bytes > self.bound_bytes {
            return Err(self.too_large(tensor_bytes, size_bytes));
        }
        let mut state = lock(&self.state);
        let fits = |free: &Pinned| (size_bytes..=2 * size_bytes).contains(&free.size_bytes());
        let fitting = state.free.iter().enumerate().filter(|(_, free)| fits(free));
        let best = fitting.min_by_key(|(_, free)| free.size_bytes()).map(|(index, _)| index);
        if let Some(index) = best {
            return Ok(state.free.swap_remove(index));
        }
        while state.held_bytes + size_bytes > self.bound_bytes {
            let Some(free) = state.free.pop() else { return Err(self.full(size_bytes, state.held_bytes)) };
            state.held_bytes -= free.size_bytes();
            unpin(&free)?;
        }
        let pinned = pin(size_bytes)?;
        state.held_bytes += pinned.size_bytes();
        Ok(pinned)
    }

    /// Takes back what was lent, once nothing uses it.
    pub(super) fn give(&self, memory: Pinned) {
        lock(&self.state).free.push(memory);
    }

    /// All that is free, to be given back to the driver.
    pub(super) fn drain(&self) -> Vec<Pinned> {
        let mut state = lock(&self.state);
        let free = std::mem::take(&mut state.free);
        state.held_bytes -= free.iter().map(Pinned::size_bytes).sum::<usize>();
        free
    }

    fn too_large(&self, tensor_bytes: usize, size_bytes: usize) -> Error {
        Error::InvalidUsage(format!(
            "a tensor of {tensor_bytes} bytes on a GPU needs {size_bytes} bytes of pinned memory, and RSUM_STAGING_BYTES allows \
             {} in all: set it higher",
            self.bound_bytes
        ))
    }

    fn full(&self, size_bytes: usize, lent_bytes: usize) -> Error {
        Error::InvalidUsage(format!(
            "{size_bytes} bytes of pinned memory are needed while {lent_bytes} of the {} that RSUM_STAGING_BYTES allows are in \
             use: wait for earlier handles first, or set it higher",
            self.bound_bytes
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const GRAIN: usize = GRAIN_BYTES;

    /// A driver that numbers what it gives.
    #[derive(Default)]
    struct Fake {
        n_pinned: Cell<usize>,
        unpinned: RefCell<Vec<usize>>,
    }

    impl Fake {
        fn take(&self, staging: &Staging, size_bytes: usize) -> Result<Pinned> {
            let pin = |size_bytes| {
                self.n_pinned.set(self.n_pinned.get() + 1);
                Ok(Pinned::of_test(self.n_pinned.get(), size_bytes))
            };
            staging.take(size_bytes, pin, |memory| {
                self.unpinned.borrow_mut().push(memory.size_bytes());
                Ok(())
            })
        }
    }

    #[test]
    fn memory_is_used_again_by_what_nearly_fills_it() {
        let (staging, driver) = (Staging::new(100 * GRAIN), Fake::default());
        let large = driver.take(&staging, 10 * GRAIN).unwrap();
        let small = driver.take(&staging, 3).unwrap();
        assert_eq!((large.size_bytes(), small.size_bytes()), (10 * GRAIN, GRAIN));
        staging.give(large);
        staging.give(small);
        assert_eq!(driver.take(&staging, 9 * GRAIN + 1).unwrap(), Pinned::of_test(1, 10 * GRAIN));
        assert_eq!(driver.take(&staging, 1).unwrap(), Pinned::of_test(2, GRAIN));
        // Much smaller than what is free: that stays for what needs it.
        staging.give(Pinned::of_test(1, 10 * GRAIN));
        assert_eq!(driver.take(&staging, 4 * GRAIN).unwrap(), Pinned::of_test(3, 4 * GRAIN));
    }

    #[test]
    fn what_is_free_makes_room_and_what_is_lent_does_not() {
        let (staging, driver) = (Staging::new(10 * GRAIN), Fake::default());
        let first = driver.take(&staging, 4 * GRAIN).unwrap();
        let second = driver.take(&staging, 4 * GRAIN).unwrap();
        let error = driver.take(&staging, 4 * GRAIN).unwrap_err().to_string();
        assert!(error.contains("RSUM_STAGING_BYTES") && error.contains(&(8 * GRAIN).to_string()), "{error}");
        staging.give(first);
        let third = driver.take(&staging, 6 * GRAIN).unwrap();
        assert_eq!(*driver.unpinned.borrow(), [4 * GRAIN]);
        staging.give(second);
        staging.give(third);
        assert_eq!(staging.drain().len(), 2);
        assert!(driver.take(&staging, 10 * GRAIN).is_ok());
    }

    #[test]
    fn a_tensor_that_will_never_fit_is_told_so_and_costs_others_nothing() {
        let (staging, driver) = (Staging::new(10 * GRAIN), Fake::default());
        staging.give(driver.take(&staging, 4 * GRAIN).unwrap());
        let error = driver.take(&staging, 10 * GRAIN + 1).unwrap_err().to_string();
        let words = format!("a tensor of {} bytes on a GPU needs {} bytes", 10 * GRAIN + 1, 11 * GRAIN);
        assert!(error.contains(&words) && error.contains("set it higher"), "{error}");
        assert!(driver.unpinned.borrow().is_empty(), "what is free was given back for it");
    }
}
