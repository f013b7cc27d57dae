//! Communicators from birth to death, as real processes (tests/c/lifecycle.c).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write;

use common::{Job, compile, folder, plain};

/// What each rank says to `command`.
fn said(command: &str, n_ranks: usize) -> Vec<String> {
    let program = folder(&format!("lifecycle-{command}")).join("lifecycle");
    compile("lifecycle.c", &program, &["-lrsccl", "-pthread"]);
    let job = Job { program: &program, n_ranks, command: &[command], environment: &plain };
    job.start().into_iter().map(common::Rank::rest).collect()
}

fn all_done(command: &str, n_ranks: usize) {
    assert_eq!(said(command, n_ranks), vec!["DONE\n"; n_ranks], "{command} of {n_ranks} ranks");
}

#[test]
fn communicators_are_made_in_the_background() {
    all_done("background", 4);
}

#[test]
fn an_init_is_aborted() {
    all_done("abort-init", 1);
}

#[test]
fn a_communicator_shrinks_around_a_dead_rank() {
    assert_eq!(said("shrink-dead", 4), ["DONE\n", "DONE\n", "DONE\n", ""]);
}

#[test]
fn a_forked_child_takes_nothing_from_its_parent() {
    all_done("forked", 2);
}

#[test]
fn a_revoked_communicator_can_be_split() {
    all_done("revoke", 3);
}

#[test]
fn another_thread_aborts_an_operation() {
    all_done("abort-operation", 2);
}

#[test]
fn an_abort_does_not_wait_for_what_is_before_it_on_a_stream() {
    all_done("abort-behind", 2);
}

#[test]
fn a_full_stream_holds_up_no_other_thread() {
    all_done("full-stream", 1);
}

#[test]
fn several_communicators_and_streams_in_any_order() {
    all_done("several", 3);
}

#[test]
fn in_the_faithful_mode_the_communicators_of_a_group_take_turns_on_a_stream() {
    let program = folder("lifecycle-in-turn").join("lifecycle");
    compile("lifecycle.c", &program, &["-lrsccl", "-pthread"]);
    let environment = |rank| [plain(rank), vec![("RSCCL_FAITHFUL".to_owned(), "2.28".to_owned())]].concat();
    let job = Job { program: &program, n_ranks: 4, command: &["in-turn"], environment: &environment };
    let said: Vec<String> = job.start().into_iter().map(common::Rank::rest).collect();
    assert_eq!(said, ["DONE\n"; 4]);
}

#[test]
fn one_process_is_all_ranks() {
    all_done("init-all", 1);
}

#[test]
fn a_group_of_inits_begins_with_all_its_threads_or_not_at_all() {
    for faithful in [None, Some(("RSCCL_FAITHFUL", "2.28"))] {
        let program = folder(&format!("lifecycle-threads-{}", faithful.is_some())).join("threads");
        compile("threads.c", &program, &["-lrsccl", "-pthread", "-ldl"]);
        let environment = |rank| {
            plain(rank).into_iter().chain(faithful.map(|(k, v)| (k.to_owned(), v.to_owned()))).collect()
        };
        let job = Job { program: &program, n_ranks: 1, command: &["threads"], environment: &environment };
        assert_eq!(job.start().remove(0).rest(), "DONE\n", "{faithful:?}");
    }
}

#[test]
fn a_death_after_rank_0_has_left_is_noticed_over_shared_memory() {
    let program = folder("lifecycle-late-death").join("lifecycle");
    compile("lifecycle.c", &program, &["-lrsccl", "-pthread"]);
    let one_host = |_| vec![("RSCCL_HOST".to_owned(), "host-1".to_owned())];
    let job = Job { program: &program, n_ranks: 3, command: &["late-death"], environment: &one_host };
    let mut ranks = job.start().into_iter();
    let (first, mut second, mut last) = (ranks.next().unwrap(), ranks.next().unwrap(), ranks.next().unwrap());
    assert_eq!(first.rest(), "DONE\n");
    assert_eq!(second.line(), "SUMMED");
    last.child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let said = second.rest();
    assert!(said.starts_with("ERROR 6 ") && said.contains("rank 2 (host-1"), "{said}");
    assert!(said.contains("closed the connection"), "{said}");
}

#[test]
fn an_abort_of_a_split_after_its_rank_0_has_left_is_noticed() {
    let program = folder("lifecycle-late-abort").join("lifecycle");
    compile("lifecycle.c", &program, &["-lrsccl", "-pthread"]);
    // Nobody's silence or stillness may be what ends the wait.
    let one_host = |_| {
        let pairs = [("RSCCL_HOST", "host-1"), ("RSCCL_TIMEOUT_S", "100")];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    };
    let job = Job { program: &program, n_ranks: 3, command: &["late-abort"], environment: &one_host };
    let mut ranks = job.start();
    ranks[2].child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let said: Vec<String> = ranks.into_iter().map(common::Rank::rest).collect();
    assert!(said[1].starts_with("ERROR 6 ") && said[1].contains("rank 2 (host-1"), "{said:?}");
    assert!(said.iter().all(|said| said.ends_with("DONE\n")), "{said:?}");
}

#[test]
fn a_soft_limit_of_files_is_no_limit_of_communicators() {
    all_done("many-files", 3);
}

/// Whichever descriptor is the first that it cannot have: limits that follow each other end in different places.
#[test]
fn a_rank_that_can_open_no_more_files_says_so() {
    let program = folder("lifecycle-too-many-files").join("lifecycle");
    compile("lifecycle.c", &program, &["-lrsccl", "-pthread"]);
    for (files, no_memory) in (90..110).flat_map(|files| [(files, "0"), (files, "1")]) {
        let environment = |_| {
            let pairs = [("FILES", files.to_string()), ("RSCCL_SHM_DISABLE", no_memory.to_owned())];
            pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
        };
        let job =
            Job { program: &program, n_ranks: 2, command: &["too-many-files"], environment: &environment };
        let said: Vec<String> = job.start().into_iter().map(common::Rank::rest).collect();
        let full = said[0].starts_with("ERROR ")
            && said[0].contains("Too many open files")
            && said[0].contains("ulimit -Hn");
        assert!(full && said[1].starts_with("ERROR "), "{files} files, {no_memory}: {said:?}");
    }
}

#[test]
fn nothing_stays_open() {
    all_done("leaks", 3);
}

#[test]
fn mistakes_are_named() {
    for n_ranks in [2, 3] {
        all_done("mistakes", n_ranks);
    }
}
