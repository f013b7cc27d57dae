//! The handles that the profiler plugin gives the library: numbers, not memory, so that none is ever freed too early
//! or leaked. The library only compares them with NULL and passes them back; what it passes may be anything.

use ringscope_wire::segment::layout::{MAX_COMMUNICATORS, MAX_LINKS, MAX_PRIMITIVES};

/// What an event handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    /// An API call: the record it made.
    Api(Operation),
    /// A collective or point-to-point task of that call.
    Task(Operation),
    /// A task whose record is closed or replaced: only its network bytes count.
    Late(Operation),
    /// One channel's work of a task; [`NO_CHANNEL`] if it is not told apart from others of the operation.
    Channel(Operation, u8),
    /// A network send operation: index of the link it adds to.
    Link(usize),
    /// A network step (or, before version 4, a send operation) followed in the step table.
    Step(Entry),
    /// A network step that found no room there: index of its link.
    LooseStep(usize),
    /// A call captured into a graph, in the table of templates.
    Template(Entry),
    /// One run of a captured call, in the table of runs.
    Run(Entry),
    /// One channel's work of a run.
    RunChannel(Entry, u8),
    /// A group of API calls.
    Group,
    /// An event that another plugin follows too, in the table of pairs.
    Pair(Entry),
}

/// An entry of a table whose entries are used again: its index, and which use of it this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// 16 bits.
    pub(crate) index: usize,
    /// 32 bits, of which a table may keep fewer.
    pub(crate) generation: u32,
}

/// A record, and what can be said of it without looking at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// The low [`TICKET_BITS`] of the record's ticket.
    pub(crate) ticket: u64,
    /// Communicator slot.
    pub(crate) slot: usize,
    /// `Primitive::index`.
    pub(crate) primitive: usize,
}

/// Channel of an event that is not told apart from others.
pub(crate) const NO_CHANNEL: u8 = 0xff;

/// Tickets are compared in so many bits: a handle would have to outlive 1.7 · 10¹⁰ calls to be taken for another.
pub(crate) const TICKET_BITS: u32 = 36;
const PRIMITIVE_SHIFT: u32 = TICKET_BITS;
const CHANNEL_SHIFT: u32 = PRIMITIVE_SHIFT + 4;
const SLOT_SHIFT: u32 = CHANNEL_SHIFT + 8;
const SLOT_MASK: u64 = MAX_COMMUNICATORS as u64 - 1;
const KIND_SHIFT: u32 = SLOT_SHIFT + 12;
const GENERATION_SHIFT: u32 = 16;

const _: () = {
    assert!(KIND_SHIFT == 60);
    assert!(MAX_COMMUNICATORS <= 1 << 12 && MAX_PRIMITIVES <= 16 && MAX_LINKS <= 1 << 16);
};

impl Handle {
    /// The number for it; never 0.
    #[inline(always)]
    pub(crate) fn encode(self) -> u64 {
        match self {
            Self::Api(operation) => operation.encode(1, 0),
            Self::Task(operation) => operation.encode(2, 0),
            Self::Late(operation) => operation.encode(3, 0),
            Self::Channel(operation, channel) => operation.encode(4, channel),
            Self::Link(index) => 5 << KIND_SHIFT | index as u64,
            Self::Step(entry) => entry.encode(6, 0),
            Self::LooseStep(index) => 7 << KIND_SHIFT | index as u64,
            Self::Template(entry) => entry.encode(8, 0),
            Self::Run(entry) => entry.encode(9, 0),
            Self::RunChannel(entry, channel) => entry.encode(10, channel),
            Self::Group => 11 << KIND_SHIFT,
            Self::Pair(entry) => entry.encode(15, 0),
        }
    }

    /// What a number stands for; `None` for 0 and for what is no handle of ours.
    #[inline(always)]
    pub(crate) fn decode(number: u64) -> Option<Self> {
        let index = (number & 0xffff) as usize;
        let channel = number.to_le_bytes()[CHANNEL_SHIFT as usize / 8];
        let entry_channel = number.to_le_bytes()[6];
        match number >> KIND_SHIFT {
            1 => Some(Self::Api(Operation::decode(number))),
            2 => Some(Self::Task(Operation::decode(number))),
            3 => Some(Self::Late(Operation::decode(number))),
            4 => Some(Self::Channel(Operation::decode(number), channel)),
            5 => Some(Self::Link(index)),
            6 => Some(Self::Step(Entry::decode(number))),
            7 => Some(Self::LooseStep(index)),
            8 => Some(Self::Template(Entry::decode(number))),
            9 => Some(Self::Run(Entry::decode(number))),
            10 => Some(Self::RunChannel(Entry::decode(number), entry_channel)),
            11 => Some(Self::Group),
            15 => Some(Self::Pair(Entry::decode(number))),
            _ => None,
        }
    }
}

impl Entry {
    fn encode(self, kind: u64, channel: u8) -> u64 {
        kind << KIND_SHIFT
            | u64::from(channel) << 48
            | u64::from(self.generation) << GENERATION_SHIFT
            | self.index as u64 & 0xffff
    }

    fn decode(number: u64) -> Self {
        let generation = (number >> GENERATION_SHIFT & 0xffff_ffff) as u32;
        Self { index: (number & 0xffff) as usize, generation }
    }
}

impl Operation {
    #[inline(always)]
    pub(crate) fn new(ticket: u64, slot: usize, primitive: usize) -> Self {
        Self { ticket: ticket & ((1 << TICKET_BITS) - 1), slot, primitive }
    }

    /// Whether a record's `ticket` (the ticket plus one) is this operation's.
    #[inline(always)]
    pub(crate) fn is(self, record_ticket: u64) -> bool {
        record_ticket.wrapping_sub(1) & ((1 << TICKET_BITS) - 1) == self.ticket
    }

    #[inline(always)]
    fn encode(self, kind: u64, channel: u8) -> u64 {
        kind << KIND_SHIFT
            | (self.slot as u64 & SLOT_MASK) << SLOT_SHIFT
            | (self.primitive as u64 & 0xf) << PRIMITIVE_SHIFT
            | u64::from(channel) << CHANNEL_SHIFT
            | self.ticket
    }

    #[inline(always)]
    fn decode(number: u64) -> Self {
        Self {
            ticket: number & ((1 << TICKET_BITS) - 1),
            slot: (number >> SLOT_SHIFT & SLOT_MASK) as usize,
            primitive: (number >> PRIMITIVE_SHIFT & 0xf) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_the_way_through_the_library() {
        let operation =
            Operation { ticket: (1 << TICKET_BITS) - 1, slot: MAX_COMMUNICATORS - 1, primitive: 13 };
        let entry = Entry { index: 0xffff, generation: u32::MAX };
        for handle in [
            Handle::Api(operation),
            Handle::Task(operation),
            Handle::Late(operation),
            Handle::Channel(operation, 63),
            Handle::Channel(operation, NO_CHANNEL),
            Handle::Link(0),
            Handle::Link(4095),
            Handle::Step(entry),
            Handle::LooseStep(4095),
            Handle::Template(entry),
            Handle::Run(Entry { index: 0, generation: 0 }),
            Handle::RunChannel(entry, 63),
            Handle::Group,
            Handle::Pair(entry),
        ] {
            assert_eq!(Handle::decode(handle.encode()), Some(handle));
        }
        assert_eq!(Handle::decode(0), None);
        assert_eq!(Handle::decode(0xc000_0000_0000_0000), None);
    }

    #[test]
    fn an_operation_knows_its_record_for_billions_of_calls() {
        let ticket = (7 << TICKET_BITS) + 5;
        let operation = Operation::new(ticket, 0, 0);
        assert!(operation.is(ticket + 1));
        assert!(!operation.is(ticket) && !operation.is(0));
    }
}
