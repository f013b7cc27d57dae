//! Workers that are there and do not push: who waits says for whom, and gives up where it is told when.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write;

use common::Rank;
use common::sum::{Group, ask, sum_program};

/// The first line with this in it.
fn line(rank: &mut Rank, text: &str) -> String {
    std::iter::repeat_with(|| rank.line()).find(|line| line.contains(text)).unwrap()
}

#[test]
fn who_never_pushes_is_told_of_and_then_ends_the_group() {
    let program = sum_program("sum-late");
    let group = Group::new(&program, 2, 1);
    // Between the two, a server on a busy machine has time to be asked.
    let limits = [("RSUM_WARN_S", "1"), ("RSUM_TIMEOUT_S", "8")];
    let mut server = group.server(&["--health", "127.0.0.1:0"], &limits);
    let told = server.line();
    let address = told.split("http://").nth(1).unwrap().strip_suffix("/status").unwrap().to_owned();
    let mut late = group.worker(1, &["stall", "0"], &limits);
    let mut first = group.worker(0, &["stop"], &[&limits[..], &[("NCCL_DEBUG", "WARN")]].concat());
    assert_eq!(late.line(), "STALLS");
    let waits = "has not answered for";
    for warned in [&mut server, &mut first] {
        let warning = line(warned, "NCCL WARN");
        assert!(warning.contains("rank 1 (") && warning.contains(waits), "{warning}");
        assert!(warning.ends_with("s: the first round waits for its first push (RSUM_WARN_S)"), "{warning}");
    }
    let status = || serde_json::from_str::<serde_json::Value>(&ask(&address, "/status").1).unwrap();
    // Where the group's thread does not answer at once, nothing is told of the service.
    let status = std::iter::repeat_with(status).find(|status| !status["service"].is_null()).unwrap();
    let waiting = &status["service"]["waiting"];
    assert_eq!((&waiting["phase"], &waiting["workers"]), (&"start".into(), &[1].into()), "{status}");
    assert!(waiting["waited_s"].as_u64() >= Some(1), "{status}");
    let lost = line(&mut first, "LOST");
    assert!(
        lost.contains("rank 1 (") && lost.contains("waits for its first push (RSUM_TIMEOUT_S)"),
        "{lost}"
    );
    assert!(server.rest().contains("rank 1 ("));
}

#[test]
fn who_does_not_leave_is_told_of_and_then_ends_the_group() {
    let program = sum_program("sum-stays");
    let group = Group::new(&program, 2, 1);
    let limits = [("RSUM_WARN_S", "1"), ("RSUM_TIMEOUT_S", "8")];
    let mut server = group.server(&["--health", "127.0.0.1:0"], &limits);
    let told = server.line();
    let address = told.split("http://").nth(1).unwrap().strip_suffix("/status").unwrap().to_owned();
    // As many rounds as the other one, which then leaves.
    let mut late = group.worker(1, &["stall", "5"], &limits);
    let first = group.worker(0, &["sums"], &limits);
    assert_eq!(late.line(), "STALLS");
    let warning = line(&mut server, "NCCL WARN");
    assert!(warning.contains("rank 1 (") && warning.contains("has not answered for"), "{warning}");
    assert!(
        warning.ends_with("others have left the group or declared more, and wait for it (RSUM_WARN_S)"),
        "{warning}"
    );
    let waits = || {
        serde_json::from_str::<serde_json::Value>(&ask(&address, "/status").1).unwrap()["service"]["waiting"]
            .take()
    };
    let waiting = std::iter::repeat_with(waits).find(|waiting| !waiting.is_null()).unwrap();
    assert_eq!((&waiting["phase"], &waiting["workers"]), (&"leave".into(), &[1].into()), "{waiting}");
    let said = first.rest();
    assert!(
        said.contains("ERROR shutdown") && said.contains("rank 1 (") && said.contains("(RSUM_TIMEOUT_S)"),
        "{said}"
    );
    assert!(server.rest().contains("rank 1 ("));
}

#[test]
fn what_a_codec_left_out_of_a_lost_round_counts_once() {
    let program = sum_program("sum-left-out");
    // Of several parts, so that threads encode some and the driver others.
    let settings = [("RSUM_ON_LOSS", "continue"), ("RSUM_WARN_S", "1"), ("RSUM_PARTITION_BYTES", "500000")];
    let run = |is_killed: bool| {
        let group = Group::new(&program, 2, 1);
        let mut server = group.server(&[], &settings);
        let first = group.worker(0, &["left-out"], &settings);
        let mut second = group.worker(1, &["left-out"], &settings);
        assert_eq!(second.line(), "READY");
        if is_killed {
            // By then worker 0 has contributed.
            line(&mut server, "waits for its push");
            server.child.kill().unwrap();
        }
        second.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let said = [first, second].map(Rank::rest);
        let losses = format!("after {} losses\nDONE\n", u8::from(is_killed));
        assert!(said.iter().all(|said| said.ends_with(&losses)), "{said:?}");
        said.map(|said| said.lines().find_map(|line| Some(line.strip_prefix("SUMS ")?[..16].to_owned())))
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn the_others_go_on_without_who_does_not_push() {
    let program = sum_program("sum-stall");
    let group = Group::new(&program, 3, 1);
    // Who is only slow, on a busy machine, has pushed by then.
    let settings = [("RSUM_ON_LOSS", "continue"), ("RSUM_TIMEOUT_S", "5")];
    let server = group.server(&[], &settings);
    let mut late = group.worker(1, &["stall", "2"], &settings);
    let others = [0, 2].map(|worker| group.worker(worker, &["continue"], &settings));
    assert_eq!(late.line(), "STALLS");
    for said in others.map(Rank::rest) {
        let lost = said.lines().find(|line| line.starts_with("LOST")).unwrap();
        assert!(lost.contains("rank 1 (") && lost.contains("waits for its push"), "{said}");
        assert!(said.contains(" of 2, 1 servers, epoch 1\n") && said.ends_with("DONE\n"), "{said}");
    }
    assert!(server.rest().ends_with("the job is over\n"));
}
