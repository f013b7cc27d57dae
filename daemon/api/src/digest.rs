//! What ids are made of: the same on every machine, in every build. What is mixed in may be chosen by anybody, so it is
//! SHA-256: nobody finds two that have the same id by more than trying. Releases up to 0.1 took FNV, and what they stored
//! is known again by it.

use sha2::{Digest as _, Sha256};

use crate::Fnv;

/// A hash in the making.
#[derive(Clone)]
pub enum Digest {
    /// As ids are made.
    Sha(Sha256),
    /// As releases up to 0.1 made them.
    Older(Fnv),
}

impl Digest {
    /// Of `kind` of things: two kinds never have the same one.
    #[must_use]
    pub fn of(kind: &str) -> Self {
        Self::Sha(Sha256::new()).text(kind)
    }

    /// As releases up to 0.1 made ids.
    #[must_use]
    pub const fn older() -> Self {
        Self::Older(Fnv::new())
    }

    /// Mixes in a text and its length, so that ("ab", "c") and ("a", "bc") differ.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        match self {
            Self::Sha(hash) => {
                Self::Sha(hash.chain_update((text.len() as u64).to_le_bytes()).chain_update(text))
            }
            Self::Older(hash) => Self::Older(hash.text(text)),
        }
    }

    /// Mixes in a number.
    #[must_use]
    pub fn number(self, number: u64) -> Self {
        match self {
            Self::Sha(hash) => Self::Sha(hash.chain_update(number.to_le_bytes())),
            Self::Older(hash) => Self::Older(hash.number(number)),
        }
    }

    /// Its first 64 bits.
    #[must_use]
    pub fn finish(self) -> u64 {
        match self {
            Self::Sha(hash) => {
                hash.finalize().into_iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(byte))
            }
            Self::Older(hash) => hash.finish(),
        }
    }
}
