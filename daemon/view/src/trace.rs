//! The operations of a communicator as a trace: a process for each host, a thread for each rank.
//!
//! A rank runs the operations of one communicator one after the other, while its program calls several ahead. So an
//! operation is drawn from its call or from the end of the one before it, whichever is later: then those of a rank never
//! overlap, and how long one is drawn is how long it ran.

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Trace, TraceEvent};
use ringscope_model::{Communicator, Completed, Model, RankRef};
use ringscope_wire::{Datatype, Primitive, batch};
use serde_json::{Map, Value, json};

use super::bandwidth::bus_factor;

/// The operations that ran between two times. `None`: no such communicator.
#[must_use]
pub fn trace(model: &Model, now: Timestamp, id: &str, from: Timestamp, to: Timestamp) -> Option<Trace> {
    let known = model.communicator(id.parse().ok()?)?;
    let (completed, forgotten) = model.completed(known.id());
    let mut by_rank: BTreeMap<u32, Vec<Completed>> = BTreeMap::new();
    for operation in completed {
        by_rank.entry(operation.rank).or_default().push(*operation);
    }
    let mut draft = Draft { known, ends: BTreeMap::new(), events: Vec::new(), zero_ns: 0, cut: 0 };
    let mut shown: Vec<(Completed, u64)> = Vec::new();
    for (rank, mut operations) in by_rank {
        operations.sort_by_key(|one| (one.completed_at_ns, one.seq_number));
        let mut end_ns = 0;
        for operation in operations {
            let begin_ns = operation.issued_at_ns.max(end_ns);
            end_ns = operation.completed_at_ns;
            if begin_ns <= to.0 && end_ns >= from.0 {
                shown.push((operation, begin_ns));
            }
        }
        draft.ends.insert(rank, end_ns);
    }
    shown.sort_by_key(|(operation, begin_ns)| (*begin_ns, operation.rank));
    let open = draft.in_flight(model, to);
    let first = shown.first().map(|(_, begin_ns)| *begin_ns);
    let first = first.into_iter().chain(open.iter().map(|(.., begin_ns)| *begin_ns)).min();
    draft.zero_ns = first.unwrap_or(from.0);
    let names = draft.names(model);
    let hosts: BTreeMap<u32, u32> = names.1;
    let n_completed = shown.len();
    for (operation, begin_ns) in shown {
        draft.complete(&operation, begin_ns, &hosts);
    }
    for (rank, operation, begin_ns) in open {
        draft.open(rank, &operation, begin_ns, &hosts);
    }
    draft.count_bytes();
    draft.events.sort_by(|one, other| one.ts.total_cmp(&other.ts));
    let mut trace_events = names.0;
    trace_events.append(&mut draft.events);
    let other_data = map(json!({
        "tool": "ringscope", "communicator": id, "job": &**known.job(), "ranks": known.n_ranks(),
        "time_0": Timestamp(draft.zero_ns).to_string(), "from": from.to_string(), "to": to.to_string(),
        "made_at": now.to_string(), "completed_operations": n_completed,
        "forgotten_operations": forgotten, "cut_operations": draft.cut,
        "note": "Operations are kept at the levels channels and steps, the newest of each communicator; those that were \
            forgotten or cut are not in this trace.",
    }));
    Some(Trace { trace_events, display_time_unit: "ms".to_owned(), other_data })
}

/// A trace on its way.
struct Draft<'a> {
    known: &'a Communicator,
    /// When the last completed operation of a rank ended.
    ends: BTreeMap<u32, u64>,
    events: Vec<TraceEvent>,
    zero_ns: u64,
    cut: usize,
}

impl Draft<'_> {
    /// Those in flight that were called before `to`, with their ranks and where they are drawn from.
    fn in_flight(&mut self, model: &Model, to: Timestamp) -> Vec<(u32, batch::Operation, u64)> {
        let mut open = Vec::new();
        for rank in self.known.ranks(model) {
            let mut begin_ns = self.ends.get(&rank.rank).copied().unwrap_or(0);
            for operation in rank.local.in_flight().iter().filter(|one| one.issued_at_ns <= to.0) {
                let is_issued = operation.state == i32::from(batch::OperationState::Issued);
                if !is_issued {
                    continue;
                }
                begin_ns = begin_ns.max(operation.issued_at_ns);
                open.push((rank.rank, *operation, begin_ns));
            }
        }
        self.cut += open.len().saturating_sub(OPEN_MAX);
        open.truncate(OPEN_MAX);
        open
    }

    /// Names of hosts and ranks, and the number of each rank's host.
    fn names(&self, model: &Model) -> (Vec<TraceEvent>, BTreeMap<u32, u32>) {
        let (mut events, mut hosts) = (Vec::new(), BTreeMap::new());
        let mut pids: BTreeMap<&str, u32> = BTreeMap::new();
        for RankRef { rank, identity, .. } in self.known.ranks(model) {
            let next = u32::try_from(pids.len()).unwrap_or(u32::MAX).saturating_add(1);
            let pid = *pids.entry(&identity.host).or_insert(next);
            let name = |what: &str, text: String| TraceEvent {
                args: map(json!({ "name": text })),
                ..event(what.to_owned(), "M", pid, rank)
            };
            if pid == next {
                events.push(name("process_name", identity.host.to_string()));
            }
            events.push(name("thread_name", format!("rank {rank}")));
            hosts.insert(rank, pid);
        }
        (events, hosts)
    }

    #[expect(clippy::cast_precision_loss, reason = "a bandwidth needs no 53 bits")]
    fn complete(&mut self, operation: &Completed, begin_ns: u64, hosts: &BTreeMap<u32, u32>) {
        let Some(pid) = hosts.get(&operation.rank) else { return };
        let duration_ns = operation.completed_at_ns - begin_ns;
        let algbw = (duration_ns > 0).then(|| operation.bytes as f64 * 1e9 / duration_ns as f64);
        let factor = bus_factor(operation.primitive, self.known.n_ranks());
        self.events.push(TraceEvent {
            cat: Some(operation.primitive.label().to_owned()),
            ts: self.us(begin_ns),
            dur: Some(self.us(operation.completed_at_ns) - self.us(begin_ns)),
            args: map(json!({
                "seq_number": operation.seq_number, "bytes": operation.bytes, "count": operation.count,
                "datatype": Datatype(operation.datatype).label(), "channels": operation.channels,
                "peer": operation.peer, "issued_at": Timestamp(operation.issued_at_ns).to_string(),
                "waited_us": (begin_ns - operation.issued_at_ns) as f64 / 1000.0,
                "alg_bytes_per_s": algbw, "bus_bytes_per_s": algbw.map(|algbw| algbw * factor),
            })),
            ..event(name(operation.primitive, operation.seq_number), "X", *pid, operation.rank)
        });
    }

    fn open(&mut self, rank: u32, operation: &batch::Operation, begin_ns: u64, hosts: &BTreeMap<u32, u32>) {
        let primitive =
            batch::Primitive::try_from(operation.primitive).ok().and_then(batch::Primitive::known);
        let (Some(primitive), Some(pid)) = (primitive, hosts.get(&rank)) else { return };
        self.events.push(TraceEvent {
            cat: Some(primitive.label().to_owned()),
            ts: self.us(begin_ns),
            args: map(json!({
                "seq_number": operation.seq_number, "bytes": operation.bytes, "count": operation.count,
                "channels": operation.channels_expected, "channels_done": operation.channels_done,
                "peer": operation.peer, "issued_at": Timestamp(operation.issued_at_ns).to_string(),
            })),
            ..event(name(primitive, operation.seq_number), "B", *pid, rank)
        });
    }

    /// The bytes that each host has completed in this trace so far, whenever an operation ends.
    fn count_bytes(&mut self) {
        let of = |event: &TraceEvent| {
            let bytes = event.args.get("bytes").and_then(Value::as_u64).unwrap_or(0);
            Some((event.ts + event.dur?, event.pid, bytes))
        };
        let mut ends: Vec<(f64, u32, u64)> = self.events.iter().filter_map(of).collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for (ts, pid, bytes) in ends {
            let sum = sums.entry(pid).or_default();
            *sum = sum.saturating_add(bytes);
            let args = map(json!({ "bytes": *sum }));
            self.events.push(TraceEvent { ts, args, ..event("completed bytes".to_owned(), "C", pid, 0) });
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a trace is shorter than 100 days")]
    fn us(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.zero_ns) as f64 / 1000.0
    }
}

fn event(name: String, ph: &str, pid: u32, tid: u32) -> TraceEvent {
    TraceEvent { name, cat: None, ph: ph.to_owned(), ts: 0.0, dur: None, pid, tid, args: Map::new() }
}

/// `AllReduce #1041`.
fn name(primitive: Primitive, seq_number: u64) -> String {
    let words = primitive.label().split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    });
    format!("{} #{seq_number}", words.collect::<String>())
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Operations in flight in one trace: those of all ranks of the largest jobs.
const OPEN_MAX: usize = 16_384;
