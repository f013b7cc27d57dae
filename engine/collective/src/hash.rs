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
pub fn hash(bytes: &[u8]) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    // Computed by a separate Python of NCCL's formula.
    #[test]
    fn known_values() {
        let id: Vec<u8> = (0..128).collect();
        assert_eq!(hash(&id), GOLDEN_ID);
        assert_eq!(hash(b"host-1"), GOLDEN_HOST);
        assert_eq!(split_hash(GOLDEN_ID, 1, 3), GOLDEN_SPLIT);
    }

    const GOLDEN_ID: u64 = 0x6afe_1cc1_7717_e1f4;
    const GOLDEN_HOST: u64 = 0x7f0a_e79e_a27f_1b6f;
    const GOLDEN_SPLIT: u64 = 0x2211_6033_4d3d_ef2e;
}
