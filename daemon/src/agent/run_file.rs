//! The names and the side file that `ringscope run` leaves: `nccl-<run_id>-<host>-<pid>.log` and `run-<run_id>.json`.

use std::io::Read as _;
use std::path::Path;

use crate::clock::Timestamp;

/// A side file is no longer: a job's name and a command line.
const MAX_BYTES: u64 = 64 << 10;

/// What the name of a private log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogName {
    pub(super) run_id: String,
    /// As NCCL cuts it: before the first dot.
    pub(super) host: String,
    pub(super) pid: u32,
}

/// Reads the name of a private log. `None`: it is none.
pub(super) fn log_name(path: &Path) -> Option<LogName> {
    let name = path.file_name()?.to_str()?.strip_prefix("nccl-")?.strip_suffix(".log")?;
    // A host's name may have dashes, an id and a number have none.
    let (run_id, rest) = name.split_once('-')?;
    let (host, pid) = rest.rsplit_once('-')?;
    if run_id.is_empty() || host.is_empty() {
        return None;
    }
    Some(LogName { run_id: run_id.to_owned(), host: host.to_owned(), pid: pid.parse().ok()? })
}

/// The run that a side file belongs to. `None`: it is none.
pub(super) fn run_id(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix("run-")?.strip_suffix(".json")
}

/// What `ringscope run` wrote down. What is missing or of another shape is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunFile {
    pub(super) job: Option<String>,
    /// Name of the program.
    pub(super) executable: Option<String>,
    pub(super) started_at: Option<Timestamp>,
}

impl RunFile {
    /// Reads the side file of a run; empty if there is none that can be read.
    pub(super) fn read(dir: &Path, run_id: &str) -> Self {
        let mut text = String::new();
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
        let path = dir.join(format!("run-{run_id}.json"));
        let file = std::os::unix::fs::OpenOptionsExt::custom_flags(&mut std::fs::OpenOptions::new(), flags)
            .read(true)
            .open(path);
        let read = file.and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        read.map_or_else(|_| Self::default(), |_| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let command = &value["command"];
        let program = command.as_str().or_else(|| command.get(0)?.as_str());
        let executable = program.and_then(|program| Path::new(program).file_name()?.to_str());
        Self {
            job: value["job"].as_str().filter(|job| !job.is_empty()).map(ToOwned::to_owned),
            executable: executable.map(ToOwned::to_owned),
            started_at: value["started_at"].as_str().and_then(|time| time.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run::note::Note;

    #[test]
    fn names_are_taken_apart() {
        let check = |name: &str, expected: Option<(&str, &str, u32)>| {
            let found = log_name(Path::new(name));
            let found = found.as_ref().map(|name| (name.run_id.as_str(), name.host.as_str(), name.pid));
            assert_eq!(found, expected, "{name}");
        };
        check("/x/nccl-0f3a-gpu-node-7-4711.log", Some(("0f3a", "gpu-node-7", 4711)));
        check("nccl-0f3a-n-1.log", Some(("0f3a", "n", 1)));
        check("nccl-0f3a-%h-%p.log", None);
        check("nccl-0f3a-1.log", None);
        check("nccl.log", None);
        check("4711-77.seg", None);
    }

    #[test]
    fn what_run_leaves_is_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let started_at: Timestamp = "2026-01-31T12:00:00.5Z".parse().unwrap();
        let command = vec!["/usr/bin/python3".to_owned(), "train.py".to_owned()];
        Note { job: Some("llama".into()), command, started_at }.leave(dir.path(), "0f3a").unwrap();
        let expected = RunFile {
            job: Some("llama".into()),
            executable: Some("python3".into()),
            started_at: Some(started_at),
        };
        assert_eq!(RunFile::read(dir.path(), "0f3a"), expected);
        assert_eq!(RunFile::read(dir.path(), "0f3b"), RunFile::default());
    }

    #[test]
    fn side_files_are_read_as_far_as_they_go() {
        let whole = RunFile {
            job: Some("llama".into()),
            executable: Some("python3".into()),
            started_at: "2026-01-31T12:00:00Z".parse().ok(),
        };
        let command =
            r#"{"job":"llama","command":["/usr/bin/python3","x.py"],"started_at":"2026-01-31T12:00:00Z"}"#;
        assert_eq!(RunFile::parse(command), whole);
        for text in ["", "7", "[]", r#"{"job":null,"command":[]}"#, r#"{"job":""}"#, r#"{"job":"#] {
            assert_eq!(RunFile::parse(text), RunFile::default(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = RunFile::parse(&text);
            let _ = log_name(Path::new(&text));
        }
    }
}
