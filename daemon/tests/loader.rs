//! A rank of a Python job is kept waiting by its data loader, or gets its batches slowly: terminal and API say in which line of which
//! file it is, and what it reads; and it is over when the data comes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::stage::{Process, RINGSCOPE, Stage};
use common::{PATIENCE, eventually, eventually_within, free_port};
use ringscope_api::clock;
use ringscope_api::{FindingKind, FindingState, Incident};
use ringscope_daemon::client::Client;
use rustix::fs::{FileType, Mode, mknodat};

const N_RANKS: usize = 4;
const RANKS_PER_HOST: usize = 2;
/// The rank whose loader waits.
const LATE: usize = 3;
/// Bytes of a batch, as the example has it.
const BATCH: usize = 4096;
/// A wait for a rank that is merely elsewhere is told of after half a minute; later where the first calls took seconds, as on
/// a machine that is busy with other work.
const UNTIL_TOLD: Duration = Duration::from_secs(180);
/// How often the slow rank gets a batch.
const SLOWLY: Duration = Duration::from_millis(60);
/// For so long the incident must still be open.
const GOES_ON: Duration = Duration::from_secs(5);

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/loader")
}

/// The data of all ranks: without end, but for the late one's, which is what is written to the pipe.
fn data(stage: &Stage) -> (PathBuf, File) {
    let folder = stage.dir.0.join("data");
    std::fs::create_dir_all(&folder).unwrap();
    for rank in (0..N_RANKS).filter(|rank| *rank != LATE) {
        symlink("/dev/zero", folder.join(format!("rank-{rank}"))).unwrap();
    }
    let pipe = folder.join(format!("rank-{LATE}"));
    mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // Open for both, so that neither end waits for the other to be opened.
    let writer = File::options().read(true).write(true).open(&pipe).unwrap();
    (folder, writer)
}

/// How a rank is started, on its data and in a folder that all ranks see.
struct Program {
    python: &'static str,
    script: &'static str,
    environment: Vec<(&'static str, String)>,
}

fn plain() -> Program {
    Program { python: "python3", script: "plain.py", environment: Vec::new() }
}

/// With PyTorch, where an interpreter has it: what the person uses, else Debian's.
fn with_torch() -> Option<Program> {
    let has_it = |python: &&str| {
        let mut import = Command::new(python);
        import.args(["-c", "import numpy, torch"]).stdout(Stdio::null()).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    let python = ["python3", "/usr/bin/python3"].into_iter().find(has_it)?;
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/python");
    let environment = vec![
        ("PYTHONPATH", package.display().to_string()),
        ("MASTER_ADDR", "127.0.0.1".to_owned()),
        ("MASTER_PORT", free_port().to_string()),
        ("RSUM_SECRET", "loader".to_owned()),
        ("OMP_NUM_THREADS", "1".to_owned()),
    ];
    Some(Program { python, script: "with_torch.py", environment })
}

fn start(stage: &Stage, program: &Program, data: &Path) -> Vec<Process> {
    let meet = stage.dir.0.join("meet");
    let jobs = stage.dir.0.join("jobs");
    std::fs::create_dir_all(&meet).unwrap();
    std::fs::create_dir_all(&jobs).unwrap();
    let installation = stage.installation();
    let hosts = stage.hosts(N_RANKS / RANKS_PER_HOST);
    let rank = |rank: usize| {
        let mut command = Command::new(RINGSCOPE);
        command.args(["run", "--job", "loader", "--dir"]).arg(&stage.segment_dir.0);
        command.arg("--cache-dir").arg(&installation.cache_dir).args(["--", program.python]);
        command.arg(example().join(program.script)).arg(data).arg("--meet").arg(&meet);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", N_RANKS.to_string());
        command.env("LOCAL_RANK", (rank % RANKS_PER_HOST).to_string());
        command.env("RSCCL_LIBRARY", &installation.engine).env("PYTHONDONTWRITEBYTECODE", "1");
        // As NCCL does, the engine waits for ever.
        command.env("RSCCL_FAITHFUL", &installation.faithful);
        command.envs(hosts[rank / RANKS_PER_HOST].environment()).envs(program.environment.iter().cloned());
        Process::start(&mut command, &jobs.join(format!("rank-{rank}.stderr")))
    };
    (0..N_RANKS).map(rank).collect()
}

/// What somebody has to look at.
async fn told(client: &Client) -> Option<Incident> {
    client.incidents(false).await.ok()?.into_iter().next()
}

fn status(stage: &Stage) -> String {
    let mut command = Command::new(RINGSCOPE);
    let output = command.args(["status", "--daemon", &stage.url()]).stderr(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Where the loader reads: its file and line. Which name of the function follows depends on the version of Python.
fn line() -> String {
    let text = std::fs::read_to_string(example().join("loader.py")).unwrap();
    let at = text.lines().position(|line| line.contains("self._file.read(")).unwrap() + 1;
    format!("loader.py:{at}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rank_that_waits_for_data_is_named_with_the_line_and_the_file() {
    check("loader", &plain()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_is_one_that_waits_in_the_data_loader_of_torch() {
    match with_torch() {
        Some(program) => check("loader-torch", &program).await,
        // Past the test's captured output: nobody should take this for a success.
        None => writeln!(
            std::io::stderr(),
            "SKIPPED: no PyTorch; apt-get install -y --no-install-recommends python3-numpy python3-torch"
        )
        .unwrap(),
    }
}

async fn check(name: &str, program: &Program) {
    let stage = Stage::new(name);
    let mut daemon = stage.serve(true);
    let client = stage.client();
    let (data, mut pipe) = data(&stage);
    // As many as fit into a pipe at most; which number it is must not matter.
    let steps = 3 + usize::try_from(clock::now().0 % 10).unwrap();
    pipe.write_all(&vec![1; steps * BATCH]).unwrap();
    let ranks = start(&stage, program, &data);

    let incident = eventually_within(UNTIL_TOLD, &format!("it is named; {}", stage.words()), async || {
        told(&client).await
    })
    .await;
    assert_eq!(incident.finding, FindingKind::RankMissing, "{incident:?}");
    let culprits: Vec<Option<u32>> = incident.culprits.iter().map(|culprit| culprit.global_rank).collect();
    assert_eq!(culprits, [u32::try_from(LATE).ok()], "{incident:?}");
    assert_eq!(incident.host, "host-1", "{incident:?}");
    let file = data.join(format!("rank-{LATE}"));
    let words = [format!("is in {} ", line()), format!("__next__, blocked reading {};", file.display())];
    // It is named before somebody has looked at it.
    let what = format!("it is said what it does: {words:?}; {}", stage.words());
    let (health, first, incident) = eventually(&what, async || {
        let before = told(&client).await?;
        let (health, first) = (client.health(None, None).await.ok()?, status(&stage));
        let after = told(&client).await?;
        let is_all = after.n_victims == 3 && words.iter().all(|words| after.sentence.contains(words));
        (before.sentence == after.sentence && is_all).then_some((health, first, after))
    })
    .await;
    assert!(health.sentence.contains(&incident.sentence), "{health:?}\n{incident:?}");
    assert!(first.lines().next().unwrap().contains(&incident.sentence), "{first}\n{}", incident.sentence);

    // The wait goes on, and so does the incident: the same, from readings that are newer.
    eventually("it is known for longer", async || {
        let one = client.incident(&incident.id).await.unwrap().incident;
        assert_eq!(one.state, FindingState::Firing, "{one:?}");
        (one.last_seen.since(incident.last_seen) > GOES_ON).then_some(())
    })
    .await;
    pipe.write_all(&vec![1; BATCH]).unwrap();
    eventually("it is over when a batch comes", async || {
        let one = client.incident(&incident.id).await.ok()?;
        (one.incident.state == FindingState::Resolved).then_some(())
    })
    .await;
    drop(ranks);
    daemon.terminate(PATIENCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rank_with_a_slow_loader_is_named_with_its_stack_and_what_it_costs() {
    check_slow("loader-slow", &plain()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_is_one_whose_loader_of_torch_is_slow() {
    // That it is missing is said by the other test.
    if let Some(program) = with_torch() {
        check_slow("loader-slow-torch", &program).await;
    }
}

/// Nobody waits for long, and all are slow.
async fn check_slow(name: &str, program: &Program) {
    let stage = Stage::new(name);
    let mut daemon = stage.serve(true);
    let client = stage.client();
    let (data, mut pipe) = data(&stage);
    let feeding = async {
        let mut ticks = tokio::time::interval(SLOWLY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            pipe.write_all(&vec![1; BATCH]).unwrap();
        }
    };
    let ranks = start(&stage, program, &data);
    let what = format!("the slow rank is named with its stack; {}", stage.words());
    let named = eventually_within(UNTIL_TOLD, &what, async || {
        let findings = client.findings().await.ok()?;
        let slow = findings.into_iter().find(|one| one.finding == FindingKind::ComputeStraggler)?;
        let has_stack =
            slow.details.iter().flat_map(|detail| &detail.lines).any(|text| text.contains(&line()));
        has_stack.then_some(slow)
    });
    let finding = tokio::select! {
        finding = named => finding,
        () = feeding => panic!("batches come without end"),
    };
    let accused: Vec<Option<u32>> = finding.accused.iter().map(|culprit| culprit.global_rank).collect();
    assert_eq!(accused, [u32::try_from(LATE).ok()], "{finding:#?}");
    assert_eq!((finding.host.as_str(), finding.n_victims), ("host-1", 3), "{finding:#?}");
    // What it waits for its batches, all others wait for it.
    let cost = finding.cost.unwrap();
    assert!(cost.percent > 30.0 && cost.seconds_per_step > 0.0, "{finding:#?}");
    drop(ranks);
    daemon.terminate(PATIENCE);
}
