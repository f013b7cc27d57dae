//! Submissions by number, as C programs know them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::run::group::{Handle, Pushed};
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;

/// What was submitted and is not given back.
#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<Submissions>);

#[derive(Debug, Default)]
struct Submissions {
    entries: HashMap<i32, Entry>,
    next: i32,
    n_unpulled: usize,
}

#[derive(Debug)]
enum Entry {
    /// Its sum is not asked for yet; with the group's epoch.
    Pushed(Pushed, u32),
    /// It is.
    Pulled(Handle),
}

impl Handles {
    /// A push in the group of this epoch; its number.
    pub(crate) fn pushed(&self, pushed: Pushed, epoch: u32) -> i32 {
        self.add(Entry::Pushed(pushed, epoch))
    }

    /// A push and pull; its number.
    pub(crate) fn pulled(&self, handle: Handle) -> i32 {
        self.add(Entry::Pulled(handle))
    }

    /// Asks for the sum of a push by `pull`; the number stays. Where that fails, the sum can be asked for once more.
    ///
    /// # Errors
    /// There is no such push, its sum is asked for already, its group has ended (and the push is forgotten), or that of `pull`.
    pub(crate) fn pull(
        &self,
        number: i32,
        epoch: Option<u32>,
        pull: impl FnOnce(&Pushed) -> Result<Handle>,
    ) -> Result<()> {
        let mut table = lock(&self.0);
        let entry = table.entries.get_mut(&number);
        let entry = entry.ok_or_else(|| Error::InvalidArgument(format!("there is no handle {number}")))?;
        let Entry::Pushed(pushed, of) = entry else {
            return Err(Error::InvalidUsage(format!("the sum of push {number} is asked for already")));
        };
        let is_of_this_group = epoch == Some(*of);
        if is_of_this_group {
            *entry = Entry::Pulled(pull(pushed)?);
        } else {
            table.entries.remove(&number);
        }
        table.n_unpulled = table.n_unpulled.saturating_sub(1);
        if is_of_this_group {
            return Ok(());
        }
        Err(Error::Remote(format!("the group that push {number} was submitted to has ended")))
    }

    /// Whether the work is over; nothing if there is no such handle.
    pub(crate) fn poll(&self, number: i32) -> Option<bool> {
        match lock(&self.0).entries.get(&number)? {
            Entry::Pushed(..) => Some(false),
            Entry::Pulled(handle) => Some(handle.poll().is_some()),
        }
    }

    /// Waits until the work is over, and forgets it.
    ///
    /// # Errors
    /// How the work ended. Or there is no such handle, or its sum was never asked for.
    pub(crate) fn wait(&self, number: i32) -> Result<()> {
        let outcome = self.handle(number)?.wait();
        lock(&self.0).entries.remove(&number);
        outcome
    }

    /// The same, but not longer than this; false, and the handle stays, while it is not over.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub(crate) fn wait_for(&self, number: i32, most: Duration) -> Result<bool> {
        let Some(outcome) = self.handle(number)?.wait_for(most) else { return Ok(false) };
        lock(&self.0).entries.remove(&number);
        outcome.map(|()| true)
    }

    fn handle(&self, number: i32) -> Result<Handle> {
        match lock(&self.0).entries.get(&number) {
            Some(Entry::Pulled(handle)) => Ok(handle.clone()),
            Some(Entry::Pushed(..)) => {
                Err(Error::InvalidUsage(format!("the sum of push {number} must be pulled first")))
            }
            None => Err(Error::InvalidArgument(format!("there is no handle {number}"))),
        }
    }

    /// Pushes whose sums are not asked for.
    pub(crate) fn n_unpulled(&self) -> usize {
        lock(&self.0).n_unpulled
    }

    /// The group has ended: what was not asked for will never be.
    pub(crate) fn forget_unpulled(&self) {
        let mut table = lock(&self.0);
        table.entries.retain(|_, entry| matches!(entry, Entry::Pulled(_)));
        table.n_unpulled = 0;
    }

    fn add(&self, entry: Entry) -> i32 {
        let mut table = lock(&self.0);
        table.n_unpulled += usize::from(matches!(entry, Entry::Pushed(..)));
        let mut number = table.next;
        while table.entries.contains_key(&number) {
            number = number.checked_add(1).unwrap_or(0);
        }
        table.next = number.checked_add(1).unwrap_or(0);
        table.entries.insert(number, entry);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::promise::Promise;

    #[test]
    fn who_waits_only_so_long_keeps_the_handle() {
        let handles = Handles::default();
        let (handle, promise) = Promise::new();
        let number = handles.pulled(handle);
        assert!(!handles.wait_for(number, Duration::from_millis(1)).unwrap());
        assert_eq!(handles.poll(number), Some(false));
        promise.keep(Ok(()));
        assert!(handles.wait_for(number, Duration::ZERO).unwrap());
        assert_eq!(handles.poll(number), None);
        let error = handles.wait_for(number, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("there is no handle"), "{error}");
    }

    #[test]
    fn a_failure_is_told_once() {
        let handles = Handles::default();
        let (handle, promise) = Promise::new();
        let number = handles.pulled(handle);
        promise.keep(Err(Error::Remote("rank 1 is lost".to_owned())));
        let error = handles.wait_for(number, Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("rank 1 is lost"), "{error}");
        assert_eq!(handles.poll(number), None);
    }
}
