//! Communicators, forks, deaths.

use std::io::{BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;
use std::process::Stdio;

use ringscope_wire::Primitive::{AllReduce, Send};
use ringscope_wire::comm_hash;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, COMMUNICATOR_ACTIVE, COMMUNICATOR_DESTROYED, COMMUNICATOR_FAILED, DropReason,
    MADE_BY_INIT, MADE_BY_SPLIT, OPERATION_COMPLETED, OPERATION_ISSUED,
};

use crate::harness::{job, left_by};

#[test]
fn a_communicator_has_the_identity_that_the_library_gives_it() {
    let left = left_by("splits");
    let [parent, child, grouped] = &left.snapshot.communicators[..] else { panic!("three communicators") };
    assert_eq!((parent.comm_hash, parent.rank, parent.n_ranks, parent.n_nodes), (0x1001, 6, 8, Some(2)));
    assert_eq!((parent.made_by, parent.parent_hash, parent.device), (MADE_BY_INIT, 0, Some(6)));
    assert_eq!((child.comm_hash, child.rank, child.n_ranks), (0x1101, 3, 4));
    assert_eq!(
        (child.made_by, child.parent_hash, child.name.as_str()),
        (MADE_BY_SPLIT, 0x1001, "tensor-parallel")
    );
    assert_eq!((grouped.comm_hash, grouped.rank, grouped.n_nodes), (0x1201, 3, Some(2)));
    left.expect(1, AllReduce, (1, 4), (1, 4), 0);
    left.expect(2, AllReduce, (1, 8), (1, 8), 0);
}

#[test]
fn without_the_profiler_the_identity_is_computed() {
    let job = job("splits").without("NCCL_PROFILER_PLUGIN").succeed();
    let left = job.only_segment();
    let mut id = [0; 128];
    id[0] = 1;
    let parent = comm_hash::of_unique_id(&id);
    let hashes: Vec<_> = left.snapshot.communicators.iter().map(|comm| comm.comm_hash).collect();
    // The second child had no colour; it still has its number.
    assert_eq!(hashes, [parent, comm_hash::of_split(parent, 1, 0), comm_hash::of_split(parent, 3, 1)]);
    let child = left.communicator(1);
    assert_eq!((child.rank, child.n_ranks, child.name.as_str()), (3, 4, "tensor-parallel"));
}

#[test]
fn a_communicator_ends_as_it_is_ended() {
    let left = left_by("lifetimes");
    let states: Vec<_> = left.snapshot.communicators.iter().map(|comm| comm.state).collect();
    assert_eq!(
        states,
        [
            COMMUNICATOR_DESTROYED,
            COMMUNICATOR_ABORTED,
            COMMUNICATOR_FAILED,
            COMMUNICATOR_ACTIVE,
            COMMUNICATOR_ACTIVE,
            COMMUNICATOR_ACTIVE,
            COMMUNICATOR_ACTIVE,
        ]
    );
    left.expect(0, AllReduce, (1, 4), (1, 4), 0);
    left.expect(1, AllReduce, (2, 16), (0, 0), 2);
    for slot in 3..6 {
        left.expect(slot, AllReduce, (1, 4), (1, 4), 0);
        assert_eq!(left.communicator(slot).comm_hash, 0xa11);
    }
    left.expect(6, AllReduce, (2, 24), (2, 24), 0);
    assert!(left.communicator(0).ended_ticks >= left.communicator(0).created_ticks);
    assert_eq!(left.snapshot.dropped, [(DropReason::UnknownCommunicator, 1)]);
}

#[test]
fn communicators_beyond_the_table_are_counted_as_dropped() {
    let left = left_by("many_communicators");
    assert_eq!(left.snapshot.communicators.len(), 4096);
    assert_eq!(
        left.snapshot.dropped,
        [(DropReason::CommunicatorTableFull, 44), (DropReason::UnknownCommunicator, 44)]
    );
}

#[test]
fn a_slot_is_used_again_once_its_end_has_been_read() {
    let left = left_by("slots_used_again");
    let again = left.communicator(1);
    assert_eq!((again.generation, again.state, again.n_ranks), (2, COMMUNICATOR_ACTIVE, 4));
    left.expect(1, AllReduce, (1, 20), (1, 20), 0);
    let unread = left.communicator(0);
    assert_eq!((unread.generation, unread.state), (2, COMMUNICATOR_ACTIVE), "the one that ended first");
    left.expect(0, AllReduce, (1, 28), (1, 28), 0);
    assert_eq!(left.communicator(2).generation, 1);
    let mut links: Vec<_> =
        left.snapshot.links.iter().map(|l| (l.communicator, l.generation, l.peer)).collect();
    links.sort_unstable();
    assert_eq!(links, [(0, 2, 6), (1, 2, 6), (2, 1, 5)], "the old ones' links are gone");
    assert_eq!(left.snapshot.dropped, [(DropReason::CommunicatorNotRead, 1)]);
}

#[test]
fn a_pointer_belongs_to_the_communicator_that_got_it_last() {
    let left = left_by("unseen_destroy");
    let pointer = |slot: usize| left.communicator(slot).pointer;
    let replaced: Vec<usize> =
        (0..16).filter(|slot| (16..32).any(|later| pointer(later) == pointer(*slot))).collect();
    assert!(!replaced.is_empty(), "the library gave no pointer twice");
    for slot in &replaced {
        assert_eq!(left.communicator(*slot).state, COMMUNICATOR_DESTROYED);
    }
    for slot in 0..16 {
        left.expect(slot, AllReduce, (1, 4), (1, 4), 0);
        left.expect(16 + slot, AllReduce, (10, 80), (10, 80), 0);
        assert_eq!(left.communicator(16 + slot).state, COMMUNICATOR_ACTIVE);
    }
    assert_eq!(left.snapshot.dropped, [(DropReason::CommunicatorReplaced, replaced.len() as u64)]);
}

#[test]
fn ten_thousand_communicators_without_an_agent_are_counted_or_counted_as_lost() {
    let left = left_by("communicators_made_and_destroyed");
    let communicators = &left.snapshot.communicators;
    assert_eq!(communicators.len(), 4096);
    let made: u32 = communicators.iter().map(|communicator| communicator.generation).sum();
    assert_eq!(made, 10_000);
    for communicator in communicators {
        left.expect(communicator.slot.into(), AllReduce, (1, 4), (1, 4), 0);
    }
    assert_eq!(left.snapshot.dropped, [(DropReason::CommunicatorNotRead, 10_000 - 4096)]);
}

#[test]
fn a_group_may_have_calls_on_any_number_of_communicators() {
    let left = left_by("wide_group");
    assert_eq!(left.snapshot.communicators.len(), 200);
    for communicator in &left.snapshot.communicators {
        left.expect(communicator.slot.into(), AllReduce, (64, 256), (64, 256), 0);
        let sequence = communicator.sequence.unwrap();
        assert_eq!((sequence.calls, sequence.n_marks), (64, 1), "the 64th call ends a group with a mark");
    }
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn a_killed_process_leaves_what_it_was_doing() {
    let mut job = job("held");
    let mut child = job.command().stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    assert!(is_locked(&job.dir), "a living process holds its segment's lock");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!is_locked(&job.dir), "a dead one does not");
    let left = job.only_segment();
    assert_eq!((left.snapshot.exited, left.snapshot.exit_status), (false, None));
    left.expect(0, AllReduce, (2, 44), (1, 20), 0);
    let states: Vec<_> = left.records.iter().map(|r| (r.bytes, r.state, r.channels_done)).collect();
    assert_eq!(states, [(20, OPERATION_COMPLETED, 3), (24, OPERATION_ISSUED, 0)]);
}

/// As the agent asks whether a process lives.
fn is_locked(dir: &std::path::Path) -> bool {
    let path = std::fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::File::open(path).unwrap();
    assert!(file.as_raw_fd() >= 0);
    match file.try_lock_shared() {
        Ok(()) => false,
        Err(std::fs::TryLockError::WouldBlock) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_forked_child_has_a_segment_of_its_own() {
    let job = job("forks").succeed();
    let mut segments = job.segments();
    assert_eq!(segments.len(), 2, "the parent's and that of the child that made a communicator");
    segments.sort_by_key(|left| left.snapshot.identity.pid);
    let (parent, child) = (&segments[0], &segments[1]);
    parent.expect(0, AllReduce, (2, 8), (2, 8), 0);
    child.expect(0, AllReduce, (1, 12), (1, 12), 0);
    assert_eq!((parent.records.len(), child.records.len()), (2, 1));
    assert_eq!(child.communicator(0).n_ranks, 4);
    let ends = [parent, child].map(|left| (left.snapshot.exited, left.snapshot.exit_status));
    assert_eq!(ends, [(true, Some(0)), (true, Some(0))]);
    assert_eq!(child.snapshot.dropped, [(DropReason::NoSegment, 1)]);
}

#[test]
fn a_status_that_a_program_ends_with_is_told() {
    let mut job = job("fails");
    assert_eq!(job.command().status().unwrap().code(), Some(3));
    let left = job.only_segment();
    assert_eq!((left.snapshot.exited, left.snapshot.exit_status), (true, Some(3)));
}

#[test]
fn a_program_that_follows_by_exec_has_a_segment_of_its_own() {
    let job = job("execs").succeed();
    let segments = job.segments();
    let [first, second] = &segments[..] else { panic!("{} segments", segments.len()) };
    assert_eq!(first.snapshot.identity.pid, second.snapshot.identity.pid);
    assert_eq!((first.snapshot.exited, second.snapshot.exited), (false, true));
    for left in [first, second] {
        left.expect(0, AllReduce, (1, 4), (1, 4), 0);
    }
}

#[test]
fn switched_off_it_forwards_and_on_again_it_counts() {
    let left = left_by("controlled");
    left.expect(0, AllReduce, (2, 404), (2, 404), 0);
    // Made while off.
    left.expect(1, AllReduce, (1, 4000), (1, 4000), 0);
    assert_eq!(left.snapshot.state, ringscope_wire::segment::layout::STATE_ON);
    let off = left_by("switched_off");
    assert_eq!(off.snapshot.state, ringscope_wire::segment::layout::STATE_OFF);
    assert_eq!((off.snapshot.next_ticket, off.counters(0, Send)), (0, Default::default()));
}

#[test]
fn the_process_says_who_it_is() {
    let job = job("open_group")
        .env("RINGSCOPE_HOST", "node-7")
        .env("SLURM_JOB_ID", "42")
        .env("SLURM_STEP_ID", "0")
        .env("SLURM_PROCID", "13")
        .env("SLURM_STEP_NUM_TASKS", "16")
        .env("SLURM_LOCALID", "x")
        .env("SLURMD_NODENAME", "n7")
        .env("POD_NAME", "trainer-0")
        .env("NCCL_DEBUG_FILE", "/tmp/nccl-%h-%p.log")
        .succeed();
    let identity = job.only_segment().snapshot.identity;
    assert_eq!((identity.host.as_str(), identity.job.as_str()), ("node-7", "slurm-42"));
    assert_eq!((identity.global_rank, identity.world_size, identity.local_rank), (Some(13), Some(16), None));
    assert_eq!((identity.executable.as_str(), &*identity.scheduled.k8s_pod), ("driver", "trainer-0"));
    let slurm = identity.scheduled.slurm.unwrap();
    assert_eq!((slurm.job_id, slurm.step_id, &*slurm.node), (42, Some(0), "n7"));
    assert_eq!(identity.log_file, "/tmp/nccl-%h-%p.log");
    assert!(identity.start_time_ns > 1_600_000_000_000_000_000);
}
