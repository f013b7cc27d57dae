//! Small numbers for streams, so that a record can say which calls queue behind each other.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use ringscope_wire::segment::layout::{Communicator, MAX_STREAM};

use crate::segment::local::Local;

/// Place 0 is never used: no stream has the number 0.
const PLACES: usize = MAX_STREAM as usize + 1;
/// Places looked at for a stream before it goes without a number.
const MAX_PROBES: usize = 64;
/// The default stream, and the legacy and per-thread ones: one of each for every device.
const LAST_SPECIAL: u64 = 2;

static STREAMS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// The number of a stream, 0 if there is none left.
#[inline(always)]
pub(crate) fn number(local: &Local, communicator: &Communicator, stream: u64) -> u32 {
    let key = if stream > LAST_SPECIAL { stream } else { special(communicator, stream) };
    let (known, number) = local.last_stream.get();
    if known == key { number } else { search(local, key) }
}

fn special(communicator: &Communicator, stream: u64) -> u64 {
    let device = communicator.device.load(Relaxed).cast_unsigned();
    1 << 63 | u64::from(device) << 8 | stream
}

#[inline(never)]
fn search(local: &Local, key: u64) -> u32 {
    // Fibonacci hashing: handles are aligned addresses, their low bits say nothing.
    let from = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    let place = (from..from + MAX_PROBES).map(|place| place % (PLACES - 1) + 1).find(|place| {
        let known = STREAMS[*place].compare_exchange(0, key, AcqRel, Acquire);
        known.is_ok() || known == Err(key)
    });
    let number = place.and_then(|place| u32::try_from(place).ok()).unwrap_or_default();
    local.last_stream.set((key, number));
    number
}
