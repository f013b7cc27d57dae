//! What has been read of all files, before it is joined.

use std::collections::BTreeSet;

use super::flight;
use super::inspector::Inspected;
use super::ras;
use super::xml::Xml;
use crate::api::ImportedFile;
use crate::clock::Timestamp;
use crate::nccl_log::NcclLog;

/// The facts of all files of one import. A time of 0 is not known.
#[derive(Default)]
pub struct Gathered {
    pub(super) files: Vec<ImportedFile>,
    /// Logs, each with the file and when it was last written to.
    pub(super) logs: Vec<(String, Timestamp, NcclLog)>,
    pub(super) inspector: Inspected,
    pub(super) ras: Vec<(String, Timestamp, ras::Dump)>,
    pub(super) xml: Vec<(String, Xml)>,
    /// Hashes of the answers of RAS.
    pub(super) documents: BTreeSet<u64>,
    pub(super) flight: Vec<(String, Timestamp, flight::Dump)>,
}

impl Gathered {
    /// Nothing read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What became of each file.
    #[must_use]
    pub fn files(&self) -> &[ImportedFile] {
        &self.files
    }
}
