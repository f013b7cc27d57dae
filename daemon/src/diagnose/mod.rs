//! What the facts of a communicator mean: findings with lifetimes.
//!
//! Synchronous, takes `now` as an argument, does no I/O and cannot fail.

use std::collections::BTreeSet;

use crate::api;
use crate::clock::Timestamp;
use crate::model::{CommunicatorId, Model};

/// All findings, firing and resolved.
#[derive(Default)]
pub struct Diagnosis {}

impl Diagnosis {
    /// No finding yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes back what the store kept.
    pub fn restore(&mut self, _findings: Vec<api::Finding>) {}

    /// Judges the communicators that changed (all if `None`). Returns every finding that appeared, changed or was
    /// resolved.
    pub fn update(
        &mut self,
        _model: &Model,
        _changed: Option<&BTreeSet<CommunicatorId>>,
        _now: Timestamp,
    ) -> Vec<api::Finding> {
        Vec::new()
    }
}
