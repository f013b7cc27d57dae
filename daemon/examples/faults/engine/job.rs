//! A job of real processes with a fault in it: started as a user starts it, and what its ranks say of themselves.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use ringscope_daemon::demo::host::PretendedHost;
use serde::Deserialize;
use tokio::process::{Child, Command};

/// How many ranks, and what they are to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) job: &'static str,
    pub(crate) ranks: u32,
    pub(crate) hosts: u32,
}

/// What every job needs.
pub(crate) struct Stage<'a> {
    pub(crate) ringscope: &'a Path,
    pub(crate) program: &'a Path,
    pub(crate) segment_dir: &'a Path,
    pub(crate) dir: &'a Path,
    /// The version of NCCL that the engine behaves as.
    pub(crate) faithful: &'a str,
}

/// Its processes are killed when it is dropped.
pub(crate) struct Job {
    dir: PathBuf,
    ranks: Vec<Child>,
}

/// One line of a rank.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) event: String,
    pub(crate) rank: u32,
    pub(crate) wall_ns: u64,
    #[serde(default)]
    pub(crate) text: String,
    /// Before the first step: -1.
    #[serde(default)]
    pub(crate) step: i64,
    /// By how much the step took longer because of the fault.
    #[serde(default)]
    pub(crate) slower_us: u64,
}

impl Job {
    /// Starts every rank. `first_host`: hosts of jobs that run at the same time have other numbers.
    pub(crate) fn start(
        stage: &Stage<'_>,
        name: &str,
        shape: Shape,
        first_host: usize,
        arguments: &[String],
    ) -> std::io::Result<Self> {
        let dir = stage.dir.join("jobs").join(name);
        let meet = dir.join("meet");
        std::fs::create_dir_all(&meet)?;
        let hosts: Vec<PretendedHost> = (0..shape.hosts as usize)
            .map(|host| PretendedHost::create(&stage.dir.join("hosts"), first_host + host))
            .collect::<Result<_, _>>()?;
        let per_host = shape.ranks / shape.hosts;
        let mut job = Self { dir: dir.clone(), ranks: Vec::new() };
        for rank in 0..shape.ranks {
            let out = std::fs::File::create(dir.join(format!("rank-{rank}.out")))?;
            let errors = std::fs::File::create(dir.join(format!("rank-{rank}.err")))?;
            let mut command = Command::new(stage.ringscope);
            command.args(["run", "--job", name, "--dir"]).arg(stage.segment_dir);
            command.arg("--cache-dir").arg(stage.dir.join("cache")).arg("--").arg(stage.program);
            command.args([
                "--rank",
                &rank.to_string(),
                "--ranks",
                &shape.ranks.to_string(),
                "--job",
                shape.job,
            ]);
            command.arg("--dir").arg(&meet).args(arguments);
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", shape.ranks.to_string());
            command.env("LOCAL_RANK", (rank % per_host).to_string()).env("RSCCL_FAITHFUL", stage.faithful);
            command.envs(hosts[(rank / per_host) as usize].environment());
            command.stdin(Stdio::null()).stdout(out).stderr(errors).kill_on_drop(true);
            job.ranks.push(command.spawn()?);
        }
        Ok(job)
    }

    /// All that its ranks have said so far. A line that is being written is left for the next time.
    pub(crate) fn events(&self) -> Vec<Event> {
        let texts = (0..self.ranks.len())
            .filter_map(|rank| std::fs::read_to_string(self.dir.join(format!("rank-{rank}.out"))).ok());
        let mut events: Vec<Event> = texts
            .flat_map(|text| {
                text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>()
            })
            .collect();
        events.sort_by_key(|event| event.wall_ns);
        events
    }

    /// Whether every rank has ended. Those that have are waited for, so that none is left as a zombie while others go on.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.ranks.iter_mut().filter_map(|rank| rank.try_wait().ok().flatten()).count() == self.ranks.len()
    }

    /// Ends what is left of it.
    pub(crate) async fn end(mut self) {
        for rank in &mut self.ranks {
            let _ = rank.kill().await;
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
