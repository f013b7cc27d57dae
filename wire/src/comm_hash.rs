//! The identity that NCCL gives a communicator (`commHash`), computed as the library computes it, so that calls,
//! logs and profiler events meet on one key. Source: NCCL 2.26+ `src/include/bitops.h` (`eatHash`, `digestHash`).

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
