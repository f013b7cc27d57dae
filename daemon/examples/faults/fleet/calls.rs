//! What is told of one rank's calls.

use ringscope_wire::batch::{
    CallSequence, Counters, OpenCall, Operation, OperationState, Primitive, SequenceMark,
};

use super::pace::{Spent, Wait};
use super::program::{Call, Kind, Rank};
use super::tell::{FURTHER, PIPELINE};

pub(crate) fn open_call(is_forming: bool, function: &str, entered_at_ns: u64) -> OpenCall {
    let local_id = if is_forming { FURTHER } else { Kind::World as u64 };
    OpenCall { thread: 1, function: function.to_owned(), local_id: Some(local_id), entered_at_ns }
}

pub(crate) fn counters(rank: &Rank, kind: Kind) -> Counters {
    let issued = rank.calls[kind as usize];
    let open = rank.open.is_some_and(|call| call.kind == kind);
    let completed = issued - u64::from(open);
    Counters {
        local_id: kind as u64,
        primitive: 1,
        issued_calls: issued,
        issued_bytes: issued << 22,
        completed_calls: completed,
        completed_bytes: completed << 22,
        ..Counters::default()
    }
}

/// What goes from stage to stage and back.
pub(crate) fn messages(spent: &Spent) -> Vec<Counters> {
    let told = |primitive: Primitive| Counters {
        local_id: PIPELINE,
        primitive: primitive.into(),
        issued_calls: spent.messages,
        issued_bytes: spent.message_bytes,
        completed_calls: spent.messages,
        completed_bytes: spent.message_bytes,
        busy_ns: spent.busy_ns[Wait::Pipeline as usize] / 2,
        ..Counters::default()
    };
    vec![told(Primitive::Send), told(Primitive::Recv)]
}

pub(crate) fn sequence(rank: &Rank, kind: Kind) -> CallSequence {
    let at = kind as usize;
    let mark = rank.marks[at].map(|(calls, hash)| SequenceMark { calls, hash });
    CallSequence {
        local_id: kind as u64,
        calls: rank.calls[at],
        hash: rank.hash[at],
        marks: mark.into_iter().collect(),
        sampled_log2: 0,
    }
}

pub(crate) fn operation(call: &Call, completed_ns: Option<u64>, never_starts: bool) -> Operation {
    let started = (!never_starts).then_some(call.issued_ns + 1_000_000);
    let state = if completed_ns.is_some() { OperationState::Completed } else { OperationState::Issued };
    Operation {
        local_id: call.kind as u64,
        primitive: call.signature.primitive,
        seq_number: call.number,
        bytes: call.signature.count * 4,
        count: call.signature.count,
        datatype: call.signature.datatype,
        state: state.into(),
        issued_at_ns: call.issued_ns,
        completed_at_ns: completed_ns,
        call_number: Some(call.number),
        op: Some(call.signature.op),
        started_at_ns: started,
        start_known: true,
        stream: 1,
        ..Operation::default()
    }
}
