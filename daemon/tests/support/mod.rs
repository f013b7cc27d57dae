//! What the end-to-end tests stand on: a real daemon process, real ranks, a way to wait for what must come true.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod totals;

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringscope_daemon::client::Client;
use ringscope_daemon::clock;
use ringscope_daemon::demo::host::PretendedHost;
use ringscope_daemon::demo::job::{Installation, Job, JobSpec};
use ringscope_daemon::embedded::{self, Library};

/// The command under test.
pub(crate) const RINGSCOPE: &str = env!("CARGO_BIN_EXE_ringscope");

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A folder that is removed with the value.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("ringscope-test-{name}-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port below the ephemeral range that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let start = 20_000 + u16::try_from(std::process::id() % 9_000).unwrap();
    (start..32_000)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .unwrap_or_else(|| panic!("no free port between {start} and 32000"))
}

/// A process that is killed with the value.
pub(crate) struct Process {
    pub(crate) child: Child,
    name: String,
}

impl Process {
    /// Starts a command whose stderr goes to `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Self {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let name = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self { child: command.spawn().unwrap_or_else(|error| panic!("{name}: {error}")), name }
    }

    /// SIGKILL, and wait until the process is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        self.child.wait().unwrap();
    }

    /// SIGTERM, and the exit status; panics if that takes longer than `patience`.
    pub(crate) fn terminate(&mut self, patience: Duration) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let clock = clock::monotonic();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(clock.elapsed() < patience, "{} does not end within {patience:?} of SIGTERM", self.name);
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
pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) segment_dir: TempDir,
    pub(crate) port: u16,
    pub(crate) database_url: Option<String>,
}

impl Stage {
    pub(crate) fn new(name: &str) -> Self {
        let segment_dir =
            TempDir(Path::new("/dev/shm").join(format!("ringscope-test-{}", uuid::Uuid::new_v4().simple())));
        std::fs::create_dir_all(&segment_dir.0).unwrap();
        Self { dir: TempDir::new(name), segment_dir, port: free_port(), database_url: None }
    }

    /// `ringscope serve`; with its own agent or without.
    pub(crate) fn serve(&self, with_agent: bool) -> Process {
        let mut command = Command::new(RINGSCOPE);
        command.arg("serve").args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        command.arg("--data-dir").arg(self.dir.0.join("data")).arg("--agent-dir").arg(&self.segment_dir.0);
        if let Some(url) = &self.database_url {
            command.args(["--database-url", url]);
        }
        if !with_agent {
            command.args(["--with-agent", "false"]);
        }
        Process::start(&mut command, &self.dir.0.join("serve.log"))
    }

    /// `ringscope agent`, a process of its own.
    pub(crate) fn agent(&self) -> Process {
        let mut command = Command::new(RINGSCOPE);
        command.arg("agent").args(["--daemon", &self.url()]).arg("--dir").arg(&self.segment_dir.0);
        command.arg("--state-dir").arg(self.dir.0.join("agent"));
        Process::start(&mut command, &self.dir.0.join("agent.log"))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url())
    }

    pub(crate) fn installation(&self) -> Installation {
        let cache_dir = self.dir.0.join("libraries");
        let engine = embedded::path_of(Library::Engine, &cache_dir).unwrap();
        Installation {
            ringscope: RINGSCOPE.into(),
            engine,
            segment_dir: self.segment_dir.0.clone(),
            cache_dir,
        }
    }

    pub(crate) fn hosts(&self, n: usize) -> Vec<PretendedHost> {
        (0..n).map(|index| PretendedHost::create(&self.dir.0.join("hosts"), index).unwrap()).collect()
    }

    /// A job of `hosts` × `ranks_per_host` ranks that steps as fast as it can.
    pub(crate) fn job(&self, name: &str, hosts: &[PretendedHost], ranks_per_host: usize) -> Job {
        let spec = JobSpec {
            name: name.to_owned(),
            hosts: hosts.to_vec(),
            ranks_per_host,
            environment: Vec::new(),
            step_ms: 5,
        };
        Job::start(&spec, &self.installation(), &self.dir.0.join("jobs")).unwrap()
    }

    /// What the daemon and the ranks wrote to stderr, for the message of a failed test.
    pub(crate) fn words(&self) -> String {
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

/// Asks again and again until the answer is there; panics with `what` if it does not come.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    let clock = clock::monotonic();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(clock.elapsed() < PATIENCE, "after {PATIENCE:?} still not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
