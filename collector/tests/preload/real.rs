//! NVIDIA's own library, in each of its generations: with the collector before it a program gets the same answers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ringscope_wire::segment::layout::{COMMUNICATOR_FAILED, LIVE_CALLED, SOURCE_CALLS};

use crate::harness::{Job, compile, preload};
use crate::symbols::{exported_by, hooked};

/// The library of a version, which `cargo xtask` keeps in the build folder.
fn real(version: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let target = here.ancestors().nth(3).unwrap();
    let folder = target.join("nccl").join(version);
    assert!(folder.join("libnccl.so.2").exists(), "NCCL {version} is not there: run `cargo xtask nccl`");
    folder
}

fn list(name: &str, symbols: &BTreeSet<String>) -> String {
    let quoted: Vec<String> = symbols.iter().map(|symbol| format!("{symbol:?}")).collect();
    format!("#define {name} {}\n", quoted.join(", "))
}

/// A program for this version, linked to its library.
fn program(version: &str, exported: &BTreeSet<String>, called: &BTreeSet<String>) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("real-{version}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("symbols.h"), list("EXPORTED", exported) + &list("CALLED", called)).unwrap();
    let folder = real(version);
    let folder = folder.to_str().unwrap();
    let arguments = ["-I.", &format!("-L{folder}"), "-l:libnccl.so.2", &format!("-Wl,-rpath,{folder}")];
    compile(&dir, "program", "real.c", &arguments);
    dir
}

/// What the program printed, and which object each function is in.
fn answers(output: &Output) -> (String, Vec<(String, String)>) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    let owners = said.lines().filter_map(|line| line.split_once(' '));
    let owners = owners.map(|(symbol, object)| (symbol.to_owned(), object.to_owned())).collect();
    (String::from_utf8(output.stdout.clone()).unwrap(), owners)
}

fn check(version: &str, number: u32) {
    let exported = exported_by(version);
    let called: BTreeSet<String> = exported.intersection(&hooked()).cloned().collect();
    let dir = program(version, &exported, &called);
    let bare = Command::new(dir.join("program")).env_clear().output().unwrap();
    let mut job = Job::of(&dir.join("program"), version).without("NCCL_PROFILER_PLUGIN");
    let preloaded = job.command().env_remove("LD_LIBRARY_PATH").output().unwrap();
    let (bare, _) = answers(&bare);
    let (preloaded, owners) = answers(&preloaded);
    assert_eq!(preloaded, bare);
    assert!(bare.contains(&format!("version 0 {number}")), "{bare}");
    assert!(bare.contains("ncclAllReduce: 4"), "an invalid argument: {bare}");
    let ours = preload().file_name().unwrap().to_str().unwrap().to_owned();
    let before: BTreeSet<String> =
        owners.iter().filter(|(_, object)| *object == ours).map(|(symbol, _)| symbol.clone()).collect();
    assert_eq!(before, called, "each of these, and no other, leads to the collector's");
    assert_eq!(owners.len(), exported.len());
    // The program itself, and those of its children that made communicators.
    let segments = job.segments();
    let left = segments.iter().max_by_key(|left| left.snapshot.communicators.len()).unwrap();
    assert_eq!(left.snapshot.library_version, number);
    assert_eq!((left.snapshot.n_libraries, left.snapshot.flags & LIVE_CALLED), (1, LIVE_CALLED));
    for communicator in &left.snapshot.communicators {
        assert_eq!((communicator.state, communicator.sources), (COMMUNICATOR_FAILED, SOURCE_CALLS));
        assert_ne!(communicator.comm_hash, 0);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn nccl_2_18_3_answers_as_without_us() {
    check("2.18.3", 21_803);
}

#[test]
fn nccl_2_21_5_answers_as_without_us() {
    check("2.21.5", 22_105);
}

#[test]
fn nccl_2_27_7_answers_as_without_us() {
    check("2.27.7", 22_707);
}

#[test]
fn nccl_2_28_9_answers_as_without_us() {
    check("2.28.9", 22_809);
}

#[test]
fn nccl_2_29_7_answers_as_without_us() {
    check("2.29.7", 22_907);
}

#[test]
fn nccl_2_32_3_answers_as_without_us() {
    check("2.32.3", 23_203);
}
