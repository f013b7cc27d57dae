//! A running hash over the collective calls of a communicator: ranks that have made the same calls have the same one.
//!
//! It is the wrapping sum over all calls of a mix of signature and position. The position of a call is its number, but
//! within a group call the number of the group's first call on that communicator, so that the order inside one group
//! does not matter. Of no calls it is 0.

use crate::Primitive;

/// [`Signature::op`] of a primitive without a reduction.
pub const NO_OP: u8 = 15;
/// [`Signature::op`] of a reduction that the program made itself (`ncclRedOpCreatePreMulSum`). Its handle is a number of
/// each rank's own, so all of them count as one.
pub const CUSTOM_OP: u8 = 5;

/// What makes a call the same as another rank's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What was called.
    pub primitive: Primitive,
    /// Elements.
    pub count: u64,
    /// `ncclDataType_t`.
    pub datatype: u8,
    /// [`op`] of the reduction, or [`NO_OP`].
    pub op: u8,
    /// Root, -1 where there is none.
    pub root: i32,
}

impl Signature {
    /// What the call adds to the hash at this position.
    #[inline(always)]
    #[must_use]
    pub fn at(self, position: u64) -> u64 {
        let kind = self.primitive as u64 | u64::from(self.datatype) << 8 | u64::from(self.op) << 16;
        let words = kind | u64::from(self.root.cast_unsigned()) << 32;
        fold(self.count.wrapping_add(position.wrapping_mul(POSITION)) ^ SALT, words ^ POSITION)
    }
}

/// A reduction as signatures and records have it: `ncclSum` to `ncclAvg` as they are, all others [`CUSTOM_OP`].
#[inline(always)]
#[must_use]
pub fn op(op: i32) -> u8 {
    u8::try_from(op).unwrap_or(CUSTOM_OP).min(CUSTOM_OP)
}

/// The hash of the calls between two ranks in one direction, after one more.
#[inline(always)]
#[must_use]
pub fn of_pair(before: u64, count: u64, datatype: u8) -> u64 {
    (before.rotate_left(5) ^ fold(count ^ SALT, u64::from(datatype) ^ POSITION)).wrapping_mul(ODD)
}

/// What is stored beside a number of calls and their hash, so that a reader can tell a pair that was being written.
#[inline(always)]
#[must_use]
pub const fn check(calls: u64, hash: u64) -> u64 {
    calls.wrapping_mul(ODD) ^ hash
}

/// Odd numbers without a pattern: the fractions of the golden ratio, of the square root of two and of pi.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
const SALT: u64 = 0x6a09_e667_f3bc_c909;
const POSITION: u64 = 0x2436_a885_08d3_1319;

/// Both halves of a product, so that every bit of either factor reaches every bit of the result.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "each half is taken on purpose")]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Signature =
        Signature { primitive: Primitive::AllReduce, count: 1024, datatype: 7, op: 0, root: -1 };

    #[test]
    fn each_part_of_a_signature_counts() {
        let others = [
            Signature { primitive: Primitive::Reduce, ..CALL },
            Signature { count: 1025, ..CALL },
            Signature { datatype: 9, ..CALL },
            Signature { op: 2, ..CALL },
            Signature { root: 0, ..CALL },
        ];
        let hashes: std::collections::BTreeSet<u64> =
            others.iter().map(|other| other.at(0)).chain([CALL.at(0), CALL.at(1), CALL.at(64)]).collect();
        assert_eq!(hashes.len(), others.len() + 3);
    }

    #[test]
    fn two_calls_swapped_differ_and_the_same_two_in_a_group_do_not() {
        let other = Signature { count: 7, ..CALL };
        assert_ne!(
            CALL.at(0).wrapping_add(other.at(1)),
            other.at(0).wrapping_add(CALL.at(1)),
            "in another order"
        );
        assert_eq!(CALL.at(0).wrapping_add(other.at(0)), other.at(0).wrapping_add(CALL.at(0)));
    }

    #[test]
    fn made_up_reductions_are_all_the_same() {
        assert_eq!([0, 4, 5, 6, 0x7fff_ffff, -1].map(op), [0, 4, 5, 5, 5, 5]);
    }

    #[test]
    fn calls_between_two_ranks_count_in_their_order() {
        assert_ne!(of_pair(of_pair(0, 1, 7), 2, 7), of_pair(of_pair(0, 2, 7), 1, 7));
        assert_ne!(of_pair(0, 1, 7), of_pair(0, 1, 6));
    }

    /// The numbers are compared over hosts and releases.
    #[test]
    fn the_numbers_stay() {
        assert_eq!((CALL.at(0), CALL.at(63)), (1_438_321_310_161_860_691, 8_616_048_099_804_355_215));
        assert_eq!((of_pair(0, 1024, 7), check(0, 0)), (10_301_821_493_245_220_935, 0));
    }
}
