//! Two hosts of a real job, of which one has a clock that is half a minute ahead and gains 100 millionths: how it differs is found
//! from the collectives, and a rank that stands still is named as it is with clocks that are right.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::stage::{Process, RINGSCOPE, Stage};
use common::totals::completed_bytes;
use common::{PATIENCE, TempDir, eventually};
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{ClockBasis, FindingKind, HealthLevel, HostClock, Severity, Timeline};
use ringscope_daemon::demo::job::{Installation, Job, JobSpec};
use rustix::process::{Pid, Signal, kill_process};

/// The clock of the second host.
const AHEAD_S: f64 = 30.0;
/// What it gains, as a share of the time.
const GAINS: f64 = 100e-6;

/// A clock that is wrong for whoever has this environment.
fn wrong_clock(dir: &Path, since: Timestamp) -> Vec<(&'static str, String)> {
    let (source, object) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clocks/wrong_clock.c"), dir.join("wrong_clock.so"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", source, "-ldl", "-o"]).arg(&object);
    assert!(cc.status().is_ok_and(|status| status.success()), "{cc:?} fails: apt-get install gcc libc6-dev");
    vec![
        ("LD_PRELOAD", object.display().to_string()),
        ("WRONG_CLOCK_AHEAD_NS", format!("{:.0}", AHEAD_S * 1e9)),
        ("WRONG_CLOCK_SINCE_NS", since.0.to_string()),
        ("WRONG_CLOCK_PPM", format!("{:.0}", GAINS * 1e6)),
    ]
}

/// Runs `ringscope` for the ranks of the job; those of the second host with the wrong clock, and watched in a folder of their own.
fn wrapper(dir: &Path, segments: &Path, clock: &[(&'static str, String)]) -> PathBuf {
    let set: String = clock.iter().map(|(name, value)| format!("  export {name}='{value}'\n")).collect();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = run ] && [ \"$RINGSCOPE_HOST\" = host-1 ]; then\n{set}  job=$3\n  shift 5\n  \
         exec '{RINGSCOPE}' run --job \"$job\" --dir '{}' \"$@\"\nfi\nexec '{RINGSCOPE}' \"$@\"\n",
        segments.display()
    );
    let path = dir.join("ringscope");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn start(stage: &Stage, ringscope: PathBuf) -> Job {
    let spec = JobSpec {
        name: "skewed".to_owned(),
        hosts: stage.hosts(2),
        ranks_per_host: 2,
        environment: vec![("RINGSCOPE_LEVEL", "counters".to_owned())],
        step_ms: 5,
    };
    let installation = Installation { ringscope, ..stage.installation() };
    Job::start(&spec, &installation, &stage.dir.0.join("jobs")).unwrap()
}

async fn timeline(stage: &Stage) -> Option<Timeline> {
    let url = format!("{}/api/v1/jobs/skewed/timeline", stage.url());
    reqwest::get(url).await.ok()?.json().await.ok()
}

/// How far the clock of the second host is ahead of that of the first, and how wrong that may be.
fn ahead(clocks: &[HostClock]) -> Option<(f64, f64)> {
    let of = |host: &str| clocks.iter().find(|clock| clock.host == host);
    let (one, other) = (of("host-0")?, of("host-1")?);
    let is_known =
        |clock: &&HostClock| matches!(clock.basis, ClockBasis::Collectives | ClockBasis::Reference);
    [one, other].iter().all(is_known).then_some((other.offset_s - one.offset_s, one.error_s + other.error_s))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_wrong_is_found_out_and_changes_no_verdict() {
    let stage = Stage::new("clocks");
    let segments = TempDir::new_in(Path::new("/dev/shm"), "clocks-1");
    let since = clock::now();
    let wrong = wrong_clock(&stage.dir.0, since);
    let _daemon = stage.serve(true);
    let mut agent = Command::new(RINGSCOPE);
    agent.arg("agent").args(["--daemon", &stage.url()]).arg("--dir").arg(&segments.0);
    agent.arg("--state-dir").arg(stage.dir.0.join("agent")).arg("--allow-other-hosts").envs(wrong.clone());
    let _agent = Process::start(&mut agent, &stage.dir.0.join("agent.log"));
    let mut job = start(&stage, wrapper(&stage.dir.0, &segments.0, &wrong));
    let client = stage.client();
    eventually("all ranks work and are known to be well", async || {
        let health = client.health(None, None).await.ok()?;
        (health.level == HealthLevel::Ok && completed_bytes(&client, "skewed").await > 0).then_some(())
    })
    .await;
    let shown = eventually("a few operations of all ranks", async || {
        let shown = timeline(&stage).await?;
        let n_whole = shown.operations.last_called_us.iter().flatten().count();
        let (_, error_s) = ahead(&shown.clocks)?;
        (n_whole >= 40 && error_s < 0.05).then_some(shown)
    })
    .await;
    let (ahead_s, error_s) = ahead(&shown.clocks).unwrap();
    // What it has gained by now it had not gained yet when it was found.
    let gained_s = GAINS * clock::now().since(since).as_secs_f64();
    let bounds = AHEAD_S - error_s..=AHEAD_S + gained_s + error_s;
    assert!(bounds.contains(&ahead_s), "{ahead_s} is not in {bounds:?}: {:?}", shown.clocks);
    let columns = &shown.operations;
    let world = shown.communicators.iter().position(|one| one.n_ranks == 4).unwrap();
    let rows = columns.communicator.iter().zip(&columns.call_number);
    let numbers: BTreeSet<u64> =
        rows.filter(|(comm, _)| **comm as usize == world).filter_map(|(_, number)| *number).collect();
    let n_called = usize::try_from(*numbers.last().unwrap()).unwrap();
    assert!(numbers.len() < n_called, "at this level some are told: {numbers:?}");
    let rows = columns.last_called_us.iter().zip(&columns.called_us).zip(&columns.completed_us);
    for ((last, called), completed) in rows {
        let Some(last) = last else { continue };
        assert!(called <= last && *last <= completed + 100_000, "{called} {last} {completed}");
    }

    let stopped = Pid::from_raw(i32::try_from(job.ranks[2].id().unwrap()).unwrap()).unwrap();
    kill_process(stopped, Signal::STOP).unwrap();
    let incident = eventually("somebody is named", async || {
        let open = client.incidents(false).await.ok()?;
        open.into_iter().find(|one| one.severity == Severity::Critical && !one.culprits.is_empty())
    })
    .await;
    let culprits: Vec<Option<u32>> = incident.culprits.iter().map(|culprit| culprit.global_rank).collect();
    assert_eq!(culprits, [Some(2)], "{incident:?}\n{}", stage.words());
    let kinds = [FindingKind::RankMissing, FindingKind::TransferStalled, FindingKind::P2pUnmatched];
    assert!(kinds.contains(&incident.finding), "{incident:?}");
    kill_process(stopped, Signal::CONT).unwrap();
    job.stop(PATIENCE).await.unwrap_or_else(|error| panic!("{error}\n{}", stage.words()));
}
