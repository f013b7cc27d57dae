//! What `ringscope run` leaves beside the log, `run-<run_id>.json`, so that the agent knows whose a log is also where the
//! collector never came into the process, and which processes were started that have not called the library yet.

use std::io;
use std::path::Path;

use serde::Serialize;

use crate::agent::procfs::{boot_id, own_start_ns};
use crate::clock::Timestamp;
use crate::config::Launch;

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct Note {
    /// Job id, as the collector would take it.
    pub(crate) job: Option<String>,
    /// The command and its arguments.
    pub(crate) command: Vec<String>,
    /// When it was started.
    pub(crate) started_at: Timestamp,
    /// This process, which becomes the command: its number as it knows itself ...
    pid: u32,
    /// ... when it started, as the collector will say, nanoseconds since the Unix epoch ...
    start_time_ns: Option<u64>,
    /// ... and the boot in which it did.
    boot_id: &'static str,
    #[serde(flatten)]
    launch: Launch,
}

impl Note {
    /// A note of this process.
    pub(crate) fn new(
        job: Option<String>,
        command: Vec<String>,
        started_at: Timestamp,
        launch: Launch,
    ) -> Self {
        let start_time_ns = own_start_ns();
        Self { job, command, started_at, pid: std::process::id(), start_time_ns, boot_id: boot_id(), launch }
    }

    /// Writes it into the folder, so that no reader sees half of it.
    pub(crate) fn leave(&self, dir: &Path, run_id: &str) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let path = dir.join(format!("run-{run_id}.json"));
        let temporary = path.with_extension("tmp");
        let left = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
        if left.is_err() {
            // Nothing of it, where there is no room.
            let _ = std::fs::remove_file(&temporary);
        }
        left
    }
}
