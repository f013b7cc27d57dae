//! Ranks that call different things: an error on every rank, without waiting for the timeout, that names a rank and both
//! operations.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::time::Duration;

use common::{Job, Rank, fault_program, folder};

/// What all ranks say; one of them has the other script.
fn said(program: &Path, scripts: [&str; 2], odd: usize, n_ranks: usize, shm: bool) -> Vec<String> {
    said_by(program, &|rank| scripts[usize::from(rank == odd)], n_ranks, shm)
}

fn said_by<'a>(program: &Path, script: &dyn Fn(usize) -> &'a str, n_ranks: usize, shm: bool) -> Vec<String> {
    let environment = |rank: usize| {
        vec![
            ("SCRIPT".to_owned(), script(rank).to_owned()),
            ("RSCCL_SHM_DISABLE".to_owned(), if shm { "0" } else { "1" }.to_owned()),
            ("RSCCL_TIMEOUT_S".to_owned(), "120".to_owned()),
        ]
    };
    let job = Job { program, n_ranks, command: &["script"], environment: &environment };
    let mut ranks = job.start();
    let said: Vec<String> = ranks.iter_mut().map(Rank::line).collect();
    for rank in ranks {
        assert_eq!(rank.rest(), "CLEAN\n", "{said:?}");
    }
    said
}

/// Every rank has an error of a wrong use that has `words` in it, long before the 120 s of the timeout are over.
fn check(usual: &str, other: &str, words: &[&str]) {
    let program = fault_program(&folder(&format!("mismatch-{}", usual.replace([':', ' '], "-"))));
    for shm in [true, false] {
        for n_ranks in [2, 3] {
            #[expect(
                clippy::disallowed_methods,
                reason = "that nobody waits for the timeout is part of the test"
            )]
            let start = std::time::Instant::now();
            for one in said(&program, [usual, other], 1, n_ranks, shm) {
                let case = format!("{usual} and {other}, {n_ranks} ranks, shm {shm}: {one}");
                assert!(one.starts_with("ERROR 5 "), "{case}");
                assert!(words.iter().all(|word| one.contains(word)) && one.contains("rank "), "{case}");
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{usual} and {other}: {:?}", start.elapsed());
        }
    }
}

/// Rank 0 hears from all, so no neighbour is taken for the one that called something else.
#[test]
fn the_rank_with_the_other_call_is_named_and_nobody_else() {
    let program = fault_program(&folder("mismatch-odd"));
    let scripts = [
        ["all_reduce:10 all_reduce:100000", "all_reduce:10 all_reduce:99999"],
        ["all_reduce:10 all_reduce:70", "all_reduce:10 all_gather:70"],
    ];
    for (n_ranks, shm) in [(3, true), (3, false), (4, true), (5, false)] {
        for (odd, scripts) in (0..n_ranks).zip(scripts.into_iter().cycle()) {
            let name = format!("rank {odd} (host-{}, ", odd / 2 + 1);
            for one in said(&program, scripts, odd, n_ranks, shm) {
                let case = format!("{scripts:?}, rank {odd} of {n_ranks}, shm {shm}: {one}");
                let accused = one.split(" called ").next().unwrap();
                assert!(accused.contains(&name) && !accused.contains(" and rank "), "{case}");
            }
        }
    }
}

/// While the two that have met cannot tell whose call is the other one, those are waited for who still compute.
#[test]
fn who_comes_later_than_a_beat_decides_whose_call_is_the_other_one() {
    let program = fault_program(&folder("mismatch-later"));
    let scripts = [
        "all_reduce:10 all_reduce:99",
        "all_reduce:10 all_reduce:100",
        "all_reduce:10 late:2500 all_reduce:100",
    ];
    for shm in [true, false] {
        for one in said_by(&program, &|rank| scripts[rank.min(2)], 5, shm) {
            let accused = one.split(" called ").next().unwrap();
            assert!(
                accused.contains("rank 0 (host-1, ") && !accused.contains(" and rank "),
                "shm {shm}: {one}"
            );
        }
    }
}

/// Who only sends is past its own call, and in the next one, before anybody finds that it was another.
#[test]
fn the_rank_that_has_gone_on_from_its_other_call_is_named() {
    let program = fault_program(&folder("mismatch-past"));
    for (n_ranks, shm) in [(3, false), (4, true), (8, true), (4, false)] {
        for (odd, count) in [(0, 16), (0, 100_000), (1, 16), (n_ranks - 2, 100_000)] {
            let usual = format!("all_reduce:10 all_reduce:{count} all_reduce:10");
            // A root's broadcast, or what reaches a root that is another rank.
            let other = match odd {
                0 => format!("all_reduce:10 broadcast:{count}:f32:0 all_reduce:10"),
                _ => format!("all_reduce:10 reduce:{count}:f32:sum:{} all_reduce:10", n_ranks - 1),
            };
            let name = format!("rank {odd} (host-{}, ", odd / 2 + 1);
            for one in said(&program, [&usual, &other], odd, n_ranks, shm) {
                let case = format!("{other}, rank {odd} of {n_ranks}, shm {shm}: {one}");
                let accused = one.split(" called ").next().unwrap();
                assert!(accused.contains(&name) && !accused.contains(" and rank "), "{case}");
            }
        }
    }
}

/// Who is past a call that another rank never ends waits for that rank in the next one, and nothing reaches either that does not
/// fit.
#[test]
fn the_rank_that_stands_in_its_other_call_is_named() {
    let program = fault_program(&folder("mismatch-stands"));
    let scripts = ["scatter:1:i32:1 all_reduce:10", "broadcast:1000000:i32:1 all_reduce:10"];
    for (n_ranks, shm) in [(4, true), (4, false), (3, true)] {
        for one in said(&program, scripts, 0, n_ranks, shm) {
            let words = "rank 0 (host-1, ";
            let accused = one.split(" called broadcast #0 instead of scatter #0 ").next().unwrap();
            assert!(accused.contains(words) && !accused.contains(" and rank "), "{n_ranks}, {shm}: {one}");
        }
    }
}

#[test]
fn another_count() {
    for (one, other) in [("100", "101"), ("1", "1000"), ("100000", "99999"), ("10", "100000")] {
        check(
            &format!("all_reduce:{one}"),
            &format!("all_reduce:{other}"),
            &["all_reduce #0", "with another count"],
        );
    }
}

#[test]
fn another_type() {
    check("all_reduce:1000:f32", "all_reduce:1000:i32", &["all_reduce #0", "data type"]);
    check("reduce_scatter:50000:f32", "reduce_scatter:50000:u32", &["reduce_scatter #0", "data type"]);
}

#[test]
fn another_operator() {
    check("all_reduce:1000:f32:sum", "all_reduce:1000:f32:max", &["all_reduce #0", "operator"]);
}

/// Each may be a root that only sends: then the next operation finds it out.
#[test]
fn another_root() {
    check("broadcast:50000:f32:0 all_reduce:10", "broadcast:50000:f32:1 all_reduce:10", &["broadcast #0"]);
}

#[test]
fn another_order() {
    let (one, other) = ("all_reduce:1000 all_gather:1000", "all_gather:1000 all_reduce:1000");
    check(one, other, &["all_gather #0", "all_reduce #0"]);
}

/// A call of nothing has no part in the others' operation, so the next one is out of step.
#[test]
fn nothing_on_one_rank() {
    check("all_reduce:1000 all_gather:10", "all_reduce:0 all_gather:10", &["all_reduce #0", "all_gather #0"]);
}
