//! What the end-to-end tests stand on: a real daemon process, real ranks.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use ringscope_api::clock;
use ringscope_daemon::client::Client;
use ringscope_daemon::demo::host::PretendedHost;
use ringscope_daemon::demo::job::{Installation, Job, JobSpec};
use ringscope_daemon::embedded::{self, Library};
use rustix::process::{Pid, Signal, kill_process};

use super::{TempDir, free_port};

/// The command under test. Cargo names it to tests only, and a benchmark that shares this file does without.
pub const RINGSCOPE: &str = match option_env!("CARGO_BIN_EXE_ringscope") {
    Some(path) => path,
    None => "ringscope",
};

/// The version of NCCL that the engine behaves as under test: `RSCCL_FAITHFUL`, or what users have most.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests")]
pub fn faithful() -> String {
    std::env::var("RSCCL_FAITHFUL").unwrap_or_else(|_| "2.28".to_owned())
}

/// A process that is killed with the value.
pub struct Process {
    pub child: Child,
    name: String,
}

impl Process {
    /// Starts a command whose stderr goes to `log`.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let name = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self { child: command.spawn().unwrap_or_else(|error| panic!("{name}: {error}")), name }
    }

    /// SIGKILL, and wait until the process is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        self.child.wait().unwrap();
    }

    /// SIGTERM, and the exit status; panics if that takes longer than `patience`.
    pub fn terminate(&mut self, patience: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait(patience)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The exit status; panics if it takes longer than `patience`.
    pub fn wait(&mut self, patience: Duration) -> ExitStatus {
        let clock = clock::monotonic();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(clock.elapsed() < patience, "{} does not end within {patience:?}", self.name);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with everything that a daemon and its jobs need.
pub struct Stage {
    pub dir: TempDir,
    pub segment_dir: TempDir,
    pub port: u16,
    pub database_url: Option<String>,
}

impl Stage {
    pub fn new(name: &str) -> Self {
        let segment_dir = TempDir::new_in(Path::new("/dev/shm"), name);
        Self { dir: TempDir::new(name), segment_dir, port: free_port(), database_url: None }
    }

    /// `ringscope serve`; with its own agent or without.
    pub fn serve(&self, with_agent: bool) -> Process {
        let mut command = Command::new(RINGSCOPE);
        command.arg("serve").args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        command.arg("--data-dir").arg(self.dir.0.join("data")).arg("--agent-dir").arg(&self.segment_dir.0);
        if let Some(url) = &self.database_url {
            command.args(["--database-url", url]);
        }
        // Its jobs count themselves to the hosts that they pretend.
        command.args(["--agent-other-hosts", "true"]);
        if !with_agent {
            command.args(["--with-agent", "false"]);
        }
        Process::start(&mut command, &self.dir.0.join("serve.log"))
    }

    /// `ringscope agent`, a process of its own.
    pub fn agent(&self) -> Process {
        let mut command = Command::new(RINGSCOPE);
        command.arg("agent").args(["--daemon", &self.url()]).arg("--dir").arg(&self.segment_dir.0);
        command.arg("--state-dir").arg(self.dir.0.join("agent")).arg("--allow-other-hosts");
        Process::start(&mut command, &self.dir.0.join("agent.log"))
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url())
    }

    pub fn installation(&self) -> Installation {
        let cache_dir = self.dir.0.join("libraries");
        let engine = embedded::path_of(Library::Engine, &cache_dir).unwrap();
        Installation {
            ringscope: RINGSCOPE.into(),
            engine,
            segment_dir: self.segment_dir.0.clone(),
            cache_dir,
            faithful: faithful(),
        }
    }

    pub fn hosts(&self, n: usize) -> Vec<PretendedHost> {
        (0..n).map(|index| PretendedHost::create(&self.dir.0.join("hosts"), index).unwrap()).collect()
    }

    /// A job of `hosts` × `ranks_per_host` ranks that steps as fast as it can.
    pub fn job(&self, name: &str, hosts: &[PretendedHost], ranks_per_host: usize) -> Job {
        self.job_as(&faithful(), name, hosts, ranks_per_host)
    }

    /// The same on an engine that behaves as this version of NCCL, or as none: `off`.
    pub fn job_as(&self, faithful: &str, name: &str, hosts: &[PretendedHost], ranks_per_host: usize) -> Job {
        let spec = JobSpec {
            name: name.to_owned(),
            hosts: hosts.to_vec(),
            ranks_per_host,
            environment: Vec::new(),
            step_ms: 5,
        };
        let installation = Installation { faithful: faithful.to_owned(), ..self.installation() };
        Job::start(&spec, &installation, &self.dir.0.join("jobs")).unwrap()
    }

    /// What the daemon and the ranks wrote to stderr, for the message of a failed test.
    pub fn words(&self) -> String {
        let mut words = String::new();
        for folder in [self.dir.0.clone(), self.dir.0.join("jobs")] {
            collect_words(&folder, &mut words);
        }
        words
    }
}

fn collect_words(folder: &Path, words: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.parent().is_some_and(|parent| parent.ends_with("jobs")) {
            collect_words(&path, words);
        }
        if path.extension().is_some_and(|extension| extension == "log" || extension == "stderr") {
            let Ok(file) = std::fs::File::open(&path) else { continue };
            let lines: Vec<String> = BufReader::new(file).lines().map_while(Result::ok).collect();
            let tail = lines.len().saturating_sub(20);
            words.push_str(&format!("--- {}\n{}\n", path.display(), lines[tail..].join("\n")));
        }
    }
}
