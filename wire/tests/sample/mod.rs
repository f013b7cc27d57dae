//! A segment with one of everything, built byte by byte, and golden files.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::calls::{hash, layout as calls};
use ringscope_wire::segment::groups;
use ringscope_wire::segment::layout::{
    self, COMMUNICATOR_ACTIVE, Communicator, Counters, Fixed, Link, Live, MADE_BY_INIT, OPERATION_ISSUED,
    Record, Scheduled,
};
use ringscope_wire::segment::summation::layout::{
    Area, Comparison, Group, ROLE_WORKER, Round, STATE_RUNNING, Service, Stage, Traffic, Wait, Worker,
};

/// A segment of one process with one communicator, one link, one record and one summation group with one result.
pub(crate) fn segment() -> Vec<u8> {
    let mut bytes = vec![0; size_of::<Segment>()];
    write_fixed(&mut bytes);
    let live = offset_of!(Segment, live);
    put(&mut bytes, live + offset_of!(Live, state), &layout::STATE_ON.to_le_bytes());
    put(&mut bytes, live + offset_of!(Live, n_communicators), &1_u32.to_le_bytes());
    put(&mut bytes, live + offset_of!(Live, library_version), &22809_u32.to_le_bytes());
    let unmatched = layout::DropReason::UnmatchedEvent as usize;
    put(&mut bytes, live + offset_of!(Live, dropped) + 8 * unmatched, &3_u64.to_le_bytes());
    put(&mut bytes, live + offset_of!(Live, n_threads), &1_u32.to_le_bytes());
    put(&mut bytes, live + offset_of!(Live, off_since_ticks), &8_000_u64.to_le_bytes());
    put(&mut bytes, live + offset_of!(Live, next_ticket), &1_u64.to_le_bytes());
    write_communicator(&mut bytes, offset_of!(Segment, communicators));
    put(&mut bytes, live + offset_of!(Live, link_regions), &1_u64.to_le_bytes());
    put(&mut bytes, live + offset_of!(Live, pair_regions), &1_u64.to_le_bytes());
    let link = offset_of!(Segment, links) + 5 * size_of::<Link>();
    put(&mut bytes, link + offset_of!(Link, key), &layout::link_key(1, 0, 4, 4).to_le_bytes());
    put(&mut bytes, link + offset_of!(Link, sent_bytes), &7168_u64.to_le_bytes());
    put(&mut bytes, link + offset_of!(Link, sent_steps), &7_u64.to_le_bytes());
    write_record(&mut bytes, offset_of!(Segment, records));
    write_summation(&mut bytes, offset_of!(Segment, summation));
    write_calls(&mut bytes, offset_of!(Segment, calls));
    write_groups(&mut bytes, offset_of!(Segment, groups));
    bytes
}

fn write_fixed(bytes: &mut [u8]) {
    put(bytes, offset_of!(Fixed, magic), b"ringscop");
    put(bytes, offset_of!(Fixed, version), &layout::VERSION.to_le_bytes());
    put(bytes, offset_of!(Fixed, pid), &4242_u32.to_le_bytes());
    put(bytes, offset_of!(Fixed, segment_bytes), &(size_of::<Segment>() as u64).to_le_bytes());
    put(bytes, offset_of!(Fixed, start_time_ns), &1_700_000_000_000_000_000_u64.to_le_bytes());
    put(bytes, offset_of!(Fixed, anchor_ticks), &500_u64.to_le_bytes());
    put(bytes, offset_of!(Fixed, anchor_monotonic_ns), &600_u64.to_le_bytes());
    put(bytes, offset_of!(Fixed, anchor_wall_ns), &1_700_000_001_000_000_000_u64.to_le_bytes());
    put(bytes, offset_of!(Fixed, tick_kind), &layout::TICKS_COUNTER.to_le_bytes());
    put(bytes, offset_of!(Fixed, global_rank), &13_i32.to_le_bytes());
    put(bytes, offset_of!(Fixed, world_size), &16_i32.to_le_bytes());
    put(bytes, offset_of!(Fixed, local_rank), &(-1_i32).to_le_bytes());
    put(bytes, offset_of!(Fixed, host), b"node-7");
    put(bytes, offset_of!(Fixed, job), b"slurm-99");
    put(bytes, offset_of!(Fixed, run_id), b"run");
    put(bytes, offset_of!(Fixed, executable), b"python3");
    put(bytes, offset_of!(Fixed, log_file), b"/tmp/%h.log");
    put(bytes, offset_of!(Fixed, user), &1001_u64.to_le_bytes());
    let scheduled = offset_of!(Segment, live) + offset_of!(Live, scheduled);
    put(bytes, scheduled + offset_of!(Scheduled, k8s_node), b"worker-3");
    put(bytes, scheduled + offset_of!(Scheduled, slurm_node), b"n3");
    put(bytes, scheduled + offset_of!(Scheduled, slurm_job_id), &100_u32.to_le_bytes());
    put(bytes, scheduled + offset_of!(Scheduled, slurm_step_id), &1_u32.to_le_bytes());
}

fn write_communicator(bytes: &mut [u8], at: usize) {
    put(bytes, at + offset_of!(Communicator, state), &COMMUNICATOR_ACTIVE.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, generation), &1_u32.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, made_by), &MADE_BY_INIT.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, pointer), &0x7f00_1234_5678_u64.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, comm_hash), &0xfeed_beef_u64.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, created_ticks), &1_000_u64.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, rank), &3_i32.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, n_ranks), &8_i32.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, n_nodes), &2_i32.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, device), &(-1_i32).to_le_bytes());
    put(bytes, at + offset_of!(Communicator, name), b"dp");
    put(bytes, at + offset_of!(Communicator, error), &6_u32.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, error_ticks), &7_000_u64.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, error_function), &16_u32.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, lost), &layout::LOST_CUDA_EVENT.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, calls), &130_u64.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, calls_hash), &0xca11_u64.to_le_bytes());
    put(bytes, at + offset_of!(Communicator, calls_check), &hash::check(130, 0xca11).to_le_bytes());
    put(bytes, at + offset_of!(Communicator, n_marks), &2_u64.to_le_bytes());
    let counters = at + offset_of!(Communicator, counters) + 4 * size_of::<Counters>();
    put(bytes, counters + offset_of!(Counters, issued_calls), &2_u64.to_le_bytes());
    put(bytes, counters + offset_of!(Counters, issued_bytes), &8192_u64.to_le_bytes());
    put(bytes, counters + offset_of!(Counters, next_seq_number), &2_u64.to_le_bytes());
    put(bytes, counters + offset_of!(Counters, completed_calls), &1_u64.to_le_bytes());
}

fn write_record(bytes: &mut [u8], at: usize) {
    put(bytes, at + offset_of!(Record, ticket), &1_u64.to_le_bytes());
    put(bytes, at + offset_of!(Record, issued_ticks), &2_000_u64.to_le_bytes());
    put(bytes, at + offset_of!(Record, count), &1024_u64.to_le_bytes());
    put(bytes, at + offset_of!(Record, numbers), &(9_u64 << 32 | 1).to_le_bytes());
    let flags = layout::NUMBERED | layout::START_KNOWN;
    put(
        bytes,
        at + offset_of!(Record, what),
        &(flags | 2 << layout::WHAT_OP_SHIFT | 4 << 8 | 7).to_le_bytes(),
    );
    put(bytes, at + offset_of!(Record, started), &3_u32.to_le_bytes());
    put(bytes, at + offset_of!(Record, place), &(6_u32 << layout::GROUP_BITS | 5).to_le_bytes());
    put(bytes, at + offset_of!(Record, peer), &(-1_i32).to_le_bytes());
    put(bytes, at + offset_of!(Record, state), &(1_u32 << 8 | OPERATION_ISSUED).to_le_bytes());
    put(bytes, at + offset_of!(Record, channels), &(1_u32 << 16 | 4).to_le_bytes());
}

fn write_calls(bytes: &mut [u8], at: usize) {
    let thread = at + offset_of!(calls::Area, threads);
    put(bytes, thread + offset_of!(calls::Thread, thread), &4_243_u32.to_le_bytes());
    put(bytes, thread + offset_of!(calls::Thread, call), &calls::call_word(23, Some((0, 1))).to_le_bytes());
    put(bytes, thread + offset_of!(calls::Thread, entered_ticks), &2_000_u64.to_le_bytes());
    put(bytes, thread + offset_of!(calls::Thread, returned_ticks), &1_900_u64.to_le_bytes());
    for (index, (calls, hash)) in [(64_u64, 0x64_u64), (128, 0x128)].into_iter().enumerate() {
        let mark = at + offset_of!(calls::Area, marks) + index * size_of::<calls::Mark>();
        put(bytes, mark + offset_of!(calls::Mark, calls), &calls.to_le_bytes());
        put(bytes, mark + offset_of!(calls::Mark, hash), &hash.to_le_bytes());
    }
    let pair = at + offset_of!(calls::Area, pairs) + 11 * size_of::<calls::Pair>();
    put(bytes, pair + offset_of!(calls::Pair, key), &layout::link_key(1, 0, 5, 7).to_le_bytes());
    put(bytes, pair + offset_of!(calls::Pair, calls), &3_u64.to_le_bytes());
    put(bytes, pair + offset_of!(calls::Pair, bytes), &96_u64.to_le_bytes());
    put(bytes, pair + offset_of!(calls::Pair, hash), &0xabba_u64.to_le_bytes());
    put(bytes, pair + offset_of!(calls::Pair, check), &hash::check(3, 0xabba).to_le_bytes());
}

/// One whole, one that is being written.
fn write_groups(bytes: &mut [u8], at: usize) {
    put(bytes, at + offset_of!(groups::Area, n_taken), &2_u64.to_le_bytes());
    let group = at + offset_of!(groups::Area, groups);
    put(bytes, group + offset_of!(groups::Group, ranks), &groups::ranks_hash(4..8).to_le_bytes());
    put(bytes, group + offset_of!(groups::Group, id), &3_u64.to_le_bytes());
    put(bytes, group + offset_of!(groups::Group, n_ranks), &4_u64.to_le_bytes());
    put(bytes, group + offset_of!(groups::Group, name), b"tp 4-7");
}

fn write_summation(bytes: &mut [u8], at: usize) {
    put(bytes, at + offset_of!(Area, sequence), &2_u64.to_le_bytes());
    put(bytes, at + offset_of!(Area, next_ticket), &1_u64.to_le_bytes());
    let group = at + offset_of!(Area, group);
    put(bytes, group + offset_of!(Group, generation), &1_u32.to_le_bytes());
    put(bytes, group + offset_of!(Group, state), &STATE_RUNNING.to_le_bytes());
    put(bytes, group + offset_of!(Group, role), &ROLE_WORKER.to_le_bytes());
    put(bytes, group + offset_of!(Group, n_workers), &2_u32.to_le_bytes());
    put(bytes, group + offset_of!(Group, n_servers), &1_u32.to_le_bytes());
    put(bytes, group + offset_of!(Group, lost_rank), &(-1_i32).to_le_bytes());
    put(bytes, group + offset_of!(Group, n_services), &1_u32.to_le_bytes());
    put(bytes, group + offset_of!(Group, n_stages), &1_u32.to_le_bytes());
    put(bytes, group + offset_of!(Group, n_waits), &1_u32.to_le_bytes());
    put(bytes, group + offset_of!(Group, n_staleness), &2_u32.to_le_bytes());
    put(bytes, group + offset_of!(Group, group), &0xabc_u64.to_le_bytes());
    put(bytes, group + offset_of!(Group, session), &7_u64.to_le_bytes());
    put(bytes, group + offset_of!(Group, membership_epoch), &3_u64.to_le_bytes());
    put(bytes, group + offset_of!(Group, joined_ns), &600_u64.to_le_bytes());
    let service = at + offset_of!(Area, services);
    put(bytes, service + offset_of!(Service, rank), &2_u32.to_le_bytes());
    put(bytes, service + offset_of!(Service, host), b"cpu-1");
    put(bytes, service + offset_of!(Service, share_ppm), &400_000_u32.to_le_bytes());
    put(bytes, service + offset_of!(Service, owned_bytes), &(1_u64 << 20).to_le_bytes());
    let traffic = service + offset_of!(Service, traffic);
    put(bytes, traffic + offset_of!(Traffic, push_issued_bytes), &4096_u64.to_le_bytes());
    put(bytes, traffic + offset_of!(Traffic, local_bytes), &512_u64.to_le_bytes());
    let worker = at + offset_of!(Area, workers);
    put(bytes, worker + offset_of!(Worker, host), b"node-7");
    let worker = worker + size_of::<Worker>();
    put(bytes, worker + offset_of!(Worker, host), b"node-8");
    put(bytes, worker + offset_of!(Worker, late_ns), &77_u64.to_le_bytes());
    put(bytes, worker + offset_of!(Worker, last_arrival_ns), &9_000_u64.to_le_bytes());
    let stage = at + offset_of!(Area, stages);
    put(bytes, stage + offset_of!(Stage, name), b"push");
    put(bytes, stage + offset_of!(Stage, waiting_parts), &3_u64.to_le_bytes());
    let comparison = at + offset_of!(Area, comparison);
    let numbers = [
        (offset_of!(Comparison, count), 3_u64),
        (offset_of!(Comparison, every), 2),
        (offset_of!(Comparison, steps), 4),
        (offset_of!(Comparison, at_ns), 9_500),
        (offset_of!(Comparison, n_parameters), 6),
        (offset_of!(Comparison, n_different), 1),
        (offset_of!(Comparison, different_steps), 2),
        (offset_of!(Comparison, different_at_ns), 9_400),
        (offset_of!(Comparison, n_hashes), 2),
        (offset_of!(Comparison, hashes), 7),
        (offset_of!(Comparison, hashes) + 8, 9),
    ];
    for (offset, number) in numbers {
        put(bytes, comparison + offset, &number.to_le_bytes());
    }
    put(bytes, comparison + offset_of!(Comparison, parameter), b"layer.bias");
    let wait = at + offset_of!(Area, waits);
    put(bytes, wait + offset_of!(Wait, key), &5_u32.to_le_bytes());
    put(bytes, wait + offset_of!(Wait, for_push), &1_u32.to_le_bytes());
    put(bytes, wait + offset_of!(Wait, round), &6_u64.to_le_bytes());
    put(bytes, wait + offset_of!(Wait, first_arrival_ns), &8_000_u64.to_le_bytes());
    put(bytes, wait + offset_of!(Wait, tensor), b"gradient.fc");
    put(bytes, wait + offset_of!(Wait, workers), &[2, 0, 0, 0, 0, 0, 0, 0, 1]);
    put(bytes, at + offset_of!(Area, staleness), &[10, 0, 0, 0, 0, 0, 0, 0, 2]);
    let round = at + offset_of!(Area, rounds);
    put(bytes, round + offset_of!(Round, ticket), &1_u64.to_le_bytes());
    put(bytes, round + offset_of!(Round, round), &4_u64.to_le_bytes());
    put(bytes, round + offset_of!(Round, fingerprint), &0xfeed_u64.to_le_bytes());
    put(bytes, round + offset_of!(Round, key), &5_u32.to_le_bytes());
    put(bytes, round + offset_of!(Round, generation), &1_u32.to_le_bytes());
    put(bytes, round + offset_of!(Round, placement_epoch), &6_u32.to_le_bytes());
    put(bytes, round + offset_of!(Round, contributors), &(2_u16 << 1 | 1).to_le_bytes());
    put(bytes, round + offset_of!(Round, last_arriver), &1_u16.to_le_bytes());
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// Sixteen bytes a line with their offset; lines of zeros left out; the length last.
pub(crate) fn hex_dump(bytes: &[u8]) -> String {
    let mut dump = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate().filter(|(_, chunk)| chunk.iter().any(|byte| *byte != 0))
    {
        let _ = write!(dump, "{:08x}", line * 16);
        for byte in chunk {
            let _ = write!(dump, " {byte:02x}");
        }
        dump.push('\n');
    }
    let _ = writeln!(dump, "{:08x}", bytes.len());
    dump
}

/// Compares with a file of `tests/fixtures`, or writes it if `RINGSCOPE_BLESS` is set.
#[track_caller]
pub(crate) fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    #[expect(clippy::disallowed_methods, reason = "one command blesses golden files")]
    if std::env::var_os("RINGSCOPE_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{} differs; RINGSCOPE_BLESS=1 writes it anew", path.display());
}
