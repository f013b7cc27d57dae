//! Cut links and lost packets between real ranks over TCP, each rank in a network namespace with two NICs; and a full
//! /dev/shm.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "measured tests say what they measured")]

mod common;

use std::io::Write as _;
use std::time::{Duration, Instant};

use common::network::{address, build, command_on, confined, sh};
use common::{Job, Rank, fault_program, folder};

const HOSTS: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(5);
/// Until a rank knows, beyond the timeout, on a machine that does much other work.
const GRACE: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "the time to an error is what the test is about")]
fn now() -> Instant {
    Instant::now()
}

/// One rank per host, at work.
fn at_work(rounds: &str) -> Vec<Rank> {
    let mut ranks = started(&[("ROUNDS", rounds)]);
    for rank in &mut ranks {
        assert_eq!((rank.line(), rank.line()), ("INIT".to_owned(), "READY".to_owned()));
    }
    ranks
}

/// One rank per host, with these settings.
fn started(settings: &[(&str, &str)]) -> Vec<Rank> {
    build(HOSTS);
    let program = fault_program(&folder("network"));
    let start = |rank: usize, id: &str, command: &str| {
        let mut child = command_on(rank, &program);
        child.args([&rank.to_string(), &HOSTS.to_string(), id, command]);
        // All channels, and so both rails, for every size.
        child
            .env("RSCCL_TIMEOUT_S", TIMEOUT.as_secs().to_string())
            .env("RSCCL_STALL_TIMEOUT_S", TIMEOUT.as_secs().to_string())
            .env("RSCCL_CHANNEL_BYTES", "1")
            .envs(settings.iter().copied());
        Rank::start(&mut child)
    };
    let mut first = start(0, "-", "id-many");
    let id = first.line();
    let mut ranks = vec![first];
    ranks.extend((1..HOSTS).map(|rank| start(rank, &id, "many")));
    ranks
}

/// What all ranks say once NIC `rail` of rank `victim` is down, within the time that they have.
fn cut(victim: usize, rail: usize) -> Vec<String> {
    let mut ranks = at_work("1000000");
    sh(&format!("ip -n host{victim} link set nic{rail} down"));
    let start = now();
    let said: Vec<String> = ranks.iter_mut().map(Rank::line).collect();
    let took = start.elapsed();
    println!("nic{rail} of rank {victim} down: errors after at most {:.2} s: {said:#?}", took.as_secs_f64());
    assert!(took < TIMEOUT + GRACE, "{took:?}: {said:?}");
    for rank in ranks {
        assert_eq!(rank.rest(), "CLEAN\n", "{said:?}");
    }
    said
}

/// Rank 0 hears nothing of the rank, and that one nothing of rank 0.
#[test]
fn a_rank_whose_link_to_the_judge_is_cut_is_named() {
    confined("a_rank_whose_link_to_the_judge_is_cut_is_named", || {
        for (rank, one) in cut(2, 0).iter().enumerate() {
            let name = if rank == 2 { 0 } else { 2 };
            let name = format!("rank {name} (host-{name}, {}) has not answered", address(name, 0));
            assert!(one.starts_with("ERROR 6 ") && one.contains(&name), "{rank}: {one}");
        }
    });
}

/// All ranks can still be asked; data do not get through.
#[test]
fn the_ends_of_a_cut_data_link_are_named() {
    confined("the_ends_of_a_cut_data_link_are_named", || {
        for (rank, one) in cut(2, 1).iter().enumerate() {
            let is_named = one.contains("rank 2 (host-2, ");
            assert!(one.starts_with("ERROR 6 ") && one.contains(" #") && is_named, "{rank}: {one}");
        }
    });
}

/// No data have gone over any connection, so none has been made.
#[test]
fn a_link_that_is_cut_before_its_first_use_is_named_with_the_operation() {
    confined("a_link_that_is_cut_before_its_first_use_is_named_with_the_operation", || {
        let mut ranks = started(&[("ROUNDS", "1"), ("HELD", "1")]);
        for rank in &mut ranks {
            assert_eq!((rank.line(), rank.line()), ("INIT".to_owned(), "HELD".to_owned()));
        }
        sh("ip -n host2 link set nic1 down");
        let start = now();
        for rank in &mut ranks {
            rank.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        }
        let said: Vec<String> = ranks.iter_mut().map(Rank::line).collect();
        let took = start.elapsed();
        assert!(took < TIMEOUT + GRACE, "{took:?}: {said:?}");
        for (rank, one) in said.iter().enumerate() {
            let is_named = one.contains("all_reduce #0") && one.contains("host-2");
            assert!(one.starts_with("ERROR ") && is_named, "{rank}: {one}");
        }
        for rank in ranks {
            assert_eq!(rank.rest(), "CLEAN\n", "{said:?}");
        }
    });
}

#[test]
fn lost_packets_change_no_result() {
    confined("lost_packets_change_no_result", || {
        let mut ranks = at_work("50");
        for host in 0..HOSTS {
            sh(&format!(
                "ip netns exec host{host} nft 'add table inet loss; \
                 add chain inet loss arrivals {{ type filter hook input priority 0; }}; \
                 add rule inet loss arrivals numgen random mod 100 < 1 counter drop'"
            ));
        }
        let start = now();
        for rank in &mut ranks {
            assert_eq!(rank.line(), "DONE");
        }
        let took = start.elapsed();
        for rank in ranks {
            assert_eq!(rank.rest(), "CLEAN\n");
        }
        let lost: u64 = (0..HOSTS).map(lost_packets).sum();
        println!(
            "50 all-reduces of 1 MiB among {HOSTS} ranks, {lost} packets lost, {:.2} s",
            took.as_secs_f64()
        );
        assert!(lost > 0);
    });
}

fn lost_packets(host: usize) -> u64 {
    let rules = sh(&format!("ip netns exec host{host} nft list table inet loss"));
    let count = rules.split("counter packets ").nth(1).unwrap().split(' ').next().unwrap();
    count.parse().unwrap()
}

/// Arenas have no names, so no file system has to have room for them.
#[test]
fn a_full_shm_folder_matters_to_nobody() {
    confined("a_full_shm_folder_matters_to_nobody", || {
        sh("! dd if=/dev/zero of=/dev/shm/full bs=4k 2>/dev/null; ! echo more > /dev/shm/more");
        let program = fault_program(&folder("full-shm"));
        let environment = |_| vec![("SCRIPT".to_owned(), "all_reduce:10 all_reduce:200000 alive".to_owned())];
        let job = Job { program: &program, n_ranks: 4, command: &["script"], environment: &environment };
        for rank in job.start() {
            assert_eq!(rank.rest(), "ALIVE\nCLEAN\n");
        }
    });
}
