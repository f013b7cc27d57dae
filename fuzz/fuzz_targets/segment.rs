//! Reads what may be a segment. Short inputs are laid over an empty one, so that the fuzzer need not find the length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringscope_wire::segment::calls::read::{marks, pairs};
use ringscope_wire::segment::layout::{MAGIC, VERSION};
use ringscope_wire::segment::{Segment, read};

fuzz_target!(|data: &[u8]| {
    read_all(data);
    let mut bytes = vec![0; size_of::<Segment>()];
    let length = data.len().min(bytes.len());
    bytes[..length].copy_from_slice(&data[..length]);
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&(size_of::<Segment>() as u64).to_le_bytes());
    read_all(&bytes);
});

fn read_all(mut bytes: &[u8]) {
    if let Ok(snapshot) = read::snapshot(&mut bytes) {
        let _ = read::records(&mut bytes, 0, snapshot.next_ticket);
        for communicator in &snapshot.communicators {
            let _ = marks(&mut bytes, communicator.slot, 0);
        }
        let _ = pairs(&mut bytes);
        let _ = snapshot.clock.clock(u64::MAX, u64::MAX).wall_ns(u64::MAX);
    }
}
