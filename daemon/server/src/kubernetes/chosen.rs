//! A container that is to be watched.

use serde_json::Value;

/// Which one of its pod's, and what it says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen<'p> {
    pub(super) index: usize,
    pub(super) name: &'p str,
    pub(super) container: &'p Value,
}
