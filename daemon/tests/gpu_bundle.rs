//! The scripts that hold ringscope against NCCL on a GPU, run to their last line against the engine.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringscope_daemon::embedded::{self, Library};
use serde_json::Value;

use common::TempDir;
use common::stage::RINGSCOPE;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu")
}

/// Runs `gpu/run.sh` on a bundle of what was built here, and gives its exit status, its words and its report.
fn run(dir: &Path, bundle: &Path, arguments: &[&str]) -> (Option<i32>, String, Option<Value>) {
    let out = dir.join("report");
    let mut command = Command::new(scripts().join("run.sh"));
    command.args(arguments).arg("--bundle").arg(bundle).arg("--out").arg(&out);
    let output = command.output().unwrap();
    let words =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read(out.join("report.json")).ok();
    (output.status.code(), words, report.map(|bytes| serde_json::from_slice(&bytes).unwrap()))
}

fn bundle(dir: &Path, engine: &Path) -> PathBuf {
    let bundle = dir.join("bundle");
    std::fs::create_dir(&bundle).unwrap();
    symlink(RINGSCOPE, bundle.join("ringscope")).unwrap();
    symlink(engine, bundle.join("librsccl.so")).unwrap();
    bundle
}

fn items<'a>(report: &'a Value, what: &str) -> &'a [Value] {
    report[what].as_array().unwrap_or_else(|| panic!("the report has no {what}"))
}

#[test]
fn every_scenario_that_the_engine_allows_passes_and_every_other_says_why_not() {
    let dir = TempDir::new("gpu-bundle");
    let engine = embedded::path_of(Library::Engine, &dir.join("cache")).unwrap();
    let (status, words, report) = run(&dir, &bundle(&dir, &engine), &["--engine", "--quick"]);
    let report = report.unwrap_or_else(|| panic!("no report: {words}"));
    assert_eq!((status, &report["ok"]), (Some(0), &Value::Bool(true)), "{words}");

    let mut passed = BTreeSet::new();
    for scenario in items(&report, "scenarios") {
        let name = (scenario["scenario"].as_str().unwrap(), scenario["mode"].as_str().unwrap_or_default());
        let checks = scenario["checks"].as_array().unwrap();
        match scenario["status"].as_str().unwrap() {
            "passed" => {
                assert!(!checks.is_empty(), "{name:?} passed without a check");
                passed.insert(name);
            }
            "not_run" => assert!(scenario["reason"].is_string(), "{name:?} does not say why it was not run"),
            other => panic!("{name:?}: {other}"),
        }
    }
    let four_nodes = ["neither", "plugin", "preload", "both", "shim"].map(|mode| ("four-nodes", mode));
    let others = [
        ("network-steps", "both"),
        ("two-by-two", "plugin"),
        ("two-by-two", "both"),
        ("unequal-init", "both"),
        ("overhead", ""),
    ];
    let hangs = ["hang-calls-abort", "hang-calls-exit"]
        .into_iter()
        .flat_map(|name| ["neither", "plugin", "preload", "both"].map(|mode| (name, mode)));
    assert_eq!(passed, four_nodes.into_iter().chain(others).chain(hangs).collect());

    let overhead: BTreeSet<_> =
        items(&report, "overhead").iter().map(|row| row["mode"].as_str().unwrap()).collect();
    assert_eq!(overhead, BTreeSet::from(["neither", "plugin", "preload", "both"]));
    assert!(items(&report, "overhead").iter().all(|row| row["done_s"].as_f64().unwrap() > 0.0));
    for spot in items(&report, "blind_spots") {
        let answer = spot["answer"].as_str().unwrap();
        assert!(["yes", "no", "not_applicable"].contains(&answer), "{spot}");
        assert!(!spot["evidence"].as_str().unwrap().is_empty(), "{spot}");
    }
    assert!(items(&report, "blind_spots").len() >= 12);
    let page = std::fs::read_to_string(dir.join("report/report.md")).unwrap();
    assert!(page.contains("checks passed.") && page.contains("## Blind spots"), "{page}");
}

#[test]
fn a_failed_check_is_the_exit_status_and_stands_first() {
    let dir = TempDir::new("gpu-report");
    let script = format!(
        "import sys; sys.path.insert(0, {:?}); from report import Report\n\
         r = Report({{'machine': 'x'}}, True, 1); r.add('one', 'both').equal('calls', 3, 4); r.write({:?})",
        scripts().display().to_string(),
        dir.display().to_string()
    );
    let status = Command::new("python3").args(["-B", "-c", &script]).status().unwrap();
    assert!(status.success());
    let page = std::fs::read_to_string(dir.join("report.md")).unwrap();
    let first = page.lines().nth(2).unwrap();
    assert_eq!(first, "**1 checks failed:**");
    assert!(page.contains("- one / both: calls: found `3`, wanted `4`"), "{page}");
}

/// The machine on which the scripts run one day has its own Python.
#[test]
fn the_scripts_are_of_python_3_8() {
    let code = "import ast, sys\nfor path in sys.argv[1:]: ast.parse(open(path).read(), path, feature_version=(3, 8))";
    let files = std::fs::read_dir(scripts()).unwrap().map(|entry| entry.unwrap().path());
    let scripts: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "py")).collect();
    assert!(scripts.len() > 10);
    let output = Command::new("python3").args(["-c", code]).args(scripts).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_machine_without_what_is_needed_is_told() {
    let dir = TempDir::new("gpu-nothing");
    let bundle = bundle(&dir, Path::new("/nonexistent/librsccl.so"));
    let (status, words, report) = run(&dir, &bundle, &["--engine", "--quick"]);
    assert_eq!(status, Some(64), "{words}");
    assert!(
        words.contains("run.sh: probe: rank 0 ended with 1:") && words.contains("libnccl.so.2"),
        "{words}"
    );
    assert!(report.is_none());
}

/// The CUDA half of the scripts against a stand-in: every function is called with the arguments of CUDA's headers, and a
/// graph's results are right only if its replays did the work.
#[test]
fn a_rank_on_cuda_verifies_eager_calls_and_graph_replays() {
    let dir = TempDir::new("gpu-cuda");
    let engine = embedded::path_of(Library::Engine, &dir.join("cache")).unwrap();
    let stub = dir.join("libnccl.so.2");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnccl.so.2", "-Wl,--no-as-needed"])
        .arg(manifest.join("tests/gpu_stub/cuda.c"))
        .arg("-I")
        .arg(manifest.join("../engine/include"))
        .arg(&engine)
        .arg("-o")
        .arg(&stub)
        .args(["-ldl", &format!("-Wl,-rpath,{}", engine.parent().unwrap().display())])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));

    let plan = serde_json::json!({
        "dir": &*dir, "n_ranks": 2, "device": "cuda", "library": "libnccl.so.2", "reach": "linked", "cudart": stub,
        "steps": [
            {"step": "eager", "primitives": ["all_reduce", "broadcast", "send_recv"], "count": 1024, "rounds": 2},
            {"step": "group", "primitives": ["all_reduce", "all_gather"], "count": 1024, "rounds": 1},
            {"step": "graph", "primitives": ["all_reduce", "all_reduce"], "count": 1024, "replays": 10},
            {"step": "hang", "count": 1024, "fill": "memsets"},
        ],
        "leave": "abort",
    });
    std::fs::write(dir.join("plan.json"), plan.to_string()).unwrap();
    let ranks = [0, 1].map(|rank: u32| {
        let mut command = Command::new("python3");
        command.arg("-B").arg(scripts().join("worker.py")).arg(dir.join("plan.json"));
        command.env("RANK", rank.to_string()).env("LD_LIBRARY_PATH", &*dir);
        command.env("RSCCL_NICS", format!("nic0=127.2.9.{}", rank + 1));
        command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for (rank, process) in ranks.into_iter().enumerate() {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = std::fs::read(dir.join(format!("rank-{rank}.json"))).unwrap();
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!((&said["wrong"], &said["not_run"]), (&serde_json::json!([]), &serde_json::json!([])));
        assert_eq!(said["n_verified"], 7);
        assert_eq!(said["captured"]["all_reduce"]["calls"], 2);
        assert_eq!(said["issued"]["all_reduce"]["calls"], 3);
        let device = serde_json::json!({
            "device": "cuda", "cuda_driver": "13.0", "cuda_runtime": "12.8", "compute_capability": "9.0",
        });
        assert_eq!(said["device"], device);
    }
}
