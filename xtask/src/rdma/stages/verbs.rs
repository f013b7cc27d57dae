//! Verbs between the guests, on a link that loses nothing: what perftest reaches, and whether the device's counters are what the formula
//! says.
//!
//! A write of S bytes at an MTU of 4096 is ⌈S / 4096⌉ packets there. Speeds are of a kernel that copies in an emulated processor:
//! they say that it works, not how fast anything is.

use anyhow::Result;

use super::perftest::{self, PATIENT_TIMEOUT, Run};
use crate::rdma::links::moved;
use crate::rdma::pair::Pair;
use crate::rig::report::{Limit, Report};

const STAGE: &str = "verbs";
const N: u32 = 200;
const SIZE_BYTES: u32 = 65536;
const WRITE: Run = Run { program: "ib_write_bw", n: N, size_bytes: SIZE_BYTES, ack_timeout: PATIENT_TIMEOUT };
/// Payload of a packet: the active MTU of an Ethernet MTU of 4200.
const MTU_BYTES: u32 = 4096;
/// What guests reached on two idle cores, MiB/s and µs.
const USUAL_MIB_S: f64 = 15.0;
const USUAL_PING_PONG_US: f64 = 2500.0;

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    let [serving, asking] = pair.guests();
    let before = [serving.counters()?, asking.counters()?];
    let write = perftest::bandwidth(pair, WRITE)?;
    let at_server = moved(&before[0], &serving.counters()?);
    let at_client = moved(&before[1], &asking.counters()?);
    let of = |counters: &std::collections::BTreeMap<String, u64>, name: &str| {
        counters.get(name).copied().unwrap_or_default()
    };
    let packets = u64::from(N) * u64::from(SIZE_BYTES.div_ceil(MTU_BYTES));
    report.equal(
        STAGE,
        format!("packets sent for {N} writes of {} KiB", SIZE_BYTES / 1024),
        packets,
        of(&at_client, "sent_pkts"),
    );
    report.equal(STAGE, "packets received of them", packets, of(&at_server, "rcvd_pkts"));
    report.equal(
        STAGE,
        "answers sent, and received",
        of(&at_server, "sent_pkts"),
        of(&at_client, "rcvd_pkts"),
    );
    let usual = |report: &mut Report, what: &str, bytes_s: f64| {
        report.number(
            STAGE,
            format!("{what}, MiB/s"),
            (USUAL_MIB_S, bytes_s / perftest::MIB),
            1,
            Limit::None,
        );
    };
    usual(report, "ib_write_bw", write);
    usual(report, "ib_read_bw", perftest::bandwidth(pair, Run { program: "ib_read_bw", ..WRITE })?);
    let ping_pong_us = perftest::ping_pong(pair, N, MTU_BYTES)?;
    report.number(STAGE, "ibv_rc_pingpong of 4 KiB, µs", (USUAL_PING_PONG_US, ping_pong_us), 0, Limit::None);
    Ok(())
}
