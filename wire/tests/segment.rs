//! The segment's format: its bytes, its errors, and what reading hostile ones does.
//!
//! The golden file is written anew with `RINGSCOPE_BLESS=1 cargo test -p ringscope-wire`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod sample;

use std::mem::offset_of;

use proptest::prelude::*;
use ringscope_wire::launch::{Scheduled, Slurm};
use ringscope_wire::segment::calls::layout as calls_layout;
use ringscope_wire::segment::calls::read::{Mark, Pair, Sequence, Thread, marks, pairs};
use ringscope_wire::segment::groups::{self, GroupOfRanks, ranks_hash};
use ringscope_wire::segment::layout::{self, COMMUNICATOR_ACTIVE, DropReason, OPERATION_ISSUED};
use ringscope_wire::segment::read::{Communicator, Counters, Failure, Identity, Link, Record, Records};
use ringscope_wire::segment::read::{Source, control_offset, read_generation_offset, records, snapshot};
use ringscope_wire::segment::summation::layout::{self as summation_layout, Area, MAX_ROUNDS, MAX_WORKERS};
use ringscope_wire::segment::summation::read::{
    Comparison, Difference, Group, Round, Rounds, Service, Stage, Summation, Traffic, Wait, Worker, rounds,
};
use ringscope_wire::segment::{Segment, SegmentError};
use ringscope_wire::{Datatype, Primitive};
use sample::{golden, hex_dump, segment};

#[test]
fn the_bytes_are_those_of_version_7() {
    golden("segment-v7.hex", &hex_dump(&segment()));
}

fn identity() -> Identity {
    Identity {
        pid: 4242,
        start_time_ns: 1_700_000_000_000_000_000,
        host: "node-7".into(),
        job: "slurm-99".into(),
        run_id: "run".into(),
        executable: "python3".into(),
        global_rank: Some(13),
        world_size: Some(16),
        local_rank: None,
        scheduled: Scheduled {
            k8s_node: "worker-3".into(),
            slurm: Some(Slurm { job_id: 99, step_id: Some(0), node: "n3".into(), ..Slurm::default() }),
            ..Scheduled::default()
        },
        log_file: "/tmp/%h.log".into(),
        user: Some(1000),
    }
}

#[test]
fn a_sample_reads_as_written() {
    let bytes = segment();
    let read = snapshot(&mut bytes.as_slice()).unwrap();
    assert_eq!(read.identity, identity());
    assert_eq!(
        (read.state, read.exited, read.library_version, read.next_ticket),
        (layout::STATE_ON, false, 22809, 1)
    );
    assert_eq!(read.dropped, [(DropReason::UnmatchedEvent, 3)]);
    let counters = Counters {
        next_seq_number: 2,
        issued_calls: 2,
        issued_bytes: 8192,
        completed_calls: 1,
        ..Counters::default()
    };
    assert_eq!(
        read.communicators,
        [Communicator {
            slot: 0,
            generation: 1,
            state: COMMUNICATOR_ACTIVE,
            made_by: layout::MADE_BY_INIT,
            pointer: 0x7f00_1234_5678,
            comm_hash: 0xfeed_beef,
            parent_hash: 0,
            created_ticks: 1_000,
            ended_ticks: 0,
            rank: 3,
            n_ranks: 8,
            n_nodes: Some(2),
            device: None,
            name: "dp".into(),
            sources: 0,
            completion: layout::COMPLETION_NONE,
            compute_capability: None,
            min_ctas: None,
            max_ctas: None,
            shares_resources: None,
            library: 0,
            error: Some(Failure { result: 6, function: "ncclCommGetAsyncError", ticks: 7_000 }),
            lost: layout::LOST_CUDA_EVENT,
            sequence: Some(Sequence { calls: 130, hash: 0xca11, n_marks: 2 }),
            counters: vec![(Primitive::ReduceScatter, counters)],
        }]
    );
    assert_eq!(read.communicators[0].local_id(), 0x1_0000);
    assert_eq!(
        read.links,
        [Link {
            communicator: 0,
            generation: 1,
            primitive: Primitive::ReduceScatter,
            peer: 4,
            sent_bytes: 7168,
            sent_steps: 7,
            sending_ticks: 0,
        }]
    );
}

#[test]
fn records_read_as_written_and_others_are_named() {
    let bytes = segment();
    let read = records(&mut bytes.as_slice(), 0, 1).unwrap();
    let record = Record {
        ticket: 0,
        communicator: 0,
        generation: 1,
        primitive: Primitive::ReduceScatter,
        datatype: Datatype(7),
        state: OPERATION_ISSUED,
        seq_number: 1,
        call_number: Some(9),
        op: Some(2),
        stream: 6,
        group: 5,
        bytes: 4096,
        count: 1024,
        peer: None,
        issued_ticks: 2_000,
        start_known: true,
        ends_by_order: false,
        started_ticks: Some(2_000 + (3 << 12)),
        completed_ticks: None,
        channels_done: 1,
        channels_expected: 4,
    };
    assert_eq!(read, Records { records: vec![record], placed: 1, ..Records::default() });
    // Ticket 1 is not written; of those before the newest 16384 nothing is left.
    let unwritten = records(&mut bytes.as_slice(), 0, 2).unwrap();
    assert_eq!((unwritten.torn, unwritten.unused), (vec![], vec![1]));
    let later = records(&mut bytes.as_slice(), 1, 16_384 + 5).unwrap();
    assert_eq!((later.overwritten, later.records.len()), (4, 0));
    assert_eq!(records(&mut bytes.as_slice(), 7, 3).unwrap(), Records::default());
}

/// The operation with ticket 0 is in flight for as long as tickets pass over its place.
#[test]
fn an_operation_in_flight_is_found_in_the_place_of_tickets_passed_over() {
    let bytes = segment();
    let lap = layout::MAX_RECORDS as u64;
    for laps in 1..4 {
        let ticket = laps * lap;
        let read = records(&mut bytes.as_slice(), 0, ticket + 1).unwrap();
        let older: Vec<_> = read.older.iter().map(|(wanted, record)| (*wanted, record.ticket)).collect();
        assert_eq!(older, [(ticket, 0)]);
        assert!(!read.torn.contains(&ticket));
        assert_eq!(
            read.overwritten,
            ticket + 1 - lap - laps,
            "ticket 0 is there, others in its place never were"
        );
        let alone = records(&mut bytes.as_slice(), 0, 1).unwrap();
        assert_eq!(alone.records[0].ticket, 0, "whatever came after it");
    }
    let part = records(&mut bytes.as_slice(), lap, 3 * lap + 1).unwrap();
    assert_eq!(part.overwritten, lap + 1 - 2);
}

/// Of a segment with so few places in use.
#[test]
fn tickets_whose_place_is_not_in_use_are_not_looked_for() {
    let mut bytes = segment();
    let at = offset_of!(Segment, live) + offset_of!(layout::Live, n_places);
    bytes[at..at + 4].copy_from_slice(&128_u32.to_le_bytes());
    let lap = layout::MAX_RECORDS as u64;
    let read = |from, to| records(&mut bytes.as_slice(), from, to).unwrap();
    assert_eq!(read(1, lap).unused, (1..128).collect::<Vec<u64>>());
    assert_eq!((read(128, lap), read(7 * lap + 128, 8 * lap)), (Records::default(), Records::default()));
    let later = read(1, 3 * lap + 5);
    assert_eq!(later.overwritten, 2 * 128 + 5 - 1 - 2, "two laps and five, less the first, which is there");
    assert_eq!(later.unused.len(), 127);
}

#[test]
fn a_summation_group_reads_as_written() {
    let bytes = segment();
    let read = snapshot(&mut bytes.as_slice()).unwrap();
    let traffic = Traffic { push_issued_bytes: 4096, local_bytes: 512, ..Traffic::default() };
    let service = Service {
        rank: 2,
        host: "cpu-1".into(),
        share_ppm: 400_000,
        owned_bytes: 1 << 20,
        traffic: vec![traffic, Traffic::default(), Traffic::default()],
        ..Service::default()
    };
    let worker = |host: &str| Worker { host: host.into(), ..Worker::default() };
    let late = Worker { late_ns: 77, last_arrival_ns: Some(9_000), ..worker("node-8") };
    let wait = Wait {
        key: 5,
        round: 6,
        for_push: true,
        tensor: "gradient.fc".into(),
        first_arrival_ns: 8_000,
        workers: vec![1, 64],
    };
    let group = Group {
        generation: 1,
        state: summation_layout::STATE_RUNNING,
        role: summation_layout::ROLE_WORKER,
        n_workers: 2,
        n_servers: 1,
        lost_rank: None,
        group: 0xabc,
        session: 7,
        membership_epoch: 3,
        staleness_bound: Some(0),
        joined_ns: 600,
        services: vec![service],
        workers: vec![worker("node-7"), late],
        stages: vec![Stage { name: "push".into(), waiting_parts: 3, ..Stage::default() }],
        waits: vec![wait],
        staleness: vec![10, 2],
        comparison: Some(Comparison {
            count: 3,
            every: 2,
            steps: 4,
            at_ns: 9_500,
            n_parameters: 6,
            n_different: 1,
            equal_steps: Some(0),
            difference: Some(Difference {
                steps: 2,
                at_ns: 9_400,
                parameter: "layer.bias".into(),
                hashes: vec![7, 9],
            }),
        }),
        next_ticket: 1,
        ..Group::default()
    };
    assert_eq!(read.summation, Summation::Group(Box::new(group)));
}

#[test]
fn groups_read_as_written_and_more_than_fits_is_not_believed() {
    let mut bytes = segment();
    let tp = GroupOfRanks { ranks: ranks_hash([4, 5, 6, 7]), n_ranks: 4, name: "tp 4-7".into() };
    assert_eq!(snapshot(&mut bytes.as_slice()).unwrap().groups, std::slice::from_ref(&tp));
    let n_taken = offset_of!(Segment, groups) + offset_of!(groups::Area, n_taken);
    bytes[n_taken..n_taken + 8].fill(0xff);
    assert_eq!(snapshot(&mut bytes.as_slice()).unwrap().groups, [tp]);
}

#[test]
fn the_group_that_failed_before_reads_as_it_was() {
    let mut bytes = segment();
    let area = offset_of!(Segment, summation);
    let mut copy = |from: usize, to: usize, len: usize| {
        bytes.copy_within(area + from..area + from + len, area + to);
    };
    let group_bytes = size_of::<summation_layout::Group>();
    copy(offset_of!(Area, group), offset_of!(Area, failed), group_bytes);
    let service_bytes = size_of::<summation_layout::Service>();
    copy(offset_of!(Area, services), offset_of!(Area, failed_services), service_bytes);
    let Summation::Group(mut read) = snapshot(&mut bytes.as_slice()).unwrap().summation else { panic!() };
    let failed = read.failed_before.take().unwrap();
    let (workers, stages, waits, staleness) = Default::default();
    let (next_ticket, comparison) = (0, None);
    assert_eq!(*failed, Group { workers, stages, waits, staleness, next_ticket, comparison, ..*read });
}

#[test]
fn results_read_as_written_and_others_are_counted() {
    let bytes = segment();
    let round = Round {
        ticket: 0,
        generation: 1,
        key: 5,
        round: 4,
        fingerprint: 0xfeed,
        made: true,
        placement_epoch: 6,
        contributors: 2,
        last_arriver: 1,
        ..Round::default()
    };
    let read = |from, to| rounds(&mut bytes.as_slice(), from, to).unwrap();
    assert_eq!(read(0, 1), Rounds { rounds: vec![round], missing: 0 });
    assert_eq!(read(0, 3), Rounds { rounds: vec![round], missing: 2 });
    assert_eq!(read(0, MAX_ROUNDS as u64 + 1), Rounds { rounds: vec![], missing: MAX_ROUNDS as u64 + 1 });
    assert_eq!(read(7, 3), Rounds::default());
}

#[test]
fn a_group_that_is_being_written_is_not_taken() {
    let with = |sequence: u64| {
        let mut bytes = segment();
        let at = offset_of!(Segment, summation) + offset_of!(Area, sequence);
        bytes[at..at + 8].copy_from_slice(&sequence.to_le_bytes());
        snapshot(&mut bytes.as_slice()).unwrap().summation
    };
    assert_eq!(with(3), Summation::Torn);
    assert_eq!(with(0), Summation::None);
    assert!(matches!(with(4), Summation::Group(_)));
}

#[test]
fn more_than_fits_is_not_believed() {
    let mut bytes = segment();
    let group = offset_of!(Segment, summation) + offset_of!(Area, group);
    for offset in [
        offset_of!(summation_layout::Group, n_workers),
        offset_of!(summation_layout::Group, n_services),
        offset_of!(summation_layout::Group, n_waits),
        offset_of!(summation_layout::Group, n_stages),
        offset_of!(summation_layout::Group, n_staleness),
    ] {
        bytes[group + offset..group + offset + 4].fill(0xff);
    }
    let n_hashes = offset_of!(Segment, summation)
        + offset_of!(Area, comparison)
        + offset_of!(summation_layout::Comparison, n_hashes);
    bytes[n_hashes..n_hashes + 8].fill(0xff);
    let read = snapshot(&mut bytes.as_slice()).unwrap().summation;
    let Summation::Group(group) = read else { panic!("{read:?}") };
    let difference = group.comparison.and_then(|one| one.difference).unwrap();
    assert_eq!(difference.hashes.len(), MAX_WORKERS);
    assert_eq!((group.services.len(), group.workers.len()), (256, MAX_WORKERS));
    assert_eq!((group.waits.len(), group.stages.len(), group.staleness.len()), (64, 8, 64));
}

#[test]
fn what_the_agent_writes_lies_where_the_collector_looks() {
    assert_eq!(control_offset(), (offset_of!(Segment, live) + offset_of!(layout::Live, control)) as u64);
    let slot_bytes = size_of::<layout::Communicator>() as u64;
    assert_eq!(read_generation_offset(2) - read_generation_offset(0), 2 * slot_bytes);
}

#[test]
fn every_error_says_what_is_wrong() {
    let good = segment();
    let with = |offset: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[offset..offset + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let n_communicators = offset_of!(Segment, live) + offset_of!(layout::Live, n_communicators);
    let length = size_of::<Segment>();
    let cases = [
        (b"ringscop".to_vec(), format!("segment is cut: 8 bytes, {} needed", size_of::<layout::Fixed>())),
        (vec![0x41; length], "not a ringscope segment (it begins with [41, 41, 41, 41, 41, 41, 41, 41])".into()),
        (
            with(8, &[4]),
            "segment version 4, but this agent reads version 7: use the agent and the collector of one release".into(),
        ),
        (with(16, &[0; 8]), format!("segment is corrupt: says it is 0 bytes long, not {length}")),
        (with(offset_of!(layout::Fixed, tick_kind), &[9]), "segment is corrupt: tick kind 9".into()),
        (with(n_communicators, &[1, 16]), "segment is corrupt: 4097 communicators, at most 4096 fit".into()),
    ];
    for (bytes, expected) in cases {
        assert_eq!(snapshot(&mut bytes.as_slice()).unwrap_err().to_string(), expected);
    }
    let end = offset_of!(Segment, summation);
    let cut = &good[..end - 1];
    let error = records(&mut &cut[..], 16_383, 16_384).unwrap_err();
    assert_eq!(error, SegmentError::Truncated { found: end as u64 - 1, needed: end as u64 });
}

/// Bytes that another process changes after a record was read once.
struct Changing<'a> {
    now: &'a [u8],
    then: &'a [u8],
}

impl Source for Changing<'_> {
    type Error = SegmentError;

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), SegmentError> {
        let is_record = offset >= offset_of!(Segment, records) as u64;
        let mut source = if is_record { std::mem::replace(&mut self.now, self.then) } else { self.now };
        source.read_at(offset, buffer)
    }
}

#[test]
fn a_record_that_was_replaced_between_its_ends_is_refused() {
    let now = segment();
    let at = |field: usize| offset_of!(Segment, records) + field;
    let read = |field: usize, byte: u8| {
        let mut then = now.clone();
        then[at(field)] = byte;
        records(&mut Changing { now: &now, then: &then }, 0, 1).unwrap()
    };
    type Field = layout::Record;
    // The ticket is the same at both ends of the copy, and the count is another call's.
    assert_eq!(read(offset_of!(Field, count), 9).torn, [0]);
    assert_eq!(read(offset_of!(Field, place) + 1, 9).torn, [0]);
    assert_eq!(read(offset_of!(Field, ticket) + 7, 0x80).torn, [0], "being written at the second reading");
    assert_eq!(
        read(offset_of!(Field, state), 3 | 1 << layout::LAP_SHIFT).torn,
        [0],
        "the state is of the next in its place"
    );
    // What changes while the operation runs is taken as it is.
    assert_eq!(read(offset_of!(Field, channels), 5).records[0].channels_expected, 5);
    assert_eq!(read(offset_of!(Field, state), 3).records[0].state, 3);
}

#[test]
fn text_from_outside_is_made_harmless() {
    let mut bytes = segment();
    let host = offset_of!(layout::Fixed, host);
    bytes[host..host + 5].copy_from_slice(b"a\x1b[\xffb");
    let read = snapshot(&mut bytes.as_slice()).unwrap();
    assert_eq!(read.identity.host, "a\u{fffd}[\u{fffd}b7");
}

/// Reads everything; whatever comes, it must come as a value.
fn read_all(bytes: &[u8]) {
    let mut source = bytes;
    if let Ok(read) = snapshot(&mut source) {
        if let Summation::Group(group) = &read.summation {
            let _ = rounds(&mut source, 0, group.next_ticket);
            let _ = rounds(&mut source, group.next_ticket.wrapping_sub(3), u64::MAX);
        }
        for communicator in &read.communicators {
            let _ = marks(&mut source, communicator.slot, 0);
            let _ = marks(&mut source, u16::MAX, u64::MAX);
        }
        let _ = pairs(&mut source);
        let _ = records(&mut source, 0, read.next_ticket);
        let _ = records(&mut source, read.next_ticket.wrapping_sub(3), u64::MAX);
        let clock = read.clock.clock(u64::MAX, u64::MAX);
        let _ = (clock.wall_ns(0), clock.wall_ns(u64::MAX));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..8192)) {
        read_all(&bytes);
    }

    #[test]
    fn truncated_segments_never_panic(length in 0..size_of::<Segment>()) {
        read_all(&segment()[..length]);
    }

    #[test]
    fn mutated_segments_never_panic(
        changes in prop::collection::vec((prop_oneof![0..16_384_usize, 0..size_of::<Segment>()], any::<u64>()), 1..64)
    ) {
        let mut bytes = segment();
        for (offset, word) in changes {
            let offset = offset.min(bytes.len() - 8) & !7;
            // The magic and the version stay: what lies behind them is to be reached.
            if offset >= 16 {
                bytes[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
        read_all(&bytes);
    }
}

#[test]
fn links_are_found_in_every_region_that_was_used_and_in_no_other() {
    let mut bytes = segment();
    let places = [0, 63, 64, 1000, 4095];
    let regions = places.iter().fold(0_u64, |bits, place| bits | 1 << (place / layout::LINKS_PER_REGION));
    for place in places {
        let at = offset_of!(Segment, links) + place * size_of::<layout::Link>();
        let key = layout::link_key(1, 0, 4, u32::try_from(place).unwrap());
        bytes[at..at + 8].copy_from_slice(&key.to_le_bytes());
    }
    let at = offset_of!(Segment, live) + offset_of!(layout::Live, link_regions);
    let mut peers = |regions: u64| {
        bytes[at..at + 8].copy_from_slice(&regions.to_le_bytes());
        let read = snapshot(&mut bytes.as_slice()).unwrap();
        read.links.iter().map(|link| link.peer).collect::<Vec<_>>()
    };
    // The sample's own link lies at place 5.
    assert_eq!(peers(regions), [0, 4, 63, 64, 1000, 4095]);
    assert_eq!(peers(u64::MAX), [0, 4, 63, 64, 1000, 4095]);
    assert_eq!(peers(1 << 63), [4095]);
    assert!(peers(0).is_empty());
}

#[test]
fn threads_and_pairs_read_as_written() {
    let bytes = segment();
    let read = snapshot(&mut bytes.as_slice()).unwrap();
    let thread = Thread {
        thread: 4_243,
        function: "ncclAllReduce",
        communicator: Some((0, 1)),
        entered_ticks: 2_000,
        returned_ticks: None,
    };
    assert_eq!((read.threads, read.off_since_ticks), (vec![thread], Some(8_000)));
    let pair = Pair {
        communicator: 0,
        generation: 1,
        primitive: Primitive::Send,
        peer: 7,
        calls: 3,
        bytes: 96,
        hash: 0xabba,
    };
    assert_eq!(pairs(&mut bytes.as_slice()).unwrap(), [pair]);
}

#[test]
fn a_count_without_its_hash_is_not_taken() {
    let mut bytes = segment();
    let calls = offset_of!(Segment, communicators) + offset_of!(layout::Communicator, calls);
    bytes[calls] += 1;
    let pair = offset_of!(Segment, calls)
        + offset_of!(calls_layout::Area, pairs)
        + 11 * size_of::<calls_layout::Pair>()
        + offset_of!(calls_layout::Pair, hash);
    bytes[pair] += 1;
    assert_eq!(snapshot(&mut bytes.as_slice()).unwrap().communicators[0].sequence, None);
    assert_eq!(pairs(&mut bytes.as_slice()).unwrap(), []);
}

#[test]
fn only_marks_that_nobody_was_writing_are_read() {
    let mut bytes = segment();
    let mark = |calls, hash| Mark { calls, hash };
    let read = |bytes: &[u8], from| marks(&mut &*bytes, 0, from).unwrap();
    assert_eq!(read(&bytes, 0), (vec![mark(64, 0x64), mark(128, 0x128)], 2));
    assert_eq!(read(&bytes, 1), (vec![mark(128, 0x128)], 2));
    assert_eq!(read(&bytes, 2), (vec![], 2));
    assert_eq!(read(&bytes, 9), (vec![], 2), "a number from nowhere");
    // After 65 marks, the place of number 1 may hold the 66th before it is counted.
    let counter = offset_of!(Segment, communicators) + offset_of!(layout::Communicator, n_marks);
    bytes[counter] = 65;
    let (found, next) = read(&bytes, 0);
    assert_eq!((found.len(), next), (calls_layout::MARKS - 1, 65));
    assert!(!found.contains(&mark(128, 0x128)));
}
