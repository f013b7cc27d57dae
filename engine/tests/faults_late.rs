//! Ranks that do not come, while their processes live: named within the timeout, and not their neighbours.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{Job, Rank, fault_program, folder};

/// Init and every live rank have so long, also on a machine that does much other work.
const TIMEOUT: Duration = Duration::from_secs(6);
/// What such a machine may take longer.
const LOAD_WAIT: Duration = Duration::from_secs(60);

/// Ranks of which some wait for those that are absent.
struct Late {
    ranks: Vec<Rank>,
    absent: Vec<usize>,
    since: Instant,
}

/// Each rank with its script; those that are absent have paused.
fn start(program: &Path, scripts: &[&str], absent: &[usize], environment: &[(&str, &str)]) -> Late {
    let timeout = TIMEOUT.as_secs().to_string();
    let environment = |rank: usize| {
        let limits = [("RSCCL_TIMEOUT_S", timeout.as_str()), ("RSCCL_STALL_TIMEOUT_S", timeout.as_str())];
        let own = [limits[0], limits[1], ("SCRIPT", scripts[rank])];
        let all = own.iter().chain(environment);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let n_ranks = scripts.len();
    let job = Job { program, n_ranks, command: &["script"], environment: &environment };
    let mut ranks = job.start();
    for rank in absent {
        assert_eq!(ranks[*rank].line(), "PAUSED");
    }
    #[expect(clippy::disallowed_methods, reason = "the time to an error is what the test is about")]
    let since = Instant::now();
    Late { ranks, absent: absent.to_vec(), since }
}

impl Late {
    /// What the ranks other than the absent ones say.
    fn said(mut self) -> Vec<String> {
        let mut said = Vec::new();
        let ranks = self.ranks.iter_mut().enumerate();
        for (index, rank) in ranks.filter(|(index, _)| !self.absent.contains(index)) {
            said.push(rank.line());
            assert_eq!(rank.line(), "CLEAN", "rank {index}");
        }
        assert!(self.since.elapsed() < TIMEOUT + LOAD_WAIT, "{:?}: {said:?}", self.since.elapsed());
        self.ranks.into_iter().for_each(end);
        said
    }
}

fn end(mut rank: Rank) {
    let _ = rank.child.kill();
    rank.rest();
}

const OVER_TCP: [(&str, &str); 1] = [("RSCCL_SHM_DISABLE", "1")];

#[test]
fn the_rank_that_does_not_call_is_named() {
    let program = fault_program(&folder("late"));
    // Jobs start one after another, and wait at the same time.
    let mut jobs = Vec::new();
    for environment in [&[][..], &OVER_TCP[..]] {
        for (size, absent) in [("10", 3), ("200000", 0), ("200000", 2)] {
            let work = format!("all_reduce:5 all_reduce:{size} all_reduce:{size}");
            let pause = format!("all_reduce:5 all_reduce:{size} pause");
            let scripts: Vec<&str> =
                (0..4).map(|rank| if rank == absent { pause.as_str() } else { work.as_str() }).collect();
            jobs.push((absent, start(&program, &scripts, &[absent], environment)));
        }
    }
    for (absent, job) in jobs {
        let host = absent / 2 + 1;
        let expected =
            format!("rank {absent} (host-{host}, 127.0.{host}.1) has not called all_reduce #2: rank ");
        for one in job.said() {
            assert!(one.starts_with("ERROR 6 all_reduce #2 on comm ") && one.contains(&expected), "{one}");
        }
    }
}

#[test]
fn all_ranks_that_do_not_call_are_named() {
    let work = "all_reduce:5 broadcast:300000:f32:1";
    let scripts = [work, "all_reduce:5 pause", work, work, "all_reduce:5 pause"];
    for one in start(&fault_program(&folder("late-two")), &scripts, &[1, 4], &[]).said() {
        // The root of a broadcast waits for who is behind it alone, so one of them may be enough to explain it.
        assert!(one.starts_with("ERROR 6 broadcast #1 on comm "), "{one}");
        assert!(one.contains(" has not called broadcast #1: rank "), "{one}");
        assert!(one.contains("rank 1 (host-1, ") || one.contains("rank 4 (host-3, "), "{one}");
    }
}

#[test]
fn a_receive_without_a_send_names_both() {
    let program = fault_program(&folder("late-recv"));
    for one in start(&program, &["recv:70000:1", "all_reduce:5"], &[], &OVER_TCP).said() {
        let circle = "ranks wait for each other: rank 0 (host-1, 127.0.1.1) in recv #0 for rank 1; \
            rank 1 (host-1, 127.0.1.1) in all_reduce #0 for rank 0";
        assert!(one.starts_with("ERROR 6 ") && one.contains(circle), "{one}");
    }
}
