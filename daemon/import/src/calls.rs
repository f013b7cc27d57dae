//! What one rank has called in one process group, from a dump of the Flight Recorder, as `batch.proto` has it.

use std::collections::BTreeMap;

use ringscope_api::Fnv;
use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{Operation, OperationState, PairCalls, Primitive};

use super::flight::{Dump, Entry, Group, State};

/// One rank's calls in one group.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Number that its next collective gets; the dump counts from 1. Absent: the dump does not tell.
    pub(super) next: Option<u64>,
    pub(super) open: Vec<Operation>,
    /// Completed ones, by number.
    pub(super) completed: Vec<Operation>,
    /// Sends and receives by peer, where the dump has all of them.
    pub(super) pairs: Vec<PairCalls>,
    /// In words: the call that is open longest, else the newest one. Absent: there is none.
    pub(super) proof: Option<String>,
}

/// The calls of a group that is the `index`th one of this rank.
pub(super) fn of(dump: &Dump, name: &str, group: &Group, index: usize) -> Calls {
    let entries: Vec<&Entry> = dump.entries.iter().filter(|entry| entry.group == name).collect();
    let stream = u32::try_from(index + 1).unwrap_or(u32::MAX);
    let tells_start = dump.entries.iter().any(|entry| entry.started_ns.is_some());
    let mut calls =
        Calls { next: next(&entries, group, dump.is_cut), proof: proof(&entries), ..Calls::default() };
    for entry in collectives(&entries).into_values().flatten() {
        calls.take(operation(entry.0, entry.1, stream, tells_start), entry.0);
    }
    let batches = entries.iter().filter(|entry| entry.is_p2p && entry.is_coalesced());
    let batches: BTreeMap<u64, u32> = batches.map(|entry| entry.seq_number).zip(1..).collect();
    for entry in entries.iter().filter(|entry| entry.is_p2p) {
        let mut told = operation(entry, true, stream, tells_start);
        if let Some(told) = &mut told {
            told.group = batches.get(&entry.seq_number).copied().unwrap_or_default();
            // One by one, sends and receives of a pair have a communicator and a stream of their own.
            if told.group == 0 && group.ranks.len() > 2 {
                told.stream = pair_stream(stream, entry.peer());
            }
        }
        calls.take(told, entry);
    }
    if !dump.is_cut {
        calls.pairs = pairs(&entries);
    }
    calls
}

impl Calls {
    fn take(&mut self, told: Option<Operation>, entry: &Entry) {
        let Some(told) = told else { return };
        if entry.state == State::Completed { self.completed.push(told) } else { self.open.push(told) }
    }
}

/// The newest number that is told plus one. Nothing at all is told of a group whose entries were all dropped.
fn next(entries: &[&Entry], group: &Group, is_cut: bool) -> Option<u64> {
    let newest = entries.iter().filter(|entry| !entry.is_p2p).map(|entry| entry.seq_number).max();
    let has_p2p = entries.iter().any(|entry| entry.is_p2p);
    let status = group.last_enqueued.filter(|_| !has_p2p);
    let newest = newest.max(status);
    newest.or((!is_cut).then_some(0)).map(|newest| newest.saturating_add(1))
}

/// One entry for each number, and whether its size is to be compared: of several in one go nobody tells their order.
fn collectives<'e>(entries: &[&'e Entry]) -> BTreeMap<u64, Option<(&'e Entry, bool)>> {
    let mut by_number: BTreeMap<u64, Option<(&Entry, bool)>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.is_p2p && entry.primitive().is_some()) {
        let known = by_number.entry(entry.seq_number).or_default();
        *known = Some(known.map_or((*entry, is_even(entry)), |(first, _)| (first, false)));
    }
    by_number
}

/// Whether all ranks must give the same size and element type.
fn is_even(entry: &Entry) -> bool {
    let uneven = ["all_to_all", "gather", "scatter", "_v", "coalesced", "_oop"];
    let even =
        ["all_reduce", "all_gather", "_all_gather_base", "_reduce_scatter_base", "broadcast", "reduce"];
    even.contains(&entry.name.as_str()) || !uneven.iter().any(|part| entry.name.contains(part))
}

fn operation(entry: &Entry, is_even: bool, stream: u32, start_known: bool) -> Option<Operation> {
    let is_completed = entry.state == State::Completed;
    let compared = is_even && !entry.type_name.is_empty();
    Some(Operation {
        primitive: Primitive::from(entry.primitive()?).into(),
        seq_number: entry.seq_number,
        bytes: entry.bytes,
        count: if compared { entry.count } else { 0 },
        datatype: if compared { entry.datatype } else { NOT_TOLD },
        peer: entry.peer(),
        state: if is_completed { OperationState::Completed } else { OperationState::Issued }.into(),
        issued_at_ns: entry.created_ns,
        completed_at_ns: is_completed.then(|| entry.completed_ns.unwrap_or(entry.created_ns)),
        call_number: (!entry.is_p2p).then_some(entry.seq_number),
        started_at_ns: match entry.state {
            State::Scheduled => None,
            State::Started | State::Completed => entry.started_ns,
        },
        start_known: start_known || entry.state == State::Started,
        stream,
        ..Operation::default()
    })
}

fn pair_stream(stream: u32, peer: Option<u32>) -> u32 {
    let peer = peer.unwrap_or_default();
    stream.wrapping_mul(PEERS).wrapping_add(peer).wrapping_add(PEERS)
}

fn pairs(entries: &[&Entry]) -> Vec<PairCalls> {
    let mut pairs: BTreeMap<(i32, u32), (PairCalls, Fnv)> = BTreeMap::new();
    let p2p = entries.iter().filter(|entry| entry.is_p2p);
    for (entry, peer) in p2p.filter_map(|entry| Some((entry, entry.peer()?))) {
        let Some(primitive) = entry.primitive() else { continue };
        let primitive: i32 = Primitive::from(primitive).into();
        let (pair, hash) =
            pairs.entry((primitive, peer)).or_insert_with(|| (PairCalls::default(), Fnv::new()));
        (pair.primitive, pair.peer) = (primitive, peer);
        pair.calls += 1;
        pair.bytes = pair.bytes.saturating_add(entry.bytes);
        *hash = hash.number(entry.count).number(u64::from(entry.datatype));
        pair.hash = hash.finish();
    }
    pairs.into_values().map(|(pair, _)| pair).collect()
}

/// The call that is open longest, else the newest one, with where the program made it.
fn proof(entries: &[&Entry]) -> Option<String> {
    let real = || entries.iter().filter(|entry| !entry.is_coalesced());
    let open = real().filter(|entry| entry.state != State::Completed).min_by_key(|entry| entry.created_ns);
    let entry = open.or_else(|| real().max_by_key(|entry| entry.created_ns))?;
    let frame =
        entry.frames.iter().find(|frame| !frame.contains("torch/distributed")).or(entry.frames.first());
    let from = frame.map(|frame| format!(", called from {frame}")).unwrap_or_default();
    let element = if entry.type_name.is_empty() { String::new() } else { format!(" of {}", entry.type_name) };
    Some(format!(
        "{} #{} {}{element} {}{from}",
        entry.name,
        entry.seq_number,
        entry.sizes,
        entry.state.label()
    ))
}

/// The first number under which ranks have different calls: what is told of a group's past is told around it.
pub(super) fn first_parting<'c>(ranks: impl Iterator<Item = &'c Calls>) -> Option<u64> {
    let mut first: BTreeMap<u64, (i32, u64, u32)> = BTreeMap::new();
    let mut parting: Option<u64> = None;
    for told in ranks.flat_map(|calls| calls.completed.iter().chain(&calls.open)) {
        let Some(number) = told.call_number else { continue };
        let signature = (told.primitive, told.count, told.datatype);
        if *first.entry(number).or_insert(signature) != signature {
            parting = Some(parting.map_or(number, |known| known.min(number)));
        }
    }
    parting
}

/// When the watchdog of this rank would have written the dump: at the first timeout of what is open.
pub(super) fn timeout(dump: &Dump) -> Option<Timestamp> {
    let open = dump.entries.iter().filter(|entry| entry.state != State::Completed && entry.created_ns > 0);
    let due = open.map(|entry| {
        let timeout_ns = entry.timeout_ms.unwrap_or(TIMEOUT_MS).saturating_mul(1_000_000);
        Timestamp(entry.created_ns.saturating_add(timeout_ns))
    });
    due.min()
}

/// The newest time in a dump.
pub(super) fn newest(dump: &Dump) -> Timestamp {
    let of = |entry: &Entry| [Some(entry.created_ns), entry.started_ns, entry.completed_ns];
    let times = dump.entries.iter().flat_map(of);
    Timestamp(times.flatten().max().unwrap_or_default())
}

/// As the judge has it: nothing is to be compared.
const NOT_TOLD: u32 = ringscope_judge::hangs::scene::NOT_TOLD;
/// PyTorch's, for NCCL, where a dump does not tell it.
const TIMEOUT_MS: u64 = 600_000;
/// More than a group has ranks.
const PEERS: u32 = 1 << 16;

#[cfg(test)]
mod tests;
