//! FNV-1a with 64 bits, the same on every machine, in every build: whether two things that were told are alike. Not for ids
//! of what strangers name, nor for tables that they fill: who chooses what is mixed in chooses the hash.

/// A hash in the making.
#[derive(Clone, Copy)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Fnv {
    /// Of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Mixes in a text and its length, so that ("ab", "c") and ("a", "bc") differ.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes()).number(text.len() as u64)
    }

    /// Mixes in a number.
    #[must_use]
    pub fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Its 64 bits.
    #[must_use]
    pub const fn finish(self) -> u64 {
        self.0
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }
}
