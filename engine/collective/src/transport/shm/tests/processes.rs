//! Ranks as processes of their own.

#![expect(unsafe_code, reason = "fork, and memory of the API by its address")]

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::ranks::*;
use crate::clock;
use crate::transport::shm::Tuning;
use crate::transport::shm::connect::{self, Endpoint};
use crate::transport::shm::doorbell::Mode;
use crate::transport::shm::host::Host;
use crate::transport::shm::region::Memory;
use crate::transport::{Description, Progress, RecvHalf, SendHalf};

/// Runs `body` as ranks 0 and 1, each a process, and wants both to end well.
pub(super) fn pair(tuning: Tuning, body: impl Fn(usize, Host)) {
    group(2, tuning, body);
}

/// Runs `body` as every rank, each a process, and wants all to end well.
pub(super) fn group(n_ranks: usize, tuning: Tuning, body: impl Fn(usize, Host)) {
    assert_eq!(statuses(n_ranks, tuning, body), vec![0; n_ranks - 1], "statuses of the others");
}

/// Runs `body` as every rank, each a process, and wants rank 0, this one, to end well; the wait statuses of the others.
fn statuses(n_ranks: usize, tuning: Tuning, body: impl Fn(usize, Host)) -> Vec<i32> {
    // Names that are free: a child keeps no listener of its parent's.
    let (_, announcements) = endpoints(n_ranks);
    let listen = |rank: usize| Endpoint::named(announcements[rank].as_ref().unwrap().name.clone()).unwrap();
    let run = |rank: usize, endpoint: Endpoint| {
        let joined = connect::join(endpoint, &plan(rank, &announcements, tuning), None).unwrap();
        body(rank, joined);
    };
    let ((mut listening, listens), (mut go_on, mut goes_on)) =
        (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let mut children = Vec::new();
    for rank in 1..n_ranks {
        // SAFETY: the child runs only what follows and ends without returning to the test harness.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let own = listen(rank);
                (&listens).write_all(&[0]).unwrap();
                go_on.read_exact(&mut [0]).unwrap();
                run(rank, own);
            }));
            // SAFETY: ends the child at once, without the harness's cleanup.
            unsafe { libc::_exit(i32::from(ended.is_err())) };
        }
        assert!(child > 0, "fork");
        children.push(child);
    }
    drop(listens);
    let own = listen(0);
    let mut others = vec![0; n_ranks - 1];
    let all_listen = listening.read_exact(&mut others).and_then(|()| goes_on.write_all(&others));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        all_listen.unwrap();
        run(0, own);
    }));
    let statuses = children.into_iter().map(wait).collect();
    assert!(ended.is_ok(), "rank 0 {ended:?}, others {statuses:?}");
    statuses
}

fn wait(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the test's own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

const LEN: usize = 1_000_003;

fn carries(tuning: Tuning, from_api: bool, reduces: bool) {
    pair(tuning, |rank, host| {
        let bell = host.doorbell();
        if rank == 1 {
            let mut receiver = host.open_recv(0, 0).unwrap();
            for round in 0..12 {
                let mut sink = Target::new(LEN, reduces);
                recv(bell, &mut receiver, round, &mut sink);
                assert!(sink.bytes == pattern(round as usize, LEN), "round {round}");
            }
            return;
        }
        let mut sender = host.open_send(0, 1).unwrap();
        for round in 0..12 {
            let mut memory = Memory::new(if from_api { LEN } else { 1 });
            let mut own = pattern(round as usize, LEN);
            if from_api {
                memory.bytes().copy_from_slice(&own);
            }
            send(bell, &mut sender, round, if from_api { memory.bytes() } else { &own });
            wait_released(bell, &mut sender, u64::from(round) + 1);
            // Released memory may be overwritten, and memory of the API freed.
            own.fill(0);
        }
        if tuning.read_bytes == 1 {
            assert_eq!(sender.describe(), Description::Shm { direct: true });
        }
    });
}

#[test]
fn slots_carry_between_processes() {
    carries(SLOTS_ONLY, false, false);
    carries(SLOTS_ONLY, true, true);
}

#[test]
fn the_kernel_reads_any_memory() {
    let tuning = Tuning { read_bytes: 1, ..SLOTS_ONLY };
    carries(tuning, false, false);
    carries(tuning, false, true);
}

#[test]
fn memory_of_the_api_is_read_in_place() {
    let tuning = Tuning { map_bytes: 1, ..SLOTS_ONLY };
    carries(tuning, true, false);
    carries(tuning, true, true);
}

#[test]
fn flat_rounds_between_processes_lose_no_ring() {
    pair(SLOTS_ONLY, |rank, host| {
        let mut flat = host.flat();
        for round in 0..20_000_u32 {
            let header = header(round, 8);
            let block = u64::from(round) * 2 + rank as u64;
            flat.start(&header, &block.to_le_bytes()).unwrap();
            drive(host.doorbell(), || flat.poll(&header)).unwrap();
            let theirs = u64::from(round) * 2 + 1 - rank as u64;
            assert_eq!(flat.block(1 - rank), theirs.to_le_bytes());
        }
    });
}

#[test]
fn a_killed_peer_leaves_rings_that_do_not_move_and_a_sleep_that_ends() {
    let statuses = statuses(2, SLOTS_ONLY, |rank, host| {
        if rank == 1 {
            // SAFETY: ends this process of the test's own.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        let mut flat = host.flat();
        let mut receiver = host.open_recv(0, 1).unwrap();
        flat.start(&header(0, 8), &[0; 8]).unwrap();
        let started = clock::now();
        let nap = host.doorbell().prepare(Mode::Bell);
        nap.sleep(&[], Duration::from_millis(50)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(5));
        assert_eq!(flat.poll(&header(0, 8)).unwrap(), Progress::Moved, "the own block");
        assert_eq!(flat.poll(&header(0, 8)).unwrap(), Progress::Idle);
        let pulled = receiver.pull(&header(0, 8), &mut Target::new(8, false)).unwrap();
        assert_eq!(pulled, Progress::Idle);
    });
    assert_eq!(statuses, [libc::SIGKILL]);
}
