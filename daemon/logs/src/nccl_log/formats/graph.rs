//! Rows of the graph searches, and trees. Source: NCCL `src/graph/search.cc` `ncclTopoPrintGraph`, `src/init.cc`
//! `initTransportsRank`.

use super::super::pattern::{Captures, hex};
use super::{Message, Row, RowGpu, TreeFact};

/// GPUs of one row: those of a rack with multi-node NVLink.
const MAX_ROW_GPUS: usize = 128;
/// Bytes of a line of trees beyond which its last part may be cut: NCCL has 1024 for it, up to 2.28 with the prefix, in
/// which the host's name is the longest part.
const TREES_MAY_BE_CUT_BYTES: usize = 850;

/// `2 : NET/0-4 GPU/6 GPU/5 NET/0-4`, since 2.27 `0 : GPU/0-3000 GPU/0-d000`.
pub(super) fn row(c: &Captures<'_>) -> Option<Message> {
    c.u32(0)?;
    let mut row = Row::default();
    for word in c.text(1)?.split_ascii_whitespace() {
        let (kind, name) = word.split_once('/')?;
        match kind {
            "GPU" if row.gpus.len() < MAX_ROW_GPUS => row.gpus.push(gpu(name)?),
            "NET" if row.gpus.is_empty() => row.enter = Some(name.to_owned()),
            "NET" => row.leave = Some(name.to_owned()),
            // A switch, which stands between all GPUs.
            "NVS" | "PCI" | "CPU" => {}
            _ => return None,
        }
    }
    (!row.gpus.is_empty()).then_some(Message::Row(row))
}

fn gpu(name: &str) -> Option<RowGpu> {
    Some(match name.split_once('-') {
        Some((_, bus_id)) => RowGpu::Bus(hex(bus_id)?),
        None => RowGpu::Rank(name.parse().ok()?),
    })
}

/// `[0] 6/-1/-1->5->4 [1] …`: those below, the rank, the one above; up to 2.7 a second tree stands behind a `|`.
pub(super) fn trees(c: &Captures<'_>) -> Option<Message> {
    let text = c.text(0)?;
    let mut words = text.split_ascii_whitespace();
    let mut trees = Vec::new();
    while let Some(channel) =
        words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']')?.parse().ok())
    {
        let Some(place) = words.next().and_then(|word| place(word.split('|').next()?)) else { break };
        trees.push((channel, place));
    }
    if text.len() >= TREES_MAY_BE_CUT_BYTES {
        trees.pop();
    }
    Some(Message::Trees(trees))
}

fn place(text: &str) -> Option<TreeFact> {
    let mut parts = text.split("->");
    let (below, rank, above) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    let number = |text: &str| text.parse::<i64>().ok();
    let down: Option<Vec<i64>> = below.split('/').take(MAX_BELOW).map(number).collect();
    let down = down?.into_iter().filter_map(|rank| u32::try_from(rank).ok()).collect();
    Some(TreeFact { rank, up: u32::try_from(number(above)?).ok(), down })
}

/// Ranks below one: NCCL_MAX_TREE_ARITY.
const MAX_BELOW: usize = 3;
