//! Every primitive, type and operator between two guests with two ranks each: RDMA between them, shared memory inside. Each rank holds
//! its result against the definition in `nccl.h`.
//!
//! On the cable for RDMA nothing else travels, so its bytes are what the formula says: of a write of S bytes ⌈S / 4096⌉ packets, each
//! with the headers of Ethernet, IP, UDP and RoCE.

use anyhow::{Context as _, Result};

use super::programs::{self, LIMIT};
use crate::process::say;
use crate::rdma::network::Link;
use crate::rdma::pair::{Guest, Pair};
use crate::rig::report::Report;

const STAGE: &str = "collectives";
const N_RANKS: usize = 4;
const TERM: u8 = 15;

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    let folder = programs::put(pair)?;
    for (network, settings) in [("verbs", "RSCCL_NET=verbs"), ("sockets", "RSCCL_NET=socket")] {
        let what = format!("all primitives, types and operators over {network}, {N_RANKS} ranks");
        let told = ranks(pair, folder, &format!("{settings} RSCCL_TIMEOUT_S=100"))?;
        let is_right = told.iter().all(|told| told.ends_with("DONE"));
        if !is_right {
            told.iter().for_each(|told| say(told));
        }
        report.equal(STAGE, what, true, is_right);
    }
    Ok(())
}

/// Two ranks in each guest, on the cable for TCP where they talk over sockets; what each says.
fn ranks(pair: &Pair, folder: &str, settings: &str) -> Result<Vec<String>> {
    // The NIC's name is the device's, so that the log says over what data go; its address is the one for TCP.
    let known = |guest: &Guest| {
        format!(
            "{} RSCCL_NICS=rxe0={} {settings}",
            programs::settings(guest),
            Link::Tcp.address(guest.number())
        )
    };
    let mut root = pair.guest(1).spawn(&format!("{} exec {folder}/root", known(pair.guest(1))))?;
    root.wait_for("\n", LIMIT)?;
    let said = root.said();
    let id = said.trim().strip_prefix("ID ").with_context(|| format!("no unique id: {said}"))?;
    let mut running = Vec::new();
    for rank in 0..N_RANKS {
        let guest = &pair.guests()[rank / 2];
        let known = known(guest);
        running.push(
            guest.spawn(&format!("{known} RANK={rank} {folder}/primitives {rank} {N_RANKS} {id} all"))?,
        );
    }
    let ended = running.iter_mut().map(|rank| rank.wait(LIMIT)).collect::<Result<Vec<_>>>()?;
    root.signal(TERM)?;
    Ok(ended.iter().map(|told| format!("{}{}", told.text(), told.complaints()).trim().to_owned()).collect())
}
