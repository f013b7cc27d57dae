//! C programs compiled against NVIDIA's own nccl.h, which `cargo xtask nccl` takes from the PyPI wheel, run on
//! librsccl.so; and rsccl.h says the same as that header.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Job, compile, folder, library_folder, plain, source_folder};

/// The version whose API librsccl.so speaks.
const VERSION: &str = "2.28.9";

/// Deprecated, and not offered: the log is set up at its first line.
const NOT_OFFERED: [&str; 2] = ["ncclResetDebugInit", "pncclResetDebugInit"];

/// NVIDIA's header.
fn header() -> PathBuf {
    let target = library_folder().parent().unwrap().to_owned();
    let header = target.join("nccl").join(VERSION).join("nccl.h");
    assert!(header.exists(), "{} is missing: run `cargo xtask nccl`", header.display());
    header
}

/// Compiles against NVIDIA's header.
fn compile_nvidia(source: &str, folder: &Path) -> PathBuf {
    let (header, stubs) = (header(), source_folder().join("cuda"));
    let folders = [header.parent().unwrap(), &stubs].map(|path| path.to_str().unwrap().to_owned());
    let program = folder.join(format!("{source}.nvidia"));
    let arguments =
        ["-DWITH_NVIDIA_HEADER", "-isystem", &folders[0], "-isystem", &folders[1], "-lrsccl", "-lm"];
    compile(source, &program, &arguments);
    program
}

#[test]
fn every_primitive_with_every_type() {
    let program = compile_nvidia("primitives.c", &folder("primitives"));
    for n_ranks in [1, 2, 4] {
        let job = Job { program: &program, n_ranks, command: &["all"], environment: &plain };
        for rank in job.start() {
            assert_eq!(rank.rest(), "DONE\n", "{n_ranks} ranks");
        }
    }
}

#[test]
fn the_rank_program_does_the_same_with_either_header() {
    let program = compile_nvidia("rank.c", &folder("rank"));
    let job = Job { program: &program, n_ranks: 3, command: &["once"], environment: &plain };
    job.start().into_iter().for_each(|rank| assert_eq!(rank.rest(), "DONE\n"));
}

#[test]
fn both_headers_define_the_same_values() {
    let folder = folder("values");
    let ours = folder.join("values.ours");
    compile("values.c", &ours, &["-lrsccl"]);
    let said = [ours, compile_nvidia("values.c", &folder)].map(|program| {
        let output = Command::new(program).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    });
    assert!(said[0].contains("ncclFloat8e5m2 11\n") && said[0].contains("ncclConfig_t.commName 48 8\n"));
    assert_eq!(said[0], said[1]);
}

/// The names that a library exports.
fn exports(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let output = output.expect("nm is missing: apt-get install binutils");
    assert!(output.status.success(), "{}", library.display());
    let symbols = String::from_utf8(output.stdout).unwrap();
    symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

#[test]
fn every_function_of_nvidias_library_is_offered_or_explained() {
    let readme = std::fs::read_to_string(source_folder().join("../../README.md")).unwrap();
    let ours = exports(&library_folder().join("librsccl.so"));
    let theirs = exports(&header().with_file_name("libnccl.so.2"));
    let host = |name: &&String| name.trim_start_matches('p').starts_with("nccl");
    assert!(theirs.iter().filter(host).count() > 80, "{theirs:?}");
    for name in theirs.iter().filter(host).filter(|name| !ours.contains(*name)) {
        let explained = readme.contains(&format!("`{}`", name.trim_start_matches('p')));
        assert!(explained, "{name} is neither offered nor in README.md with the reason");
    }
}

#[test]
fn both_headers_declare_the_same_functions() {
    let ours = std::fs::read_to_string(source_folder().join("../../include/rsccl.h")).unwrap();
    let declared = |line: &str| {
        let name = line.strip_prefix("RSCCL_API(")?.split(", ").nth(1)?;
        Some(name.trim_end_matches(',').to_owned())
    };
    let ours: BTreeSet<String> = ours
        .lines()
        .filter_map(declared)
        .flat_map(|name| [format!("nccl{name}"), format!("pnccl{name}")])
        .collect();
    let theirs = std::fs::read_to_string(header()).unwrap();
    let declared = |line: &str| {
        let (before, _) = line.split_once('(')?;
        let (result, name) = before.rsplit_once(' ')?;
        let is_function =
            (result.contains("ncclResult_t") || result.contains("char*") || result.contains("void"))
                && name.trim_start_matches('p').starts_with("nccl");
        is_function.then(|| name.to_owned())
    };
    let theirs: BTreeSet<String> = theirs.lines().filter_map(declared).collect();
    let missing: Vec<_> = theirs.difference(&ours).map(String::as_str).collect();
    assert_eq!(missing, NOT_OFFERED);
    assert_eq!(ours.difference(&theirs).collect::<Vec<_>>(), Vec::<&String>::new());
}
