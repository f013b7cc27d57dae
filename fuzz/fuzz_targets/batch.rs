//! Decodes what may be a batch.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringscope_wire::batch::Batch;

fuzz_target!(|data: &[u8]| {
    let _ = Batch::decode_checked(data);
});
