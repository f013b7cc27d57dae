//! Facts of the dumps of Inspector, RAS and the Flight Recorder into the draft.

use ringscope_wire::batch::{CommunicatorState, Operation, OperationState, Sources};

use super::draft::{Claim, Draft};
use super::flight::{Dump, Entry, Group, State};
use super::gathered::Gathered;
use super::inspector;
use super::ras::{RasCommunicator, RasRank};
use crate::clock::Timestamp;
use crate::model::Fnv;

/// Puts what the dumps say into the draft. After the logs: those know hosts by name.
pub(super) fn draft(gathered: &Gathered, draft: &mut Draft) {
    inspector(gathered, draft);
    for (_, at, dump) in &gathered.ras {
        for communicator in &dump.communicators {
            let Some(comm_hash) = inspector::hash(&communicator.hash) else { continue };
            for rank in &communicator.ranks {
                ras_rank(draft, comm_hash, communicator, rank, *at, &dump.nccl_version);
            }
        }
    }
    for (_, at, dump) in &gathered.flight {
        let Some(global_rank) = dump.rank else { continue };
        for (name, group) in &dump.groups {
            flight_group(draft, dump, name, group, global_rank, *at);
        }
    }
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

fn ras_rank(
    draft: &mut Draft,
    comm_hash: u64,
    communicator: &RasCommunicator,
    rank: &RasRank,
    at: Timestamp,
    version: &str,
) {
    let claim = Claim {
        host: if rank.host.is_empty() { "unknown" } else { &rank.host },
        pid: u32::try_from(rank.pid).ok().filter(|pid| *pid > 0),
        comm_hash,
        rank: rank.rank,
        n_ranks: communicator.size,
        at,
        by_rank: true,
    };
    let Some(mut part) = draft.part(&claim) else { return };
    let known = part.communicator();
    if known.gpu.is_empty() && rank.cuda_dev >= 0 {
        known.gpu = rank.cuda_dev.to_string();
    }
    if known.log_version.is_empty() {
        version.clone_into(&mut known.log_version);
    }
    if rank.status.abort_flag {
        known.state = CommunicatorState::Aborted.into();
        known.ended_at_ns = Some(at.0);
    } else if rank.status.destroy_flag || rank.status.finalize_called {
        known.state = CommunicatorState::Destroyed.into();
        known.ended_at_ns = Some(at.0);
    } else if rank.status.init_state != 0 {
        known.state = CommunicatorState::Forming.into();
    }
    part.library_version(version);
    for (name, count) in &rank.collective_counts {
        if let Some(primitive) = inspector::primitive(name).filter(|_| *count > 0) {
            let counters = part.counters(primitive);
            counters.issued_calls = counters.issued_calls.max(*count);
        }
    }
}

fn flight_group(draft: &mut Draft, dump: &Dump, name: &str, group: &Group, global_rank: u32, at: Timestamp) {
    let Some(rank) = group.ranks.iter().position(|rank| *rank == global_rank) else { return };
    let (Ok(rank), Ok(n_ranks)) = (u32::try_from(rank), u32::try_from(group.ranks.len())) else { return };
    let host = dump.host.clone().unwrap_or_else(|| format!("rank-{global_rank}"));
    let claim = Claim {
        host: &host,
        pid: None,
        comm_hash: group_hash(name, group),
        rank,
        n_ranks,
        at: first_of(dump, name).unwrap_or(at),
        by_rank: false,
    };
    let Some(mut part) = draft.part_at(&claim, &format!("rank-{global_rank}")) else { return };
    part.global_rank(global_rank);
    let title = group_title(name, group);
    part.communicator().name.clone_from(&title);
    for entry in dump.entries.iter().filter(|entry| entry.group == name) {
        let Some(operation) = operation(entry) else { continue };
        if entry.state == State::Completed { part.completed(operation) } else { part.in_flight(operation) }
    }
}

/// A name by which an operator knows the group.
pub(super) fn group_title(name: &str, group: &Group) -> String {
    match group.description.as_str() {
        "" | "undefined" => name.to_owned(),
        description => format!("{name}:{description}"),
    }
}

/// All ranks of a group give the same name and the same ranks; the library's own hash is not in the dump.
pub(super) fn group_hash(name: &str, group: &Group) -> u64 {
    let hash = Fnv::new().text("flight recorder").text(name);
    group.ranks.iter().fold(hash, |hash, rank| hash.number(u64::from(*rank))).finish().max(1)
}

fn first_of(dump: &Dump, name: &str) -> Option<Timestamp> {
    let created = dump.entries.iter().filter(|entry| entry.group == name).map(|entry| entry.created_ns);
    created.filter(|created| *created > 0).min().map(Timestamp)
}

fn operation(entry: &Entry) -> Option<Operation> {
    let primitive = ringscope_wire::batch::Primitive::from(entry.primitive()?);
    Some(Operation {
        primitive: primitive.into(),
        seq_number: entry.seq_number,
        bytes: entry.bytes,
        count: entry.count,
        datatype: entry.datatype,
        state: match entry.state {
            State::Completed => OperationState::Completed,
            State::Scheduled | State::Started => OperationState::Issued,
        }
        .into(),
        issued_at_ns: entry.created_ns,
        completed_at_ns: match entry.state {
            State::Completed => entry.completed_ns.or(Some(entry.created_ns)),
            State::Scheduled | State::Started => None,
        },
        ..Operation::default()
    })
}
