//! Plans of the calls that a communicator has seen, with the connections that they use.

use std::sync::Arc;

use crate::collective::catalog::partials_in_recv;
use crate::collective::operation::Operation;
use crate::collective::plan::{Direction, Memory, Plan};
use crate::collective::primitive::Primitive;
use crate::comm::links::Links;
use crate::comm::member::Member;
use crate::error::{Error, Result};
use crate::kernels::Reducer;

/// Plans kept at most; a training step repeats some dozens of different calls.
const MAX_PLANS: usize = 128;
/// Slices of all kept plans at most: about 100 bytes each.
const MAX_SLICES: usize = 256 * 1024;

/// What a plan is looked up by: all of a call that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    primitive: Primitive,
    count: usize,
    n_virtual: usize,
    reducer: Reducer,
    in_place: Option<i64>,
    pre_mul: bool,
}

/// A plan, ready to be run.
#[derive(Debug)]
pub(crate) struct Planned {
    key: Key,
    /// The slices.
    pub(crate) plan: Plan,
    /// Of each queue, the index of its connection.
    pub(crate) slots: Vec<usize>,
    /// Of each queue, whether it leaves the host.
    pub(crate) is_network: Vec<bool>,
    /// How its elements are reduced.
    pub(crate) reducer: Reducer,
    /// What all ranks must agree on, beside the primitive.
    pub(crate) signature: u64,
    /// Whether the input is copied first: the result would overwrite it too early, or it is multiplied.
    pub(crate) keeps_input: bool,
}

/// The plans, the most recently used last.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    kept: Vec<Arc<Planned>>,
    n_slices: usize,
}

impl Plans {
    /// The plan for `operation`. A new one connects what it needs.
    pub(crate) fn find(
        &mut self,
        comm: &Member,
        links: &mut Links,
        operation: &Operation,
    ) -> Result<Arc<Planned>> {
        let key = Key {
            primitive: operation.primitive,
            count: operation.count,
            n_virtual: operation.n_virtual,
            reducer: operation.reducer,
            in_place: operation.send.offset_in(operation.recv).filter(|_| operation.pre_mul.is_none()),
            pre_mul: operation.pre_mul.is_some(),
        };
        // The same call as before is the usual case, and stands last.
        if let Some(last) = self.kept.last().filter(|planned| planned.key == key) {
            return Ok(Arc::clone(last));
        }
        if let Some(found) = self.kept.iter().position(|planned| planned.key == key) {
            self.kept[found..].rotate_left(1);
        } else {
            let planned = plan(comm, links, operation, key)?;
            self.keep(Arc::new(planned));
        }
        self.kept.last().map(Arc::clone).ok_or_else(|| Error::Internal("no plan is kept".to_owned()))
    }

    fn keep(&mut self, planned: Arc<Planned>) {
        self.n_slices += planned.plan.n_slices();
        self.kept.push(planned);
        // The newest stays in any case.
        while self.kept.len() > 1 && (self.kept.len() > MAX_PLANS || self.n_slices > MAX_SLICES) {
            self.n_slices -= self.kept.remove(0).plan.n_slices();
        }
    }
}

fn plan(comm: &Member, links: &mut Links, operation: &Operation, key: Key) -> Result<Planned> {
    let choice = comm.choose(operation);
    let memory = Memory {
        reducer: operation.moved_as(choice.algorithm),
        step_bytes: comm.settings.step_bytes,
        partials_in_recv: partials_in_recv(choice.algorithm, operation.primitive),
        in_place: key.in_place,
    };
    let compile = |memory| Plan::compile(memory, || comm.steps(operation, choice).into_iter());
    // Two ranks that exchange blocks in place would each wait for the other to receive before they overwrite what they send.
    let exchanges = operation.primitive == Primitive::AllToAll && key.in_place.is_some();
    let (plan, keeps_input) = match compile(memory) {
        Ok(plan) if !exchanges => (plan, key.pre_mul),
        _ => (compile(Memory { in_place: None, ..memory }).map_err(|_| unsound(operation))?, true),
    };
    let slots = slots(comm, links, &plan)?;
    let signature = comm.signature(operation, choice);
    let reaches = |peer| comm.host.as_ref().is_some_and(|host| host.reaches(peer));
    let is_network =
        plan.queues.iter().map(|queue| queue.direction != Direction::Local && !reaches(queue.peer));
    let is_network = is_network.collect();
    Ok(Planned { key, plan, slots, is_network, reducer: memory.reducer, signature, keeps_input })
}

fn slots(comm: &Member, links: &mut Links, plan: &Plan) -> Result<Vec<usize>> {
    let mut slots = Vec::with_capacity(plan.queues.len());
    for queue in &plan.queues {
        slots.push(match queue.direction {
            Direction::Send => {
                let index = links.sends.index(queue.channel, queue.peer);
                if links.sends.get(index).is_some_and(|end| end.half.is_none()) {
                    let half = comm.open_send(queue.channel, queue.peer)?;
                    links.sends.connect(queue.channel, queue.peer, half);
                }
                index
            }
            Direction::Recv => {
                let index = links.recvs.index(queue.channel, queue.peer);
                if links.recvs.get(index).is_some_and(|end| end.half.is_none())
                    && let Some(half) = comm.open_shared_recv(queue.channel, queue.peer)?
                {
                    links.recvs.connect(queue.channel, queue.peer, half);
                }
                index
            }
            Direction::Local => usize::MAX,
        });
    }
    Ok(slots)
}

fn unsound(operation: &Operation) -> Error {
    let name = operation.primitive.name();
    Error::Internal(format!("the schedule of {name} over {} elements overwrites its input", operation.count))
}
