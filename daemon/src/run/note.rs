//! What `ringscope run` leaves beside the log, `run-<run_id>.json`, so that the agent knows whose a log is also where the
//! collector never came into the process, and which processes were started that have not called the library yet.

use std::io;
use std::path::{Path, PathBuf};

use ringscope_agent::procfs::{boot_id, own_start_ns};
use ringscope_api::clock::Timestamp;
use serde::Serialize;

use crate::config::LaunchNote;

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
    /// Whether who started it writes down how it ends: see [`Ending`].
    pub(crate) reaped: bool,
    #[serde(flatten)]
    launch: LaunchNote,
}

impl Note {
    /// A note of this process.
    pub(crate) fn new(
        job: Option<String>,
        command: Vec<String>,
        started_at: Timestamp,
        launch: LaunchNote,
    ) -> Self {
        let start_time_ns = own_start_ns();
        let pid = std::process::id();
        Self { job, command, started_at, pid, start_time_ns, boot_id: boot_id(), reaped: false, launch }
    }

    /// Writes it into the folder, so that no reader sees half of it.
    pub(crate) fn leave(&self, dir: &Path, run_id: &str) -> io::Result<()> {
        write(&path_in(dir, run_id), &serde_json::to_vec(self)?)
    }
}

/// How the process of a run ended, as who started it knows.
#[derive(Debug, Serialize)]
pub(crate) struct Ending {
    /// Exit status.
    pub(crate) status: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// When, nanoseconds since the Unix epoch.
    pub(crate) at_ns: u64,
    /// Why it was told to end before that: `failure`, `signal`, `launch_gone`, `workers_done`. `None`: it was not.
    pub(crate) told: Option<&'static str>,
    /// The signal that its launch was sent.
    pub(crate) told_signal: Option<i32>,
}

impl Ending {
    /// Writes it into the note of the run, if there is one.
    pub(crate) fn leave(&self, dir: &Path, run_id: &str) -> io::Result<()> {
        let path = path_in(dir, run_id);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text?,
        };
        let mut note: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&text)?;
        note.insert("ending".to_owned(), serde_json::to_value(self)?);
        write(&path, &serde_json::to_vec(&note)?)
    }
}

fn path_in(dir: &Path, run_id: &str) -> PathBuf {
    dir.join(format!("run-{run_id}.json"))
}

/// So that no reader sees half of it.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let left = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
    if left.is_err() {
        // Nothing of it, where there is no room.
        let _ = std::fs::remove_file(&temporary);
    }
    left
}

#[cfg(test)]
mod tests {
    use ringscope_agent::run_file::RunFile;
    use ringscope_wire::batch::Identity;

    use super::*;

    #[test]
    fn what_run_leaves_is_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let started_at: Timestamp = "2026-01-31T12:00:00.5Z".parse().unwrap();
        let command = vec!["/usr/bin/python3".to_owned(), "train.py".to_owned()];
        let variables = [
            ("RANK", "3"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("POD_NAME", "pod-3"),
            ("NODE_NAME", "n"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let launch = LaunchNote { host: "node1".into(), variables: variables.into() };
        let note = Note::new(Some("llama".into()), command, started_at, launch);
        note.leave(dir.path(), "0f3a").unwrap();
        let read = RunFile::read(dir.path(), "0f3a");
        assert_eq!((read.job.as_deref(), read.executable.as_deref()), (Some("llama"), Some("python3")));
        assert_eq!(
            (read.started_at, read.owner()),
            (Some(started_at), Some(rustix::process::getuid().as_raw()))
        );
        assert_eq!(read.boot_id.as_deref(), Some(boot_id()));
        let expected = Identity {
            host: "node1".into(),
            pid: std::process::id(),
            start_time_ns: own_start_ns().unwrap(),
            job: "llama".into(),
            global_rank: Some(3),
            world_size: Some(8),
            local_rank: Some(1),
            k8s_pod: "pod-3".into(),
            k8s_node: "n".into(),
            executable: "python3".into(),
            user: read.owner(),
            ..Identity::default()
        };
        assert_eq!(read.identity("machine", true), Some(expected));
        assert_eq!(read.identity("machine", false).unwrap().host, "machine");
        assert_eq!(RunFile::read(dir.path(), "0f3b"), RunFile::default());
    }
}
