//! What differs between the versions of the profiler interface, a row each: where the fields of a task lie in its descriptor,
//! which event types and states there are. Source: NCCL `src/include/plugin/profiler/profiler_v*.h`; v7 is that of 2.32.3.

use std::ffi::CStr;

/// Where a field lies in a descriptor; 0 if the version does not have it.
type Offset = u8;

/// One version of the interface.
pub(super) struct Version {
    pub(super) number: u32,
    /// Name of the table that a plugin has for it.
    pub(super) symbol: &'static CStr,
    /// `sizeof` its descriptor.
    pub(super) size: usize,
    /// Event types that it has.
    pub(super) kinds: u64,
    /// The first and the last state that a plugin is told.
    pub(super) states: (i32, i32),
    pub(super) coll: [Offset; coll::N],
    pub(super) p2p: [Offset; p2p::N],
}

/// Fields of a collective.
#[rustfmt::skip]
pub(super) mod coll {
    pub(crate) const NAME: usize = 0;
    pub(crate) const HASH: usize = 1;
    pub(crate) const FUNC: usize = 3;
    pub(crate) const COUNT: usize = 6;
    pub(crate) const ROOT: usize = 7;
    pub(crate) const DATATYPE: usize = 8;
    pub(crate) const CHANNELS: usize = 9;
    pub(crate) const GROUP: usize = 13;
    pub(crate) const N: usize = 17;
}

/// Fields of a send or receive.
#[rustfmt::skip]
pub(super) mod p2p {
    pub(crate) const NAME: usize = 0;
    pub(crate) const HASH: usize = 1;
    pub(crate) const FUNC: usize = 2;
    pub(crate) const DATATYPE: usize = 4;
    pub(crate) const COUNT: usize = 5;
    pub(crate) const PEER: usize = 6;
    pub(crate) const CHANNELS: usize = 7;
    pub(crate) const GROUP: usize = 8;
    pub(crate) const N: usize = 10;
}

/// What a field is.
#[derive(Clone, Copy)]
pub(super) enum Field {
    /// So many bytes that say the same in every version.
    Bytes(usize),
    /// A text; in version 1 a byte, which is the place of the text in this list.
    Word(&'static [&'static [u8]]),
}

use Field::{Bytes, Word};

/// What the fields of a collective are, in the order of [`Version::coll`].
pub(super) const COLL_FIELDS: [Field; coll::N] = [
    Bytes(8), // the communicator's name
    Bytes(8), // its hash
    Bytes(8), // sequence number
    Word(FUNCS),
    Bytes(8), // send buffer
    Bytes(8), // receive buffer
    Bytes(8), // count
    Bytes(4), // root
    Word(DATATYPES),
    Bytes(1), // channels; before version 4 how many there may be
    Bytes(1), // warps
    Word(ALGORITHMS),
    Word(PROTOCOLS),
    Bytes(8), // handle of the plan
    Bytes(8), // kernel variant
    Bytes(1), // whether the kernel is symmetric
    Bytes(8), // the caller's tag
];

/// What the fields of a send or receive are, in the order of [`Version::p2p`].
pub(super) const P2P_FIELDS: [Field; p2p::N] = [
    Bytes(8), // the communicator's name
    Bytes(8), // its hash
    Word(FUNCS),
    Bytes(8), // buffer
    Word(DATATYPES),
    Bytes(8), // count
    Bytes(4), // peer
    Bytes(1), // channels
    Bytes(8), // handle of the plan
    Bytes(8), // the caller's tag
];

/// From the oldest (NCCL 2.23) to the newest.
#[rustfmt::skip]
pub(super) static VERSIONS: [Version; 7] = [
    // In order: name, hash, sequence, func, send, recv, count, root, type, channels, warps, algorithm, protocol, plan, variant,
    // symmetric, tag; then name, hash, func, buffer, type, count, peer, channels, plan, tag.
    Version { number: 1, symbol: c"ncclProfiler_v1", size: 120, kinds: 0x3f, states: (0, 18),
        coll: [24, 32, 40, 48, 56, 64, 72, 80, 84, 104, 105, 106, 107, 0, 0, 0, 0],
        p2p: [24, 32, 40, 48, 56, 64, 72, 0, 0, 0] },
    Version { number: 2, symbol: c"ncclProfiler_v2", size: 128, kinds: 0x3f, states: (0, 18),
        coll: [24, 32, 40, 48, 56, 64, 72, 80, 88, 104, 105, 112, 120, 0, 0, 0, 0],
        p2p: [24, 32, 40, 48, 56, 64, 72, 0, 0, 0] },
    // With kernel channels and network plugins.
    Version { number: 3, symbol: c"ncclProfiler_v3", size: 120, kinds: 0xff, states: (0, 18),
        coll: [24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 97, 104, 112, 0, 0, 0, 0],
        p2p: [24, 32, 40, 48, 56, 64, 72, 0, 0, 0] },
    // The communicator is named at init (NCCL 2.27).
    Version { number: 4, symbol: c"ncclProfiler_v4", size: 104, kinds: 0xff, states: (8, 22),
        coll: [0, 0, 24, 32, 40, 48, 56, 64, 72, 80, 81, 88, 96, 0, 0, 0, 0],
        p2p: [0, 0, 24, 32, 40, 48, 56, 60, 0, 0] },
    // With the calls of the API (2.28).
    Version { number: 5, symbol: c"ncclProfiler_v5", size: 112, kinds: 0xfff, states: (8, 24),
        coll: [0, 0, 24, 32, 40, 48, 56, 64, 72, 80, 81, 88, 96, 104, 0, 0, 0],
        p2p: [0, 0, 24, 32, 40, 48, 56, 60, 64, 0] },
    // With collectives by copy engines (2.29).
    Version { number: 6, symbol: c"ncclProfiler_v6", size: 112, kinds: 0x7fff, states: (8, 30),
        coll: [0, 0, 24, 32, 40, 48, 56, 64, 72, 80, 81, 88, 96, 104, 0, 0, 0],
        p2p: [0, 0, 24, 32, 40, 48, 56, 60, 64, 0] },
    // With kernel phases, symmetric kernels and tags of the caller (2.32).
    Version { number: 7, symbol: c"ncclProfiler_v7", size: 136, kinds: 0xffff, states: (0, i32::MAX),
        coll: [0, 0, 24, 32, 40, 48, 56, 64, 72, 80, 81, 88, 96, 104, 112, 120, 128],
        p2p: [0, 0, 24, 32, 40, 48, 56, 60, 64, 72] },
];

/// The version of this number, which is one that there is.
#[inline(always)]
pub(super) const fn version<const V: usize>() -> &'static Version {
    const { &VERSIONS[V - 1] }
}

const FUNCS: &[&[u8]] =
    &[b"Broadcast", b"Reduce", b"AllGather", b"ReduceScatter", b"AllReduce", b"SendRecv", b"Send", b"Recv"];
const ALGORITHMS: &[&[u8]] =
    &[b"TREE", b"RING", b"COLLNET_DIRECT", b"COLLNET_CHAIN", b"NVLS", b"NVLS_TREE", b"PAT"];
const PROTOCOLS: &[&[u8]] = &[b"LL", b"LL128", b"SIMPLE"];
const DATATYPES: &[&[u8]] = &[
    b"ncclInt8",
    b"Unknown",
    b"ncclInt32",
    b"ncclUint32",
    b"ncclInt64",
    b"ncclUint64",
    b"ncclFloat16",
    b"ncclFloat32",
    b"ncclFloat64",
    b"ncclBfloat16",
    b"ncclFloat8e4m3",
    b"ncclFloat8e5m2",
];

/// No field may reach beyond its descriptor, nor overlap another.
const _: () = {
    let mut at = 0;
    while at < VERSIONS.len() {
        let row = &VERSIONS[at];
        assert!(row.number as usize == at + 1 && row.size <= 136 && row.size.is_multiple_of(8));
        check(&row.coll, &COLL_FIELDS, row);
        check(&row.p2p, &P2P_FIELDS, row);
        at += 1;
    }
};

const fn check(offsets: &[Offset], fields: &[Field], version: &Version) {
    let (mut field, mut end) = (0, 24);
    while field < offsets.len() {
        let offset = offsets[field] as usize;
        if offset > 0 {
            let size = match fields[field] {
                Bytes(size) => size,
                Word(_) if version.number == 1 => 1,
                Word(_) => 8,
            };
            assert!(offset >= end && offset.is_multiple_of(size));
            end = offset + size;
        }
        field += 1;
    }
    assert!(end <= version.size);
}
