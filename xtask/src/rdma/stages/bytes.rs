//! How many bytes: what the plugin counted, what the device counted in packets, and what the cable carried, each by formula.
//!
//! A write of S bytes is max(1, ⌈S / 4096⌉) packets. Each has the headers of Ethernet (14), IP (20), UDP (8) and RoCE (12) and a check sum
//! (4), and its payload filled up to whole words; the first one says where to write (16), the last one carries the number (4). Who
//! receives writes 32 bytes of room for each message, in one packet. Every write is answered once, by a packet of 4 bytes and headers.
//! (InfiniBand Architecture Specification, volume 1, 9.2 and annex A17; Linux, `drivers/infiniband/sw/rxe/rxe_hdr.h`.)

use anyhow::{Context as _, Result};
use rsnet_connections::parse;

use super::programs::{self, LIMIT};
use crate::rdma::links::moved;
use crate::rdma::network::Link;
use crate::rdma::pair::{Guest, Pair};
use crate::rig::report::{Limit, Report};

const STAGE: &str = "bytes";
const PORT: u16 = 18620;
/// As the harness sends them, in this order, so often.
const SIZES: [u64; 15] =
    [0, 1, 7, 64, 127, 128, 4095, 4096, 4097, 8192, 8193, 65536, 100_003, 524_288, 1 << 20];
const LOOPS: u64 = 2;
const MTU_BYTES: u64 = 4096;
const HEADERS_BYTES: u64 = 14 + 20 + 8 + 12 + 4;
const WHERE_BYTES: u64 = 16;
const NUMBER_BYTES: u64 = 4;
const ANSWER_BYTES: u64 = HEADERS_BYTES + 4;
/// What else a cable carries while a few mebibytes go over it: the guests ask for each other's addresses.
const NEAR: Limit = Limit::RatioWithin(0.999, 1.001);

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    let folder = programs::put(pair)?;
    let [serving, asking] = pair.guests();
    let before = [serving.counters()?, asking.counters()?];
    let carried_before = carried(asking)?;
    for guest in pair.guests() {
        guest.run("rm -rf /dev/shm/area; mkdir /dev/shm/area", LIMIT)?.ok()?;
    }
    let command = |guest: &Guest, role: &str| {
        let known = programs::settings(guest);
        let settings = format!("LOOPS={LOOPS} NO_FLUSH=1 NCCL_IB_TIMEOUT=20 RINGSCOPE_DIR=/dev/shm/area");
        format!("{known} {settings} {folder}/harness {folder}/libnccl-net-ringscope.so 11 {role} {PORT}")
    };
    let mut server = serving.spawn(&command(serving, "server"))?;
    asking.run(&format!("{} {}", command(asking, "client"), Link::Tcp.address(1)), LIMIT)?.ok()?;
    server.wait(LIMIT)?.ok()?;
    let sent = moved(&before[1], &asking.counters()?).get("sent_pkts").copied().unwrap_or(0);
    let answered = moved(&before[0], &serving.counters()?).get("sent_pkts").copied().unwrap_or(0);
    let on_cable = carried(asking)? - carried_before;

    let messages = LOOPS * SIZES.len() as u64;
    let payload = LOOPS * SIZES.iter().sum::<u64>();
    let packets = LOOPS * SIZES.iter().map(|size| size.div_ceil(MTU_BYTES).max(1)).sum::<u64>();
    let whole_words = LOOPS * SIZES.iter().map(|size| size.next_multiple_of(4)).sum::<u64>();
    for guest in pair.guests() {
        report.equal(
            STAGE,
            format!("bytes that the plugin counted at {}", guest.name()),
            payload,
            counted(pair, guest)?,
        );
    }
    report.equal(STAGE, "packets sent by g2: data, and answers to room", packets + messages, sent);
    // Of a long message a packet in the middle is answered too.
    let least = 2 * messages;
    report.add(
        STAGE,
        "packets sent by g1: room, and answers to data",
        format!(">= {least}"),
        answered,
        answered >= least,
    );
    let cable =
        whole_words + packets * HEADERS_BYTES + messages * (WHERE_BYTES + NUMBER_BYTES + ANSWER_BYTES);
    let (predicted, measured) = (number(cable), number(on_cable));
    report.number(STAGE, "bytes on the cable from g2", (predicted, measured), 0, NEAR);
    let less_headers = on_cable - (cable - payload);
    report.number(STAGE, "of these less headers: payload", (number(payload), number(less_headers)), 0, NEAR);
    Ok(())
}

/// Bytes that left a guest's NIC.
fn carried(guest: &Guest) -> Result<u64> {
    let path = format!("cat /sys/class/net/{}/statistics/tx_bytes", Link::Rdma.nic());
    let told = guest.run(&path, LIMIT)?.ok()?.text();
    told.trim().parse().with_context(|| format!("{}: {told}", guest.name()))
}

/// Bytes of all connections that processes of a guest have left word of.
fn counted(pair: &Pair, guest: &Guest) -> Result<u64> {
    let name = format!("area-{}", guest.name());
    guest.run(&format!("cat /dev/shm/area/*.net > /share/{name}"), LIMIT)?.ok()?;
    let bytes = std::fs::read(pair.share().join(name))?;
    let told = parse(&bytes).map_err(|wrong| anyhow::anyhow!("{}: {wrong:?}", guest.name()))?;
    Ok(told.all.iter().map(|connection| connection.counts.bytes).sum())
}

#[expect(clippy::cast_precision_loss, reason = "bytes of an experiment, for people")]
fn number(bytes: u64) -> f64 {
    bytes as f64
}
