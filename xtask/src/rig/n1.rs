//! N1, exactness: for every primitive and every number of ranks, what each rank sends to each other one equals the
//! formula to the byte, as the engine and ringscope's collector count it and as the kernel does on the sockets.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::accounts::{Flows, Kernel};
use super::engine::Engine;
use super::formulas::{ELEMENT_BYTES, Primitive, Rings};
use super::hops::hops;
use super::job::{Job, Spec};
use super::network::WIRE_PER_PAYLOAD;
use super::report::Report;
use super::stage::Stage;
use crate::clock::eventually;

/// How much is tried.
#[derive(Debug)]
pub(crate) struct Sizes {
    n_ranks: &'static [usize],
    counts: &'static [usize],
}

/// Everything.
pub(crate) const FULL: Sizes =
    Sizes { n_ranks: &[2, 3, 4, 5, 6, 7, 8], counts: &[1, 7, 4_099, 65_537, 100_003, 262_144] };
/// A few.
pub(crate) const QUICK: Sizes = Sizes { n_ranks: &[2, 3, 4], counts: &[7, 65_537] };

/// Runs it.
pub(crate) fn run(programs: &Path, sizes: &Sizes, keep: bool, report: &mut Report) -> Result<()> {
    let stage = Stage::set(programs, "n1", N_HOSTS, RATE_MBIT, keep)?;
    for n_ranks in sizes.n_ranks {
        // The first hosts have one more where it does not divide.
        let hosts: Vec<usize> = (0..*n_ranks).map(|rank| rank / n_ranks.div_ceil(N_HOSTS)).collect();
        let name = format!("n1-{n_ranks}");
        let mut job = Job::start(
            &stage,
            &Spec { name: &name, hosts: &hosts, environment: &[RING], level: "steps", rails: false },
        )?;
        every_primitive(&stage, &mut job, &hosts, sizes.counts, report)?;
        job.finish()?;
    }
    for (algorithm, sent) in OF_A_NODE {
        bytes_of_a_node(&stage, algorithm, sent, report)?;
    }
    stage.clear(report)
}

/// All primitives in all sizes, then the four accounts against the formula.
fn every_primitive(
    stage: &Stage,
    job: &mut Job,
    hosts: &[usize],
    counts: &[usize],
    report: &mut Report,
) -> Result<()> {
    let name = format!("all-{}", hosts.len());
    job.form(&name)?;
    let rings = Rings::of(hosts, BASE);
    let (kernel, wire) = (Kernel::of(job)?, stage.network.all_sent_on_wire_bytes()?);
    let mut due = Due::default();
    for primitive in Primitive::ALL {
        for (index, count) in counts.iter().enumerate() {
            let root = index % hosts.len();
            job.ask_all(&format!("op {} {count} {root}", primitive.word()))?;
            due.add(primitive, &rings.flows(primitive, *count, root));
        }
    }
    let kernel = Kernel::of(job)?.since(&kernel);
    let wire = stage.network.all_sent_on_wire_bytes()? - wire;
    let words = format!("{} ranks on {} hosts", hosts.len(), hosts.last().map_or(0, |host| host + 1));
    collector(stage, &name, &rings, &due, &words, report)?;
    kernels(&kernel, &due, hosts, &words, report);
    on_the_wire(wire, hosts, &kernel, &words, report);
    job.ask_all("destroy")?;
    engines(&Engine::of(&job.engine_logs())?, &due, &words, report);
    Ok(())
}

/// What the formulas say.
#[derive(Debug, Default)]
struct Due {
    of: BTreeMap<Primitive, Flows>,
    all: Flows,
}

impl Due {
    fn add(&mut self, primitive: Primitive, flows: &Flows) {
        let of = self.of.entry(primitive).or_default();
        for (pair, bytes) in flows {
            *of.entry(*pair).or_default() += bytes;
            *self.all.entry(*pair).or_default() += bytes;
        }
    }
}

/// Bytes of each rank to its own host and to others, by primitive.
type Split = BTreeMap<(usize, &'static str), (u64, u64)>;

fn predicted(due: &Due, hosts: &[usize]) -> Split {
    let mut split = Split::new();
    for (primitive, flows) in &due.of {
        for ((from, to), bytes) in flows {
            let (intra, inter) = split.entry((*from, primitive.word())).or_default();
            *if hosts[*from] == hosts[*to] { intra } else { inter } += bytes;
        }
    }
    split
}

/// The daemon's counters per rank and primitive, and its bytes per hop.
fn collector(
    stage: &Stage,
    name: &str,
    rings: &Rings,
    due: &Due,
    words: &str,
    report: &mut Report,
) -> Result<()> {
    let hosts = rings.hosts();
    let id = stage.daemon.communicator(name, hosts.len())?;
    let split = predicted(due, hosts);
    // What comes last is waited for; what never comes is shown as it was last seen.
    let mut seen = Split::new();
    let _ = eventually("the daemon's counters equal the formula", SETTLE, || {
        seen = shown(&stage.daemon.json(&format!("/api/v1/communicators/{id}/primitives"))?);
        Ok((seen == split).then_some(()))
    });
    for primitive in Primitive::ALL.map(Primitive::word) {
        let of = |split: &Split| {
            let own = split.iter().filter(|((_, word), _)| *word == primitive).map(|(_, bytes)| bytes);
            own.fold((0, 0), |sum, bytes| (sum.0 + bytes.0, sum.1 + bytes.1))
        };
        let text = |(intra, inter): (u64, u64)| format!("{intra} + {inter}");
        let is_exact = split
            .iter()
            .filter(|((_, word), _)| *word == primitive)
            .all(|(key, bytes)| seen.get(key) == Some(bytes));
        let what = format!("{words}: {primitive}, intra + inter bytes, each rank exact (collector)");
        report.add("N1", what, text(of(&split)), text(of(&seen)), is_exact);
    }
    let hops = hops(&stage.daemon.json(&format!("/api/v1/communicators/{id}/rings"))?)?;
    let exact = hops.iter().filter(|(pair, bytes)| due.all.get(pair) == Some(bytes)).count();
    let what = format!("{words}: hops with exactly the predicted bytes (collector)");
    report.equal("N1", what, rings.hops().len(), exact);
    Ok(())
}

/// What the daemon shows.
fn shown(primitives: &Value) -> Split {
    let mut split = Split::new();
    for of_rank in primitives["ranks"].as_array().into_iter().flatten() {
        let rank = of_rank["rank"].as_u64().and_then(|rank| usize::try_from(rank).ok()).unwrap_or(usize::MAX);
        for totals in of_rank["primitives"].as_array().into_iter().flatten() {
            let word =
                Primitive::ALL.map(Primitive::word).into_iter().find(|word| totals["primitive"] == *word);
            let bytes = |which: &str| totals[which].as_u64().unwrap_or(u64::MAX);
            if let Some(word) = word {
                split.insert((rank, word), (bytes("intra_bytes"), bytes("inter_bytes")));
            }
        }
    }
    split
}

/// The engine's count at both ends of each pair of ranks, by shared memory and by TCP.
fn engines(engine: &Engine, due: &Due, words: &str, report: &mut Report) {
    let mut due = due.all.clone();
    due.retain(|_, bytes| *bytes > 0);
    for (verb, counted) in [("sent", &engine.sent), ("received", &engine.received)] {
        let what = format!("{words}: bytes {verb}, exact from each rank to each other one (engine)");
        report.add("N1", what, due.values().sum::<u64>(), counted.values().sum::<u64>(), *counted == due);
    }
}

/// The kernel's count at both ends of each link: the same, and the formula's but for the engine's headers.
fn kernels(kernel: &Kernel, due: &Due, hosts: &[usize], words: &str, report: &mut Report) {
    let sum = |flows: &Flows| flows.values().sum::<u64>();
    let same = format!("{words}: bytes sent = bytes received on every link (kernel)");
    let is_same = kernel.sent == kernel.received;
    report.add("N1", same, sum(&kernel.sent), sum(&kernel.received), is_same);
    let between = |flows: &Flows| -> Flows {
        let leaves = flows.iter().filter(|((from, to), _)| hosts[*from] != hosts[*to]);
        leaves.map(|(pair, bytes)| (*pair, *bytes)).collect()
    };
    let (due, counted) = (between(&due.all), between(&kernel.sent));
    let fits = due.iter().all(|(pair, bytes)| {
        let counted = counted.get(pair).copied().unwrap_or(0);
        counted >= *bytes && counted <= bytes + bytes / HEADER_SHARE + HEADERS_BYTES
    });
    let what = format!(
        "{words}: bytes on every link between hosts, and at most {HEADERS_BYTES} + 1/{HEADER_SHARE} more (kernel)"
    );
    report.add("N1", what, sum(&due), sum(&counted), fits);
}

/// The queues' count: what left the hosts, with the headers of Ethernet, IP and TCP, and with acknowledgements.
fn on_the_wire(wire: u64, hosts: &[usize], kernel: &Kernel, words: &str, report: &mut Report) {
    let leaves = kernel.sent.iter().filter(|((from, to), _)| hosts[*from] != hosts[*to]);
    let payload: u64 = leaves.map(|(_, bytes)| bytes).sum();
    let ratio = as_f64(wire) / as_f64(payload);
    let most = WIRE_PER_PAYLOAD * (1.0 + ACKNOWLEDGED) + as_f64(SMALL_BYTES) / as_f64(payload);
    let what = format!("{words}: bytes on the wire by payload between hosts (queues)");
    report.add("N1", what, format!("1 to {most:.4}"), format!("{ratio:.4}"), (1.0..=most).contains(&ratio));
}

/// Two ranks on each of two hosts: what a node sends in one all-reduce of S bytes, by S.
fn bytes_of_a_node(stage: &Stage, algorithm: &str, predicted: f64, report: &mut Report) -> Result<()> {
    let hosts = [0, 0, 1, 1];
    let environment = [("RSCCL_ALGO", algorithm)];
    let mut job = Job::start(
        stage,
        &Spec { name: algorithm, hosts: &hosts, environment: &environment, level: "steps", rails: false },
    )?;
    job.form(algorithm)?;
    job.ask_all(&format!("op all_reduce {EVEN_COUNT} 0"))?;
    let id = stage.daemon.communicator(algorithm, job.n_ranks())?;
    let size = as_f64((EVEN_COUNT * ELEMENT_BYTES) as u64);
    let mut sent = 0;
    let _ = eventually("the all-reduce shown", SETTLE, || {
        let seen = shown(&stage.daemon.json(&format!("/api/v1/communicators/{id}/primitives"))?);
        sent = seen.iter().filter(|((rank, _), _)| hosts[*rank] == 0).map(|(_, (_, inter))| inter).sum();
        Ok((as_f64(sent) >= predicted * size).then_some(()))
    });
    let what = format!("2 hosts of 2 ranks, {algorithm}: bytes that a host sends in an all-reduce, by S");
    let by = |account: &str| format!("{what} ({account})");
    report.equal("N1", by("collector"), format!("{predicted:.6}"), format!("{:.6}", as_f64(sent) / size));
    job.ask_all("destroy")?;
    let engine = Engine::of(&job.engine_logs())?;
    let leaves = engine.sent.iter().filter(|((from, to), _)| hosts[*from] == 0 && hosts[*to] != 0);
    let sent: u64 = leaves.map(|(_, bytes)| bytes).sum();
    report.equal("N1", by("engine"), format!("{predicted:.6}"), format!("{:.6}", as_f64(sent) / size));
    job.finish()
}

#[expect(clippy::cast_precision_loss, reason = "bytes of an experiment are far below 2^53")]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

const N_HOSTS: usize = 2;
/// The formulas are those of rings.
const RING: (&str, &str) = ("RSCCL_ALGO", "ring");
/// Algorithms, and what each lets a node of two ranks send, by S: of a ring of four, one rank sends 2·3/4 to the other
/// host; hierarchical, each node is one of two, which send 2·1/2.
const OF_A_NODE: [(&str, f64); 2] = [("ring", 1.5), ("hierarchical", 1.0)];
/// Init channels that each host's search finds: one per NIC.
const BASE: usize = 2;
const RATE_MBIT: u32 = 200;
/// Elements that four ranks and four channels divide.
const EVEN_COUNT: usize = 1 << 20;
/// How long the daemon may take to have heard of everything.
const SETTLE: Duration = Duration::from_secs(15);
/// The engine's headers: one part of so many of the payload, and so many bytes on a link for small messages and for what
/// rank 0's control connections carry.
const HEADER_SHARE: u64 = 100;
const HEADERS_BYTES: u64 = 8 * 1024;
/// Acknowledgements by data, and the packets of small operations.
const ACKNOWLEDGED: f64 = 0.01;
const SMALL_BYTES: u64 = 128 * 1024;
