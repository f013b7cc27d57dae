//! JSON lines of NCCL Inspector: one finished operation each, with the rank's place in its communicator. An operation
//! that hangs is never among them, and small ones are left out by default, so the counts are lower bounds.
//! Format: NCCL `plugins/profiler/inspector/inspector_json.cc` (versions up to v4.2).

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read};

use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;
use serde::Deserialize;

use super::error::FileError;
use super::report::{FileReport, Progress, note_unparsed};
use super::source::CHUNK_BYTES;

/// What all files of Inspector say, by (host, pid), communicator and rank.
#[derive(Debug, Default)]
pub(super) struct Inspected {
    pub(super) ranks: BTreeMap<(String, u32, String, u32), InspectedRank>,
}

/// What one rank did in one communicator.
#[derive(Debug, Default)]
pub(super) struct InspectedRank {
    pub(super) n_ranks: u32,
    pub(super) n_nodes: Option<u32>,
    pub(super) name: String,
    pub(super) first: Timestamp,
    pub(super) primitives: BTreeMap<Primitive, Finished>,
    /// Operations that Inspector itself lost.
    pub(super) dropped: u64,
}

/// Finished operations of one primitive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Finished {
    pub(super) calls: u64,
    pub(super) bytes: u64,
    pub(super) busy_ns: u64,
}

#[derive(Deserialize)]
struct Line {
    header: Header,
    #[serde(default)]
    metadata: Metadata,
    coll_perf: Option<Collective>,
    p2p_perf: Option<PointToPoint>,
    dump_stats: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Deserialize)]
struct Header {
    id: String,
    #[serde(default)]
    comm_name: String,
    rank: u32,
    n_ranks: u32,
    nnodes: Option<u32>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    dump_timestamp_us: u64,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    pid: u32,
}

#[derive(Deserialize)]
struct Collective {
    coll: String,
    #[serde(default)]
    coll_msg_size_bytes: u64,
    #[serde(default)]
    coll_exec_time_us: u64,
}

#[derive(Deserialize)]
struct PointToPoint {
    p2p: String,
    #[serde(default)]
    p2p_msg_size_bytes: u64,
    #[serde(default)]
    p2p_exec_time_us: u64,
}

/// Reads a file of them, line by line.
pub(super) fn read(
    inspected: &mut Inspected,
    report: &mut FileReport,
    bytes: impl Read,
    progress: Progress<'_>,
) -> Result<(), FileError> {
    let mut bytes = BufReader::with_capacity(CHUNK_BYTES, bytes);
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = (&mut bytes).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if n == 0 {
            return Ok(());
        }
        report.bytes += n as u64;
        report.lines += u64::from(line.last() == Some(&b'\n'));
        progress(report.bytes);
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Line>(text) {
            Ok(line) => inspected.add(line, report),
            Err(_) => note_unparsed(report, "a line that is no record of Inspector"),
        }
    }
}

impl Inspected {
    fn add(&mut self, line: Line, report: &mut FileReport) {
        let Line { header, metadata, coll_perf, p2p_perf, dump_stats } = line;
        let key = (metadata.hostname, metadata.pid, header.id, header.rank);
        if self.ranks.len() >= MAX_RANKS && !self.ranks.contains_key(&key) {
            return note_unparsed(report, "a rank beyond the limit");
        }
        let rank = self.ranks.entry(key).or_default();
        rank.n_ranks = header.n_ranks;
        rank.n_nodes = header.nnodes.or(rank.n_nodes);
        if header.comm_name != "unknown" {
            rank.name = header.comm_name;
        }
        let at = Timestamp(metadata.dump_timestamp_us.saturating_mul(1000));
        if rank.first == Timestamp(0) || at < rank.first {
            rank.first = at;
        }
        let (name, bytes, us) = match (coll_perf, p2p_perf) {
            (Some(one), _) => (one.coll, one.coll_msg_size_bytes, one.coll_exec_time_us),
            (None, Some(one)) => (one.p2p, one.p2p_msg_size_bytes, one.p2p_exec_time_us),
            (None, None) => {
                let dropped = |key: &str| {
                    dump_stats.as_ref().and_then(|stats| stats.get(key)?.as_u64()).unwrap_or_default()
                };
                let total = dropped("coll_dropped_total").saturating_add(dropped("p2p_dropped_total"));
                rank.dropped = rank.dropped.max(total);
                return;
            }
        };
        let Some(primitive) = primitive(&name) else {
            return note_unparsed(
                report,
                &format!("operation {}", name.chars().take(40).collect::<String>()),
            );
        };
        let finished = rank.primitives.entry(primitive).or_default();
        finished.calls += 1;
        finished.bytes = finished.bytes.saturating_add(bytes);
        finished.busy_ns = finished.busy_ns.saturating_add(us.saturating_mul(1000));
        report.records += 1;
    }
}

/// The primitive of NCCL's name for it (`ncclFuncToString`).
pub(super) fn primitive(name: &str) -> Option<Primitive> {
    Some(match name {
        "AllReduce" => Primitive::AllReduce,
        "AllGather" | "AllGatherV" => Primitive::AllGather,
        "ReduceScatter" => Primitive::ReduceScatter,
        "Broadcast" => Primitive::Broadcast,
        "Reduce" => Primitive::Reduce,
        "Send" => Primitive::Send,
        "Recv" => Primitive::Recv,
        "AlltoAll" | "All2All" => Primitive::AllToAll,
        "Gather" => Primitive::Gather,
        "Scatter" => Primitive::Scatter,
        "PutSignal" => Primitive::PutSignal,
        _ => return None,
    })
}

/// `0x1f82f8f6b7863cd3`, with or without the prefix.
pub(super) fn hash(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok().filter(|hash| *hash != 0)
}

/// Longest line: a verbose record with the traces of 64 channels has some 20 KiB.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Ranks of communicators told apart.
const MAX_RANKS: usize = 262_144;
