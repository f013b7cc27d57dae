//! What short jobs leave in the folder: nothing that piles up where no agent reads it, and all where one does.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringscope_api::{Job, JobState, Page};
use rustix::process::Signal;

use crate::common::stage::{Process, Stage};
use crate::common::{PATIENCE, TempDir, eventually};
use crate::{end, ringscope};

/// Calls of each communicator of a short job, each of four bytes; it makes two.
const CALLS: u64 = 100;
/// Short jobs while an agent reads.
const JOBS: usize = 30;

/// A program that calls a library without anybody behind it: those of `cargo xtask harm`.
struct Programs(TempDir);

impl Programs {
    fn build() -> Self {
        let dir = TempDir::new("short-jobs");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/src/harm/programs");
        let cc = |arguments: &[&str]| {
            let mut cc = Command::new("cc");
            cc.current_dir(&dir.0).arg("-I").arg(&sources).arg(sources.join(arguments[0]));
            let status = cc.args(&arguments[1..]).status();
            let is_built = status.is_ok_and(|status| status.success());
            assert!(is_built, "{} does not build; is cc there? apt-get install gcc", arguments[0]);
        };
        cc(&[
            "stub_nccl.c",
            "-shared",
            "-fPIC",
            "-pthread",
            "-Wl,-soname,libnccl.so.2",
            "-o",
            "libnccl.so.2",
        ]);
        cc(&["job.c", "-o", "job", "-L.", "-l:libnccl.so.2", "-Wl,-rpath,$ORIGIN"]);
        Self(dir)
    }

    /// `ringscope run` of a job with these arguments.
    fn run(&self, segments: &Path, job: &str, arguments: &[&str]) -> Command {
        let mut command = ringscope(&["run", "--job", job, "--dir"]);
        command.arg(segments).arg("--cache-dir").arg(self.0.join("cache")).arg("--").arg(self.0.join("job"));
        command.args(arguments);
        command
    }

    fn run_short(&self, segments: &Path, number: usize) {
        let job = format!("short-{number}");
        let (code, stdout, stderr) =
            end(&mut self.run(segments, &job, &["2", &CALLS.to_string(), "destroy"]));
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "job ok\n", ""));
    }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "seg")).collect()
}

fn kib(paths: impl IntoIterator<Item = PathBuf>) -> u64 {
    paths.into_iter().map(|path| path.symlink_metadata().unwrap().blocks() / 2).sum()
}

#[tokio::test]
async fn short_jobs_without_an_agent_leave_no_more_than_one_of_them() {
    let programs = Programs::build();
    let dir = TempDir::new_in(Path::new("/dev/shm"), "sweep");
    // It stands still in the middle of its calls, and lives.
    let mut beside = programs.run(&dir, "long", &["1", "100000000000"]);
    let beside = Process::start(beside.stdout(Stdio::null()), &programs.0.join("beside.log"));
    let living = eventually("the job beside is seen", async || segments(&dir).pop()).await;
    beside.signal(Signal::STOP);
    for number in 0..60 {
        programs.run_short(&dir, number);
    }
    assert!(living.exists(), "a job that lives keeps its segment");
    let of_living = kib([living.clone()]);
    let entries = std::fs::read_dir(&dir.0).unwrap().map(|entry| entry.unwrap().path());
    let left = kib(entries) - of_living;
    assert!(left < 1024, "60 short jobs leave {left} KiB");
    drop(beside);
    programs.run_short(&dir, 60);
    assert!(!living.exists(), "once it has ended, the next run removes what it left");
}

#[tokio::test]
async fn where_an_agent_reads_each_short_job_is_told_to_its_end() {
    let programs = Programs::build();
    let stage = Stage::new("sweep-agent");
    let mut serve = stage.serve(true);
    let mark = format!(".agent-{}", rustix::process::geteuid().as_raw());
    eventually("the agent reads the folder", async || stage.segment_dir.join(&mark).exists().then_some(()))
        .await;
    for number in 0..JOBS {
        programs.run_short(&stage.segment_dir, number);
    }
    eventually("the daemon has all calls of all short jobs, and their ends", async || {
        let jobs: Page<Job> = stage.client().get("jobs").await.ok()?;
        let is_told = |job: &&Job| {
            job.state == JobState::Ended && job.issued_bytes == 2 * CALLS * 4 && job.n_processes == 1
        };
        let told = jobs.items.iter().filter(|job| job.id.starts_with("short-")).filter(is_told).count();
        (told == JOBS).then_some(())
    })
    .await;
    assert!(serve.terminate(PATIENCE).success());
}

#[test]
fn a_sweep_says_what_it_removed_and_for_another_user_wants_root() {
    let programs = Programs::build();
    let dir = TempDir::new_in(Path::new("/dev/shm"), "sweep-command");
    programs.run_short(&dir, 0);
    let path = dir.display().to_string();
    let sweep = |more: &[&str]| end(ringscope(&["sweep", "--dir", &path]).args(more));
    let user = dir.metadata().unwrap().uid();
    let (code, stdout, _) = sweep(&["--dry-run"]);
    assert!(
        code == Some(0) && stdout.starts_with(&format!("2 files of user {user} would be removed")),
        "{stdout}"
    );
    assert_eq!(segments(&dir).len(), 1);
    let (code, stdout, _) = sweep(&["--job", "another"]);
    assert!(code == Some(0) && stdout.starts_with("0 files"), "{stdout}");
    let (code, stdout, _) = sweep(&[]);
    assert!(code == Some(0) && stdout.contains("removed"), "{stdout}");
    assert_eq!(segments(&dir).len(), 0);
    crate::check(&["sweep", "--dir", "/nonexistent/segments"], 1, &["/nonexistent/segments", "--dir"]);
    if user == 0 {
        let mut as_nobody = crate::without_settings("setpriv");
        as_nobody.args([
            "--reuid=65534",
            "--clear-groups",
            crate::RINGSCOPE,
            "sweep",
            "--user",
            "0",
            "--dir",
            &path,
        ]);
        let (code, _, stderr) = end(&mut as_nobody);
        assert!(code == Some(1) && stderr.contains("root"), "{stderr}");
    }
}
