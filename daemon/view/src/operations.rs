//! Operations: what each rank is in, and what it was in when it died.

use ringscope_api::clock::Timestamp;
use ringscope_api::{Operation, OperationState};
use ringscope_judge::Diagnosis;
use ringscope_model::{Model, ProcessState, RankRef};
use ringscope_wire::{Datatype, batch};

/// The operations of a communicator in one state (all if `None`), oldest first. Completed ones: the newest of each
/// rank.
#[must_use]
pub fn operations(
    model: &Model,
    _diagnosis: &Diagnosis,
    now: Timestamp,
    id: &str,
    state: Option<OperationState>,
) -> Option<Vec<Operation>> {
    let known = model.communicator(id.parse().ok()?)?;
    let mut found: Vec<Operation> = known
        .ranks(model)
        .flat_map(|rank| {
            let told = rank.local.in_flight().iter().chain(rank.local.last_completed());
            told.filter_map(move |told| operation(model, &rank, told, now)).collect::<Vec<_>>()
        })
        .filter(|operation| state.is_none_or(|state| operation.state == state))
        .collect();
    found.sort_by(|one, other| order(one).cmp(&order(other)));
    Some(found)
}

fn order(operation: &Operation) -> impl Ord + '_ {
    (operation.issued_at, operation.rank, &operation.primitive, operation.seq_number)
}

/// The oldest operation that a rank has not completed; if there is none, the last one it completed. Where nothing tells
/// that operations complete, the last one that it issued.
pub(super) fn current(model: &Model, rank: &RankRef<'_>, now: Timestamp) -> Option<Operation> {
    let in_flight = rank.local.in_flight().iter();
    let told_of = |told: &batch::Operation| operation(model, rank, told, now);
    let mut told: Vec<Operation> = in_flight.filter_map(told_of).collect();
    told.sort_by(|one, other| order(one).cmp(&order(other)));
    let is_open = |operation: &Operation| operation.state != OperationState::Issued;
    let oldest = told.iter().position(is_open).or(told.len().checked_sub(1));
    oldest.map(|at| told.swap_remove(at)).or_else(|| told_of(rank.local.last_completed()?))
}

fn operation(
    model: &Model,
    rank: &RankRef<'_>,
    told: &batch::Operation,
    now: Timestamp,
) -> Option<Operation> {
    let issued_at = Timestamp(told.issued_at_ns);
    let state = match batch::OperationState::try_from(told.state).ok()? {
        batch::OperationState::Unspecified => return None,
        batch::OperationState::Queued => OperationState::Queued,
        batch::OperationState::Issued if is_end_known(rank) => OperationState::InFlight,
        batch::OperationState::Issued => OperationState::Issued,
        batch::OperationState::Completed => OperationState::Completed,
        batch::OperationState::Failed => OperationState::Failed,
        batch::OperationState::Captured => OperationState::Captured,
    };
    // What was in flight when its rank ended does not get any older; and files do not say until when they hold.
    let open = rank.process.state() != ProcessState::Imported && state != OperationState::Issued;
    let over = rank.ended().or(open.then_some(now)).map(|at| model.theirs(rank.process, at));
    let until = told.completed_at_ns.map(Timestamp).or(over);
    Some(Operation {
        rank: rank.rank,
        host: rank.identity.host.to_string(),
        primitive: batch::Primitive::try_from(told.primitive).ok()?.known()?.label().to_owned(),
        seq_number: told.seq_number,
        bytes: told.bytes,
        count: told.count,
        datatype: u8::try_from(told.datatype)
            .map_or("unknown", |datatype| Datatype(datatype).label())
            .to_owned(),
        peer: told.peer,
        call_number: told.call_number,
        op: told.op.map(|op| op_label(op).to_owned()),
        started_at: told.started_at_ns.map(Timestamp),
        state,
        issued_at,
        duration_s: until.map_or(0.0, |until| until.since(issued_at).as_secs_f64()),
        channels_done: told.channels_done,
        channels_expected: told.channels_expected,
    })
}

/// `ncclRedOp_t`; numbers beyond the built-in ones are a program's own.
fn op_label(op: u32) -> &'static str {
    match op {
        0 => "sum",
        1 => "prod",
        2 => "max",
        3 => "min",
        4 => "avg",
        _ => "custom",
    }
}

/// Whether an operation that was issued and has not completed is still open, or only nobody tells of its end. Imported
/// dumps say of each operation whether it has completed.
fn is_end_known(rank: &RankRef<'_>) -> bool {
    if !rank.facts.completion_lost.is_empty() {
        return false;
    }
    match rank.facts.completion {
        batch::Completion::Profiler | batch::Completion::Events => true,
        batch::Completion::None => false,
        batch::Completion::Unspecified => rank.process.state() == ProcessState::Imported,
    }
}
