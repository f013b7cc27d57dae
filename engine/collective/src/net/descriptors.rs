//! Descriptors: a communicator has some for each of its ranks, and a process may have 1024 by default.

use std::sync::Once;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many files as it may be allowed: the soft limit becomes the hard one, as in NCCL
/// (`setFilesLimit` in `bootstrap.cc`). Once, so that a limit that is set later stays.
pub(crate) fn raise_limit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Refused: then the error of what cannot be opened says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    });
}
