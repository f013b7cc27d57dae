//! A summation group over verbs: two workers and a server in two guests, and the bits of their sums beside those over sockets.

use anyhow::{Result, ensure};

use super::programs::{self, LIMIT};
use crate::rdma::network::Link;
use crate::rdma::pair::{Guest, Pair};
use crate::rig::report::Report;

const STAGE: &str = "summation";
const PORT: u16 = 18630;

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    let folder = programs::put(pair)?;
    let over = |network: &str| sums(pair, folder, network);
    let (verbs, sockets) = (over("verbs")?, over("socket")?);
    report.equal(STAGE, "sums of 2 workers and 1 server over verbs", sockets.as_str(), verbs.as_str());
    Ok(())
}

/// What the workers say of their sums: the fingerprint of all of them, which both must have.
fn sums(pair: &Pair, folder: &str, network: &str) -> Result<String> {
    let [one, two] = pair.guests();
    let known = |guest: &Guest| {
        let root = format!("RSUM_ROOT={}:{PORT} RSUM_SECRET=secret", Link::Tcp.address(1));
        let group = format!(
            "RSUM_WORKERS=2 RSUM_SERVERS=1 RSUM_NET={network} RSCCL_SHM_DISABLE=1 RSCCL_TIMEOUT_S=60"
        );
        programs::over(guest, &format!("{root} {group}"))
    };
    let worker = |guest: &Guest| {
        let (known, number) = (known(guest), guest.number() - 1);
        guest.spawn(&format!("{known} RSUM_RANK={number} exec {folder}/sum sums"))
    };
    let mut workers = [worker(one)?, worker(two)?];
    let mut server = two.spawn(&format!("{} exec {folder}/ringscope-sumd", known(two)))?;
    let mut told = Vec::new();
    for worker in &mut workers {
        told.push(worker.wait(LIMIT)?.ok()?.text());
    }
    server.wait(LIMIT)?.ok()?;
    let prints: Vec<&str> = told.iter().filter_map(|told| told.split_whitespace().nth(1)).collect();
    ensure!(told.iter().all(|told| told.contains("DONE")), "{told:?}");
    ensure!(prints.len() == 2 && prints[0] == prints[1], "the workers' sums differ: {told:?}");
    Ok(prints[0].to_owned())
}
