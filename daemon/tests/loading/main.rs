//! Every way in which a program can come to NCCL, times every way in which ringscope can come to the program: what is
//! seen, and that what is not seen is said. `RINGSCOPE_BLESS=1` writes docs/loading.md anew.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod build;
mod job;
mod live;
mod log;

use std::fmt::Write as _;
use std::process::Command;

use build::Built;
use common::daemon::Daemon;
use common::stage::RINGSCOPE;
use job::{Job, Seen};
use live::Live;

/// How a program comes to NCCL.
struct Program {
    name: &'static str,
    example: &'static str,
    words: Vec<String>,
    rest: Vec<String>,
    n_communicators: usize,
    /// Whether its calls are seen, by way of `WAYS`.
    calls_seen: [bool; 3],
    /// Exit status of `ringscope doctor` before the run, by way of `WAYS`.
    told_before: [i32; 3],
}

/// How ringscope comes to the program.
const WAYS: [(&str, &[&str]); 3] =
    [("`run`", &[]), ("`run --shim`", &["--shim"]), ("`run --plugin-only`", &["--plugin-only"])];

/// How the daemon says that calls are not seen, and that rings are not.
const BYPASS: &str = "calls bypass the collector";
const NO_LOG: &str = "the library's log says nothing of it";

/// Bytes that a rank sums on each of its communicators.
const BYTES: u64 = 256 * 4;

fn programs(built: &Built) -> Vec<Program> {
    let main = || vec![built.path("main")];
    let library = |flag: &str, name: &str| vec![flag.to_owned(), built.path(name)];
    let python = vec!["python3".to_owned(), build::sources_dir().join("job.py").display().to_string()];
    let program = |name, example, words, rest, calls_seen, told_before| Program {
        name,
        example,
        words,
        rest,
        n_communicators: 1,
        calls_seen,
        told_before,
    };
    let (yes, by_shim, no) = ([true, true, false], [false, true, false], [false; 3]);
    vec![
        program("linked", "nccl-tests", vec![built.path("linked")], vec![], yes, [0, 0, 2]),
        program(
            "`RTLD_LOCAL` dlopen of a library that needs it",
            "`import torch`",
            main(),
            library("local", "libframework.so"),
            yes,
            [2, 0, 2],
        ),
        program("ctypes", "vLLM's and SGLang's pynccl", python, vec![], by_shim, [2, 0, 2]),
        program("dlopen and dlsym", "JAX, CuPy", vec![built.path("by-dlsym")], vec![], by_shim, [2, 0, 2]),
        program(
            "`RTLD_DEEPBIND` dlopen of a library that needs it",
            "some plugin hosts",
            main(),
            library("deepbind", "libframework.so"),
            by_shim,
            [2, 0, 2],
        ),
        program(
            "static copy, exported",
            "PyTorch 1.x wheels, conda",
            main(),
            library("local", "libexported.so"),
            yes,
            [2, 0, 2],
        ),
        program("static copy, hidden", "TensorFlow", main(), library("local", "libhidden.so"), no, [2, 2, 2]),
        Program {
            n_communicators: 2,
            ..program(
                "two copies, one static",
                "TensorFlow beside PyTorch",
                main(),
                [library("local", "libframework.so"), library("local", "libexported.so")].concat(),
                yes,
                [2, 0, 2],
            )
        },
        program(
            "dlopen by an absolute path",
            "`VLLM_NCCL_SO_PATH`",
            vec![built.path("by-path")],
            vec![],
            no,
            [2, 0, 2],
        ),
    ]
}

/// `ringscope` without what the test's own environment may say.
fn ringscope(args: &[&str]) -> Command {
    let mut command = plain(RINGSCOPE);
    command.args(args);
    command
}

/// Another program, likewise.
fn plain(program: &str) -> Command {
    let mut command = Command::new(program);
    for variable in
        ["LD_PRELOAD", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_PROFILER_PLUGIN"]
    {
        command.env_remove(variable);
    }
    command
}

#[test]
fn the_users_log_is_what_it_would_be_without_ringscope() {
    log::is_what_it_would_be_without_ringscope(&Built::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_of_loading_is_seen_or_said_not_to_be() {
    let built = Built::new();
    let daemon = Daemon::ready("none").await;
    let mut n_cells = 0;
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for program in programs(&built) {
        let mut row = format!("| {} | {} |", program.name, program.example);
        for (index, (name, way)) in WAYS.iter().enumerate() {
            let told = tell_before(&built, &program, way);
            let cell = format!("{} by {name}", program.name);
            let mut expect = |holds: bool, what: String| {
                if !holds {
                    wrong.push(format!("{cell}: {what}"));
                }
            };
            let expected = program.told_before[index];
            expect(told == expected, format!("doctor before the run ends with {told}, not {expected}"));
            let (words, rest) = (&program.words, &program.rest);
            n_cells += 1;
            let id = format!("cell-{n_cells}");
            let job = match Job::start(&built, &id, way, words, rest, program.n_communicators) {
                Ok(job) => job,
                Err(error) => {
                    expect(false, error);
                    continue;
                }
            };
            let seen = job.seen().await;
            let expected = expected_of(&program, program.calls_seen[index]);
            expect(seen == expected, format!("{seen:?}, not {expected:?}"));
            let (report, problems) = ask_beside(&job, program.calls_seen[index]);
            expect(problems.is_empty(), format!("{}: {report:#}", problems.join(", ")));
            let live = Live::new(&daemon, job, id);
            let calls_seen = program.calls_seen[index];
            let lacks = live.lacks(&daemon, program.n_communicators, calls_seen).await;
            // Under the shim the second library's calls go to the first copy.
            let loses_log = program.n_communicators > 1 && !way.contains(&"--shim");
            let lacking = [(!calls_seen, BYPASS), (loses_log, NO_LOG)];
            let lacking: Vec<&str> =
                lacking.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
            let is_said = |what: &str| lacks.iter().any(|lack| lack.starts_with(what));
            let holds = lacking.iter().all(|what| is_said(what)) && lacks.is_empty() == lacking.is_empty();
            expect(holds, format!("the page says {lacks:?}, not {lacking:?}"));
            live.end().await;
            let calls = if seen.by_calls > 0 { "calls, " } else { "" };
            let told = if lacks.is_empty() { "" } else { "; *partly seen*" };
            let rings = if loses_log { "rings of one copy" } else { "rings" };
            write!(row, " {calls}completion, {rings}{told} |").unwrap();
        }
        table.push_str(&row);
        table.push('\n');
    }
    daemon.stop().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    check_document(&table);
}

/// Whatever the way: the library's own plugin interface tells of every communicator and of all that is done.
fn expected_of(program: &Program, calls_seen: bool) -> Seen {
    let n = 2 * program.n_communicators;
    let bytes = n as u64 * BYTES;
    let by_calls = if calls_seen { n } else { 0 };
    Seen { by_calls, by_plugin: n, issued_bytes: bytes, completed_bytes: bytes }
}

/// Exit status of the doctor before the run.
fn tell_before(built: &Built, program: &Program, way: &[&str]) -> i32 {
    let mut command = ringscope(&["doctor"]);
    command.args(way).arg("--").args(&program.words).args(["0", "pipe"]).args(&program.rest);
    let output = command.env("LD_LIBRARY_PATH", &built.dir.0).output().unwrap();
    output.status.code().unwrap()
}

/// Beside the run the doctor says what is not seen, and what to do: its report, and what is wrong with it.
fn ask_beside(job: &Job, calls_seen: bool) -> (serde_json::Value, Vec<&'static str>) {
    let output = ringscope(&["doctor", "--json", "--pid", &job.pid().to_string()]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let sees = |source: &str| {
        let sources = report["sources"].as_array().unwrap();
        let found = sources.iter().find(|one| one["source"] == source).unwrap();
        found["sees"].as_str().unwrap().to_owned()
    };
    let is_empty = |list: &str| report[list].as_array().unwrap().is_empty();
    let rules = [
        (sees("calls") == if calls_seen { "yes" } else { "no" }, "calls"),
        (sees("completion") == "yes", "completion"),
        (sees("rings") == "yes", "rings"),
        (output.status.code() == Some(if calls_seen { 0 } else { 2 }), "exit status"),
        (is_empty("advice") == calls_seen, "advice"),
        (!is_empty("copies"), "copies"),
    ];
    let problems = rules.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect();
    (report, problems)
}

#[expect(clippy::disallowed_methods, reason = "blessing is asked for by the environment")]
fn check_document(table: &str) {
    let path = build::root().join("docs/loading.md");
    let text = format!("{}{table}{}", include_str!("head.md"), include_str!("tail.md"));
    if std::env::var_os("RINGSCOPE_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/loading.md is not what was measured: run this test with RINGSCOPE_BLESS=1\n{text}"
    );
}
