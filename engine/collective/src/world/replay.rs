//! The steps of all ranks, carried out one element at a time in numbers: the bits that an algorithm must give, hop by hop.
//!
//! Every value stands beside what it would be without rounding, so that a contribution that is missing or counted twice
//! shows however coarse the type is.

use std::collections::{HashMap, VecDeque};

use crate::collective::schedule::{Action, Chunk, Step};
use crate::kernels::Reducer;
use crate::memory::Place;
use crate::types::{DataType, RedOp};
use crate::world::numbers::{accumulator, float, float_bytes};

/// A value on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// As it is stored.
    rounded: f64,
    /// The sum or product of all contributions in it, which nothing has rounded or divided.
    pub(super) exact: f64,
    is_partial: bool,
}

type Message = Vec<Value>;

/// One rank's memory, by place and element.
#[derive(Clone, Debug, Default)]
struct Rank(HashMap<(usize, usize), Value>);

/// What the receive buffer of each rank must hold, where partial results have the width of their elements. `inputs` are the
/// send buffers, `steps` those of each rank by channel.
pub(super) fn run(reducer: Reducer, inputs: &[Vec<u8>], steps: &[Vec<(u32, Step)>]) -> Vec<Vec<Value>> {
    let mut ranks: Vec<Rank> = inputs.iter().map(|input| Rank::new(reducer.data_type, input)).collect();
    let mut queues: HashMap<(usize, u32), VecDeque<Step>> = HashMap::new();
    for (rank, steps) in steps.iter().enumerate() {
        steps.iter().for_each(|(channel, step)| queues.entry((rank, *channel)).or_default().push_back(*step));
    }
    let mut wires: HashMap<(usize, usize, u32), VecDeque<Message>> = HashMap::new();
    let mut moves = true;
    while moves {
        moves = false;
        for ((rank, channel), queue) in &mut queues {
            while let Some(step) = queue.front().copied() {
                let Some(data) = data(&ranks, &mut wires, (*rank, *channel), step) else { break };
                finish(reducer, &mut ranks[*rank], step, data);
                queue.pop_front();
                moves = true;
            }
        }
    }
    assert!(queues.values().all(VecDeque::is_empty), "stuck: {queues:?}");
    ranks.iter().map(Rank::results).collect()
}

/// What a step works on; nothing while it has to wait. A send puts it on its wire.
fn data(
    ranks: &[Rank],
    wires: &mut HashMap<(usize, usize, u32), VecDeque<Message>>,
    (rank, channel): (usize, u32),
    step: Step,
) -> Option<Message> {
    match step {
        _ if step.is_empty() => Some(Vec::new()),
        Step::Send { peer, from } => {
            wires.entry((rank, peer, channel)).or_default().push_back(ranks[rank].read(from));
            Some(Vec::new())
        }
        Step::Recv { peer, partial, into, .. } => {
            let message = wires.entry((peer, rank, channel)).or_default().pop_front()?;
            assert!(message.len() == into.len && message.iter().all(|value| value.is_partial == partial));
            Some(message)
        }
        Step::Local { from, .. } => Some(ranks[rank].read(from)),
    }
}

/// What a step stores.
fn finish(reducer: Reducer, rank: &mut Rank, step: Step, mut data: Message) {
    let (Step::Recv { into, action, .. } | Step::Local { into, action, .. }) = step else { return };
    if let Action::Reduce { with, finish } = action {
        let with = rank.read(with);
        let is_partial = into.place == Place::Partial;
        data = with.into_iter().zip(data).map(|pair| reduced(reducer, pair, is_partial, finish)).collect();
    }
    rank.write(into, &data);
}

/// `with op data` in `f32`, rounded to the type. An average divides what was not divided before.
fn reduced(reducer: Reducer, (with, data): (Value, Value), is_partial: bool, finish: bool) -> Value {
    let Reducer { data_type, op, n_ranks, .. } = reducer;
    let round = |value| accumulator(data_type, value);
    let has_partials = with.is_partial || data.is_partial || is_partial;
    let divides_first = has_partials && op == RedOp::Avg;
    let inverse = round(1.0 / n_ranks as f64);
    let operand = |value: Value| {
        if divides_first && !value.is_partial { round(value.rounded * inverse) } else { value.rounded }
    };
    let combine = |one: f64, other: f64| if op == RedOp::Prod { one * other } else { one + other };
    let mut reduced = round(combine(operand(with), operand(data)));
    if finish && op == RedOp::Avg && !divides_first {
        reduced = round(reduced / n_ranks as f64);
    }
    let rounded = float(data_type, &float_bytes(data_type, reduced));
    Value { rounded, exact: combine(with.exact, data.exact), is_partial }
}

impl Rank {
    fn new(data_type: DataType, input: &[u8]) -> Self {
        let mut rank = Self::default();
        for (index, bytes) in input.chunks(data_type.size_bytes()).enumerate() {
            let rounded = float(data_type, bytes);
            let value = Value { rounded, exact: rounded, is_partial: false };
            rank.0.insert((Place::Send as usize, index), value);
        }
        rank
    }

    fn read(&self, chunk: Chunk) -> Message {
        let cells = chunk.start..chunk.start + chunk.len;
        cells.map(|index| self.0[&(chunk.place as usize, index)]).collect()
    }

    fn write(&mut self, chunk: Chunk, values: &[Value]) {
        let cells = (chunk.start..).zip(values);
        self.0.extend(cells.map(|(index, value)| ((chunk.place as usize, index), *value)));
    }

    /// The receive buffer.
    fn results(&self) -> Vec<Value> {
        let at = |index| self.0.get(&(Place::Recv as usize, index)).copied();
        (0..).map_while(at).collect()
    }
}

impl Value {
    /// As an element.
    pub(super) fn bytes(&self, data_type: DataType) -> Vec<u8> {
        float_bytes(data_type, self.rounded)
    }
}
