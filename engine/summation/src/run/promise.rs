//! A handle whose work is not the group's alone: it is over when whoever promised it says so.

use super::group::Handle;
use super::requests::Ending;
use rsccl_collective::error::{Error, Result};

/// The other end of a [`Handle`].
#[derive(Debug)]
#[must_use = "whoever has the handle waits"]
pub(crate) struct Promise(Ending);

impl Promise {
    /// A handle, and what ends it.
    pub(crate) fn new() -> (Handle, Self) {
        let ending = Ending::default();
        (Handle(ending.clone()), Self(ending))
    }

    /// The work is over.
    pub(crate) fn keep(self, outcome: Result<()>) {
        self.0.set(outcome);
    }
}

impl Drop for Promise {
    /// Nobody waits for ever.
    fn drop(&mut self) {
        if self.0.poll().is_none() {
            self.0.set(Err(Error::Internal("a contribution was lost on its way".to_owned())));
        }
    }
}
