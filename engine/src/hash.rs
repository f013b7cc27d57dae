//! Communicator and host identities: NCCL's 64-bit hash.
//!
//! Source: NCCL 2.26+ `src/include/bitops.h` (`eatHash`, `digestHash`, `getHash`) and `src/init.cc` (commHash of a
//! unique id, and of a split).

/// A hash being fed.
struct Accumulator {
    low: u64,
    high: u64,
}

impl Accumulator {
    fn new() -> Self {
        Self { low: 1, high: 1 }
    }

    fn eat(&mut self, bytes: &[u8]) {
        self.low ^= bytes.len() as u64;
        for chunk in bytes.chunks(8) {
            self.mix();
            let mut word = [0_u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.low = self.low.wrapping_add(u64::from_le_bytes(word));
        }
    }

    fn mix(&mut self) {
        self.low = self.low.wrapping_add(self.high);
        self.high ^= self.low;
        self.low ^= self.low >> 31;
        self.low = self.low.wrapping_mul(0x9de6_2bbc_8cef_3ce3);
        self.high ^= self.high >> 32;
        self.high = self.high.wrapping_mul(0x485c_d631_1b59_9e79);
    }

    fn digest(self) -> u64 {
        let mut hash = self.low;
        hash ^= hash >> 31;
        hash = hash.wrapping_mul(0xbac3_bd56_2846_de6b);
        hash = hash.wrapping_add(self.high);
        hash ^= hash >> 32;
        hash.wrapping_mul(0x995a_187a_14e7_b445)
    }
}

/// `getHash`: of a unique id this is the communicator's hash.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut accumulator = Accumulator::new();
    accumulator.eat(bytes);
    accumulator.digest()
}

/// The hash of a communicator made by `ncclCommSplit`.
pub(crate) fn split_hash(parent: u64, split_count: i32, color: i32) -> u64 {
    let mut accumulator = Accumulator::new();
    accumulator.eat(&parent.to_le_bytes());
    accumulator.eat(&split_count.to_le_bytes());
    accumulator.eat(&color.to_le_bytes());
    accumulator.digest()
}
