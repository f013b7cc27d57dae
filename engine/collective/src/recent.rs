//! What a thread has found last by a handle, so that the same call again takes no lock that threads share.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::LocalKey;

/// How often a table has changed: what was found before a change is looked up again.
#[derive(Debug, Default)]
pub(crate) struct Version(AtomicU64);

/// The last find of a thread. It keeps nothing alive.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    handle: usize,
    version: u64,
    found: Weak<T>,
}

/// A thread's place for its last find.
pub(crate) type Place<T> = RefCell<Option<Recent<T>>>;

impl Version {
    /// Of a table that is new.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The table is being changed, by who holds its lock.
    pub(crate) fn change(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// What `handle` stands for: what this thread has found last, if the table has not changed since, or else what
    /// `look_up` finds.
    pub(crate) fn find<T, E>(
        &self,
        place: &'static LocalKey<Place<T>>,
        handle: usize,
        look_up: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E> {
        let version = self.0.load(Ordering::Acquire);
        let known = |recent: &Recent<T>| (recent.handle, recent.version) == (handle, version);
        let kept = |place: &Place<T>| place.borrow().as_ref().filter(|last| known(last))?.found.upgrade();
        // At a thread's end there is no place any more.
        if let Ok(Some(found)) = place.try_with(kept) {
            return Ok(found);
        }
        let found = look_up()?;
        let recent = Recent { handle, version, found: Arc::downgrade(&found) };
        let _ = place.try_with(|place| place.replace(Some(recent)));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static LAST: Place<u32> = const { RefCell::new(None) };
    }

    #[test]
    fn only_another_handle_a_change_and_the_end_are_looked_up() {
        let version = Version::new();
        let value = Arc::new(7);
        let find = |handle| {
            let mut looked_up = false;
            let found = version.find(&LAST, handle, || {
                looked_up = true;
                Ok::<_, ()>(Arc::clone(&value))
            });
            assert_eq!(found, Ok(Arc::new(7)));
            looked_up
        };
        assert!(find(1) && !find(1) && find(2) && find(1) && !find(1));
        version.change();
        assert!(find(1) && !find(1));
        assert_eq!(Arc::strong_count(&value), 1, "what is found is not kept alive");
        drop(value);
        assert_eq!(version.find(&LAST, 1, || Err(3)), Err(3));
    }
}
