//! `RSCCL_FAITHFUL=2.28`: a fault of one rank is told to nobody, as in NCCL. The others wait, and the user's abort frees
//! them. Real processes that do what they are told (tests/c/silent.c).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write;
use std::process::Command;

use common::{Job, Rank, compile, folder};

/// How often a rank is asked whether it still waits, a millisecond or more apart: the settings below would have ended the
/// wait after a second.
const ASKS: &str = "1500";
/// How often an error that must come is asked for at most: half a minute.
const MOST_ASKS: &str = "30000";

/// Ranks that have a communicator, or are about to make one.
struct Ranks(Vec<Rank>);

impl Ranks {
    /// Two on each host. Over TCP where a socket is to be seen.
    fn start(name: &str, n_ranks: usize, shm: bool) -> Self {
        let program = folder(&format!("silent-{name}")).join("silent");
        compile("silent.c", &program, &["-lrsccl", "-pthread"]);
        let environment = |_| {
            let all = [
                ("RSCCL_FAITHFUL", "2.28"),
                // Has no effect any more.
                ("RSCCL_TIMEOUT_S", "1"),
                ("RSCCL_SHM_DISABLE", if shm { "0" } else { "1" }),
                ("RSCCL_ALGO", if shm { "" } else { "ring" }),
            ];
            all.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
        };
        let job = Job { program: &program, n_ranks, command: &[], environment: &environment };
        let mut ranks = Self(job.start_with(""));
        // The root has the manners of the process that it lives in.
        let id = ranks.answers(&[0], "id").remove(0);
        let others: Vec<usize> = (1..n_ranks).collect();
        ranks.all_say(&others, &id.replace("ID", "know"), "KNOWN");
        ranks
    }

    /// With a communicator, over which something has gone well.
    fn at_work(name: &str, n_ranks: usize, shm: bool) -> Self {
        let mut ranks = Self::start(name, n_ranks, shm);
        let all: Vec<usize> = (0..n_ranks).collect();
        ranks.all_say(&all, "init", "INIT 7");
        ranks.all_say(&all, "made", "MADE 0");
        ranks.all_say(&all, "all_reduce 100", "CALLED 0");
        ranks.all_say(&all, "done", "DONE 0");
        ranks
    }

    fn tell(&mut self, rank: usize, command: &str) {
        let input = self.0[rank].child.stdin.as_mut().unwrap();
        writeln!(input, "{command}").unwrap();
    }

    /// What the ranks answer to a command that all of them get at once.
    fn answers(&mut self, ranks: &[usize], command: &str) -> Vec<String> {
        ranks.iter().for_each(|rank| self.tell(*rank, command));
        ranks.iter().map(|rank| self.0[*rank].line()).collect()
    }

    fn all_say(&mut self, ranks: &[usize], command: &str, answer: &str) {
        assert_eq!(self.answers(ranks, command), vec![answer; ranks.len()], "{command} of {ranks:?}");
    }

    /// They wait for what they have called, and know of no error.
    fn wait_in_ignorance(&mut self, ranks: &[usize]) {
        self.all_say(ranks, &format!("asks {ASKS}"), "STATE waits 0");
    }

    /// An abort ends what they wait for.
    fn are_freed(&mut self, ranks: &[usize]) {
        self.all_say(ranks, "abort", "ABORTED 0");
        for said in self.answers(ranks, "done") {
            assert_eq!(said, "DONE 6");
        }
    }

    fn signal(&self, rank: usize, name: &str) {
        let pid = self.0[rank].child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn kill(&mut self, rank: usize) {
        self.0[rank].child.kill().unwrap();
        self.0[rank].child.wait().unwrap();
    }

    /// Once a signal has stopped it, the kernel says so.
    fn stop(&self, rank: usize) {
        self.signal(rank, "-STOP");
        let stat = format!("/proc/{}/stat", self.0[rank].child.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
    }
}

#[test]
fn behind_shared_memory_nobody_hears_of_a_death() {
    let mut ranks = Ranks::at_work("kill-shm", 2, true);
    ranks.all_say(&[0], "all_reduce 100000", "CALLED 0");
    ranks.kill(1);
    ranks.wait_in_ignorance(&[0]);
    ranks.are_freed(&[0]);
}

#[test]
fn only_the_neighbours_of_a_dead_rank_see_a_closed_socket() {
    let mut ranks = Ranks::at_work("kill-tcp", 6, false);
    ranks.all_say(&[0, 1, 2, 3, 5], "all_reduce 1000", "CALLED 0");
    ranks.kill(4);
    let alive = [0, 1, 2, 3, 5];
    let all = ranks.answers(&alive, &format!("asks {ASKS}"));
    // Of the ring, the rank that receives from the dead one, and the rank that sends to it if it had something left to
    // send. Neither sends anything on, so the others learn nothing.
    assert!(all.iter().all(|said| said.starts_with("STATE waits ")), "{all:?}");
    let of = |said: &[String], ranks: &[usize]| -> Vec<usize> {
        ranks.iter().zip(said).filter(|(_, said)| said.ends_with(" 6")).map(|(rank, _)| *rank).collect()
    };
    let told = of(&all, &alive);
    assert!(matches!(told.len(), 1 | 2), "{all:?}");
    for said in ranks.answers(&told, &format!("error {MOST_ASKS}")) {
        assert!(said.starts_with("ERROR 6 ") && said.contains("127.0.3."), "{said:?}");
    }
    // Their calls are answered with the error, and what is in flight is in flight until their user aborts. Then their
    // own sockets close, and the ranks next to them know.
    ranks.all_say(&told, "all_reduce 10", "CALLED 6");
    ranks.are_freed(&told);
    let rest: Vec<usize> = alive.into_iter().filter(|rank| !told.contains(rank)).collect();
    let next = ranks.answers(&rest, &format!("asks {ASKS}"));
    assert!(matches!(of(&next, &rest).len(), 1 | 2), "{next:?}");
    ranks.are_freed(&rest);
}

#[test]
fn a_stopped_rank_is_waited_for_until_it_goes_on() {
    for (name, shm) in [("stop-shm", true), ("stop-tcp", false)] {
        let mut ranks = Ranks::at_work(name, 3, shm);
        ranks.stop(2);
        ranks.all_say(&[0, 1], "all_reduce 50000", "CALLED 0");
        ranks.wait_in_ignorance(&[0, 1]);
        ranks.signal(2, "-CONT");
        ranks.all_say(&[2], "all_reduce 50000", "CALLED 0");
        ranks.all_say(&[0, 1, 2], "done", "DONE 0");
    }
}

#[test]
fn a_rank_that_does_not_call_is_waited_for_without_burning_a_core() {
    let mut ranks = Ranks::at_work("absent", 4, true);
    ranks.all_say(&[0, 1, 3], "all_reduce 100000", "CALLED 0");
    ranks.wait_in_ignorance(&[0]);
    let ticks = |said: String| said.strip_prefix("TICKS ").unwrap().parse::<u64>().unwrap();
    let mut used = || ticks(ranks.answers(&[0], "ticks").remove(0));
    let before = used();
    ranks.wait_in_ignorance(&[0]);
    // At least a second and a half in which it only asks, every millisecond.
    let mut used = || ticks(ranks.answers(&[0], "ticks").remove(0));
    let spent = used() - before;
    assert!(spent < 750, "{spent} ms of processor time");
    ranks.are_freed(&[0, 1, 3]);
}

#[test]
fn another_primitive_or_count_hangs_and_tells_nobody() {
    let cases = [
        ("all_reduce 1000", "all_gather 1000"),
        ("all_reduce 100000", "all_reduce 99999"),
        ("all_reduce 100000", "all_reduce 10"),
        ("all_gather 30000", "broadcast 30000 0"),
    ];
    for (shm, way) in [(true, "shm"), (false, "tcp")] {
        for (index, (usual, other)) in cases.into_iter().enumerate() {
            let mut ranks = Ranks::at_work(&format!("mismatch-{way}-{index}"), 3, shm);
            ranks.all_say(&[0, 2], usual, "CALLED 0");
            ranks.all_say(&[1], other, "CALLED 0");
            let said = ranks.answers(&[0, 1, 2], &format!("asks {ASKS}"));
            // Who has all that it needs goes on, and learns as little.
            assert!(said.iter().all(|one| one.ends_with(" 0")), "{usual} and {other}: {said:?}");
            assert!(
                said.iter().filter(|one| *one == "STATE waits 0").count() >= 2,
                "{usual} and {other}: {said:?}"
            );
            ranks.all_say(&[0, 1, 2], "abort", "ABORTED 0");
            ranks.answers(&[0, 1, 2], "done");
        }
    }
}

#[test]
fn another_type_or_operator_gives_garbage_and_no_error() {
    for (shm, way) in [(true, "shm"), (false, "tcp")] {
        for (index, other) in ["all_reduce 70000 i32", "all_reduce 70000 f32 max"].into_iter().enumerate() {
            let mut ranks = Ranks::at_work(&format!("garbage-{way}-{index}"), 3, shm);
            ranks.all_say(&[0, 2], "all_reduce 70000", "CALLED 0");
            ranks.all_say(&[1], other, "CALLED 0");
            ranks.all_say(&[0, 1, 2], "done", "DONE 0");
            ranks.all_say(&[0, 1, 2], "asks 1", "STATE idle 0");
        }
    }
}

#[test]
fn a_receive_without_a_send_waits() {
    let mut ranks = Ranks::at_work("recv", 2, true);
    ranks.all_say(&[0], "recv 1000 1", "CALLED 0");
    ranks.wait_in_ignorance(&[0]);
    ranks.are_freed(&[0]);
}

#[test]
fn an_init_waits_for_a_missing_rank_until_it_comes() {
    let mut ranks = Ranks::start("init", 3, true);
    ranks.all_say(&[0, 2], "init", "INIT 7");
    ranks.all_say(&[0, 2], &format!("asks {ASKS}"), "STATE idle 7");
    ranks.all_say(&[1], "init", "INIT 7");
    ranks.all_say(&[0, 1, 2], "made", "MADE 0");
}

#[test]
fn an_init_without_a_rank_is_freed_by_an_abort() {
    let mut ranks = Ranks::start("init-abort", 3, true);
    ranks.all_say(&[0, 2], "init", "INIT 7");
    ranks.kill(1);
    ranks.all_say(&[0, 2], &format!("asks {ASKS}"), "STATE idle 7");
    ranks.all_say(&[0, 2], "abort", "ABORTED 0");
}

#[test]
fn an_init_of_another_number_of_ranks_waits() {
    let mut ranks = Ranks::start("init-count", 3, true);
    ranks.all_say(&[0, 2], "init", "INIT 7");
    ranks.all_say(&[1], "init 4", "INIT 7");
    ranks.all_say(&[0, 1, 2], &format!("asks {ASKS}"), "STATE idle 7");
    ranks.all_say(&[0, 1, 2], "abort", "ABORTED 0");
}

#[test]
fn a_split_waits_for_a_missing_rank_and_the_parents_abort_frees_it() {
    let mut ranks = Ranks::at_work("split", 3, true);
    ranks.all_say(&[0, 2], "split 0", "SPLIT 7");
    ranks.all_say(&[0, 2], &format!("asks {ASKS}"), "STATE idle 7");
    ranks.all_say(&[0, 2], "abort", "ABORTED 0");
    for said in ranks.answers(&[0, 2], &format!("error {MOST_ASKS}")) {
        assert!(!said.starts_with("ERROR 7") && !said.starts_with("ERROR 0"), "{said}");
    }
}

#[test]
fn a_shrink_that_aborts_leaves_its_parent_as_it_was() {
    let mut ranks = Ranks::at_work("shrink", 3, true);
    ranks.kill(2);
    ranks.all_say(&[0, 1], "shrink 2", "SHRINK 7");
    ranks.all_say(&[0, 1], "made", "MADE 0");
    ranks.all_say(&[0, 1], "parent", "PARENT 0");
}

#[test]
fn a_split_that_fails_is_an_error_of_its_parent_too() {
    let mut ranks = Ranks::at_work("split-dead", 3, true);
    ranks.kill(0);
    ranks.all_say(&[1, 2], "split 0", "SPLIT 7");
    ranks.all_say(&[1, 2], "made", "MADE 6");
    ranks.all_say(&[1, 2], "parent", "PARENT 6");
}

#[test]
fn a_destroy_waits_for_the_ranks_of_its_host_until_one_has_ended() {
    let mut ranks = Ranks::at_work("destroy", 4, true);
    // Alone on its host with rank 3, which does not come; ranks 0 and 1 have no part in that.
    ranks.all_say(&[0, 1, 2], "destroy", "DESTROYING");
    ranks.all_say(&[0, 1], &format!("destroyed {MOST_ASKS}"), "DESTROYED");
    ranks.all_say(&[2], &format!("destroyed {ASKS}"), "STILL");
    ranks.kill(3);
    ranks.all_say(&[2], &format!("destroyed {MOST_ASKS}"), "DESTROYED");
}

#[test]
fn an_abort_and_a_revoke_are_told_to_nobody() {
    for command in ["abort", "revoke"] {
        let mut ranks = Ranks::at_work(&format!("told-{command}"), 2, true);
        ranks.all_say(&[0, 1], "all_reduce 100000", "CALLED 0");
        ranks.all_say(&[0, 1], "done", "DONE 0");
        ranks.all_say(&[0], "all_reduce 100000", "CALLED 0");
        let answer = if command == "abort" { "ABORTED 0" } else { "REVOKED 7" };
        let said = ranks.answers(&[1], command);
        assert!(said[0] == answer || said[0] == "REVOKED 0", "{said:?}");
        ranks.wait_in_ignorance(&[0]);
        ranks.are_freed(&[0]);
    }
}
