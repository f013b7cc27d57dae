use prost::Message as _;

use super::*;
use crate::batch::{Batch, Communicator, Counters, Identity, Operation, Process, RingPosition};

fn process(n: u64) -> Process {
    let identity =
        Identity { host: "node-17".to_owned(), job: "train-70b".to_owned(), ..Identity::default() };
    let ring = |channel| RingPosition {
        channel,
        prev: 1,
        next: 3,
        transport: "NET/IB".to_owned(),
        ..RingPosition::default()
    };
    Process {
        key: format!("node-17/{n}/1763800000000000000"),
        identity: Some(identity),
        communicators: vec![Communicator {
            comm_hash: n,
            rings: (0..16).map(ring).collect(),
            channel_settings: [("NCCL_MIN_NCHANNELS".to_owned(), 8)].into(),
            ..Communicator::default()
        }],
        counters: (0..5)
            .map(|local_id| Counters { local_id, issued_calls: 1 << 40, ..Counters::default() })
            .collect(),
        in_flight: vec![Operation { count: 7, ..Operation::default() }; 3],
        log_lacks: vec!["no GRAPH lines".to_owned(); 2],
        ..Process::default()
    }
}

fn batch(n: u64) -> Batch {
    Batch {
        format_version: 2,
        agent_id: "a".to_owned(),
        seq_number: 1,
        processes: (0..n).map(process).collect(),
        ..Batch::default()
    }
}

fn weigh(bytes: &[u8], piece: usize, most: u64) -> Result<u64, BatchError> {
    let mut scales = Scales::new(most);
    bytes.chunks(piece).try_for_each(|piece| scales.put(piece))?;
    Ok(scales.weight())
}

/// What the lists and texts of `process` take at the least: their elements.
fn taken(process: &Process) -> u64 {
    let of = |communicator: &Communicator| {
        let rings = communicator.rings.iter().map(|ring| size_of::<RingPosition>() + ring.transport.len());
        size_of::<Communicator>() + rings.sum::<usize>()
    };
    let lists = process.communicators.iter().map(of).sum::<usize>()
        + process.counters.capacity() * size_of::<Counters>()
        + process.in_flight.capacity() * size_of::<Operation>()
        + process.log_lacks.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
    (size_of::<Process>() + process.key.len() + lists) as u64
}

#[test]
fn a_batch_weighs_as_much_in_any_pieces() {
    let bytes = batch(3).encode_to_vec();
    let whole = weigh(&bytes, bytes.len(), u64::MAX).unwrap();
    for piece in 1..50 {
        assert_eq!(weigh(&bytes, piece, u64::MAX), Ok(whole), "{piece}");
    }
}

#[test]
fn nothing_weighs_less_than_what_it_becomes() {
    for n in [1, 2, 5, 100] {
        let batch = batch(n);
        let weight = weigh(&batch.encode_to_vec(), 1000, u64::MAX).unwrap();
        let decoded = Batch::decode(&*batch.encode_to_vec()).unwrap();
        let taken: u64 = decoded.processes.iter().map(taken).sum();
        assert!(weight >= taken && weight < 4 * taken + (1 << 16), "{n}: {weight} for {taken}");
    }
}

#[test]
fn empty_messages_weigh_what_they_take() {
    // Two bytes each, as in the body that once took a daemon to 3.5 GB.
    let mut bytes = batch(0).encode_to_vec();
    bytes.extend([0x32, 0].repeat(100_000));
    let decoded = Batch::decode(&*bytes).unwrap();
    let taken = (decoded.processes.capacity() * size_of::<Process>()) as u64;
    let few = &bytes[..bytes.len() - 2 * 97_000];
    let decoded_few = Batch::decode(few).unwrap();
    let taken_few = (decoded_few.processes.capacity() * size_of::<Process>()) as u64;
    assert!(weigh(few, 1000, u64::MAX).unwrap() >= taken_few);
    let error = weigh(&bytes, 1000, u64::MAX).unwrap_err();
    let BatchError::TooHeavy { at, most_bytes } = error else { panic!("{error}") };
    assert!(
        at < 20_000 && most_bytes < 10 << 20 && taken > 50 << 20,
        "it stops where it is too much: {at} {taken}"
    );
    assert!(error.to_string().contains("8 MiB"), "{error}");
    let error = weigh(&bytes, 1000, 1 << 20).unwrap_err();
    assert!(error.to_string().contains("1 MiB"), "{error}");
}

#[test]
fn processes_of_which_nothing_is_to_be_said_are_not_too_heavy() {
    let key = |n| format!("node-0017.cluster/{n}/1763800000000000000");
    let still = (0..50_000).map(|n| Process { key: key(n), ..Process::default() }).collect();
    let bytes = Batch { processes: still, ..Batch::default() }.encode_to_vec();
    let weight = weigh(&bytes, 4096, u64::MAX).unwrap();
    assert!(weight > bytes.len() as u64 * 10, "{weight} of {}", bytes.len());
}

#[test]
fn what_no_decoder_takes_is_malformed() {
    let cases: [(&str, &[u8]); 7] = [
        ("a field without a number", &[0, 0]),
        ("a key", &[0xff; 11]),
        ("a number", &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ("a length", &[18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ("a group", &[0x0b, 0x0c]),
        ("a text longer than its message", &[0x32, 3, 10, 9, b'x']),
        ("a message longer than its own", &[0x32, 3, 0x12, 9, b'x']),
    ];
    for (what, bytes) in cases {
        let found = weigh(bytes, 1, u64::MAX);
        assert!(matches!(found, Err(BatchError::Malformed(_))), "{what}: {found:?}");
        assert!(Batch::decode(bytes).is_err(), "{what}");
    }
}

proptest::proptest! {
    /// Whatever the bytes: no panic, and what the decoder takes the scales take too.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let weighed = weigh(&bytes, 7, u64::MAX);
        // A decoder passes over groups, which nobody has written for ten years.
        let has_group = weighed.as_ref().is_err_and(|error| error.to_string().contains("group"));
        proptest::prop_assert!(weighed.is_ok() || has_group || Batch::decode(&*bytes).is_err());
    }

    /// Fields that the format has, with any content.
    #[test]
    fn any_fields(fields in proptest::collection::vec((1_u8..16, proptest::collection::vec(0_u8..40, 0..20)), 0..20)) {
        let mut bytes = Vec::new();
        for (field, content) in fields {
            bytes.extend([field << 3 | 2, u8::try_from(content.len()).unwrap()]);
            bytes.extend(content);
        }
        let weighed = weigh(&bytes, 5, u64::MAX);
        proptest::prop_assert!(weighed.is_ok() || Batch::decode(&*bytes).is_err());
    }
}
