//! What became of a file, as it is read.

use std::collections::BTreeMap;

use ringscope_api::{FileKind as Kind, ImportedFile};

/// What became of a file, so far.
pub(super) type FileReport = ImportedFile;

/// A file of which nothing has been read.
pub(super) fn begun(name: &str) -> FileReport {
    FileReport {
        file: name.to_owned(),
        kind: Kind::NotOfThese,
        bytes: 0,
        lines: 0,
        records: 0,
        unparsed: BTreeMap::new(),
        problem: None,
        seen: None,
    }
}

/// Counts a record that could not be read.
pub(super) fn note_unparsed(report: &mut FileReport, shape: &str) {
    let known = report.unparsed.contains_key(shape);
    let shape = if known || report.unparsed.len() < MAX_SHAPES { shape } else { "other" };
    *report.unparsed.entry(shape.to_owned()).or_default() += 1;
}

/// Told of the bytes read of a file so far, unpacked.
pub(super) type Progress<'p> = &'p mut dyn FnMut(u64);

/// Shapes of records that are told apart.
const MAX_SHAPES: usize = 64;
