//! Who is told how long things take in here, if somebody wants to know.

use std::fmt;
use std::time::Duration;

/// Takes one measured time.
pub type Observe = Box<dyn Fn(Duration) + Send + Sync>;

/// See the module.
pub struct Observers {
    /// How long somebody waited for the lock.
    pub lock_wait: Observe,
    /// How long the communicator that waits longest has changed and not been judged, at each look.
    pub judgement_lag: Observe,
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observers")
    }
}
