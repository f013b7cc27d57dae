//! A node that holds the others back is named, and drained if the operator wants it.

use std::collections::BTreeSet;
use std::process::Output;

use crate::cluster::Cluster;
use crate::common::stage::RINGSCOPE;
use crate::jobs::{STOP, enter, seen};

/// The node with a NIC that is down.
const DEGRADED: &str = "n3";

/// `ringscope drain` of what has held for a second: exit status, stdout, stderr.
fn drain(cluster: &Cluster, arguments: &[&str]) -> (Option<i32>, String, String) {
    let daemon = cluster.url();
    let state = cluster.dir.join("drain.json").display().to_string();
    let mut command = cluster.command(RINGSCOPE, &["drain", "--for", "1s", "--state", &state]);
    let Output { status, stdout, stderr } =
        command.args(["--daemon", &daemon]).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Nodes that are drained, or will be once their jobs have ended, and why.
pub(crate) fn drained(cluster: &Cluster) -> Vec<(String, String)> {
    let lines = cluster.must("sinfo", &["-h", "-N", "-p", "main", "-t", "drain", "-o", "%N|%E"]);
    let pair = |line: &str| line.split_once('|').map(|(node, why)| (node.to_owned(), why.to_owned()));
    lines.lines().filter_map(pair).collect()
}

fn is_drained_once(cluster: &Cluster) {
    let script = cluster.dir.join("scripts/drain.sh").display().to_string();
    let run = ["--run", script.as_str()];
    let (code, stdout, _) = drain(cluster, &[&run[..], &["--dry-run"]].concat());
    assert!(code == Some(0) && stdout.contains(&format!("Would drain {DEGRADED}")), "{stdout}");
    let (code, stdout, _) = drain(cluster, &[]);
    assert!(code == Some(0) && stdout.contains(&format!("Would drain {DEGRADED}")), "{stdout}");
    assert_eq!(drained(cluster), [], "a dry run drains nothing");

    let (code, stdout, stderr) = drain(cluster, &run);
    assert!(code == Some(0) && stdout.contains(&format!("Drained {DEGRADED}")), "{stdout}{stderr}");
    let found = drained(cluster);
    let [(node, why)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(node, DEGRADED);
    assert!(
        why.starts_with("ringscope: channel_shortfall since 20") && why.contains("found 1 channel"),
        "{why}"
    );

    let (code, stdout, _) = drain(cluster, &run);
    assert!(code == Some(0) && stdout.contains("Already drained"), "{stdout}");
    let away = ["--daemon", "http://127.0.0.1:9", "--run", script.as_str()];
    let mut command = cluster.command(RINGSCOPE, &["drain"]);
    let away = command.args(away).arg("--state").arg(cluster.dir.join("away.json")).output().unwrap();
    let words = String::from_utf8_lossy(&away.stderr).into_owned();
    assert!(away.status.code() == Some(1) && words.contains("nothing is drained"), "{words}");
}

pub(crate) async fn is_drained(cluster: &Cluster) {
    cluster.machines(Some(DEGRADED));
    let place = cluster.meeting_place("degraded");
    enter(&place, 0);
    let id = cluster.submit(&["-N4", "--ntasks-per-node=1"], &cluster.training(&place));
    let job = format!("slurm-{id}");
    seen(cluster, &job).await;
    cluster
        .eventually("the node is named, and was for a second", async || {
            let (code, stdout, stderr) = drain(cluster, &[]);
            assert_eq!(code, Some(0), "{stderr}");
            stdout.contains("Would drain").then_some(())
        })
        .await;
    let accused = cluster.client().firing().await.unwrap();
    let accused: BTreeSet<&str> = accused
        .iter()
        .filter(|one| one.finding == ringscope_api::FindingKind::ChannelShortfall && one.job == job)
        .map(|one| one.host.as_str())
        .collect();
    assert_eq!(accused, BTreeSet::from([DEGRADED]), "it alone");
    is_drained_once(cluster);
    enter(&place, STOP);
    cluster.until_state(id, "COMPLETED").await;
    cluster.must("scontrol", &["update", &format!("NodeName={DEGRADED}"), "State=RESUME"]);
}
