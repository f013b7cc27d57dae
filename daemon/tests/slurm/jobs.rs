//! Jobs of all kinds that Slurm has, and that they are seen as what they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ringscope_api::Job;
use ringscope_daemon::demo::worker::{Called, WorkerLog};

use crate::cluster::Cluster;
use crate::common::totals::{Totals, completed_bytes, has_ended, shown};

/// Calls of each rank of a summing job, and bytes of each.
const CALLS: u64 = 100;
const CALL_BYTES: u64 = 262_144;
/// A user who owns nothing.
const NOBODY: u32 = 65_534;
/// Jobs that are submitted at once.
const MANY: usize = 20;

/// Tells the ranks of a job that meet here to train, or to stop.
pub(crate) fn enter(place: &Path, epoch: i32) {
    std::fs::write(place.join("epoch.new"), epoch.to_string()).unwrap();
    std::fs::rename(place.join("epoch.new"), place.join("epoch")).unwrap();
}

/// What tells them to stop.
pub(crate) const STOP: i32 = i32::MAX;

/// What the ranks of a training job say themselves.
fn said(place: &Path, n_ranks: u32) -> Totals {
    let mut totals = Totals::new();
    for rank in 0..n_ranks {
        let bytes = std::fs::read(place.join(format!("rank-{rank}.json"))).unwrap();
        let log: WorkerLog = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(log.error, None);
        for (communicator, primitives) in log.communicators {
            for (primitive, called) in primitives {
                totals.insert((rank, communicator.clone(), primitive), called);
            }
        }
    }
    assert!(!totals.is_empty());
    totals
}

/// What a summing job of so many ranks does.
fn summed(n_ranks: u32) -> Totals {
    let called = Called { calls: CALLS, bytes: CALLS * CALL_BYTES };
    (0..n_ranks).map(|rank| ((rank, "world".to_owned(), "all_reduce".to_owned()), called)).collect()
}

/// Which node each rank of a job is shown on.
async fn nodes(cluster: &Cluster, job: &str) -> BTreeMap<u32, String> {
    let client = cluster.client();
    let mut nodes = BTreeMap::new();
    for one in client.communicators().await.unwrap().iter().filter(|one| one.job == job) {
        for rank in client.communicator(&one.id).await.unwrap().ranks {
            nodes.insert(rank.global_rank.unwrap_or(u32::MAX), rank.host.clone());
        }
    }
    nodes
}

/// Where Slurm has put each rank of a job, in words.
async fn places(cluster: &Cluster, job: &str) -> BTreeSet<String> {
    let client = cluster.client();
    let mut places = BTreeSet::new();
    for one in client.communicators().await.unwrap().iter().filter(|one| one.job == job) {
        let ranks = client.communicator(&one.id).await.unwrap().ranks;
        places.extend(ranks.into_iter().filter_map(|rank| Some(rank.place?.words)));
    }
    places
}

/// What Slurm calls a job, in words.
async fn words(cluster: &Cluster, job: &str) -> String {
    shown_job(cluster, job).await.scheduled.map(|job| job.words).unwrap_or_default()
}

/// Waits until the daemon knows that the job has ended, and holds what it shows against `expected`.
pub(crate) async fn ends_as(cluster: &Cluster, job: &str, expected: &Totals) {
    let client = cluster.client();
    let what = format!("the end of {job} is known");
    let (issued, completed) = cluster
        .eventually(&what, async || {
            if !has_ended(&client, job).await {
                return None;
            }
            // The agent of another node may not have told of its ranks yet.
            let (issued, completed) = shown(&client, job).await.unwrap();
            (issued.len() >= expected.len()).then_some((issued, completed))
        })
        .await;
    assert_eq!(issued, *expected, "{job}: issued");
    assert_eq!(completed, *expected, "{job}: completed");
}

pub(crate) async fn seen(cluster: &Cluster, job: &str) {
    let client = cluster.client();
    let is_seen = async || (completed_bytes(&client, job).await > 0).then_some(());
    cluster.eventually(&format!("{job} is seen"), is_seen).await;
}

/// A summing job of this name, of so many ranks, has done what it does, under no other name beside.
pub(crate) async fn summed_as(cluster: &Cluster, id: u32, job: &str, n_ranks: u32) {
    cluster.until_state(id, "COMPLETED").await;
    ends_as(cluster, job, &summed(n_ranks)).await;
    assert_eq!(cluster.shown_as(id).await, [job], "no ghost beside it");
}

async fn shown_job(cluster: &Cluster, id: &str) -> Job {
    cluster.client().jobs().await.unwrap().into_iter().find(|job| job.id == id).unwrap()
}

fn on(nodes: &[&str]) -> BTreeMap<u32, String> {
    (0..).zip(nodes.iter().map(|node| (*node).to_owned())).collect()
}

pub(crate) async fn two_nodes(cluster: &Cluster) {
    cluster.machines(None);
    let place = cluster.meeting_place("two");
    enter(&place, 0);
    let id = cluster.submit(&["-N2", "--ntasks-per-node=1"], &cluster.training(&place));
    let job = format!("slurm-{id}");
    seen(cluster, &job).await;
    assert_eq!(nodes(cluster, &job).await, on(&["n1", "n2"]));
    // On which node needs no words, where the host is called the same.
    assert_eq!(places(cluster, &job).await, BTreeSet::from([format!("Slurm job {id}, step 0")]));
    assert_eq!(words(cluster, &job).await, format!("Slurm job {id}"));
    enter(&place, STOP);
    cluster.until_state(id, "COMPLETED").await;
    ends_as(cluster, &job, &said(&place, 2)).await;
    assert_eq!(cluster.output(id), "", "the job prints what it would have printed");
}

/// A job of a user who is not root: his are the files, and the agent reads them.
pub(crate) async fn of_another_user(cluster: &Cluster) {
    let options = ["-N2", "--ntasks-per-node=1", &format!("--uid={NOBODY}"), "-D", "/tmp"];
    let script = format!("srun bash -c '{}'", cluster.summing(2, "another-user"));
    let id = cluster.submit(&options, &script);
    let job = format!("slurm-{id}");
    summed_as(cluster, id, &job, 2).await;
    let logs = cluster.segment_dir.join(format!("logs-{NOBODY}"));
    assert!(logs.is_dir(), "the library's log was lent to him");
    // A second program in the same script is a job of its own, as Slurm has it a step of its own.
    let step = |meet: &str| format!("srun bash -c '{}'", cluster.summing(2, meet));
    let twice = format!("{} && {}", step("first-step"), step("second-step"));
    let id = cluster.submit(&options, &twice);
    cluster.until_state(id, "COMPLETED").await;
    for job in [format!("slurm-{id}"), format!("slurm-{id}.1")] {
        ends_as(cluster, &job, &summed(2)).await;
    }
}

/// Without `srun`: one process that the script starts itself.
pub(crate) async fn batch_script(cluster: &Cluster) {
    let id =
        cluster.submit(&["-N1", "-w", "n3"], &format!("unset SLURM_PROCID; {}", cluster.summing(1, "batch")));
    cluster.until_state(id, "COMPLETED").await;
    let job = format!("slurm-{id}");
    let client = cluster.client();
    cluster.eventually("its end is known", async || has_ended(&client, &job).await.then_some(())).await;
    assert_eq!(cluster.output(id), "rank 0 of 1: the sum is 0\n");
    let shown = shown_job(cluster, &job).await;
    assert_eq!((shown.issued_bytes, shown.completed_bytes), (CALLS * CALL_BYTES, CALLS * CALL_BYTES));
    assert_eq!(nodes(cluster, &job).await.into_values().collect::<Vec<_>>(), ["n3"]);
}

pub(crate) async fn array(cluster: &Cluster) {
    let meet = "array-$SLURM_ARRAY_TASK_ID";
    let script = format!("srun bash -c '{}'", cluster.summing(2, meet));
    let id = cluster.submit(&["--array=3-5", "-N1", "-n2"], &script);
    cluster.until_state(id, "COMPLETED").await;
    for task in 3..=5 {
        let job = format!("slurm-{id}_{task}");
        ends_as(cluster, &job, &summed(2)).await;
        let words = words(cluster, &job).await;
        assert!(words.ends_with(&format!(", task {task} of array {id}")), "{words}");
    }
    let shown = cluster.shown_as(id).await;
    assert_eq!(shown, [3, 4, 5].map(|task| format!("slurm-{id}_{task}")), "each task is a job of its own");
}

pub(crate) async fn heterogeneous(cluster: &Cluster) {
    let script = format!("srun --het-group=0,1 bash -c '{}'", cluster.summing(2, "het"));
    let id = cluster.submit(&["-N1", "-n1", "-w", "n1", ":", "-N1", "-n1", "-w", "n2"], &script);
    let job = format!("slurm-{id}");
    summed_as(cluster, id, &job, 2).await;
    assert_eq!(nodes(cluster, &job).await, on(&["n1", "n2"]), "its parts are one job");
    assert_eq!(words(cluster, &job).await, format!("Slurm job {id}, heterogeneous"));
}

/// The job comes back under its number: it is one job, and both of its lives count.
pub(crate) async fn requeued(cluster: &Cluster) {
    let meet = "requeue-${SLURM_RESTART_COUNT:-0}";
    let script = format!(
        "srun bash -c '{}'; [ -n \"$SLURM_RESTART_COUNT\" ] || {{ touch {}/jobs/first-life; sleep 1000; }}",
        cluster.summing(2, meet),
        cluster.dir.display()
    );
    let id = cluster.submit(&["-N2", "--ntasks-per-node=1", "--requeue"], &script);
    let job = format!("slurm-{id}");
    let first = cluster.dir.join("jobs/first-life");
    cluster.eventually("its first life is over", async || first.exists().then_some(())).await;
    ends_as(cluster, &job, &summed(2)).await;
    cluster.must("scontrol", &["requeue", &id.to_string()]);
    let waits = async || (cluster.state(id) == "PENDING").then_some(());
    cluster.eventually("it waits to begin again", waits).await;
    // Slurm would let it wait for two minutes. In the second in which it was ended its nodes take it for ended still.
    cluster.must("scontrol", &["update", &format!("JobId={id}"), "StartTime=now+2"]);
    cluster.until_state(id, "COMPLETED").await;
    let twice = 2 * 2 * CALLS * CALL_BYTES;
    cluster
        .eventually("both lives count", async || {
            (completed_bytes(&cluster.client(), &job).await >= twice).then_some(())
        })
        .await;
    ends_as(cluster, &job, &summed(2)).await;
    let shown = shown_job(cluster, &job).await;
    assert_eq!((shown.issued_bytes, shown.completed_bytes), (twice, twice), "each once");
    assert_eq!(words(cluster, &job).await, format!("Slurm job {id}, requeued once"));
    assert_eq!(cluster.shown_as(id).await, [job]);
}

pub(crate) async fn cancelled(cluster: &Cluster) {
    let place = cluster.meeting_place("cancelled");
    enter(&place, 0);
    let id = cluster.submit(&["-N2", "--ntasks-per-node=1"], &cluster.training(&place));
    let job = format!("slurm-{id}");
    seen(cluster, &job).await;
    cluster.must("scancel", &[&id.to_string()]);
    cluster.until_state(id, "CANCELLED").await;
    let client = cluster.client();
    cluster.eventually("its end is known", async || has_ended(&client, &job).await.then_some(())).await;
    assert_eq!(cluster.shown_as(id).await, [job]);
}

pub(crate) async fn twenty_at_once(cluster: &Cluster) {
    let ids: Vec<u32> = (0..MANY)
        .map(|number| {
            let script = format!("srun bash -c '{}'", cluster.summing(2, &format!("many-{number}")));
            cluster.submit(&["-N2", "--ntasks-per-node=1"], &script)
        })
        .collect();
    for id in ids {
        summed_as(cluster, id, &format!("slurm-{id}"), 2).await;
    }
}
