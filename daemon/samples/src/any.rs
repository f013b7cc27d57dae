//! Batches that no agent would send.

use proptest::prelude::*;
use ringscope_api::SummationRole as Role;
use ringscope_wire::batch::{self, SummationMember};

use crate::summing::{Summing, round, wait};

/// Ranks, channels and the like: mostly small, sometimes at a limit or beyond.
fn small(most: u32) -> impl Strategy<Value = u32> {
    prop_oneof![0..5_u32, Just(most), any::<u32>()]
}

fn any_communicator(most: u32) -> impl Strategy<Value = batch::Communicator> {
    let local = || 0..3_u64;
    (
        (local(), prop_oneof![Just(0), Just(1), any::<u64>()], small(most), small(most)),
        (any::<i32>(), -1..7_i32, any::<Option<u64>>(), any::<Option<u32>>(), any::<Option<u32>>()),
        proptest::collection::vec((small(most), small(most), small(most)), 0..4),
        proptest::collection::btree_map("NCCL_M(IN|AX)_NCHANNELS", any::<i64>(), 0..3),
    )
        .prop_map(
            |((local_id, comm_hash, rank, n_ranks), (odd, state, ended, init, last), rings, settings)| {
                batch::Communicator {
                    local_id,
                    comm_hash,
                    rank,
                    n_ranks,
                    state: if state < 0 { odd } else { state },
                    ended_at_ns: ended,
                    created_at_ns: ended.unwrap_or(5),
                    init_channels: init,
                    final_channels: last,
                    rings: rings
                        .into_iter()
                        .map(|(channel, prev, next)| batch::RingPosition {
                            channel,
                            prev,
                            next,
                            ..Default::default()
                        })
                        .collect(),
                    channel_settings: settings,
                    sources: ended.map(|n| batch::Sources {
                        calls: n % 2 == 0,
                        plugin: n % 3 == 0,
                        log: true,
                    }),
                    completion: odd,
                    compute_capability: last,
                    ring_bw_intra: init.map(|n| f64::from_bits(u64::from(n) << 32)),
                    local_ranks: init,
                    local_rank: last,
                    mnnvl: Some(odd % 2 == 0),
                    nvls_channels: init,
                    collnet_channels: last,
                    parent_hash: ended,
                    error: last,
                    error_at_ns: ended,
                    warnings: vec![batch::Evidence::default(); (odd.unsigned_abs() % 10) as usize],
                    evidence: vec![
                        batch::Evidence { text: "ä".repeat(200), ..Default::default() };
                        (odd.unsigned_abs() % 100) as usize
                    ],
                    ..batch::Communicator::default()
                }
            },
        )
}

/// The same, in calls and looked at.
fn doing(process: batch::Process, n: i32, at_ns: Option<u64>) -> batch::Process {
    let open = |local_id| batch::OpenCall { local_id, entered_at_ns: 7, ..Default::default() };
    let pair = batch::PairCalls { primitive: n, peer: 1, calls: 3, ..Default::default() };
    let thread = batch::Thread { python: vec!["x".repeat(3_000); 90], ..Default::default() };
    let look = batch::Look { at_ns: 3, threads: vec![thread; 40], ..Default::default() };
    batch::Process {
        open_calls: vec![open(at_ns); (n + 1).unsigned_abs() as usize * 30],
        pairs: vec![pair],
        activity: Some(batch::Activity { state: process.key.clone(), cpu_ns: 5, read_at_ns: 6 }),
        look: at_ns.map(|_| look),
        last_returned_at_ns: at_ns,
        collector_off_since_ns: at_ns,
        segment_version: 5,
        ..process
    }
}

fn any_operation() -> impl Strategy<Value = batch::Operation> {
    (0..3_u64, 0..16_i32, -1..6_i32, any::<Option<u64>>()).prop_map(|(local_id, primitive, state, end)| {
        batch::Operation {
            local_id,
            primitive,
            state,
            completed_at_ns: end,
            datatype: 300,
            ..Default::default()
        }
    })
}

/// What an agent may say of a process, true or not; `most` ranks are the bound of who listens.
pub fn any_process(most: u32) -> impl Strategy<Value = batch::Process> {
    let local = || 0..3_u64;
    let counters = (local(), -1..17_i32, any::<u64>()).prop_map(|(local_id, primitive, n)| batch::Counters {
        local_id,
        primitive,
        issued_bytes: n,
        completed_bytes: n,
        ..batch::Counters::default()
    });
    let link = (local(), 0..16_i32, small(most), any::<u64>()).prop_map(
        |(local_id, primitive, peer, sent_bytes)| batch::Link {
            local_id,
            primitive,
            peer,
            sent_bytes,
            sent_steps: 1,
            sending_ns: 0,
        },
    );
    let calls = (local(), any::<u64>(), proptest::collection::vec(any::<(u64, u64)>(), 0..40));
    let sequence = calls.prop_map(|(local_id, calls, marks)| batch::CallSequence {
        local_id,
        calls,
        hash: calls,
        marks: marks.into_iter().map(|(calls, hash)| batch::SequenceMark { calls, hash }).collect(),
        sampled_log2: 0,
    });
    let operations = || proptest::collection::vec(any_operation(), 0..4);
    let identity =
        proptest::option::of(("(|job)", "(|host-[01]|ä{300})").prop_map(|(job, host)| batch::Identity {
            job,
            host,
            ..batch::Identity::default()
        }));
    (
        "(host-[01]/[12]/1|)",
        identity,
        proptest::collection::vec(any_communicator(most), 0..3),
        proptest::collection::vec(counters, 0..3),
        proptest::collection::vec(link, 0..3),
        (operations(), operations(), proptest::collection::vec(sequence, 0..3)),
        (-1..5_i32, -1..5_i32, any::<Option<u64>>()),
    )
        .prop_map(
            |(key, identity, communicators, counters, links, operations, (state, collector, ended))| {
                let process = batch::Process {
                    recalled: operations.0.clone(),
                    sequences: operations.2,
                    key,
                    identity,
                    communicators,
                    counters,
                    links,
                    in_flight: operations.0,
                    last_completed: operations.1,
                    collector_state: collector,
                    state,
                    ended_at_ns: ended,
                    level: state,
                    profiler_version: ended.map_or(0, |_| 5),
                    has_segment: ended.is_some(),
                    log_lacks: vec!["no GRAPH lines".to_owned(); 20],
                    ..batch::Process::default()
                };
                doing(process, state, ended)
            },
        )
}

/// Any words, in any order, of a few processes about a few groups.
pub fn any_member() -> impl Strategy<Value = (u8, SummationMember)> {
    let numbers = prop::collection::vec(any::<u64>(), 8);
    let small = prop::collection::vec(0_u32..6, 8);
    (0_u8..4, numbers, small).prop_map(|(process, numbers, small)| {
        let mut told = Summing::new().member((Role::Worker, 0), numbers[0] % 1_000);
        told.group = u64::from(small[0]);
        told.role = small[1].cast_signed() % 4;
        (told.index, told.n_workers, told.n_servers) = (small[2], small[3], small[4]);
        told.state = small[5].cast_signed();
        told.lost_rank = (small[6] > 3).then_some(small[7]);
        told.joined_at_ns = numbers[1];
        told.ended_at_ns = (small[6] > 2).then_some(numbers[2]);
        told.summing_ns = numbers[3];
        told.n_parts = numbers[4];
        told.services.truncate(small[7] as usize);
        told.services[..small[7].min(1) as usize].iter_mut().for_each(|service| service.share_ppm = small[0]);
        told.stages.iter_mut().for_each(|stage| stage.waited_ns = numbers[5]);
        told.waits = vec![wait(numbers[6], &[small[1], u32::MAX], numbers[7] >> 24)];
        told.rounds = vec![round(small[0], numbers[6] % 3, numbers[7] % 3, small[1] == 1)];
        (process, told)
    })
}
