//! What goes wrong between two ends of the plugin: each has a clear error within a minute, and nobody hangs.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::programs::{self, LIMIT, Root};
use crate::process::say;
use crate::rdma::image::Extras;
use crate::rdma::network::Link;
use crate::rdma::pair::{Guest, Pair};
use crate::rdma::shell::Output;
use crate::rig::report::Report;

const STAGE: &str = "faults";
const PORT: u16 = 18610;
/// From the fault to the error on both sides: six retries at 67 ms, and an emulated processor.
const SOON: Duration = Duration::from_secs(60);
const KILL: u8 = 9;
const TERM: u8 = 15;

/// What is built, and what takes a right away.
pub(super) fn prepare() -> Result<Extras> {
    let mut extras = programs::build()?;
    extras.programs.push("/usr/bin/setpriv".into());
    Ok(extras)
}

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    let folder = programs::put(pair)?;
    port_down(pair, report, folder)?;
    killed_peer(pair, report, folder)?;
    stale_key(pair, report, folder)?;
    refused_registration(pair, report, folder)?;
    too_many_queue_pairs(pair, report, folder)
}

/// A job of one rank in each guest, which reduces until something fails.
fn until_error(pair: &Pair, folder: &str) -> Result<(Root, [crate::rdma::shell::Running; 2])> {
    let root = Root::start(pair, folder, "RSCCL_NET=verbs")?;
    let start = |guest: &Guest| {
        let (known, rank) = (programs::over(guest, "RSCCL_NET=verbs RSCCL_TIMEOUT_S=20"), guest.number() - 1);
        guest.spawn(&format!("{known} RANK={rank} exec {folder}/rank {rank} 2 {} until-error", root.id))
    };
    let [one, two] = pair.guests();
    let ranks = [start(one)?, start(two)?];
    for rank in &ranks {
        rank.wait_for("READY", LIMIT)?;
    }
    Ok((root, ranks))
}

fn port_down(pair: &Pair, report: &mut Report, folder: &str) -> Result<()> {
    let (root, mut ranks) = until_error(pair, folder)?;
    pair.guest(2).set_link(Link::Rdma, false)?;
    let ended = ranks.iter_mut().map(|rank| rank.wait(SOON)).collect::<Result<Vec<_>>>();
    pair.guest(2).set_link(Link::Rdma, true)?;
    pair.guest(2).wait_for_port("ACTIVE")?;
    drop(root);
    for (rank, told) in ended?.iter().enumerate() {
        let words = ["rxe0", "rank 1 (g2", "(status "];
        says(
            report,
            &format!("port down: the error of rank {rank} names rank 1, its device and the status"),
            told,
            &words,
        );
    }
    Ok(())
}

fn killed_peer(pair: &Pair, report: &mut Report, folder: &str) -> Result<()> {
    let (root, [mut alive, mut dead]) = until_error(pair, folder)?;
    dead.signal(KILL)?;
    let told = alive.wait(SOON)?;
    drop(root);
    says(
        report,
        "killed peer: the error of rank 0 names rank 1",
        &told,
        &["rank 1 (g2", "closed the connection"],
    );
    Ok(())
}

fn stale_key(pair: &Pair, report: &mut Report, folder: &str) -> Result<()> {
    let [sent, received] = harness(pair, folder, "", "STALE=1", "")?;
    let words = ["remote access error", "rxe0", "a write of", "(g1, rxe0)"];
    says(report, "stale key: the writer's error names peer and verbs' words", &sent, &words);
    says(report, "stale key: the owner is told", &received, &["FAILED", "g2"]);
    Ok(())
}

/// 64 KiB of locked memory, and no right to more.
fn refused_registration(pair: &Pair, report: &mut Report, folder: &str) -> Result<()> {
    let [sent, _] = harness(pair, folder, programs::LITTLE_MEMORY, "", "")?;
    says(report, "locked memory refused: what to do is said", &sent, &["register", "ulimit -l"]);
    Ok(())
}

fn too_many_queue_pairs(pair: &Pair, report: &mut Report, folder: &str) -> Result<()> {
    let [sent, received] =
        harness(pair, folder, programs::FEW_QUEUE_PAIRS, "", "NCCL_IB_QPS_PER_CONNECTION=8")?;
    says(
        report,
        "too many queue pairs: how many were wanted is said",
        &sent,
        &["queue pairs of a connection: 8", "rxe0"],
    );
    ensure!(received.code != 0, "the other end goes on");
    Ok(())
}

/// What both ends say: the asking one under `before` and with its own settings.
fn harness(pair: &Pair, folder: &str, before: &str, serving: &str, asking: &str) -> Result<[Output; 2]> {
    let [server, client] = pair.guests();
    let command = |guest: &Guest, before: &str, settings: &str, role: &str| {
        let before = if before.is_empty() { "exec env" } else { before };
        let known = programs::settings(guest);
        let plugin = format!("{folder}/libnccl-net-ringscope.so");
        format!("{before} {known} {settings} PATIENCE=20 {folder}/harness {plugin} 11 {role} {PORT}")
    };
    let mut received = server.spawn(&command(server, "", serving, "server"))?;
    let asked = format!("{} {}", command(client, before, asking, "client"), Link::Tcp.address(1));
    let sent = client.run(&asked, SOON)?;
    if !before.is_empty() && !received.is_over() {
        // Who fails before it has called is waited for.
        received.signal(TERM)?;
    }
    Ok([sent, received.wait(SOON)?])
}

fn says(report: &mut Report, what: &str, told: &Output, words: &[&str]) {
    let said = format!("{} {}", told.text().trim(), told.complaints().trim());
    let missing: Vec<&&str> = words.iter().filter(|words| !said.contains(**words)).collect();
    if !missing.is_empty() {
        say(&format!("{what}: {missing:?} not said, exit status {}: {said}", told.code));
    }
    report.equal(STAGE, what, true, missing.is_empty());
}
