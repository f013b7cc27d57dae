//! Asks a group's thread, from any other.

use std::sync::Arc;
use std::time::Duration;

use super::report::Report;
use super::requests::Requests;

/// Of one generation.
#[derive(Clone, Debug)]
pub(crate) struct Probe(pub(super) Arc<Requests>);

impl Probe {
    /// What the thread says; nothing if it says nothing for this long.
    pub(crate) fn ask(&self, most: Duration) -> Option<Report> {
        self.0.asked().ask(|| self.0.wake_driver(), most)
    }
}
