//! A NIC goes down and comes back: the port of the RDMA device on it follows, the other guest's stays, and verbs work again.

use anyhow::Result;

use super::perftest;
use crate::rdma::links::moved;
use crate::rdma::network::Link;
use crate::rdma::pair::Pair;
use crate::rig::report::Report;

const STAGE: &str = "link-down";

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    let [serving, asking] = pair.guests();
    let before = asking.counters()?;
    asking.set_link(Link::Rdma, false)?;
    asking.wait_for_port("DOWN")?;
    report.equal(STAGE, "port of g2, its NIC down", "DOWN", asking.port_state()?.as_str());
    report.equal(STAGE, "port of g1 meanwhile", "ACTIVE", serving.port_state()?.as_str());
    asking.set_link(Link::Rdma, true)?;
    asking.wait_for_port("ACTIVE")?;
    report.equal(STAGE, "port of g2, its NIC up", "ACTIVE", asking.port_state()?.as_str());
    let n = moved(&before, &asking.counters()?).get("link_downed").copied().unwrap_or_default();
    report.equal(STAGE, "link_downed at g2", 1, n);
    let works = perftest::ping_pong(pair, 10, 4096);
    report.add(
        STAGE,
        "ibv_rc_pingpong after that",
        "works",
        if works.is_ok() { "works" } else { "fails" },
        works.is_ok(),
    );
    works.map(drop)
}
