//! What to tell subscribers, gathered until it is told.

use std::collections::BTreeSet;

use ringscope_api as api;
use ringscope_model::CommunicatorId;
use ringscope_model::summation::GroupId;

/// Changes that nobody was told of yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    version: u64,
    any: bool,
    communicators: BTreeSet<CommunicatorId>,
    summations: BTreeSet<GroupId>,
    findings: bool,
    incidents: bool,
}

impl Pending {
    pub(super) fn communicators(&mut self, changed: &BTreeSet<CommunicatorId>) {
        self.any = true;
        let room = COMMUNICATORS_MAX.saturating_sub(self.communicators.len());
        self.communicators.extend(changed.iter().take(room));
    }

    pub(super) fn summations(&mut self, changed: &BTreeSet<GroupId>) {
        let room = SUMMATIONS_MAX.saturating_sub(self.summations.len());
        self.summations.extend(changed.iter().take(room));
    }

    pub(super) fn hardware(&mut self) {
        self.any = true;
    }

    pub(super) fn findings(&mut self) {
        self.any = true;
        self.findings = true;
    }

    pub(super) fn incidents(&mut self) {
        self.any = true;
        self.incidents = true;
    }

    /// What changed since the last call, if anything did.
    pub(super) fn take(&mut self) -> Option<api::Changed> {
        if !std::mem::take(&mut self.any) {
            return None;
        }
        self.version += 1;
        let communicators = std::mem::take(&mut self.communicators);
        let summations = std::mem::take(&mut self.summations);
        Some(api::Changed {
            version: self.version,
            communicators: communicators.iter().map(ToString::to_string).collect(),
            summations: summations.iter().map(ToString::to_string).collect(),
            findings: std::mem::take(&mut self.findings),
            incidents: std::mem::take(&mut self.incidents),
        })
    }
}

/// As [`api::Changed`] promises.
const COMMUNICATORS_MAX: usize = 256;
/// The same.
const SUMMATIONS_MAX: usize = 256;
