//! Weighs and decodes what may be the body of a batch: what the scales take, decoded, has at most the size that they say, and
//! what they refuse as malformed no decoder takes. The first byte says in which pieces it comes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use ringscope_wire::batch::{Batch, BatchError, Process, Scales};

fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else { return };
    let mut scales = Scales::new(64 << 20);
    let weighed = body.chunks(usize::from(*first) + 1).try_for_each(|piece| scales.put(piece));
    match (weighed, Batch::decode_checked(body)) {
        (Ok(()), Ok(batch)) => {
            let taken = batch.processes.capacity() * size_of::<Process>() + batch.encoded_len();
            assert!(scales.weight() + 2 * body.len() as u64 >= taken as u64, "{} for {taken}", scales.weight());
        }
        // A decoder passes over groups.
        (Err(BatchError::Malformed(what)), Ok(_)) => assert!(what.contains("group"), "{what}"),
        _ => {}
    }
});
