//! The batch's format: its bytes, its errors, and what decoding hostile ones does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "of the sample only the golden file is used here")]
mod sample;

use proptest::prelude::*;
use prost::Message as _;
use ringscope_wire::Primitive;
use ringscope_wire::batch::{self, Batch, BatchError, FORMAT_VERSION};
use sample::{golden, hex_dump};

fn operation() -> batch::Operation {
    batch::Operation {
        local_id: 1 << 16,
        primitive: batch::Primitive::from(Primitive::ReduceScatter).into(),
        seq_number: 1,
        bytes: 4096,
        count: 1024,
        datatype: 7,
        peer: Some(0),
        state: batch::OperationState::Issued.into(),
        issued_at_ns: 1_700_000_000_000_000_000,
        completed_at_ns: None,
        channels_done: 1,
        channels_expected: 4,
        call_number: Some(0),
        op: Some(0),
        started_at_ns: Some(1_700_000_000_000_000_100),
        start_known: true,
        stream: 2,
        group: 3,
        ends_by_order: true,
    }
}

/// What a process says of its calls, and what it says when it is asked.
fn asked() -> batch::Process {
    let operation = operation();
    batch::Process {
        open_calls: vec![batch::OpenCall {
            thread: 4243,
            function: "ncclGroupEnd".into(),
            local_id: Some(0),
            entered_at_ns: 7,
        }],
        sequences: vec![batch::CallSequence {
            local_id: 1 << 16,
            calls: 65,
            hash: 0xca11,
            marks: vec![batch::SequenceMark { calls: 64, hash: 0x64 }],
            sampled_log2: 3,
        }],
        pairs: vec![batch::PairCalls {
            local_id: 1 << 16,
            primitive: batch::Primitive::Send.into(),
            peer: 4,
            calls: 3,
            bytes: 96,
            hash: 0xabba,
        }],
        activity: Some(batch::Activity { state: "S".into(), cpu_ns: 8, read_at_ns: 9 }),
        recalled: vec![operation],
        look: Some(batch::Look {
            at_ns: 10,
            inquiry: "q".into(),
            threads: vec![batch::Thread {
                thread: 4243,
                python: vec!["train.py:7 step".into()],
                ..Default::default()
            }],
            ..Default::default()
        }),
        last_returned_at_ns: Some(0),
        launched: true,
        segment_version: 5,
        collector_off_since_ns: Some(0),
        ..Default::default()
    }
}

/// A batch with one of everything.
fn full() -> Batch {
    let operation = operation();
    let process = batch::Process {
        key: "node-7/4242/1".into(),
        identity: Some(batch::Identity { host: "node-7".into(), global_rank: Some(0), ..Default::default() }),
        communicators: vec![communicator()],
        counters: vec![batch::Counters {
            local_id: 1 << 16,
            primitive: batch::Primitive::AllReduce.into(),
            issued_calls: 2,
            issued_bytes: 8192,
            busy_ns: 12,
            captured_calls: 3,
            captured_bytes: 96,
            replayed_calls: 6,
            replayed_bytes: 192,
            ..Default::default()
        }],
        links: vec![batch::Link { local_id: 1 << 16, peer: 4, sent_bytes: 7168, ..Default::default() }],
        in_flight: vec![operation],
        last_completed: vec![operation],
        dropped: vec![batch::Dropped { reason: "panic".into(), events: 1 }],
        collector_state: batch::CollectorState::Fault.into(),
        state: batch::ProcessState::Killed.into(),
        ended_at_ns: Some(5),
        level: batch::Level::Steps.into(),
        profiler_version: 5,
        plugin_chained: true,
        calls_seen: true,
        n_libraries: 1,
        has_segment: true,
        log_lacks: vec!["no GRAPH lines".into()],
        completed_operations: Vec::new(),
        summations: Vec::new(),
        ..asked()
    };
    Batch {
        format_version: FORMAT_VERSION,
        agent_id: "a4e7".into(),
        seq_number: 1,
        agent_host: "node-7".into(),
        sent_at_ns: 1_700_000_000_000_000_000,
        processes: vec![process],
        dropped: vec![],
        hardware: Vec::new(),
        kernel: vec![batch::KernelMessage { number: 1, text: "segfault".into(), ..Default::default() }],
        kernel_reading: Some(batch::KernelReading { readable: true, how: "/dev/kmsg".into(), lost: 0 }),
        ending: true,
        posted_at_ns: 12,
        more_follows: true,
        cannot_watch: "its folder is full".into(),
        not_watched: "1 process is not watched".into(),
        reads_segment_version: 6,
    }
}

fn communicator() -> batch::Communicator {
    batch::Communicator {
        local_id: 1 << 16,
        comm_hash: 0xfeed_beef,
        name: "dp".into(),
        rank: 3,
        n_ranks: 8,
        n_nodes: Some(2),
        parent_hash: Some(0),
        state: batch::CommunicatorState::Active.into(),
        created_at_ns: 1,
        ended_at_ns: None,
        gpu: "0000:1b:00.0".into(),
        init_channels: Some(2),
        final_channels: Some(4),
        rings: vec![batch::RingPosition {
            channel: 1,
            prev: 2,
            next: 4,
            transport: "NET/IB".into(),
            nic: "mlx5_0".into(),
            gpu_direct: true,
            recv_nic: "mlx5_1".into(),
            nic_index: Some(0),
            recv_nic_index: Some(1),
            proxy_rank: None,
        }],
        channel_settings: [("NCCL_MIN_NCHANNELS".to_owned(), 8), ("NCCL_MAX_NCHANNELS".to_owned(), 16)]
            .into(),
        sources: Some(batch::Sources { calls: true, plugin: true, log: false }),
        completion: batch::Completion::Profiler.into(),
        compute_capability: Some(90),
        ring_bw_intra: Some(48.0),
        ring_bw_inter: Some(24.5),
        local_ranks: Some(4),
        local_rank: Some(3),
        mnnvl: Some(false),
        collnet_channels: Some(0),
        nvls_channels: Some(16),
        shares_resources: Some(true),
        log_version: "2.27.3+cuda12.9".into(),
        search_fell_back: true,
        net_unpack: Some(false),
        made_by: "ncclCommSplit".into(),
        evidence: vec![batch::Evidence {
            fact: "init".into(),
            file: "/dev/shm/ringscope/nccl.log".into(),
            line: 12,
            text: "Pattern 4, crossNic 0, nChannels 2".into(),
        }],
        error: Some(6),
        error_function: "ncclCommGetAsyncError".into(),
        error_at_ns: Some(11),
        warnings: Vec::new(),
        graphs: None,
        completion_lost: "no event".into(),
    }
}

#[test]
fn the_bytes_are_those_of_version_2() {
    golden("batch-v2.hex", &hex_dump(&full().encode_to_vec()));
}

#[test]
fn a_batch_decodes_as_encoded() {
    assert_eq!(Batch::decode_checked(&full().encode_to_vec()), Ok(full()));
}

#[test]
fn every_error_says_what_is_wrong() {
    let cases: [(Batch, &str); 4] = [
        (
            Batch { format_version: 3, ..full() },
            "batch format version 3, but this daemon reads version 2: upgrade the older of the two",
        ),
        (Batch { agent_id: String::new(), ..full() }, "batch lacks agent_id"),
        (Batch { seq_number: 0, ..full() }, "batch lacks seq_number"),
        (Batch { processes: vec![batch::Process::default()], ..full() }, "batch lacks the key of a process"),
    ];
    for (batch, expected) in cases {
        assert_eq!(Batch::decode_checked(&batch.encode_to_vec()).unwrap_err().to_string(), expected);
    }
    let error = Batch::decode_checked(&[0xff; 4]).unwrap_err();
    assert!(matches!(&error, BatchError::Malformed(_)));
    assert!(error.to_string().starts_with("not a ringscope batch: "), "{error}");
}

#[test]
fn primitives_keep_their_numbers_in_both_formats() {
    for primitive in Primitive::ALL {
        assert_eq!(batch::Primitive::from(primitive).known(), Some(primitive));
        assert_eq!(
            usize::from(u8::try_from(batch::Primitive::from(primitive) as i32).unwrap()),
            primitive.index() + 1
        );
    }
    assert_eq!(batch::Primitive::Unspecified.known(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = Batch::decode_checked(&bytes);
    }

    #[test]
    fn mutated_and_truncated_batches_never_panic(
        length in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)
    ) {
        let mut bytes = full().encode_to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = Batch::decode_checked(&bytes[..length.index(bytes.len() + 1)]);
    }
}
