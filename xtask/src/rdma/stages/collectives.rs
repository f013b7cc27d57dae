//! Every primitive, type and operator between two guests with two ranks each: RDMA between them, shared memory inside. Each rank holds
//! its result against the definition in `nccl.h`.
//!
//! On the cable for RDMA nothing else travels, so its bytes are what the formula says: of a write of S bytes ⌈S / 4096⌉ packets, each
//! with the headers of Ethernet, IP, UDP and RoCE.

use anyhow::Result;

use super::programs::{self, LIMIT, Root};
use crate::process::say;
use crate::rdma::pair::Pair;
use crate::rig::report::Report;

const STAGE: &str = "collectives";
const N_RANKS: usize = 4;

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

/// Two ranks in each guest; what each says.
fn ranks(pair: &Pair, folder: &str, settings: &str) -> Result<Vec<String>> {
    let root = Root::start(pair, folder, settings)?;
    let mut running = Vec::new();
    for rank in 0..N_RANKS {
        let guest = &pair.guests()[rank / 2];
        let (known, id) = (programs::over(guest, settings), &root.id);
        running.push(
            guest.spawn(&format!("{known} RANK={rank} {folder}/primitives {rank} {N_RANKS} {id} all"))?,
        );
    }
    let ended = running.iter_mut().map(|rank| rank.wait(LIMIT)).collect::<Result<Vec<_>>>()?;
    Ok(ended.iter().map(|told| format!("{}{}", told.text(), told.complaints()).trim().to_owned()).collect())
}
