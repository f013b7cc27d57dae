//! The primitives and datatypes that every format, counter and label speaks of.

use std::fmt;

/// What a call asks the library to do. The discriminant is the index of its counters in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the field's standard terms")]
pub enum Primitive {
    AllReduce = 0,
    Broadcast = 1,
    Reduce = 2,
    AllGather = 3,
    ReduceScatter = 4,
    Send = 5,
    Recv = 6,
    AllToAll = 7,
    Gather = 8,
    Scatter = 9,
    PutSignal = 10,
    Push = 11,
    Pull = 12,
    PushPull = 13,
}

impl Primitive {
    /// Every primitive, in the order of its index.
    pub const ALL: [Self; 14] = [
        Self::AllReduce,
        Self::Broadcast,
        Self::Reduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Send,
        Self::Recv,
        Self::AllToAll,
        Self::Gather,
        Self::Scatter,
        Self::PutSignal,
        Self::Push,
        Self::Pull,
        Self::PushPull,
    ];

    /// The primitive with this index, if there is one.
    #[must_use]
    pub fn from_index(index: u8) -> Option<Self> {
        Self::ALL.get(usize::from(index)).copied()
    }

    /// Index of its counters in the segment.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether NCCL of this version (`ncclGetVersion`) tells a profiler of the call and nothing else, neither its end nor its
    /// network bytes: 2.29.2 to 2.30.7 of broadcasts, since the task that its planner makes for them has no activation mask
    /// (`ncclTaskBcast` in NCCL's `src/enqueue.cc`).
    #[must_use]
    pub const fn is_untold_by(self, version: u32) -> bool {
        matches!(self, Self::Broadcast) && version >= 22_902 && version <= 23_007
    }

    /// The word used in labels, in JSON and in code.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Send => "send",
            Self::Recv => "recv",
            Self::AllToAll => "all_to_all",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::PutSignal => "put_signal",
            Self::Push => "push",
            Self::Pull => "pull",
            Self::PushPull => "push_pull",
        }
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// `ncclDataType_t`, kept as the number the caller gave: newer libraries add values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Datatype(pub u8);

impl Datatype {
    /// Bytes per element, or 0 for a type that is not known. Source: `ncclTypeSize`, NCCL `src/collectives.cc`.
    #[must_use]
    pub const fn size_bytes(self) -> u64 {
        match self.0 {
            0 | 1 | 10 | 11 => 1,
            6 | 9 => 2,
            2 | 3 | 7 => 4,
            4 | 5 | 8 => 8,
            _ => 0,
        }
    }

    /// Name without NCCL's prefix, e.g. `float32`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self.0 {
            0 => "int8",
            1 => "uint8",
            2 => "int32",
            3 => "uint32",
            4 => "int64",
            5 => "uint64",
            6 => "float16",
            7 => "float32",
            8 => "float64",
            9 => "bfloat16",
            10 => "float8e4m3",
            11 => "float8e5m2",
            _ => "unknown",
        }
    }
}
