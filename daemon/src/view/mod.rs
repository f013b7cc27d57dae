//! The model and the findings as the objects of the REST API. Pure functions; every list has a stable order.

use crate::api;
use crate::clock::Timestamp;
use crate::diagnose::Diagnosis;
use crate::model::Model;

/// Which communicators to list. A field that is `None` admits all.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of api::CommunicatorSummary")]
pub struct CommunicatorFilter {
    pub job: Option<String>,
    /// A host that has a rank in it.
    pub host: Option<String>,
    pub degraded: Option<bool>,
    pub state: Option<api::CommunicatorState>,
}

/// Which findings to list. A field that is `None` admits all.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of api::Finding")]
pub struct FindingFilter {
    pub state: Option<api::FindingState>,
    /// At least this severity.
    pub severity: Option<api::Severity>,
    pub job: Option<String>,
    pub host: Option<String>,
    pub comm: Option<String>,
    pub kind: Option<api::FindingKind>,
}

/// Every job, by id.
#[must_use]
pub fn jobs(_model: &Model, _diagnosis: &Diagnosis, _now: Timestamp) -> Vec<api::Job> {
    Vec::new()
}

/// One job.
#[must_use]
pub fn job(_model: &Model, _diagnosis: &Diagnosis, _now: Timestamp, _id: &str) -> Option<api::Job> {
    None
}

/// The communicators that the filter admits, newest first.
#[must_use]
pub fn communicators(
    _model: &Model,
    _diagnosis: &Diagnosis,
    _now: Timestamp,
    _filter: &CommunicatorFilter,
) -> Vec<api::CommunicatorSummary> {
    Vec::new()
}

/// One communicator with its ranks.
#[must_use]
pub fn communicator(
    _model: &Model,
    _diagnosis: &Diagnosis,
    _now: Timestamp,
    _id: &str,
) -> Option<api::CommunicatorDetail> {
    None
}

/// The rings of a communicator.
#[must_use]
pub fn rings(_model: &Model, _diagnosis: &Diagnosis, _now: Timestamp, _id: &str) -> Option<api::Rings> {
    None
}

/// The counters of a communicator.
#[must_use]
pub fn primitives(
    _model: &Model,
    _diagnosis: &Diagnosis,
    _now: Timestamp,
    _id: &str,
) -> Option<api::Primitives> {
    None
}

/// The operations of a communicator in one state (all if `None`), oldest first.
#[must_use]
pub fn operations(
    _model: &Model,
    _diagnosis: &Diagnosis,
    _now: Timestamp,
    _id: &str,
    _state: Option<api::OperationState>,
) -> Option<Vec<api::Operation>> {
    None
}

/// Every host, by name.
#[must_use]
pub fn hosts(_model: &Model, _diagnosis: &Diagnosis, _now: Timestamp) -> Vec<api::HostSummary> {
    Vec::new()
}

/// One host.
#[must_use]
pub fn host(_model: &Model, _diagnosis: &Diagnosis, _now: Timestamp, _name: &str) -> Option<api::HostDetail> {
    None
}

/// The findings that the filter admits: firing first, worst first, newest first.
#[must_use]
pub fn findings(
    _model: &Model,
    _diagnosis: &Diagnosis,
    _now: Timestamp,
    _filter: &FindingFilter,
) -> Vec<api::Finding> {
    Vec::new()
}
