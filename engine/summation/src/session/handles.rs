//! Submissions by number, as C programs know them.

use std::collections::HashMap;
use std::sync::Mutex;

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

    /// Asks for the sum of a push by `pull`, which gives it back if it fails; the number stays.
    ///
    /// # Errors
    /// There is no such push, its sum is asked for already, or its group has ended.
    pub(crate) fn pull(
        &self,
        number: i32,
        epoch: Option<u32>,
        pull: impl FnOnce(Pushed) -> Result<Handle>,
    ) -> Result<()> {
        let mut table = lock(&self.0);
        let entry = table.entries.remove(&number);
        match entry {
            Some(Entry::Pushed(pushed, of)) => {
                table.n_unpulled = table.n_unpulled.saturating_sub(1);
                if epoch != Some(of) {
                    let text = format!("the group that push {number} was submitted to has ended");
                    return Err(Error::Remote(text));
                }
                let handle = pull(pushed)?;
                table.entries.insert(number, Entry::Pulled(handle));
                Ok(())
            }
            Some(entry) => {
                table.entries.insert(number, entry);
                Err(Error::InvalidUsage(format!("the sum of push {number} is asked for already")))
            }
            None => Err(Error::InvalidArgument(format!("there is no handle {number}"))),
        }
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
        let handle = match lock(&self.0).entries.get(&number) {
            Some(Entry::Pulled(handle)) => handle.clone(),
            Some(Entry::Pushed(..)) => {
                return Err(Error::InvalidUsage(format!("the sum of push {number} must be pulled first")));
            }
            None => return Err(Error::InvalidArgument(format!("there is no handle {number}"))),
        };
        let outcome = handle.wait();
        lock(&self.0).entries.remove(&number);
        outcome
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
