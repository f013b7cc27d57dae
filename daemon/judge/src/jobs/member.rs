//! One rank of a communicator, for the judge of hangs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use ringscope_api::clock::Timestamp;
use ringscope_model::{CommunicatorId, Completed, Local, LocalState, Model, ProcessState, RankRef};
use ringscope_wire::{Primitive, batch};

use crate::hangs::scene::{
    Calls, CommError, Link, Member, MemberState, OPEN_TOLD, Operation, OperationState, Pair, Queued,
    Signature, Transfers, Warning,
};

/// The newest completed operations of each rank of a communicator.
pub(super) fn history(model: &Model, comm: CommunicatorId) -> HashMap<u32, Vec<Operation>> {
    let mut by_rank: HashMap<u32, Vec<Operation>> = HashMap::new();
    let (completed, _) = model.completed(comm);
    let completed: Vec<&Completed> = completed.collect();
    for known in completed.into_iter().rev() {
        let its = by_rank.entry(known.rank).or_default();
        if its.len() < HISTORY_TOLD {
            its.push(of_history(known));
        }
    }
    by_rank
}

/// A rank. `ended`: when it did, by the clock of its host. `details`: what completed of it, where somebody may wait; absent:
/// nobody does, and details are spared.
pub(super) fn tell<'a>(
    rank: &RankRef<'a>,
    process: u32,
    ended: Option<Timestamp>,
    details: Option<Vec<Operation>>,
) -> Member<'a> {
    let (local, facts) = (rank.local, rank.facts);
    let open = local.in_flight();
    let sequence = local.sequence();
    let mut member = Member {
        rank: rank.rank,
        process,
        state: state(facts.state),
        created_at: facts.created,
        ended_at: ended,
        made_by: &facts.made_by,
        gpu: &facts.gpu,
        completion_known: rank.knows_completion(),
        calls: sequence.map(|sequence| Calls { made: sequence.calls, hash: sequence.hash }),
        marks: sequence
            .map_or_else(|| Cow::Borrowed([].as_slice()), |its| Cow::Borrowed(its.marks.as_slice())),
        open: Cow::Owned(open.iter().filter_map(operation).take(OPEN_TOLD).collect()),
        queued: queued(open),
        last_completed: local.last_completed().and_then(operation),
        links: Cow::Owned(links(local)),
        transfers: (rank.process.state() != ProcessState::Imported).then(|| transfers(local)),
        next_in_ring: facts.rings.values().next().map(|place| place.next),
        error: facts.error.as_ref().map(|error| CommError {
            code: error.code,
            function: Cow::Borrowed(&*error.function),
            at: error.at,
        }),
        ..Member::default()
    };
    if let Some(mut known) = details {
        known.extend(local.recalled().iter().filter_map(operation));
        member.known = Cow::Owned(known);
        member.pairs = Cow::Owned(pairs(local));
        let warnings = facts.warnings.iter();
        member.warnings =
            warnings.map(|line| Warning { file: &line.file, line: line.line, text: &line.text }).collect();
    }
    member
}

fn state(state: LocalState) -> MemberState {
    match state {
        LocalState::Forming => MemberState::Forming,
        LocalState::Active => MemberState::Active,
        LocalState::Destroyed => MemberState::Destroyed,
        LocalState::Aborted => MemberState::Aborted,
        LocalState::Failed => MemberState::Failed,
    }
}

fn queued(open: &[batch::Operation]) -> Option<Queued> {
    let queued = || open.iter().filter(|told| told.state() == batch::OperationState::Queued);
    let since = queued().map(|told| told.issued_at_ns).min()?;
    Some(Queued {
        calls: index(queued().count()),
        first: queued().filter_map(|told| told.call_number).min(),
        since: Timestamp(since),
    })
}

fn operation(told: &batch::Operation) -> Option<Operation> {
    let state = match told.state() {
        batch::OperationState::Queued => OperationState::Queued,
        batch::OperationState::Issued => OperationState::Issued,
        batch::OperationState::Completed => OperationState::Completed,
        batch::OperationState::Failed => OperationState::Failed,
        batch::OperationState::Unspecified | batch::OperationState::Captured => return None,
    };
    Some(Operation {
        signature: Signature {
            primitive: batch::Primitive::try_from(told.primitive).ok()?.known()?,
            count: told.count,
            datatype: told.datatype,
            op: told.op,
            peer: told.peer,
        },
        bytes: told.bytes,
        number: told.call_number,
        of_primitive: told.seq_number,
        state,
        issued_at: Timestamp(told.issued_at_ns),
        started_at: told.started_at_ns.map(Timestamp),
        start_known: told.start_known,
        completed_at: told.completed_at_ns.map(Timestamp),
        stream: told.stream,
        group: told.group,
        ends_by_order: told.ends_by_order,
    })
}

fn of_history(known: &Completed) -> Operation {
    Operation {
        signature: Signature {
            primitive: known.primitive,
            count: known.count,
            datatype: u32::from(known.datatype),
            op: known.op,
            peer: known.peer,
        },
        bytes: known.bytes,
        number: known.call_number,
        of_primitive: known.seq_number,
        state: OperationState::Completed,
        issued_at: Timestamp(known.issued_at_ns),
        started_at: None,
        start_known: false,
        completed_at: Some(Timestamp(known.completed_at_ns)),
        stream: 0,
        group: known.group,
        ends_by_order: false,
    }
}

fn pairs(local: &Local) -> Vec<Pair> {
    let pairs = local.pairs().iter().map(|((primitive, peer), pair)| Pair {
        is_send: *primitive == Primitive::Send,
        peer: *peer,
        calls: pair.calls,
        bytes: pair.bytes,
        hash: pair.hash,
    });
    pairs.collect()
}

fn transfers(local: &Local) -> Transfers {
    let made = |primitive: Primitive| {
        local.counters().get(primitive).map_or(0, |counted| counted.totals().issued_calls)
    };
    Transfers { sends: made(Primitive::Send), recvs: made(Primitive::Recv) }
}

/// What it has sent over the network, by peer.
fn links(local: &Local) -> Vec<Link> {
    let mut by_peer: BTreeMap<u32, Link> = BTreeMap::new();
    for ((primitive, peer), sent) in local.links() {
        let link = by_peer.entry(*peer).or_insert(Link { peer: *peer, ..Link::default() });
        link.sent_bytes = link.sent_bytes.saturating_add(sent.bytes);
        if !matches!(primitive, Primitive::Send | Primitive::Recv | Primitive::PutSignal) {
            link.sent_in_calls = link.sent_in_calls.saturating_add(sent.bytes);
        }
    }
    by_peer.into_values().collect()
}

/// Places in a scene: the model has fewer of everything.
pub(super) fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Completed operations of one rank that are told: several times what it has under way at once.
const HISTORY_TOLD: usize = 64;
