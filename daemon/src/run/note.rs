//! What `ringscope run` leaves beside the log, `run-<run_id>.json`, so that the agent knows whose a log is also where the
//! collector never came into the process.

use std::io;
use std::path::Path;

use serde::Serialize;

use crate::clock::Timestamp;

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct Note {
    /// Job id, as the collector would take it.
    pub(crate) job: Option<String>,
    /// The command and its arguments.
    pub(crate) command: Vec<String>,
    /// When it was started.
    pub(crate) started_at: Timestamp,
}

impl Note {
    /// Writes it into the folder, so that no reader sees half of it.
    pub(crate) fn leave(&self, dir: &Path, run_id: &str) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let path = dir.join(format!("run-{run_id}.json"));
        let temporary = path.with_extension("tmp");
        std::fs::write(&temporary, text)?;
        std::fs::rename(temporary, path)
    }
}
