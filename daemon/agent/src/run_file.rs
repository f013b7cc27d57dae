//! The names and the side file that `ringscope run` leaves: `nccl-<run_id>-<host>-<pid>.log` and `run-<run_id>.json`.

use std::io::Read as _;
use std::path::Path;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::Identity;
use ringscope_wire::launch::{Launch, Scheduled};

use super::beneath::{FileId, own_folder};
use super::ending::Ending;
use super::foreign::clean;
use super::regular;
use super::scheduled;

/// A side file is no longer: a job's name and a command line.
pub const MAX_BYTES: u64 = 64 << 10;

/// What the name of a private log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogName {
    pub(super) run_id: String,
    /// As NCCL cuts it: before the first dot.
    pub(super) host: String,
    pub(super) pid: u32,
}

/// A private log, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) name: LogName,
    pub(super) owner: u32,
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
pub struct RunFile {
    /// Job id, as the collector would take it.
    pub job: Option<String>,
    /// Name of the program.
    pub executable: Option<String>,
    /// When the command was started.
    pub started_at: Option<Timestamp>,
    /// Number of the process as it knows itself.
    pub pid: Option<u32>,
    /// When it started, nanoseconds since the Unix epoch.
    pub start_time_ns: Option<u64>,
    /// The boot in which it did.
    pub boot_id: Option<String>,
    /// Host that it counts itself to.
    pub host: Option<String>,
    /// Whether who started it writes down how it ends.
    pub(super) is_reaped: bool,
    /// How it ended.
    pub ending: Option<Ending>,
    /// What its launcher and its scheduler said.
    launch: Launch,
    /// Which file it is, and so which user's.
    pub(super) file: Option<FileId>,
}

/// Longest texts, as a segment has room for them.
const MAX_TEXT: usize = 128;
const MAX_SHORT_TEXT: usize = 64;
const MAX_LONG_TEXT: usize = 256;

impl RunFile {
    /// Reads the side file of a run; empty if there is none that can be read.
    pub fn read(dir: &Path, run_id: &str) -> Self {
        let read = || {
            let mut text = String::new();
            let file = regular::open_in(own_folder(dir)?, format!("run-{run_id}.json"), |_| Ok(()))?;
            let id = FileId::of(&file.metadata()?);
            file.take(MAX_BYTES).read_to_string(&mut text)?;
            Ok::<_, std::io::Error>(Self { file: Some(id), ..Self::parse(&text) })
        };
        read().unwrap_or_default()
    }

    /// The same, if it is this user's: nobody says anything of another's run.
    pub(super) fn read_of(dir: &Path, run_id: &str, owner: u32) -> Self {
        let read = Self::read(dir, run_id);
        if read.owner() == Some(owner) { read } else { Self::default() }
    }

    /// User whose file it is.
    pub fn owner(&self) -> Option<u32> {
        self.file.map(|file| file.owner)
    }

    /// What it says of a process of the run: which process was started, of that one alone.
    pub(super) fn of(self, pid: u32) -> Self {
        if self.pid == Some(pid) { self } else { Self { pid: None, ..self } }
    }

    /// Who the process is, as its segment would say; `None` if the file does not say which process it is.
    pub fn identity(&self, machine: &str, other_hosts: bool) -> Option<Identity> {
        let (pid, start_time_ns) = (self.pid?, self.start_time_ns?);
        let host = self.host.clone().filter(|_| other_hosts).unwrap_or_else(|| machine.to_owned());
        let job = self.job.clone().unwrap_or_else(|| format!("pid-{pid}@{host}"));
        Some(Identity {
            host,
            pid,
            start_time_ns,
            job,
            global_rank: self.launch.global_rank,
            world_size: self.launch.world_size,
            local_rank: self.launch.local_rank,
            executable: self.executable.clone().unwrap_or_default(),
            user: self.owner(),
            ..scheduled::told(&self.launch.scheduled)
        })
    }

    fn parse(text: &str) -> Self {
        let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let command = &value["command"];
        let program = command.as_str().or_else(|| command.get(0)?.as_str());
        let executable = program.and_then(|program| Path::new(program).file_name()?.to_str());
        let text = |name: &str, max_bytes: usize| {
            value[name].as_str().map(|text| clean(text, max_bytes)).filter(|text| !text.is_empty())
        };
        let number = |name: &str| value[name].as_u64().and_then(|number| u32::try_from(number).ok());
        Self {
            job: text("job", MAX_TEXT),
            executable: executable.map(|name| clean(name, MAX_SHORT_TEXT)),
            started_at: value["started_at"].as_str().and_then(|time| time.parse().ok()),
            pid: number("pid"),
            start_time_ns: value["start_time_ns"].as_u64(),
            boot_id: text("boot_id", MAX_SHORT_TEXT),
            host: text("host", MAX_TEXT),
            is_reaped: value["reaped"].as_bool().unwrap_or_default(),
            ending: Ending::parse(&value["ending"]),
            launch: launch(&value),
            file: None,
        }
    }
}

/// Out of the variables that a note has; older releases have left what they made of them.
fn launch(value: &serde_json::Value) -> Launch {
    if value["variables"].is_object() {
        return Launch::of(&|name| Some(clean(value["variables"][name].as_str()?, MAX_LONG_TEXT)));
    }
    let number = |name: &str| value[name].as_u64().and_then(|number| u32::try_from(number).ok());
    let text = |name: &str| clean(value[name].as_str().unwrap_or_default(), MAX_TEXT);
    Launch {
        global_rank: number("global_rank"),
        world_size: number("world_size"),
        local_rank: number("local_rank"),
        scheduled: Scheduled {
            k8s_namespace: text("k8s_namespace"),
            k8s_pod: text("k8s_pod"),
            ..Scheduled::default()
        },
        ..Launch::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
    fn side_files_are_read_as_far_as_they_go() {
        let whole = RunFile {
            job: Some("llama".into()),
            executable: Some("python3".into()),
            started_at: "2026-01-31T12:00:00Z".parse().ok(),
            ..RunFile::default()
        };
        let command =
            r#"{"job":"llama","command":["/usr/bin/python3","x.py"],"started_at":"2026-01-31T12:00:00Z"}"#;
        assert_eq!(RunFile::parse(command), whole);
        for text in ["", "7", "[]", r#"{"job":null,"command":[]}"#, r#"{"job":""}"#, r#"{"job":"#] {
            assert_eq!(RunFile::parse(text), RunFile::default(), "{text}");
        }
    }

    #[test]
    fn notes_of_older_releases_keep_their_ranks() {
        let note = r#"{"job":"llama","pid":7,"start_time_ns":9,"host":"n1","global_rank":3,"world_size":8,
            "local_rank":1,"k8s_namespace":"team","k8s_pod":"pod-3"}"#;
        let identity = RunFile::parse(note).identity("machine", true).unwrap();
        assert_eq!(
            (identity.global_rank, identity.world_size, identity.local_rank),
            (Some(3), Some(8), Some(1))
        );
        assert_eq!((&*identity.k8s_namespace, &*identity.k8s_pod), ("team", "pod-3"));
        let newer = RunFile::parse(r#"{"pid":7,"start_time_ns":9,"global_rank":3,"variables":{"RANK":"4"}}"#);
        assert_eq!(newer.identity("machine", true).unwrap().global_rank, Some(4));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = RunFile::parse(&text);
            let _ = log_name(Path::new(&text));
        }
    }
}
