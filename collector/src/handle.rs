//! The handles that the profiler plugin gives the library: numbers, not memory, so that none is ever freed too early
//! or leaked. The library only compares them with NULL and passes them back.

use ringscope_wire::segment::layout::MAX_LINKS;

/// What an event handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    /// An API call: the record it made.
    Api(Operation),
    /// A collective or point-to-point task of that call.
    Task(Operation),
    /// A task whose record is closed (a CUDA-graph replay): only its network bytes count.
    Replay(Operation),
    /// One channel's work of a task.
    Channel(Operation),
    /// A network send operation: index of the link it adds to.
    Link(usize),
    /// A network step followed in the step table, by its index.
    Step(usize),
    /// A network step that found no room there: index of its link.
    LooseStep(usize),
}

/// A record, and what can be said of it without looking at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) ticket: u64,
    /// Communicator slot.
    pub(crate) slot: usize,
    /// `Primitive::index`.
    pub(crate) primitive: usize,
}

/// Tickets are 48 bits in a handle: at 10⁶ calls per second they last nine years.
const TICKET_BITS: u32 = 48;
const PRIMITIVE_SHIFT: u32 = TICKET_BITS;
const SLOT_SHIFT: u32 = PRIMITIVE_SHIFT + 4;
const KIND_SHIFT: u32 = SLOT_SHIFT + 8;

const _: () = assert!(MAX_LINKS < 1 << TICKET_BITS);

impl Handle {
    /// The number for it; never 0.
    pub(crate) fn encode(self) -> u64 {
        match self {
            Self::Api(operation) => operation.encode(1),
            Self::Task(operation) => operation.encode(2),
            Self::Replay(operation) => operation.encode(3),
            Self::Channel(operation) => operation.encode(4),
            Self::Link(index) => 5 << KIND_SHIFT | index as u64,
            Self::Step(index) => 6 << KIND_SHIFT | index as u64,
            Self::LooseStep(index) => 7 << KIND_SHIFT | index as u64,
        }
    }

    /// What a number stands for; `None` for 0 and for what is no handle of ours.
    pub(crate) fn decode(number: u64) -> Option<Self> {
        let index = usize::try_from(number & ((1 << TICKET_BITS) - 1)).ok()?;
        match number >> KIND_SHIFT {
            1 => Some(Self::Api(Operation::decode(number))),
            2 => Some(Self::Task(Operation::decode(number))),
            3 => Some(Self::Replay(Operation::decode(number))),
            4 => Some(Self::Channel(Operation::decode(number))),
            5 => Some(Self::Link(index)),
            6 => Some(Self::Step(index)),
            7 => Some(Self::LooseStep(index)),
            _ => None,
        }
    }
}

impl Operation {
    fn encode(self, kind: u64) -> u64 {
        kind << KIND_SHIFT
            | (self.slot as u64 & 0xff) << SLOT_SHIFT
            | (self.primitive as u64 & 0xf) << PRIMITIVE_SHIFT
            | self.ticket & ((1 << TICKET_BITS) - 1)
    }

    fn decode(number: u64) -> Self {
        Self {
            ticket: number & ((1 << TICKET_BITS) - 1),
            slot: (number >> SLOT_SHIFT & 0xff) as usize,
            primitive: (number >> PRIMITIVE_SHIFT & 0xf) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_the_way_through_the_library() {
        let operation = Operation { ticket: (1 << 48) - 1, slot: 255, primitive: 13 };
        for handle in [
            Handle::Api(operation),
            Handle::Task(operation),
            Handle::Replay(operation),
            Handle::Channel(operation),
            Handle::Link(0),
            Handle::Link(4095),
            Handle::Step(2047),
            Handle::LooseStep(4095),
        ] {
            assert_eq!(Handle::decode(handle.encode()), Some(handle));
        }
        assert_eq!(Handle::decode(0), None);
        assert_eq!(Handle::decode(u64::MAX), None);
    }
}
