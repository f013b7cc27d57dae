//! The collectives that a rank has begun last. One that only sends is over on its rank before the others find that it does
//! not fit theirs, so what ranks stand in now does not tell who called something else.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use serde::{Deserialize, Serialize};

/// Collectives that are remembered; who is further ahead than that is no longer compared.
const KEPT: usize = 32;
/// Bits of a key below the number.
const FUNCTION_BITS: u32 = 8;

/// A collective that a rank has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Its number among the collectives.
    pub(crate) number: u64,
    /// NCCL's number of the function.
    pub(crate) function: u32,
    /// What all ranks must agree on, beside the primitive.
    pub(crate) signature: u64,
}

/// The last of them. One thread at a time writes, any may read: a key is 0 while its signature changes.
#[derive(Debug, Default)]
pub(crate) struct LastCalls([Slot; KEPT]);

#[derive(Debug, Default)]
struct Slot {
    /// The number and, in the low bits, one more than the function.
    key: AtomicU64,
    signature: AtomicU64,
}

impl LastCalls {
    /// One begins.
    pub(crate) fn note(&self, call: Call) {
        let at = usize::try_from(call.number % KEPT as u64).unwrap_or(0);
        let slot = &self.0[at];
        slot.key.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        slot.signature.store(call.signature, Ordering::Relaxed);
        let key = (call.number << FUNCTION_BITS) | (u64::from(call.function) + 1);
        slot.key.store(key, Ordering::Release);
    }

    /// Those that are remembered, in no order.
    pub(crate) fn all(&self) -> Vec<Call> {
        self.0.iter().filter_map(Slot::read).collect()
    }
}

impl Slot {
    fn read(&self) -> Option<Call> {
        let key = self.key.load(Ordering::Acquire);
        let signature = self.signature.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if key == 0 || self.key.load(Ordering::Relaxed) != key {
            return None;
        }
        let function = u32::try_from(key & ((1 << FUNCTION_BITS) - 1)).ok()? - 1;
        Some(Call { number: key >> FUNCTION_BITS, function, signature })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_calls_are_remembered() {
        let calls = LastCalls::default();
        assert_eq!(calls.all(), []);
        let call = |number| Call { number, function: u32::from(number % 2 == 0), signature: number * 1000 };
        (0..=KEPT as u64).for_each(|number| calls.note(call(number)));
        let mut known = calls.all();
        known.sort_by_key(|call| call.number);
        assert_eq!(known, (1..=KEPT as u64).map(call).collect::<Vec<_>>());
    }
}
