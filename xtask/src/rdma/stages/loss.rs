//! A link that loses one packet in a hundred: data is right all the same, and the counters say what happened.
//!
//! The side that sends counts what it was told of (`rcvd_seq_err`) and what it repeated (`completer_retry_err`), the side that receives
//! what came out of order (`out_of_seq_request`) or twice (`duplicate_request`). Of N packets at a loss of p the chance that none was
//! lost is (1 − p)^N: here 10⁻¹⁴.

use anyhow::Result;

use super::perftest::{self, Run, USUAL_TIMEOUT};
use crate::process::say;
use crate::rdma::links::moved;
use crate::rdma::network::Link;
use crate::rdma::pair::Pair;
use crate::rig::report::Report;

const STAGE: &str = "loss";
const N: u32 = 200;
/// Few: the connection manager's time-out is 2 s, and a lost last packet of a message is noticed by that alone.
const N_CHECKED: u32 = 10;
const SIZE_BYTES: u32 = 65536;
const WRITE: Run = Run { program: "ib_write_bw", n: N, size_bytes: SIZE_BYTES, ack_timeout: USUAL_TIMEOUT };
const LOSS: &str = "loss 1%";

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    let [serving, asking] = pair.guests();
    let before = [serving.counters()?, asking.counters()?];
    asking.set_netem(Link::Rdma, LOSS)?;
    let bandwidth = perftest::bandwidth(pair, WRITE);
    let is_right = perftest::is_data_right(pair, N_CHECKED, SIZE_BYTES - 1);
    asking.clear_netem(Link::Rdma)?;
    let at_server = moved(&before[0], &serving.counters()?);
    let at_client = moved(&before[1], &asking.counters()?);
    say(&format!("{LOSS} at g2; {:.1} MiB/s; counted at g1, {at_server:?}", bandwidth? / perftest::MIB));
    say(&format!("counted at g2, {at_client:?}"));
    report.equal(
        STAGE,
        format!("{N_CHECKED} writes and reads of 64 KiB come as they were sent"),
        true,
        is_right?,
    );
    for (counters, guest, name) in [
        (&at_client, "g2", "rcvd_seq_err"),
        (&at_client, "g2", "completer_retry_err"),
        (&at_server, "g1", "out_of_seq_request"),
    ] {
        let n = counters.get(name).copied().unwrap_or_default();
        report.add(STAGE, format!("{name} at {guest}"), "> 0", n, n > 0);
    }
    for (counters, guest) in [(&at_server, "g1"), (&at_client, "g2")] {
        let n = counters.get("retry_exceeded_err").copied().unwrap_or_default();
        report.equal(STAGE, format!("retry_exceeded_err at {guest}"), 0, n);
    }
    Ok(())
}
