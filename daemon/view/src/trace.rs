//! The operations of a communicator as a trace: a process for each host, a thread for each rank.
//!
//! A rank runs the operations of one communicator one after the other, while its program calls several ahead. So an
//! operation is drawn from its call or from the end of the one before it, whichever is later: then those of a rank never
//! overlap, and how long one is drawn is how long it ran. All times are by our clock, so those of several hosts stand side by
//! side; an arrow leads from who called last to the others, who waited for that.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ringscope_api::clock::Timestamp;
use ringscope_api::{Trace, TraceEvent};
use ringscope_model::{Communicator, Completed, HostClocks, LastCall, Model, Name, RankRef, bus_factor};
use ringscope_wire::{Datatype, Primitive, batch};
use serde_json::{Map, Value, json};

use super::clocks::{RankClocks, clock_to_api};

/// The operations that ran between two times. `None`: no such communicator.
#[must_use]
pub fn trace(model: &Model, now: Timestamp, id: &str, from: Timestamp, to: Timestamp) -> Option<Trace> {
    let known = model.communicator(id.parse().ok()?)?;
    let (completed, forgotten) = model.completed(known.id());
    let clocks = clocks(model, known, (from, to));
    let ranks = RankClocks::of(model, known, &clocks);
    let mut by_rank: BTreeMap<u32, Vec<Completed>> = BTreeMap::new();
    for operation in completed {
        let ours = |at_ns| ranks.ours_ns(operation.rank, at_ns);
        by_rank.entry(operation.rank).or_default().push(Completed {
            issued_at_ns: ours(operation.issued_at_ns),
            started_at_ns: operation.started_at_ns.map(ours),
            completed_at_ns: ours(operation.completed_at_ns),
            ..*operation
        });
    }
    let mut draft =
        Draft { known, ranks, ends: BTreeMap::new(), events: Vec::new(), zero_ns: 0, cut: 0, n_waits: 0 };
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
    for (operation, begin_ns) in &shown {
        draft.complete(operation, *begin_ns, &hosts);
    }
    draft.waits(&shown, &model.last_calls(known, &clocks), &hosts);
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
        "clocks": clocks.all().map(|(host, clock)| clock_to_api(host, clock)).collect::<Vec<_>>(),
        "note": "Times are by the daemon's clock; clocks says how those of hosts differ, and how wrong that may be. At the levels \
            counters and events some operations are told, the same ones by all ranks, at channels and steps all; the newest of each \
            communicator are kept, and those that were forgotten or cut are not in this trace.",
    }));
    Some(Trace { trace_events, display_time_unit: "ms".to_owned(), other_data })
}

/// The clocks of its hosts over the time of which operations are told; where none are, over the time that was asked for.
pub(super) fn clocks(model: &Model, known: &Communicator, (from, to): (Timestamp, Timestamp)) -> HostClocks {
    let hosts: BTreeSet<&Name> = known.ranks(model).map(|rank| &rank.identity.host).collect();
    let rough = model.clocks(hosts.iter().copied(), (to, to));
    let ranks = RankClocks::of(model, known, &rough);
    let told = model.completed(known.id()).0.map(|one| ranks.ours_ns(one.rank, one.completed_at_ns));
    let (first, last) = told.fold((u64::MAX, 0), |(first, last), at| (at.min(first), at.max(last)));
    if first > last {
        return model.clocks(hosts, (from, to));
    }
    let to = to.min(Timestamp(last));
    model.clocks(hosts, (from.max(Timestamp(first)).min(to), to))
}

/// A trace on its way.
struct Draft<'a> {
    known: &'a Communicator,
    ranks: RankClocks<'a>,
    /// When the last completed operation of a rank ended.
    ends: BTreeMap<u32, u64>,
    events: Vec<TraceEvent>,
    zero_ns: u64,
    cut: usize,
    n_waits: u64,
}

impl Draft<'_> {
    /// Those in flight that were called before `to`, with their ranks and where they are drawn from.
    fn in_flight(&mut self, model: &Model, to: Timestamp) -> Vec<(u32, batch::Operation, u64)> {
        let mut open = Vec::new();
        for rank in self.known.ranks(model) {
            let mut begin_ns = self.ends.get(&rank.rank).copied().unwrap_or(0);
            for told in rank.local.in_flight() {
                let issued_at_ns = self.ranks.ours_ns(rank.rank, told.issued_at_ns);
                let is_issued = told.state == i32::from(batch::OperationState::Issued);
                if !is_issued || issued_at_ns > to.0 {
                    continue;
                }
                begin_ns = begin_ns.max(issued_at_ns);
                open.push((rank.rank, batch::Operation { issued_at_ns, ..*told }, begin_ns));
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
                "call_number": operation.call_number, "waited_us": (begin_ns - operation.issued_at_ns) as f64 / 1000.0,
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

    /// Arrows from who called an operation last to the completions of those that waited for that.
    #[expect(clippy::cast_precision_loss, reason = "a wait is shorter than 100 days")]
    fn waits(
        &mut self,
        shown: &[(Completed, u64)],
        last_calls: &HashMap<u64, LastCall>,
        hosts: &BTreeMap<u32, u32>,
    ) {
        let last_of = |operation: &Completed| last_calls.get(&operation.call_number?).copied();
        let of_last = shown
            .iter()
            .filter(|(operation, _)| last_of(operation).is_some_and(|last| last.rank == operation.rank));
        let begins: HashMap<Option<u64>, u64> =
            of_last.map(|(operation, begin_ns)| (operation.call_number, *begin_ns)).collect();
        for (operation, begin_ns) in shown {
            let Some(last) = last_of(operation).filter(|last| last.rank != operation.rank) else { continue };
            let Some(from_ns) = begins.get(&operation.call_number).copied() else { continue };
            let places = (hosts.get(&last.rank).copied(), hosts.get(&operation.rank).copied());
            let (Some(from_pid), Some(to_pid)) = places else { continue };
            // Just before it ends, or viewers would take it for the one that comes after.
            let to_us = (self.us(operation.completed_at_ns) - END_US).max(self.us(*begin_ns));
            if self.us(from_ns) > to_us {
                continue;
            }
            let (id, cat) = (Some(self.n_waits), Some("wait".to_owned()));
            self.n_waits += 1;
            let arrow = |ph, pid, rank, ts| TraceEvent {
                cat: cat.clone(),
                id,
                ts,
                args: map(json!({ "waited_us": last.waited_ns(operation.issued_at_ns) as f64 / 1000.0 })),
                ..event(format!("waits for rank {}", last.rank), ph, pid, rank)
            };
            let begin = arrow("s", from_pid, last.rank, self.us(from_ns));
            let end = TraceEvent { bp: Some("e".to_owned()), ..arrow("f", to_pid, operation.rank, to_us) };
            self.events.extend([begin, end]);
        }
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
    TraceEvent {
        name,
        cat: None,
        ph: ph.to_owned(),
        ts: 0.0,
        dur: None,
        pid,
        tid,
        id: None,
        bp: None,
        args: Map::new(),
    }
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

/// How long before its end an arrow meets an operation.
const END_US: f64 = 0.001;
/// Operations in flight in one trace: those of all ranks of the largest jobs.
const OPEN_MAX: usize = 16_384;
