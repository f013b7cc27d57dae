//! What users ask of NCCL's log, they get as if ringscope were not there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::build::Built;
use crate::common::TempDir;
use crate::common::stage::faithful;
use crate::job::pipe;

/// What rank 0 of a job says on standard output, each line without what differs from run to run.
fn said(built: &Built, launcher: &dyn Fn() -> Command, settings: &[(&str, &str)]) -> Vec<String> {
    let dir = TempDir::new("loading-log");
    let pipes = dir.join("pipe");
    let _open = pipe(&format!("{}0", pipes.display()));
    let start = |rank: usize| -> Child {
        let mut command = launcher();
        command.arg(built.path("linked")).arg(rank.to_string()).arg(&pipes);
        command.env("LD_LIBRARY_PATH", &built.dir.0).env("RSCCL_NICS", "eth0=127.0.0.1");
        command.env("RSCCL_FAITHFUL", faithful());
        command.envs(settings.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let ranks = [start(0), start(1)];
    let outputs = ranks.map(|rank| rank.wait_with_output().unwrap());
    assert!(outputs.iter().all(|output| output.status.success()), "{settings:?}");
    let text = String::from_utf8(outputs[0].stdout.clone()).unwrap();
    // What ringscope sets is in the log as set, and so is that it is the plugin.
    let is_own = |line: &&str| {
        line.contains(" set by environment to ")
            || line.contains(" profiler plugin ")
            || line.contains("Profiler event mask: ")
            || line.contains("PROFILER/Plugin: ")
    };
    text.lines().filter(|line| !is_own(line)).map(plain).collect()
}

/// Without process ids, thread ids, addresses, hashes and times.
fn plain(line: &str) -> String {
    let line = line.split_once(" NCCL ").map_or(line, |(_, said)| said);
    let is_timed = line.contains("Init timings");
    let line = line.split_once(" total ").filter(|_| is_timed).map_or(line, |(who, _)| who);
    let words = line.split(' ').map(|word| if word.starts_with("0x") { "0x" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn check(built: &Built, settings: &[(&str, &str)], parts: &[&str], absent: &[&str]) {
    let segments = TempDir::new_in(Path::new("/dev/shm"), "loading-log");
    let without = said(built, &|| crate::plain("env"), settings);
    let with_ringscope = || {
        let mut command = crate::ringscope(&["run", "--dir"]);
        command.arg(&segments.0).arg("--");
        command
    };
    let mut with = said(built, &with_ringscope, settings);
    let mut expected = without.clone();
    expected.sort();
    with.sort();
    assert_eq!(with, expected, "{settings:?}");
    let text = with.join("\n");
    assert!(parts.iter().all(|part| text.contains(part)), "{settings:?}: {text}");
    assert!(!absent.iter().any(|part| text.contains(part)), "{settings:?}: {text}");
    let paths = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let mine = paths(&segments.0).into_iter().find(|path| path.is_dir()).unwrap();
    let logs: Vec<_> =
        paths(&mine).into_iter().filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    assert_eq!(logs.len(), 2, "{settings:?}");
    for log in logs {
        let text = std::fs::read_to_string(log).unwrap();
        assert!(text.contains("NCCL INFO Ring 00 :") && text.contains("Init COMPLETE"), "{text}");
    }
}

/// The same lines with and without, and the private log has the rings all the same.
pub(crate) fn is_what_it_would_be_without_ringscope(built: &Built) {
    check(built, &[], &["TRAINED"], &["NCCL"]);
    check(built, &[("NCCL_DEBUG", "VERSION")], &["NCCL version 2."], &["INFO"]);
    check(built, &[("NCCL_DEBUG", "WARN")], &["NCCL version 2."], &["INFO"]);
    check(built, &[("NCCL_DEBUG", "INFO")], &["Init COMPLETE", "INFO NCCL version"], &["Ring 00", "Pattern"]);
    let graph = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "GRAPH")];
    check(built, &graph, &["Ring 00", "Pattern 4"], &["Init COMPLETE"]);
    check(built, &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "NET")], &["NET/Socket"], &["Ring 00"]);
    check(built, &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "^GRAPH")], &["Init START"], &["Ring 00"]);
}
