//! Whether what is built does its work: each program and library of an architecture, emulated if it is not this machine's.
//!
//! A daemon on loopback, an agent, and a job of two ranks on the engine's library, whose own books the daemon must agree with. An
//! emulator is no other machine: it has no Landlock and no seccomp, and orders memory as this machine does.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::binary;
use super::target::Target;
use crate::clock::eventually;
use crate::http;
use crate::process::say;

/// Has a job watched by a program and the libraries inside it.
pub(super) fn smoke(target: Target, program: &Path) -> Result<()> {
    let folder = Path::new("/dev/shm").join(format!("ringscope-smoke-{}", std::process::id()));
    super::empty(&folder)?;
    let tried = Programs::of(target, program, &folder).and_then(|programs| programs.try_all());
    if tried.is_ok() {
        let _ = fs::remove_dir_all(&folder);
    }
    tried
        .with_context(|| format!("{} does not work; what it wrote is in {}", target.arch(), folder.display()))
}

/// One architecture's programs, and where they work.
struct Programs {
    /// What stands before a program of another architecture.
    emulator: Vec<String>,
    binary: PathBuf,
    library: PathBuf,
    folder: PathBuf,
}

/// Processes that are ended with what started them.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Programs {
    fn of(target: Target, program: &Path, folder: &Path) -> Result<Self> {
        let library = binary::libraries(target).join("librsccl.so");
        let (binary, folder) = (program.to_owned(), folder.to_owned());
        Ok(Self { emulator: emulator(target)?, binary, library, folder })
    }

    fn try_all(&self) -> Result<()> {
        let told = super::output(&mut self.ringscope(&["--version"]))?;
        ensure!(told.contains(env!("CARGO_PKG_VERSION")), "ringscope --version says {told:?}");
        let (segments, job) = (self.folder.join("segments"), self.folder.join("job"));
        super::empty(&segments)?;
        super::empty(&job)?;
        fs::write(job.join("epoch"), "0")?;

        let mut services = Running(Vec::new());
        let address = self.serve(&mut services)?;
        http::get(&address, "/healthz", PATIENCE)?;
        let mut agent = self.ringscope(&["agent", "--host", HOST, "--interval", "200ms", "--daemon"]);
        agent.arg(format!("http://{address}")).arg("--dir").arg(&segments);
        agent.arg("--state-dir").arg(self.folder.join("state"));
        services.0.push(self.start(agent, "agent")?);
        let mut ranks = Running(Vec::new());
        for rank in 0..N_RANKS {
            ranks.0.push(self.start(self.rank(rank, &segments, &job), &format!("rank-{rank}"))?);
        }
        eventually("the daemon shows the job with both ranks", PATIENCE, || {
            let seen = json(&address, "/api/v1/communicators?job=smoke")?;
            let mut seen = seen["items"].as_array().into_iter().flatten();
            Ok(seen.any(|one| one["n_ranks_seen"] == N_RANKS && one["completed_bytes"] != 0).then_some(()))
        })?;

        let pid = ranks.0[0].id().to_string();
        let told =
            self.ringscope(&["doctor", "--pid", &pid, "--json"]).env("RINGSCOPE_DIR", &segments).output()?;
        let report: Value = serde_json::from_slice(&told.stdout)
            .with_context(|| format!("doctor --pid {pid}: {}", String::from_utf8_lossy(&told.stderr)))?;
        let calls = &report["sources"][0];
        ensure!(calls["source"] == "calls" && calls["sees"] == "yes", "doctor --pid {pid} says {report:#}");

        // The epoch that ends the job.
        fs::write(job.join("epoch"), i32::MAX.to_string())?;
        for rank in &mut ranks.0 {
            let status = eventually("a rank ends", PATIENCE, || Ok(rank.try_wait()?))?;
            ensure!(status.success(), "a rank ended with {status}");
        }
        self.agrees(&address, &job)?;
        self.status(&address)?;
        say(&format!("{}: a job of {N_RANKS} ranks was watched, to the byte", self.binary.display()));
        Ok(())
    }

    /// What the ranks wrote down themselves, and what the daemon says of them.
    fn agrees(&self, address: &str, job: &Path) -> Result<()> {
        let mut written = 0;
        for rank in 0..N_RANKS {
            let path = job.join(format!("rank-{rank}.json"));
            let log = fs::read(&path).with_context(|| format!("no {}", path.display()))?;
            let log: Value = serde_json::from_slice(&log)?;
            let communicators = log["communicators"].as_object().into_iter().flatten();
            let called = communicators.flat_map(|(_, called)| called.as_object().into_iter().flatten());
            written += called.filter_map(|(_, called)| called["bytes"].as_u64()).sum::<u64>();
        }
        ensure!(written > 0, "the ranks wrote down nothing");
        eventually(
            &format!("the daemon shows the {written} bytes that the ranks wrote down"),
            PATIENCE,
            || {
                let jobs = json(address, "/api/v1/jobs")?;
                Ok((jobs["items"][0]["issued_bytes"] == written).then_some(()))
            },
        )
    }

    /// What is said of the job, which has ended; so the exit status is not that of a healthy one.
    fn status(&self, address: &str) -> Result<()> {
        let daemon = format!("http://{address}");
        let told = self.ringscope(&["status", "--job", "smoke", "--daemon", &daemon]).output()?;
        let text = String::from_utf8_lossy(&told.stdout);
        ensure!(text.contains("smoke"), "ringscope status says {text:?} and {:?}", told.status);
        Ok(())
    }

    /// Starts a daemon; its address.
    fn serve(&self, services: &mut Running) -> Result<String> {
        let mut serve = self.ringscope(&["serve", "--with-agent", "false", "--listen", "127.0.0.1:0"]);
        serve.arg("--data-dir").arg(self.folder.join("data"));
        services.0.push(self.start(serve, "serve")?);
        let log = self.folder.join("serve.log");
        let address = eventually("ringscope serve listens", PATIENCE, || {
            let told = fs::read_to_string(&log)?;
            let address = told.split_once("listening on http://").map(|(_, rest)| rest);
            Ok(address.and_then(|rest| rest.split_once('\n')).map(|(address, _)| address.to_owned()))
        })?;
        eventually("ringscope serve ready", PATIENCE, || Ok(http::get(&address, "/readyz", PATIENCE).ok()))?;
        Ok(address)
    }

    fn rank(&self, rank: usize, segments: &Path, job: &Path) -> Command {
        let mut command = self.ringscope(&["run", "--job", "smoke", "--dir"]);
        command.arg(segments).arg("--").args(&self.emulator).arg(&self.binary).arg("demo-worker");
        let n = N_RANKS.to_string();
        command.args(["--rank", &rank.to_string(), "--world-size", &n, "--ranks-per-host", &n]);
        command.arg("--job-dir").arg(job).arg("--library").arg(&self.library);
        command
    }

    fn ringscope(&self, arguments: &[&str]) -> Command {
        let mut words = self.emulator.iter().map(String::as_str);
        let mut command = match words.next() {
            Some(emulator) => Command::new(emulator),
            None => Command::new(&self.binary),
        };
        if !self.emulator.is_empty() {
            command.args(words).arg(&self.binary);
        }
        command.args(arguments);
        command
    }

    fn start(&self, mut command: Command, name: &str) -> Result<Child> {
        let log = File::create(self.folder.join(format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("cannot start {command:?}"))
    }
}

/// What stands before a program of another architecture.
fn emulator(target: Target) -> Result<Vec<String>> {
    if target.is_native() {
        return Ok(Vec::new());
    }
    let qemu = target.qemu();
    if super::output(Command::new(&qemu).arg("--version")).is_err() {
        crate::tools::install(&["qemu-user"])?;
    }
    Ok(vec![qemu, "-L".to_owned(), format!("/usr/{}-linux-gnu", target.arch())])
}

fn json(address: &str, path: &str) -> Result<Value> {
    let body = http::get(address, path, PATIENCE)?;
    match serde_json::from_str(&body) {
        Ok(value) => Ok(value),
        Err(error) => bail!("{path}: {error}: {body}"),
    }
}

const N_RANKS: usize = 2;
const HOST: &str = "smoke-host";
/// Emulated programs on a busy machine take their time.
const PATIENCE: Duration = Duration::from_secs(180);
