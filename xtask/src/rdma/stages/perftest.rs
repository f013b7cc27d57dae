//! perftest and the ping-pong of libibverbs between guests: guest 1 serves, guest 2 asks. They meet on `tcp0`; what they measure goes over
//! `rdma0`.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::clock::eventually;
use crate::rdma::network::{DEVICE, Link};
use crate::rdma::pair::{Guest, Pair};

/// Where both programs meet.
pub(in crate::rdma) const PORT: u16 = 18515;
/// For a run that takes seconds.
const LIMIT: Duration = Duration::from_secs(100);

/// A run of perftest.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct Run {
    /// `ib_write_bw`, `ib_read_bw` or `ib_send_bw`.
    pub(in crate::rdma) program: &'static str,
    /// Messages.
    pub(in crate::rdma) n: u32,
    /// Of each.
    pub(in crate::rdma) size_bytes: u32,
    /// Without an answer for 4.096 µs times two to the power of it, a packet is sent again.
    pub(in crate::rdma) ack_timeout: u8,
}

/// 67 ms: libibverbs' programs' own. On a busy machine guests may take longer to answer.
pub(in crate::rdma) const USUAL_TIMEOUT: u8 = 14;
/// 4 s: nothing is sent again that was not lost.
pub(in crate::rdma) const PATIENT_TIMEOUT: u8 = 20;

/// Mean bandwidth that the program tells, in bytes per second.
pub(in crate::rdma) fn bandwidth(pair: &Pair, run: Run) -> Result<f64> {
    let Run { program, n, size_bytes, ack_timeout } = run;
    let command = |guest: &Guest| -> Result<String> {
        Ok(format!(
            "{program} -d {DEVICE} -x {} -p {PORT} -n {n} -s {size_bytes} -u {ack_timeout} -F",
            guest.gid_index()?
        ))
    };
    let told = served(pair, command)?;
    // bytes, iterations, peak, mean, messages; MiB/s.
    let size = size_bytes.to_string();
    let line = told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mean = line
        .filter(|words| words.first() == Some(&size.as_str()))
        .find_map(|words| words.get(3)?.parse().ok());
    let mib_s: f64 = mean.with_context(|| format!("{program} tells no bandwidth: {told}"))?;
    Ok(mib_s * MIB)
}

/// `ib_write_bw` as it writes for an hour, unless it is ended.
pub(in crate::rdma) fn endless(guest: &Guest) -> Result<String> {
    Ok(format!("ib_write_bw -d {DEVICE} -x {} -p {PORT} -D 3600 -s 65536 -F", guest.gid_index()?))
}

/// Microseconds of one way there and back, by `ibv_rc_pingpong`.
pub(super) fn ping_pong(pair: &Pair, n: u32, size_bytes: u32) -> Result<f64> {
    let command = |guest: &Guest| -> Result<String> {
        Ok(format!("ibv_rc_pingpong -d {DEVICE} -g {} -p {PORT} -n {n} -s {size_bytes}", guest.gid_index()?))
    };
    let told = served(pair, command)?;
    let words: Vec<&str> = told.split_whitespace().collect();
    let mean =
        words.iter().position(|word| *word == "usec/iter").and_then(|at| words.get(at - 1)?.parse().ok());
    mean.with_context(|| format!("ibv_rc_pingpong tells no time: {told}"))
}

/// Whether what `rping` wrote into the other guest's memory, and what it read from there, came back as it was.
pub(super) fn is_data_right(pair: &Pair, n: u32, size_bytes: u32) -> Result<bool> {
    let (serving, asking) = (pair.guest(1), pair.guest(2));
    let options = format!("-V -C {n} -S {size_bytes}");
    let mut server = serving.spawn(&format!("rping -s {options}"))?;
    eventually("rping listens", LIMIT, || {
        Ok(serving.run("rdma res show cm_id", LIMIT)?.ok()?.text().contains("LISTEN").then_some(()))
    })?;
    let asked = asking.run(&format!("rping -c -a {} {options}", Link::Rdma.address(1)), LIMIT)?;
    Ok(asked.code == 0 && server.wait(LIMIT)?.code == 0)
}

/// What the asking side says.
fn served(pair: &Pair, command: impl Fn(&Guest) -> Result<String>) -> Result<String> {
    let (serving, asking) = (pair.guest(1), pair.guest(2));
    let mut server = serving.spawn(&command(serving)?)?;
    serving.wait_for_listener(PORT)?;
    let asked = format!("{} {}", command(asking)?, Link::Tcp.address(1));
    let told = asking.run(&asked, LIMIT)?.ok();
    let ended = if told.is_ok() || server.is_over() {
        server.wait(LIMIT)?.ok()
    } else {
        return told.map(|told| told.text());
    };
    // Where both failed, the server's words say more.
    ended.and(told).map(|told| told.text())
}

/// Bytes of it.
pub(super) const MIB: f64 = 1024.0 * 1024.0;
