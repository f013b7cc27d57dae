//! Which segments, logs, notes and files of connections lie in the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::beneath::FileId;
use crate::connections::{Files, Owner};
use crate::log_folder;
use crate::run_file::{Log, log_name, run_id};

/// What lies in the folder.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) segments: BTreeSet<PathBuf>,
    pub(super) logs: BTreeMap<PathBuf, Log>,
    pub(super) runs: Vec<PathBuf>,
    pub(super) connections: Files,
}

impl Listing {
    /// Lists the folder.
    ///
    /// # Errors
    /// What was found before it could not be listed on, and why.
    pub(super) fn of(dir: &Path) -> Result<Self, (Self, io::Error)> {
        let mut listing = Self::default();
        match listing.fill(dir) {
            Ok(()) => Ok(listing),
            Err(error) => Err((listing, error)),
        }
    }

    fn fill(&mut self, dir: &Path) -> io::Result<()> {
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "seg") {
                self.segments.insert(path);
            } else if let Some(owner) = Owner::of(&path) {
                self.connections.add(owner, path);
            } else if let Some(name) = log_name(&path) {
                // Beside the segments, as older `ringscope run` left them: whose it is counts.
                if let Ok(owner) = log_folder::metadata(dir, &path).map(|log| FileId::of(&log).owner) {
                    self.logs.insert(path, Log { name, owner });
                }
            } else if run_id(&path).is_some() {
                self.runs.push(path);
            } else if let Some(name) = path.file_name().filter(|name| log_folder::is_named(name)) {
                folders.push(name.to_owned());
            }
        }
        self.logs.extend(log_folder::logs(dir, &folders));
        Ok(())
    }
}
