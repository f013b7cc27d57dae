//! What became of a file, as it is read.

use std::collections::BTreeMap;

use crate::api::{FileKind as Kind, ImportedFile};

/// What became of a file, so far.
pub(super) type FileReport = ImportedFile;

impl ImportedFile {
    pub(super) fn new(name: &str) -> Self {
        Self {
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
    pub(super) fn note_unparsed(&mut self, shape: &str) {
        let known = self.unparsed.contains_key(shape);
        let shape = if known || self.unparsed.len() < MAX_SHAPES { shape } else { "other" };
        *self.unparsed.entry(shape.to_owned()).or_default() += 1;
    }
}

/// Told of the bytes read of a file so far, unpacked.
pub(super) type Progress<'p> = &'p mut dyn FnMut(u64);

/// Shapes of records that are told apart.
const MAX_SHAPES: usize = 64;
