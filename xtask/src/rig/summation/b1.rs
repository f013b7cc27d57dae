//! B1: what each node sends and receives in a push-pull, in payload bytes, equals Equations 1 and 2 to what whole parts
//! allow, and what the placement predicts to the byte. The queues of the links count too, with all headers.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::network::WIRE_PER_PAYLOAD;
use super::super::report::{Limit, Report};
use super::group::{Ground, Plan};
use super::theory::{Shape, as_f64};

/// How much is tried.
#[derive(Debug)]
pub(super) struct Sizes {
    shapes: &'static [Shape],
    model_bytes: u64,
    partition_bytes: &'static [u64],
}

/// Everything.
pub(super) const FULL: Sizes = Sizes {
    shapes: &[
        Shape::of(3, 0),
        Shape::of(3, 1),
        Shape::of(3, 3),
        Shape::of(4, 0),
        Shape::of(4, 1),
        Shape::of(4, 2),
        Shape::of(4, 4),
        Shape::of(6, 3),
    ],
    model_bytes: 24_000_000,
    partition_bytes: &[1_000_000, 64_000],
};
/// A few, for the tests.
pub(super) const QUICK: Sizes =
    Sizes { shapes: &[Shape::of(3, 1), Shape::of(4, 2)], model_bytes: 2_400_000, partition_bytes: &[64_000] };

/// A node's bytes.
#[derive(Debug)]
struct Node {
    rank: usize,
    predicted: Bytes,
    counted: Bytes,
    /// What its link's queue let out, with all headers.
    on_wire: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes {
    sent: u64,
    received: u64,
    /// Pushed by a worker to its own machine's service.
    kept: u64,
}

/// Runs it.
pub(super) fn run(programs: &Path, sizes: &Sizes, report: &mut Report) -> Result<()> {
    let n_hosts = sizes.shapes.iter().map(|shape| shape.n_hosts()).max().unwrap_or(0);
    let ground = Ground::lay(programs, "b1", n_hosts, RATE_MBIT)?;
    for shape in sizes.shapes {
        for partition_bytes in sizes.partition_bytes {
            let plan = Plan::of(sizes.model_bytes, *partition_bytes);
            let nodes = nodes(&ground, *shape, &plan, sizes.model_bytes)?;
            judge(&nodes, *shape, sizes.model_bytes, *partition_bytes, report);
        }
    }
    ground.clear()
}

/// Sums in a group of this shape, and counts.
fn nodes(ground: &Ground, shape: Shape, plan: &Plan, model_bytes: u64) -> Result<Vec<Node>> {
    let sent_on_wire = || (0..shape.n_hosts()).map(|host| ground.network.sent_on_wire_bytes(host, 0));
    let before = sent_on_wire().collect::<Result<Vec<u64>>>()?;
    let mut group = ground.group(&format!("b1-{}-{}", shape.n, shape.k), shape.n_hosts())?;
    let predicted = group.join(shape, plan)?;
    group.rounds(json!({ "n": ROUNDS, "check": true }))?;
    let counted = group.leave()?;
    group.job.finish()?;
    let after = sent_on_wire().collect::<Result<Vec<u64>>>()?;
    let number = |of: &Value, name: &str| of[name].as_u64().with_context(|| format!("no {name} in {of}"));
    let node = |rank: usize| {
        let (said, found) = (&predicted[rank], &counted[rank]);
        // Every worker pushes the whole model: what did not leave it stayed.
        let pushes = if rank < shape.n { ROUNDS * model_bytes } else { 0 };
        let kept = pushes.saturating_sub(number(found, "pushed")?);
        let of_rounds = |name: &str| Ok::<_, anyhow::Error>(ROUNDS * number(said, name)?);
        let predicted = Bytes {
            sent: of_rounds("sent")?,
            received: of_rounds("received")?,
            kept: of_rounds("loop_back")?,
        };
        let counted = Bytes { sent: number(found, "sent")?, received: number(found, "received")?, kept };
        Ok(Node { rank, predicted, counted, on_wire: after[rank] - before[rank] })
    };
    (0..shape.n_hosts()).map(node).collect()
}

fn judge(nodes: &[Node], shape: Shape, model_bytes: u64, partition_bytes: u64, report: &mut Report) {
    let words = format!("{shape}, parts of {partition_bytes} B");
    let model = as_f64(ROUNDS * model_bytes);
    for (who, is_worker) in [("worker", true), ("server", false)] {
        let of = || nodes.iter().filter(|node| (node.rank < shape.n) == is_worker);
        let Some(first) = of().next() else { continue };
        let theory = shape.carried(first.rank);
        let off = as_f64(shape.parts_off(first.rank) as u64 * partition_bytes) / as_f64(model_bytes);
        let both =
            |node: &Node| [node.counted.sent, node.counted.received].map(|bytes| as_f64(bytes) / model);
        let counted: Vec<f64> = of().flat_map(both).collect();
        let farthest =
            counted.iter().copied().max_by(|a, b| (a - theory).abs().total_cmp(&(b - theory).abs()));
        let farthest = farthest.unwrap_or(f64::NAN);
        let what = format!("{words}: M sent and received by a {who}, the farthest (off by {off:.4} at most)");
        let (predicted, measured) = (format!("{theory:.4}"), format!("{farthest:.4}"));
        report.add("B1", what, predicted, measured, (farthest - theory).abs() <= off + f64::EPSILON);
    }
    let sum = |of: fn(&Node) -> u64| nodes.iter().map(of).sum::<u64>();
    let exact = |of: fn(&Bytes) -> u64| nodes.iter().all(|node| of(&node.predicted) == of(&node.counted));
    let mut to_the_byte = |what: &str, of: fn(&Bytes) -> u64, predicted: u64, measured: u64| {
        let what = format!("{words}: bytes {what}, every node exact");
        report.add("B1", what, predicted, measured, exact(of));
    };
    let (said, found) = (sum(|node| node.predicted.sent), sum(|node| node.counted.sent));
    to_the_byte("sent", |bytes| bytes.sent, said, found);
    let (said, found) = (sum(|node| node.predicted.received), sum(|node| node.counted.received));
    to_the_byte("received", |bytes| bytes.received, said, found);
    let (said, found) = (sum(|node| node.predicted.kept), sum(|node| node.counted.kept));
    to_the_byte("kept on their machine", |bytes| bytes.kept, said, found);
    let payload = as_f64(sum(|node| node.counted.sent));
    let ratio = as_f64(sum(|node| node.on_wire)) / payload;
    let most = WIRE_PER_PAYLOAD * (1.0 + ACKNOWLEDGED) + as_f64(SMALL_BYTES * nodes.len() as u64) / payload;
    let what = format!("{words}: bytes on the wire by payload (queues)");
    report.number("B1", what, (WIRE_PER_PAYLOAD, ratio), 4, Limit::AtMost((most * 1e4).round() / 1e4));
}

/// Fast enough not to wait for, slow enough for the machine's processors.
const RATE_MBIT: u32 = 400;
const ROUNDS: u64 = 3;
/// Acknowledgements by data, and what a node sends to meet the others.
const ACKNOWLEDGED: f64 = 0.02;
const SMALL_BYTES: u64 = 64 * 1024;
