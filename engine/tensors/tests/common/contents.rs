//! Contents that tell a torn tensor, random shapes and delays. Tests and an example use them.

use std::time::Duration;

use rtensor::tensor::{DataType, Shape};

/// Numbers that look random (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Of up to three dimensions; most tensors small, some of 100 KB and more.
    pub(crate) fn shape(&mut self) -> Shape {
        let n_dims = self.below(4);
        let most = if self.below(8) == 0 { 36 } else { 12 };
        let dims: Vec<u64> = (0..n_dims).map(|_| self.below(most)).collect();
        let data_type = DataType::ALL[usize::try_from(self.below(7)).unwrap()];
        Shape::new(data_type, &dims).unwrap()
    }

    /// Nothing, or a short while.
    pub(crate) fn delay(&mut self) {
        match self.below(16) {
            0 => std::thread::sleep(Duration::from_micros(self.below(300))),
            1..5 => std::thread::yield_now(),
            _ => {}
        }
    }
}

/// Fills a tensor with what only this transfer has.
pub(crate) fn fill(bytes: &mut [u8], edge: u64, iteration: u64) {
    let mut random = Random(edge << 32 ^ iteration);
    for piece in bytes.chunks_mut(8) {
        piece.copy_from_slice(&random.next().to_le_bytes()[..piece.len()]);
    }
}

/// Whether a tensor is that of this transfer.
pub(crate) fn is_whole(bytes: &[u8], edge: u64, iteration: u64) -> bool {
    let mut random = Random(edge << 32 ^ iteration);
    bytes.chunks(8).all(|piece| piece == &random.next().to_le_bytes()[..piece.len()])
}
