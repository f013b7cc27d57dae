//! Which of the library's functions have a wrapper, against the lists of what its versions export.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::library;

/// Exported functions that start no work and change no communicator, with what they do instead.
const START_NO_WORK: &[(&str, &[&str])] = &[
    ("asks the library", &["ncclGetVersion", "ncclGetErrorString", "ncclGetLastError", "ncclParam*"]),
    ("makes an id", &["ncclGetUniqueId", "ncclCommGetUniqueId"]),
    (
        "asks of a communicator",
        &[
            "ncclCommCount",
            "ncclCommCuDevice",
            "ncclCommUserRank",
            "ncclCommMemStats",
            "ncclCommQueryProperties",
        ],
    ),
    ("makes or drops an operator", &["ncclRedOpCreatePreMulSum", "ncclRedOpDestroy"]),
    ("gives back memory whose registration was counted", &["ncclMemFree"]),
    ("sets the library up", &["ncclResetDebugInit", "ncclResetDebugInitInternal", "ncclSetEncryption"]),
    // No call is taken meanwhile, and none changes.
    ("lets go of a communicator's memory for a while", &["ncclCommSuspend", "ncclCommResume"]),
    (
        "prepares communication that kernels start themselves, which no call on the host shows",
        &[
            "ncclDevCommCreate",
            "ncclDevCommDestroy",
            "ncclWinGetUserPtr",
            "ncclGet*DevicePointer",
            "ncclGet*DeviceLeInfo",
            "ncclTeam*",
            "nccl*CreateRequirement",
            "ncclLLA2ACalcSlots",
        ],
    ),
];

fn lists() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nccl-symbols")
}

/// Names in a list: the last word of each line that is no comment.
fn names(list: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(lists().join(list)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

/// The functions that an application calls, without their second names.
pub(crate) fn exported_by(version: &str) -> BTreeSet<String> {
    names(&format!("{version}.txt")).into_iter().filter(|name| name.starts_with("nccl")).collect()
}

/// Versions of which there is a list.
fn versions() -> Vec<String> {
    let files = std::fs::read_dir(lists()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = files.filter_map(|name| name.into_string().ok()?.strip_suffix(".txt").map(str::to_owned));
    names.filter(|name| name.starts_with("2.")).collect()
}

/// The functions that the collector stands in front of.
pub(crate) fn hooked() -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let exported = text.lines().filter_map(|line| line.split_whitespace().last());
    let wrappers = exported.filter(|name| name.starts_with("nccl") && !name.starts_with("ncclProfiler_v"));
    wrappers.map(str::to_owned).collect()
}

/// Whether `name` is the pattern, in which one `*` stands for anything.
fn is_named(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => name == pattern,
    }
}

fn reasons(name: &str) -> Vec<&'static str> {
    let groups = START_NO_WORK.iter();
    groups.filter(|(_, names)| names.iter().any(|known| is_named(name, known))).map(|(why, _)| *why).collect()
}

#[test]
fn every_exported_function_has_a_wrapper_or_a_reason_to_have_none() {
    let hooked = hooked();
    assert!(versions().contains(&"2.32.3".to_owned()));
    let mut wrong = BTreeMap::new();
    for version in versions() {
        for name in exported_by(&version) {
            let found = usize::from(hooked.contains(&name)) + reasons(&name).len();
            if found != 1 {
                wrong.insert(name, found);
            }
        }
    }
    assert_eq!(
        wrong,
        BTreeMap::new(),
        "functions and in how many of the two lists they stand, instead of one"
    );
}

#[test]
fn no_wrapper_and_no_reason_is_for_a_function_that_never_was() {
    let ever: BTreeSet<String> = versions().iter().flat_map(|version| exported_by(version)).collect();
    assert_eq!(hooked().difference(&ever).collect::<Vec<_>>(), Vec::<&String>::new());
    for pattern in START_NO_WORK.iter().flat_map(|(_, names)| *names) {
        assert!(ever.iter().any(|name| is_named(name, pattern)), "{pattern} names nothing");
    }
}

#[test]
fn what_pytorch_imports_is_wrapped_or_the_librarys_own() {
    let newest = exported_by("2.32.3");
    let hooked = hooked();
    let imported = names("torch-2.15-undefined.txt");
    assert_eq!(imported.len(), 51);
    for name in &imported {
        assert!(newest.contains(name), "{name} is in no library");
        assert!(hooked.contains(name) || reasons(name).len() == 1, "{name} would be missed");
    }
}

#[test]
fn it_exports_its_wrappers_the_plugin_and_the_watcher_and_nothing_else() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<String> =
        text.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect();
    let wrappers = hooked();
    let rest: Vec<&String> = exported.difference(&wrappers).collect();
    let (plugin, others): (Vec<&String>, Vec<&String>) =
        rest.iter().partition(|name| name.starts_with("ncclProfiler_v"));
    assert!(!plugin.is_empty(), "the plugin");
    let calls = [
        "rsum_declare",
        "rsum_pull_async",
        "rsum_push_async",
        "rsum_push_pull",
        "rsum_push_pull_async",
        "rsum_push_pull_on_stream",
    ];
    assert_eq!(others, [&["ringscope_group", "rsumObserver_v1"], &calls[..]].concat());
}
