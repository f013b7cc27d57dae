//! What `ringscope run` leaves beside the log, `run-<run_id>.json`, so that the agent knows whose a log is also where the
//! collector never came into the process, and which processes were started that have not called the library yet.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ringscope_agent::procfs::{boot_id, own_start_ns};
use ringscope_agent::run_file::MAX_BYTES;
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
    /// Why it was told to end before that, in the words of [`ringscope_agent::ending::cause_name`]. `None`: it was not.
    pub(crate) told: Option<&'static str>,
    /// The signal that its launch was sent.
    pub(crate) told_signal: Option<i32>,
}

impl Ending {
    /// Writes it into the note of the run, if there is one.
    pub(crate) fn leave(&self, dir: &Path, run_id: &str) -> io::Result<()> {
        let path = path_in(dir, run_id);
        let text = match read_own(&path) {
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

/// Reads this user's note. In a folder that is everybody's, anything of anybody's may have its name: nothing of that is waited for.
fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let is_own = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    // No agent reads a longer one.
    if !is_own || metadata.len() > MAX_BYTES {
        return Err(io::Error::other(format!("{} is no note of this user's", path.display())));
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// So that no reader sees half of it, and into a file of its own.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    let left = file.write_all(text).and_then(|()| std::fs::rename(&temporary, path));
    if left.is_err() {
        // Nothing of it, where there is no room.
        let _ = std::fs::remove_file(&temporary);
    }
    left
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ringscope_agent::ending::cause_name;
    use ringscope_agent::run_file::RunFile;
    use ringscope_wire::batch::launch_end::Cause;
    use ringscope_wire::batch::{Identity, LaunchEnd};

    use super::*;

    fn nowhere() -> LaunchNote {
        LaunchNote { host: String::new(), variables: BTreeMap::new() }
    }

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

    #[test]
    fn how_it_ended_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let note = Note::new(None, vec!["x".to_owned()], Timestamp(1), nowhere());
        note.leave(dir.path(), "0f3a").unwrap();
        for cause in [Cause::Failure, Cause::Signal, Cause::LaunchGone, Cause::WorkersDone] {
            let told = cause_name(cause);
            let ending = Ending { status: None, signal: Some(15), at_ns: 7, told, told_signal: Some(2) };
            ending.leave(dir.path(), "0f3a").unwrap();
            let read = RunFile::read(dir.path(), "0f3a");
            assert_eq!((read.pid, read.boot_id.as_deref()), (Some(std::process::id()), Some(boot_id())));
            let ended = read.ending.unwrap();
            assert_eq!((ended.status, ended.signal, ended.at_ns), (None, Some(15), 7));
            assert_eq!(ended.told, Some(LaunchEnd { cause: cause.into(), signal: 2 }));
        }
    }

    #[test]
    fn what_others_have_put_in_its_place_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let path = dir.path().join(name);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        };
        let ending = Ending { status: Some(0), signal: None, at_ns: 7, told: None, told_signal: None };
        let note = || Note::new(None, vec!["x".to_owned()], Timestamp(1), nowhere());
        pipe("run-a.json");
        assert!(ending.leave(dir.path(), "a").is_err());
        pipe("run-b.tmp");
        assert!(note().leave(dir.path(), "b").is_err());
        let long = vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1];
        std::fs::write(dir.path().join("run-c.json"), long).unwrap();
        assert!(ending.leave(dir.path(), "c").is_err());
        assert!(ending.leave(dir.path(), "none").is_ok(), "nothing is watched");
    }
}
