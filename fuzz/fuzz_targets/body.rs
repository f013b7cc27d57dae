//! Unpacks, weighs and decodes what may be the packed body of a batch. The first byte says how it is packed: nothing is
//! unpacked beyond the limit, and what is weighed on the way weighs what it weighs at once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringscope_server::http::fuzzing::unpacked;
use ringscope_wire::batch::{Batch, Scales};

const BYTES_MAX: usize = 1 << 20;
const WEIGHT_MAX: u64 = 16 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((first, packed)) = data.split_first() else { return };
    let encoding = ["gzip", "zstd", "identity", " X-GZIP"][usize::from(first % 4)];
    let Some((bytes, weight)) = unpacked(encoding, packed.to_vec(), BYTES_MAX, WEIGHT_MAX) else { return };
    assert!(bytes.len() <= BYTES_MAX.max(packed.len()) && weight <= WEIGHT_MAX);
    let mut scales = Scales::new(WEIGHT_MAX);
    assert!(scales.put(&bytes).is_ok() && scales.weight() == weight);
    let _ = Batch::decode_checked(&bytes);
});
