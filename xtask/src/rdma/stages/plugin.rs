//! The network plugin alone, called as NCCL calls it, by each version of its interface: sizes from nothing to a mebibyte between the
//! guests, over one queue pair and over several, with and without what adaptive routing needs, and on a link that loses packets.

use anyhow::Result;

use super::programs::{self, LIMIT};
use crate::process::say;
use crate::rdma::network::Link;
use crate::rdma::pair::{Guest, Pair};
use crate::rig::report::Report;

const STAGE: &str = "plugin";
const PORT: u16 = 18600;
/// Of ways to send, each under its settings.
const WAYS: [(&str, u32, &str); 7] = [
    ("version 8", 8, ""),
    ("version 9", 9, ""),
    ("version 10", 10, ""),
    ("version 11", 11, ""),
    ("4 queue pairs in turn", 11, "NCCL_IB_QPS_PER_CONNECTION=4"),
    ("3 queue pairs for each message", 11, "NCCL_IB_QPS_PER_CONNECTION=3 NCCL_IB_SPLIT_DATA_ON_QPS=1"),
    ("data and number apart", 10, "NCCL_IB_ADAPTIVE_ROUTING=1 NCCL_IB_AR_THRESHOLD=4096"),
];

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    let folder = programs::put(pair)?;
    for (way, version, settings) in WAYS {
        between(pair, report, (folder, way, version), &format!("LOOPS=2 {settings}"))?;
    }
    pair.guest(2).set_netem(Link::Rdma, "loss 1%")?;
    let lossy = between(pair, report, (folder, "one packet in a hundred lost", 11), "LOOPS=1");
    pair.guest(2).clear_netem(Link::Rdma)?;
    lossy
}

/// Both ends say that all is as it was sent.
fn between(
    pair: &Pair,
    report: &mut Report,
    (folder, way, version): (&str, &str, u32),
    settings: &str,
) -> Result<()> {
    let [serving, asking] = pair.guests();
    let command = |guest: &Guest, role: &str| {
        let known = programs::settings(guest);
        format!(
            "{known} {settings} {folder}/harness {folder}/libnccl-net-ringscope.so {version} {role} {PORT}"
        )
    };
    let mut server = serving.spawn(&command(serving, "server"))?;
    let client = format!("{} {}", command(asking, "client"), Link::Tcp.address(1));
    let sent = asking.run(&client, LIMIT)?;
    let received = server.wait(LIMIT)?;
    let is_right = sent.code == 0 && received.code == 0;
    if !is_right {
        for told in [&sent, &received] {
            say(&format!("{way}: {} {}", told.text().trim(), told.complaints().trim()));
        }
    }
    report.equal(STAGE, way, true, is_right);
    Ok(())
}
