//! The identity that NCCL gives a communicator (`commHash`), computed as the library computes it, so that calls,
//! logs and profiler events meet on one key. Sources: NCCL 2.26+ `src/include/bitops.h` (`eatHash`, `digestHash`);
//! before, `getHash` in `src/misc/utils.cc`; what goes into it, `ncclCommInitRankFunc` in `src/init.cc`.
//!
//! The hash does not name a communicator alone: children of one parent may share it (see [`Scheme`]).

use std::ffi::c_char;
use std::io::Write as _;

/// Accumulator of NCCL's hash.
#[derive(Clone, Copy, Debug)]
struct Hash {
    acc: [u64; 2],
}

impl Hash {
    const fn new() -> Self {
        Self { acc: [1, 1] }
    }

    /// Mixes in one value of `size_bytes` bytes, in chunks of eight.
    fn eat(&mut self, bytes: &[u8]) {
        self.acc[0] ^= bytes.len() as u64;
        for chunk in bytes.chunks(8) {
            let mut word = [0_u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.acc[0] = self.acc[0].wrapping_add(self.acc[1]);
            self.acc[1] ^= self.acc[0];
            self.acc[0] ^= self.acc[0] >> 31;
            self.acc[0] = self.acc[0].wrapping_mul(0x9de6_2bbc_8cef_3ce3);
            self.acc[1] ^= self.acc[1] >> 32;
            self.acc[1] = self.acc[1].wrapping_mul(0x485c_d631_1b59_9e79);
            self.acc[0] = self.acc[0].wrapping_add(u64::from_le_bytes(word));
        }
    }

    fn digest(self) -> u64 {
        let mut h = self.acc[0];
        h ^= h >> 31;
        h = h.wrapping_mul(0xbac3_bd56_2846_de6b);
        h = h.wrapping_add(self.acc[1]);
        h ^= h >> 32;
        h.wrapping_mul(0x995a_187a_14e7_b445)
    }
}

/// How a version of the library makes its hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Up to 2.23: two splits of one parent with the same colour get the same hash.
    Colour,
    /// 2.24 and 2.25: the splits of a parent are counted.
    CountedColour,
    /// 2.26 and later: another hash; two shrinks of one parent get the same.
    Mixed,
}

impl Scheme {
    /// The scheme of a library by its `ncclGetVersion`; the newest if that is 0, not known.
    #[must_use]
    pub const fn of_version(version: u32) -> Self {
        match version {
            1..22_400 => Self::Colour,
            22_400..22_600 => Self::CountedColour,
            _ => Self::Mixed,
        }
    }

    /// `commHash` of a communicator made from this `ncclUniqueId` (the first one, if there are several).
    #[must_use]
    pub fn of_unique_id(self, unique_id: &[u8; 128]) -> u64 {
        match self {
            Self::Colour | Self::CountedColour => djb2a(unique_id),
            Self::Mixed => of_unique_id(unique_id),
        }
    }

    /// `commHash` of a child split from `parent` with `color`; `child_count` counts the parent's splits, and grows where
    /// the version has them, from 1.
    #[must_use]
    pub fn of_split(self, parent: u64, child_count: i32, color: i32) -> u64 {
        // The text of an otherwise empty unique id.
        let mut id = [0; 128];
        let mut place = id.as_mut_slice();
        let written = match self {
            Self::Colour => write!(place, "{parent:016x}-{color}"),
            Self::CountedColour => write!(place, "{parent:016x}-{child_count}-{color}"),
            Self::Mixed => return of_split(parent, child_count, color),
        };
        // Sixteen digits and two numbers of at most eleven fit.
        debug_assert!(written.is_ok());
        djb2a(&id)
    }

    /// `commHash` of a communicator that is left of `parent` after a shrink, which the library does not count.
    #[must_use]
    pub fn of_shrink(self, parent: u64) -> u64 {
        self.of_split(parent, 0, 0)
    }
}

/// The number that a grown communicator is named after: of the parent's own, and of how many children it then has.
/// What the library calls `magic`: a communicator's is the first word of its unique id, a split's its `commHash`, a
/// grown one's this.
#[must_use]
pub fn magic_of_grow(parent_magic: u64, child_count: i32) -> u64 {
    combine(parent_magic, i64::from(child_count).cast_unsigned())
}

/// `commHash` of a grown communicator of `n_ranks` ranks.
#[must_use]
pub fn of_grow(magic: u64, n_ranks: i32) -> u64 {
    combine(magic, i64::from(n_ranks).cast_unsigned())
}

fn combine(base: u64, value: u64) -> u64 {
    let mut hash = Hash::new();
    hash.eat(&base.to_le_bytes());
    hash.eat(&value.to_le_bytes());
    hash.digest()
}

/// Bernstein's hash as the library had it, over C's `char`, which has a sign on x86.
fn djb2a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(5381, |hash: u64, byte| {
        let character = i64::from(*byte as c_char).cast_unsigned();
        hash.wrapping_mul(33) ^ character
    })
}

/// `commHash` of a communicator made from this `ncclUniqueId` (NCCL 2.26 and later).
#[must_use]
pub fn of_unique_id(unique_id: &[u8; 128]) -> u64 {
    let mut hash = Hash::new();
    hash.eat(unique_id);
    hash.digest()
}

/// `commHash` of the `child_count`-th child split from `parent` with `color` (NCCL 2.26 and later).
#[must_use]
pub fn of_split(parent: u64, child_count: i32, color: i32) -> u64 {
    let mut hash = Hash::new();
    hash.eat(&parent.to_le_bytes());
    hash.eat(&child_count.to_le_bytes());
    hash.eat(&color.to_le_bytes());
    hash.digest()
}
