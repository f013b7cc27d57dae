//! What has been read of all files, before it is joined.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::ImportedFile;
use ringscope_api::clock::Timestamp;
use ringscope_api::words::plural;
use ringscope_logs::nccl_log::NcclLog;

use super::inspector::Inspected;
use super::xml::Xml;
use super::{calls, flight, ras};

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
    /// What was not even opened, in words.
    pub left_out: Vec<String>,
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

    /// Leaves out all dumps of a rank but the newest, for the calls of two runs together are those of none. In words, which
    /// they are.
    pub(super) fn keep_newest_dumps(&mut self) -> Option<String> {
        let mut newest: BTreeMap<u32, (Timestamp, Timestamp, usize)> = BTreeMap::new();
        for (index, (_, at, dump)) in self.flight.iter().enumerate() {
            let Some(rank) = dump.rank else { continue };
            let this = (calls::newest(dump), *at, index);
            let known = newest.entry(rank).or_insert(this);
            *known = this.max(*known);
        }
        let newest: BTreeSet<usize> = newest.into_values().map(|(_, _, index)| index).collect();
        let all = std::mem::take(&mut self.flight).into_iter().enumerate();
        let (kept, older): (Vec<_>, Vec<_>) = all.partition(|(index, _)| newest.contains(index));
        self.flight = kept.into_iter().map(|(_, dump)| dump).collect();
        let names: BTreeSet<&str> = older.iter().map(|(_, (file, ..))| file.as_str()).collect();
        for report in self.files.iter_mut().filter(|report| names.contains(report.file.as_str())) {
            report.seen = Some("left out, for the newest dump of a rank counts".to_owned());
        }
        let first = names.first()?;
        let n = plural(older.len(), "dump");
        Some(format!("{n} left out, as {first}: of several dumps of a rank the newest counts"))
    }
}
