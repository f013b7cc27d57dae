//! A real Slurm on this machine: munged, slurmctld, and a slurmd for each of several nodes, with the scripts of
//! `packaging/slurm`, and a daemon of ringscope's whose agent reads what their jobs leave.
//!
//! All of it lives in a namespace of processes whose first process reads a pipe of the test's. When the test is gone, however
//! it went, the pipe ends, that process with it, and the kernel ends all others.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ringscope_api::clock;
use ringscope_daemon::client::Client;
use ringscope_daemon::demo::host::PretendedHost;
use ringscope_daemon::embedded::{self, Library};

use crate::common::stage::{RINGSCOPE, faithful};
use crate::common::{TempDir, free_port, needs, slurm};
use crate::setup::{FIRST, compile, configure};

/// How long a test waits for what must happen; far more than it ever takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Names of the nodes.
pub(crate) const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];
pub(crate) struct Cluster {
    pub(crate) dir: TempDir,
    /// What agent and jobs share.
    pub(crate) segment_dir: TempDir,
    port: u16,
    first: Child,
}

impl Cluster {
    /// Starts it, and waits until all nodes are idle and the daemon is ready.
    pub(crate) async fn start() -> Self {
        needs(&slurm::PROGRAMS, slurm::PACKAGES);
        let dir = TempDir::new("slurm");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        let segment_dir = TempDir::new_in(Path::new("/dev/shm"), "slurm");
        fs::set_permissions(&segment_dir, fs::Permissions::from_mode(0o1777)).unwrap();
        let port = free_port();
        configure(&dir);
        let mut first = Command::new("unshare");
        first.args([
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--mount-proc",
            "bash",
            "-c",
            FIRST,
            "bash",
        ]);
        first.arg(&dir.0).arg(RINGSCOPE).arg(&segment_dir.0).arg(port.to_string()).args(NODES);
        compile(&dir);
        let log = fs::File::create(dir.join("log/first.log")).unwrap();
        first.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log);
        let first =
            first.spawn().unwrap_or_else(|error| panic!("unshare: {error}; apt-get install util-linux"));
        let cluster = Self { dir, segment_dir, port, first };
        cluster.settings("");
        cluster.until_ready().await;
        cluster
    }

    async fn until_ready(&self) {
        self.eventually("all nodes are idle", async || {
            let states = self.says("sinfo", &["-h", "-N", "-p", "main", "-o", "%N %t"]).unwrap_or_default();
            (states.lines().filter(|line| line.ends_with(" idle")).count() == NODES.len()).then_some(())
        })
        .await;
        self.eventually("the daemon answers", async || self.client().jobs().await.ok()).await;
    }

    /// Asks again and again until the answer is there; panics with what was logged if it does not come.
    pub(crate) async fn eventually<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let clock = clock::monotonic();
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            let words = || self.words();
            assert!(clock.elapsed() < PATIENCE, "after {PATIENCE:?} still not: {what}\n{}", words());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url())
    }

    /// A command of Slurm's, or one that asks it.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.dir.join("slurm.conf")).current_dir(&self.dir.0);
        for name in ["LD_PRELOAD", "NCCL_DEBUG", "RINGSCOPE_DIR", "RINGSCOPE_JOB"] {
            command.env_remove(name);
        }
        command
    }

    /// What a command of Slurm's prints; `None`: it failed.
    pub(crate) fn says(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let Output { status, stdout, .. } = self.command(program, arguments).output().unwrap();
        status.success().then(|| String::from_utf8(stdout).unwrap())
    }

    /// The same of one that must not fail.
    pub(crate) fn must(&self, program: &str, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(program, arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{program} {arguments:?}: {stderr}");
        String::from_utf8(stdout).unwrap().trim().to_owned()
    }

    /// Submits a script that knows nothing of ringscope. Returns the job's number, of a heterogeneous one its first.
    pub(crate) fn submit(&self, options: &[&str], script: &str) -> u32 {
        let mut command = self.command("sbatch", &["--parsable"]);
        command.args(["--output", &self.dir.join("jobs/out-%j.txt").display().to_string()]).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("#!/bin/bash\n{script}\n").as_bytes()).unwrap();
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "sbatch: {stderr}");
        stdout.trim().split(';').next().unwrap().parse().unwrap()
    }

    /// Slurm's word for how a job stands, e.g. `RUNNING`.
    pub(crate) fn state(&self, job: u32) -> String {
        let shown = self.must("scontrol", &["show", "job", "--oneliner", &job.to_string()]);
        let mut words = shown.split_whitespace();
        words.find_map(|word| word.strip_prefix("JobState=")).unwrap().to_owned()
    }

    /// Waits until a job, or all tasks of an array, stand so.
    pub(crate) async fn until_state(&self, job: u32, state: &str) {
        self.eventually(&format!("job {job} is {state}"), async || {
            let shown = self.must("scontrol", &["show", "job", "--oneliner", &job.to_string()]);
            let mut states = shown.split_whitespace().filter_map(|word| word.strip_prefix("JobState="));
            let failed = shown.contains("JobState=FAILED") && state != "FAILED";
            assert!(!failed, "job {job} failed: {}", self.output(job));
            states.all(|found| found == state).then_some(())
        })
        .await;
    }

    /// What a job has printed.
    pub(crate) fn output(&self, job: u32) -> String {
        fs::read_to_string(self.dir.join(format!("jobs/out-{job}.txt"))).unwrap_or_default()
    }

    /// A folder that the ranks of a job meet in.
    pub(crate) fn meeting_place(&self, name: &str) -> PathBuf {
        let place = self.dir.join("jobs").join(name);
        fs::create_dir_all(&place).unwrap();
        place
    }

    /// The engine, as a job loads it.
    pub(crate) fn engine(&self) -> PathBuf {
        embedded::path_of(Library::Engine, &self.dir.join("libraries")).unwrap()
    }

    /// Makes every node a machine with two NICs, of which one of `degraded` is down.
    pub(crate) fn machines(&self, degraded: Option<&str>) {
        for (index, node) in NODES.iter().enumerate() {
            let host = PretendedHost::create(&self.dir.join("machines"), index).unwrap();
            host.set_nic(1, Some(*node) != degraded).unwrap();
            let settings = host.environment().into_iter().filter(|(name, _)| name.starts_with("RSCCL"));
            let lines = settings.map(|(name, value)| match name {
                "RSCCL_HOST" => format!("export {name}={node}\n"),
                _ => format!("export {name}='{value}'\n"),
            });
            fs::write(self.dir.join(format!("machine-{node}")), lines.collect::<String>()).unwrap();
        }
    }

    /// A step of ranks that train until they are told to stop: what a user's script starts.
    pub(crate) fn training(&self, place: &Path) -> String {
        format!(
            "export RSCCL_FAITHFUL={} LOCAL_WORLD_SIZE=1\n\
             srun --kill-on-bad-exit=1 bash -c '. {}/machine-$SLURMD_NODENAME; RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS \
             exec {RINGSCOPE} demo-worker --library {} --job-dir {} --step-ms 5'",
            faithful(),
            self.dir.display(),
            self.engine().display(),
            place.display(),
        )
    }

    /// A command for one rank that sums a hundred times and ends: `engine/examples/job.c`. The ranks of a job meet by `meet`, a
    /// word that a shell reads.
    pub(crate) fn summing(&self, n_ranks: usize, meet: &str) -> String {
        format!("{0}/job ${{SLURM_PROCID:-0}} {n_ranks} {0}/jobs/{meet}", self.dir.display())
    }

    /// The settings of the scripts on all nodes, beside where ringscope and its folder are.
    pub(crate) fn settings(&self, more: &str) {
        let text = format!(
            "RINGSCOPE={RINGSCOPE}\nRINGSCOPE_DIR={}\nRINGSCOPE_PARTITIONS=main\n{more}\n",
            self.segment_dir.display()
        );
        // Whole at once: a script may read it now.
        fs::write(self.dir.join("slurm.env.new"), text).unwrap();
        fs::rename(self.dir.join("slurm.env.new"), self.dir.join("slurm.env")).unwrap();
    }

    /// Ids of the jobs that the daemon shows of a job of Slurm's and its steps.
    pub(crate) async fn shown_as(&self, job: u32) -> Vec<String> {
        let jobs = self.client().jobs().await.unwrap().into_iter().map(|one| one.id);
        let name = format!("slurm-{job}");
        let mut ids: Vec<String> = jobs
            .filter(|id| {
                id.strip_prefix(&name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
            })
            .collect();
        ids.sort();
        ids
    }

    /// What went wrong, for the message of a failed test.
    pub(crate) fn words(&self) -> String {
        let logs = fs::read_dir(self.dir.join("log")).into_iter().flatten().flatten();
        let tail = |path: PathBuf| {
            let text = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            format!("--- {}\n{}\n", path.display(), lines[lines.len().saturating_sub(12)..].join("\n"))
        };
        logs.map(|entry| tail(entry.path())).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The first process ends with its pipe, and everything in the namespace with it.
        drop(self.first.stdin.take());
        let _ = self.first.wait();
    }
}
