//! Plans against brute force: every pair of slices on the same memory is ordered, and no slice waits without a reason.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::types::{DataType, RedOp};

const STEP_BYTES: usize = 512 * 1024;

fn reducer(data_type: DataType) -> Reducer {
    Reducer::new(data_type, RedOp::Sum, 4)
}

/// What a slice touches, in the order of compilation: bytes on the axis, and whether it writes them.
#[derive(Debug)]
struct Touch {
    access: Access,
    reads: Vec<Range<u64>>,
    writes: Option<Range<u64>>,
}

fn touches(plan: &Plan, memory: Memory, order: &[Access]) -> Vec<Touch> {
    let compiler = Compiler::new(memory, false);
    let range = |span: Span| {
        let chunk = Chunk { place: span.place, start: 0, len: 0 };
        let start = compiler.range(chunk).start + span.offset as u64;
        start..start + span.len as u64
    };
    let touch = |access: &Access| {
        let queue = &plan.queues[access.queue as usize];
        let slice = &queue.slices[access.index as usize];
        let mut reads = Vec::new();
        if queue.direction != Direction::Recv {
            reads.push(range(slice.from));
        }
        if let Outcome::Reduce { with, .. } = slice.outcome {
            reads.push(range(with));
        }
        let writes = (queue.direction != Direction::Send).then(|| range(slice.into));
        Touch { access: *access, reads, writes }
    };
    order.iter().map(touch).collect()
}

fn overlap(left: &Range<u64>, right: &Range<u64>) -> bool {
    left.start < right.end && right.start < left.end
}

fn conflict(left: &Touch, right: &Touch) -> bool {
    let writes_over = |writer: &Touch, other: &Touch| {
        let write = writer.writes.iter();
        write.clone().any(|write| other.reads.iter().chain(&other.writes).any(|touch| overlap(write, touch)))
    };
    writes_over(left, right) || writes_over(right, left)
}

/// The order of compilation: slices were numbered as they came, and a wait points backwards only.
fn compile_in_order(memory: Memory, steps: &[(u32, Step)]) -> Result<(Plan, Vec<Access>), Clobbered> {
    let mut order = Vec::new();
    let mut compiler = Compiler::new(memory, false);
    for (channel, step) in steps {
        let before: Vec<usize> = compiler.plan.queues.iter().map(|queue| queue.slices.len()).collect();
        compiler.step(*channel, *step)?;
        for (queue, now) in compiler.plan.queues.iter().enumerate() {
            let first = before.get(queue).copied().unwrap_or(0);
            order.extend(
                (first..now.slices.len()).map(|index| Access { queue: number(queue), index: number(index) }),
            );
        }
    }
    Ok((compiler.plan, order))
}

/// All that a slice comes after, through waits and the order of queues.
fn ancestors(plan: &Plan, of: Access) -> HashSet<(u32, u32)> {
    let mut seen = HashSet::new();
    let mut open = vec![(of.queue, of.index)];
    while let Some((queue, index)) = open.pop() {
        let slice = &plan.queues[queue as usize].slices[index as usize];
        let before = plan.waits(slice).iter().map(|(queue, count)| (*queue, *count - 1));
        let own = index.checked_sub(1).map(|index| (queue, index));
        open.extend(before.chain(own).filter(|access| seen.insert(*access)));
    }
    seen
}

fn step() -> impl Strategy<Value = Step> {
    let place = prop::sample::select(vec![Place::Send, Place::Recv, Place::Scratch]);
    let target = prop::sample::select(vec![Place::Recv, Place::Scratch]);
    let chunk = |place: Place, start: usize, len: usize| Chunk { place, start, len };
    (0..3_usize, 0..3_usize, place, target, 0..40_usize, 0..40_usize, 0..300_000_usize, any::<bool>())
        .prop_map(move |(kind, peer, place, target, start, other, len, reduce)| {
            let len = if len % 3 == 0 { len } else { len % 12 };
            let (from, into) = (chunk(place, start, len), chunk(target, other, len));
            let with = chunk(place, other, len);
            let action = if reduce { Action::Reduce { with, finish: false } } else { Action::Store };
            match kind {
                0 => Step::Send { peer, from },
                1 => Step::Recv { peer, partial: false, into, action },
                _ => Step::Local { from, into, action },
            }
        })
}

proptest! {
    #[test]
    fn parts_on_the_same_memory_keep_their_order(
        steps in prop::collection::vec((0..2_u32, step()), 1..14),
        in_place in prop::option::of(-64_i64..64),
    ) {
        let memory = Memory { reducer: reducer(DataType::I32), step_bytes: STEP_BYTES, partials_in_recv: true, in_place };
        let Ok((plan, order)) = compile_in_order(memory, &steps) else { return Ok(()) };
        let touches = touches(&plan, memory, &order);
        for (at, later) in touches.iter().enumerate() {
            let before = ancestors(&plan, later.access);
            for earlier in &touches[..at] {
                let key = (earlier.access.queue, earlier.access.index);
                prop_assert!(!conflict(earlier, later) || before.contains(&key), "{earlier:?} {later:?}");
            }
            let slice = &plan.queues[later.access.queue as usize].slices[later.access.index as usize];
            for (queue, count) in plan.waits(slice) {
                let cause = |earlier: &&Touch| (earlier.access.queue, earlier.access.index) == (*queue, count - 1);
                let earlier = touches[..at].iter().find(cause);
                prop_assert!(earlier.is_some_and(|earlier| conflict(earlier, later)), "no reason: {later:?}");
            }
        }
    }
}

fn chunk(place: Place, start: usize, len: usize) -> Chunk {
    Chunk { place, start, len }
}

#[test]
fn wide_partials_and_elements_are_cut_at_the_same_elements() {
    let memory = Memory {
        reducer: reducer(DataType::F16),
        step_bytes: STEP_BYTES,
        partials_in_recv: true,
        in_place: None,
    };
    let len = 1_000_000;
    let recv = |partial| Step::Recv {
        peer: 1,
        partial,
        into: chunk(Place::Partial, 0, len),
        action: Action::Reduce { with: chunk(Place::Send, 0, len), finish: false },
    };
    let slices =
        |partial| Plan::compile(memory, || [(0, recv(partial))].into_iter()).unwrap().queues.remove(0).slices;
    let (narrow, wide) = (slices(false), slices(true));
    assert_eq!(narrow.len(), 8);
    assert!(narrow.iter().zip(&wide).all(|(narrow, wide)| 2 * narrow.from.len == wide.from.len));
    assert!(wide.iter().all(|slice| slice.from.len <= STEP_BYTES));
}

#[test]
fn partials_share_the_receive_buffer_only_where_nothing_is_lost() {
    let (partial, send) = (chunk(Place::Partial, 0, 8), chunk(Place::Send, 0, 8));
    let reduce = Action::Reduce { with: send, finish: false };
    let first = Step::Recv { peer: 1, partial: false, into: partial, action: reduce };
    let again = Step::Send { peer: 2, from: send };
    let partial_bytes = |steps: &[Step], in_place, partials_in_recv| {
        let memory =
            Memory { reducer: reducer(DataType::I32), step_bytes: STEP_BYTES, partials_in_recv, in_place };
        Plan::compile(memory, || steps.iter().map(|step| (0, *step))).map(|plan| plan.partial_bytes)
    };
    assert_eq!(partial_bytes(&[first], None, true), Ok(0));
    assert_eq!(partial_bytes(&[first], None, false), Ok(32), "it has other indices");
    assert_eq!(partial_bytes(&[first, again], None, true), Ok(0));
    assert_eq!(partial_bytes(&[first, again], Some(0), true), Ok(32), "the input is still needed");
    let result =
        Step::Recv { peer: 1, partial: false, into: chunk(Place::Recv, 0, 8), action: Action::Store };
    assert_eq!(partial_bytes(&[result, again], Some(0), true), Err(Clobbered));
}

#[test]
fn a_copy_onto_itself_is_no_work() {
    let memory = Memory {
        reducer: reducer(DataType::U8),
        step_bytes: STEP_BYTES,
        partials_in_recv: true,
        in_place: Some(16),
    };
    let copy = Step::Local {
        from: chunk(Place::Send, 0, 8),
        into: chunk(Place::Recv, 16, 8),
        action: Action::Store,
    };
    assert_eq!(Plan::compile(memory, || [(0, copy)].into_iter()).unwrap(), Plan::default());
}
