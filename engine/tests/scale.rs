//! Hundreds of ranks, as processes or threads (tests/c/scale.c): they begin, sum, split into groups of eight, sum in them
//! and end.
//!
//! `RSCCL_SCALE` is a list of RANKS/HOSTS, or RANKS/HOSTS/threads; without it there are 300 ranks. `cargo xtask scale`
//! prints what they take.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "says what was measured")]

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{compile, folder, library_folder};

/// NICs of each host.
const NICS: &str = "8";
/// For a machine that does much other work: nobody is to be missed here who only comes late.
const TIMEOUT_S: &str = "240";
/// What the program says, under these heads.
const COLUMNS: [(&str, &str); 12] = [
    ("ranks", "ranks"),
    ("hosts", "hosts"),
    ("by", "by"),
    ("init_ms", "init ms"),
    ("sum_ms", "sum ms"),
    ("split_ms", "split ms"),
    ("sum2_ms", "sum in 8 ms"),
    ("destroy_ms", "destroy ms"),
    ("rss_kib", "KiB a rank"),
    ("rss_max_kib", "KiB at most"),
    ("fds", "descriptors"),
    ("fds_split", "of a split"),
];

fn program(name: &str) -> PathBuf {
    let program = folder(name).join("scale");
    compile("scale.c", &program, &["-lrsccl", "-pthread"]);
    program
}

/// What a job of RANKS/HOSTS or RANKS/HOSTS/threads says of itself.
fn run(program: &Path, job: &str) -> HashMap<String, String> {
    let parts: Vec<&str> = job.split('/').collect();
    let by = parts.get(2).copied().unwrap_or("processes");
    run_with(Command::new(program).args([parts[0], parts[1], NICS, by]), job)
}

fn run_with(command: &mut Command, job: &str) -> HashMap<String, String> {
    let output =
        command.env("LD_LIBRARY_PATH", library_folder()).env("RSCCL_TIMEOUT_S", TIMEOUT_S).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{job}: {said}{}", String::from_utf8_lossy(&output.stderr));
    let pairs = said.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[expect(clippy::disallowed_methods, reason = "the test's own setting")]
fn jobs() -> String {
    std::env::var("RSCCL_SCALE").unwrap_or_else(|_| "300/30".to_owned())
}

#[test]
fn hundreds_of_ranks_begin_sum_split_and_end() {
    let program = program("scale");
    let jobs = jobs();
    println!("{}", COLUMNS.map(|(_, head)| head).join(" | "));
    for job in jobs.split(',') {
        let said = run(&program, job);
        println!("{}", COLUMNS.map(|(name, _)| said[name].clone()).join(" | "));
    }
}

/// Two for each other rank of the host, one control connection for each on rank 0, four of its own, and five that the process has
/// once; no listener of a NIC.
const FEW: usize = 7 * 3 + 4 + 5;
/// Those of a split, on its rank 0: control connections, its memory and what wakes its watcher. All else it shares.
const FEW_OF_SPLIT: usize = 7 + 2;

#[test]
fn ranks_of_one_host_need_few_descriptors() {
    let program = program("scale-descriptors");
    let mut command = Command::new(program);
    command.args(["8", "1", NICS, "processes"]);
    command.env("FEW", FEW.to_string()).env("FEW_OF_SPLIT", FEW_OF_SPLIT.to_string());
    let said = run_with(&mut command, "8/1");
    assert!(said["fds"].parse::<usize>().unwrap() <= FEW, "{said:?}");
    assert!(said["fds_split"].parse::<usize>().unwrap() <= FEW_OF_SPLIT, "{said:?}");
}

/// What a process may have by default: once it was used up by these.
const USUAL_FILES: &str = "1024";

#[test]
fn many_splits_of_eight_ranks_fit_the_usual_limit() {
    let program = program("scale-splits");
    run_with(
        Command::new(program).args(["8", "1", NICS, "processes", "8", "28"]).env("FILES", USUAL_FILES),
        "",
    );
}

#[test]
fn a_large_host_is_split_twice_within_the_usual_limit() {
    let program = program("scale-twice");
    run_with(
        Command::new(program).args(["64", "1", NICS, "processes", "64", "1"]).env("FILES", USUAL_FILES),
        "",
    );
}

#[test]
fn ranks_may_be_threads_of_one_process() {
    let said = run(&program("scale-threads"), "48/6/threads");
    assert_eq!((said["ranks"].as_str(), said["by"].as_str()), ("48", "threads"));
}
