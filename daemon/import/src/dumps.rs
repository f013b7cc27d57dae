//! Facts of the dumps of Inspector, RAS and the Flight Recorder into the draft.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::Fnv;
use ringscope_api::clock::Timestamp;
use ringscope_api::words::{host_of_dump, ranks};
use ringscope_judge::hangs::scene::NOT_TOLD;
use ringscope_model::IN_PROGRESS;
use ringscope_wire::batch::{self, CommunicatorState, Completion, Operation, OperationState, Sources};

use super::calls::{self, Calls};
use super::counts::{self, Counts, Wait};
use super::draft::{Claim, Draft, Part, Place};
use super::flight::{Dump, Group};
use super::gathered::Gathered;
use super::inspector;
use super::joined::{GroupKey, Joined};
use super::ras::{MissingRank, RasCommunicator, RasRank};

/// Puts what the dumps say into the draft. After the logs: those know hosts by name.
pub(super) fn draft(gathered: &Gathered, draft: &mut Draft) {
    inspector(gathered, draft);
    for (index, (_, _, dump)) in gathered.ras.iter().enumerate() {
        for communicator in &dump.communicators {
            ras(gathered, draft, index, communicator);
        }
        // Who answers for one communicator is there, whatever is said of it in another.
        for communicator in &dump.communicators {
            missing(gathered, draft, index, communicator);
        }
    }
    flight(gathered, draft);
}

fn inspector(gathered: &Gathered, draft: &mut Draft) {
    for ((host, pid, id, rank), known) in &gathered.inspector.ranks {
        let Some(comm_hash) = inspector::hash(id) else { continue };
        let claim = Claim {
            host,
            pid: Some(*pid),
            comm_hash,
            rank: *rank,
            n_ranks: known.n_ranks,
            at: known.first,
            by_rank: true,
        };
        let Some(mut part) = draft.part(&claim) else { continue };
        let communicator = part.communicator();
        communicator.n_nodes = communicator.n_nodes.or(known.n_nodes);
        communicator.sources = Some(Sources { plugin: true, ..communicator.sources.unwrap_or_default() });
        if communicator.name.is_empty() {
            communicator.name.clone_from(&known.name);
        }
        for (primitive, finished) in &known.primitives {
            let counters = part.counters(*primitive);
            counters.completed_calls += finished.calls;
            counters.completed_bytes = counters.completed_bytes.saturating_add(finished.bytes);
            counters.busy_ns = counters.busy_ns.saturating_add(finished.busy_ns);
            // What has finished was issued; what else was issued Inspector does not say.
            counters.issued_calls = counters.issued_calls.max(counters.completed_calls);
            counters.issued_bytes = counters.issued_bytes.max(counters.completed_bytes);
        }
        part.dropped("inspector_ring", known.dropped);
    }
}

/// One communicator of the `index`th answer; the older ones come first.
fn ras(gathered: &Gathered, draft: &mut Draft, index: usize, communicator: &RasCommunicator) {
    let Some(comm_hash) = inspector::hash(&communicator.hash) else { return };
    let Some((file, at, dump)) = gathered.ras.get(index) else { return };
    let (at, version) = (*at, dump.nccl_version.as_str());
    let told = Counts::of(&gathered.ras, index, communicator);
    let has_errors = communicator.ranks.iter().any(|rank| rank.status.async_error != 0);
    let matters = told.wait.is_some() || has_errors || !communicator.missing_ranks.is_empty();
    let mut said = (matters && told.is_newest).then(|| in_words(communicator));
    for rank in &communicator.ranks {
        let who = Who { host: &rank.host, pid: rank.pid, rank: rank.rank };
        let Some(mut part) = draft.part(&ras_claim(comm_hash, communicator.size, at, who)) else { continue };
        ras_rank(&mut part, rank, at, version);
        part.told_by_peers("");
        if !told.is_newest {
            continue;
        }
        part.calls(counts::total(rank), if told.stands_still { counts::hash(rank) } else { 0 });
        if let Some(wait) = told.wait.filter(|wait| counts::total(rank) > wait.number) {
            waits(&mut part, wait);
        }
        if let Some(said) = said.take() {
            part.proof(file, 0, said);
        }
    }
}

/// Those of whom the others say that they are missing.
fn missing(gathered: &Gathered, draft: &mut Draft, index: usize, communicator: &RasCommunicator) {
    let Some(comm_hash) = inspector::hash(&communicator.hash) else { return };
    let Some((file, at, _)) = gathered.ras.get(index) else { return };
    let mut said = communicator.ranks.is_empty().then(|| in_words(communicator));
    for missing in &communicator.missing_ranks {
        let who = Who { host: &missing.host, pid: missing.pid, rank: missing.rank };
        let Some(mut part) = draft.part(&ras_claim(comm_hash, communicator.size, *at, who)) else { continue };
        part.told_until(*at);
        part.told_by_peers(why_missing(missing));
        if let Some(said) = said.take() {
            part.proof(file, 0, said);
        }
    }
}

/// Where a rank is, as RAS says it.
struct Who<'a> {
    host: &'a str,
    pid: i64,
    rank: u32,
}

fn ras_claim(comm_hash: u64, n_ranks: u32, at: Timestamp, who: Who<'_>) -> Claim<'_> {
    Claim {
        host: if who.host.is_empty() { "unknown" } else { who.host },
        pid: u32::try_from(who.pid).ok().filter(|pid| *pid > 0),
        comm_hash,
        rank: who.rank,
        n_ranks,
        at,
        by_rank: true,
    }
}

fn ras_rank(part: &mut Part<'_>, rank: &RasRank, at: Timestamp, version: &str) {
    let known = part.communicator();
    if known.gpu.is_empty() && rank.cuda_dev >= 0 {
        known.gpu = rank.cuda_dev.to_string();
    }
    if known.log_version.is_empty() {
        version.clone_into(&mut known.log_version);
    }
    let code = |result: i64| u32::try_from(result).ok().filter(|result| *result > 0);
    known.error = code(rank.status.async_error).or(known.error);
    if rank.status.abort_flag {
        known.state = CommunicatorState::Aborted.into();
        known.ended_at_ns = Some(at.0.max(known.created_at_ns));
    } else if rank.status.destroy_flag || rank.status.finalize_called {
        known.state = CommunicatorState::Destroyed.into();
        known.ended_at_ns = Some(at.0.max(known.created_at_ns));
    } else if rank.status.init_state == i64::from(IN_PROGRESS) {
        known.state = CommunicatorState::Forming.into();
    } else if let Some(code) = code(rank.status.init_state) {
        known.state = CommunicatorState::Failed.into();
        known.ended_at_ns = Some(at.0.max(known.created_at_ns));
        known.error = known.error.or(Some(code));
        "its init".clone_into(&mut known.error_function);
    } else if known.state == i32::from(CommunicatorState::Forming) {
        known.state = CommunicatorState::Active.into();
        known.ended_at_ns = None;
    }
    part.told_until(at);
    part.library_version(version);
    for (name, count) in &rank.collective_counts {
        if let Some(primitive) = inspector::primitive(name).filter(|_| *count > 0) {
            let counters = part.counters(primitive);
            counters.issued_calls = counters.issued_calls.max(*count);
        }
    }
}

/// A rank that is in a call that others have not made.
fn waits(part: &mut Part<'_>, wait: Wait) {
    part.communicator().completion = Completion::Events.into();
    part.only_in_flight(Operation {
        primitive: batch::Primitive::from(wait.primitive).into(),
        seq_number: wait.of_primitive,
        datatype: NOT_TOLD,
        state: OperationState::Issued.into(),
        issued_at_ns: wait.since.0,
        call_number: Some(wait.number),
        ..Operation::default()
    });
}

/// The answer in one line: who has which counts, the fewest ranks first, who has an error, and who is missing.
fn in_words(communicator: &RasCommunicator) -> String {
    let mut by_counts: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut by_error: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for rank in &communicator.ranks {
        let counts = rank.collective_counts.iter().filter(|(_, count)| **count > 0);
        let counts: Vec<String> = counts.map(|(name, count)| format!("{name} {count}")).collect();
        let counts = if counts.is_empty() { "no collective".to_owned() } else { counts.join(", ") };
        by_counts.entry(counts).or_default().push(rank.rank);
        if rank.status.async_error != 0 {
            let error = format!("async_error {}", rank.status.async_error);
            by_error.entry(error).or_default().push(rank.rank);
        }
    }
    let mut by_counts: Vec<(String, Vec<u32>)> = by_counts.into_iter().collect();
    by_counts.sort_by_key(|(_, members)| members.len());
    let missing: Vec<u32> = communicator.missing_ranks.iter().map(|missing| missing.rank).collect();
    let missing = Some(("missing_ranks".to_owned(), missing)).filter(|(_, missing)| !missing.is_empty());
    let all = by_error.into_iter().chain(missing).chain(by_counts);
    let words: Vec<String> = all.map(|(what, members)| format!("{what}: {}", ranks(&members))).collect();
    words.join("; ")
}

fn why_missing(missing: &MissingRank) -> &'static str {
    match (missing.status.considered_dead, missing.status.unresponsive) {
        (true, _) => "is missing: its peers consider it dead",
        (_, true) => "is missing: it does not answer",
        _ => "is missing: it says nothing of this communicator",
    }
}

/// The dumps of the Flight Recorder, each group over all ranks.
fn flight(gathered: &Gathered, draft: &mut Draft) {
    let due = gathered.flight.iter().filter_map(|(_, _, dump)| calls::timeout(dump)).min();
    let mut groups: BTreeMap<(&str, &[u32]), Vec<Told<'_>>> = BTreeMap::new();
    for (file, at, dump) in &gathered.flight {
        let Some(global_rank) = dump.rank else { continue };
        for (index, (name, group)) in dump.groups.iter().enumerate() {
            let calls = calls::of(dump, name, group, index);
            let told = Told { file, at: *at, dump, group, global_rank, calls };
            groups.entry((name, &group.ranks)).or_default().push(told);
        }
    }
    let keys: Vec<GroupKey<'_>> = groups.keys().copied().collect();
    let joined = Joined::of(&keys, draft.homes());
    joined.hashes.values().for_each(|hash| draft.forget_calls(*hash));
    let told = gathered.flight.iter().filter_map(|(_, _, dump)| joined.places.get(&dump.rank?));
    told.for_each(|place| draft.forget_end(place));
    for (key, ranks) in groups {
        let comm_hash = joined.hashes.get(&key).copied().unwrap_or_else(|| {
            let made_up = group_hash(key);
            draft.made_up(made_up);
            made_up
        });
        let parting = calls::first_parting(ranks.iter().map(|told| &told.calls));
        for told in ranks {
            let place = joined.places.get(&told.global_rank);
            flight_rank(draft, (key.0, comm_hash, place), told, parting, due);
        }
    }
}

/// What one dump tells of one group.
struct Told<'a> {
    file: &'a str,
    /// When the file was written. 0: not known.
    at: Timestamp,
    dump: &'a Dump,
    group: &'a Group,
    global_rank: u32,
    calls: Calls,
}

fn flight_rank(
    draft: &mut Draft,
    (name, comm_hash, place): (&str, u64, Option<&Place>),
    told: Told<'_>,
    parting: Option<u64>,
    due: Option<Timestamp>,
) {
    let Told { file, at, dump, group, global_rank, calls } = told;
    // Of a group whose entries were all dropped a rank tells nothing, so nobody may think that it did nothing.
    let Some(next) = calls.next else { return };
    let Some(rank) = group.ranks.iter().position(|rank| *rank == global_rank) else { return };
    let (Ok(rank), Ok(n_ranks)) = (u32::try_from(rank), u32::try_from(group.ranks.len())) else { return };
    let host = dump.host.clone().unwrap_or_else(|| host_of_dump(global_rank));
    let own = (host, format!("rank-{global_rank}"));
    let (host, within) = place.unwrap_or(&own);
    let claim = Claim {
        host,
        pid: None,
        comm_hash,
        rank,
        n_ranks,
        at: first_of(dump, name).unwrap_or(at),
        by_rank: false,
    };
    let Some(mut part) = draft.part_at(&claim, within) else { return };
    part.global_rank(global_rank);
    let title = group_title(name, group);
    let known = part.communicator();
    known.name.clone_from(&title);
    // The watchdog asks CUDA events.
    known.completion = Completion::Events.into();
    // Watchdogs write the dumps when the first of them has waited too long; what is older was written by hand, and a
    // file that is newer was copied.
    let newest = calls::newest(dump);
    // A file that is far older than what is in it has lost its time.
    let is_timed = at.0 > 0 && newest.since(at) < CLOCKS_DIFFER;
    if let Some(due) = due {
        let end = if is_timed { at.min(due) } else { due };
        part.told_until(end.max(newest));
    }
    part.calls(next, 0);
    if let Some(proof) = &calls.proof {
        part.proof(file, 0, format!("rank {rank}: {proof}"));
    }
    for operation in calls.open {
        part.in_flight(operation);
    }
    for pair in calls.pairs {
        part.pair(pair);
    }
    // A few behind the first difference show how it goes on.
    let is_told = |at: u64| parting.is_none_or(|first| at < first.saturating_add(AFTER_TOLD));
    let past = |operation: &&Operation| operation.call_number.is_some_and(is_told);
    let known: Vec<Operation> = calls.completed.iter().filter(past).copied().collect();
    for operation in &known[known.len().saturating_sub(KNOWN_TOLD)..] {
        part.recalled(*operation);
    }
    for operation in calls.completed {
        part.completed(operation);
    }
}

/// A name by which an operator knows the group.
fn group_title(name: &str, group: &Group) -> String {
    match group.description.as_str() {
        "" | "undefined" => name.to_owned(),
        description => format!("{name}:{description}"),
    }
}

/// All ranks of a group give the same name and the same ranks; the library's own hash is not in the dump.
fn group_hash((name, ranks): GroupKey<'_>) -> u64 {
    let hash = Fnv::new().text("flight recorder").text(name);
    ranks.iter().fold(hash, |hash, rank| hash.number(u64::from(*rank))).finish().max(1)
}

fn first_of(dump: &Dump, name: &str) -> Option<Timestamp> {
    let created = dump.entries.iter().filter(|entry| entry.group == name).map(|entry| entry.created_ns);
    created.filter(|created| *created > 0).min().map(Timestamp)
}

/// More than the clocks of two hosts differ by.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3600);
/// Completed calls of one rank and group that are told: a judgement shows fewer.
const KNOWN_TOLD: usize = 16;
/// Of these from the first difference on.
const AFTER_TOLD: u64 = 4;
