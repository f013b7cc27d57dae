//! C programs compiled against rtensor.h, as both ends of a link.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

mod common;

use common::{KINDS, address};
use rtensor::device::Kind;

/// A program that is removed at the end.
struct Program(PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Where Cargo puts librtensor.so that this test was built with.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// A C file below `engine/`, compiled as the README says.
fn compile(source: &str) -> Program {
    let folder = library();
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let source = engine.join(source);
    let name = source.file_stem().unwrap().display().to_string();
    let program = folder.join(format!("rtensor-{name}-{}", std::process::id()));
    let status = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(engine.join("include"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&folder)
        .arg("-lrtensor")
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .status()
        .expect("a C compiler is missing: apt-get install gcc");
    assert!(status.success());
    Program(program)
}

/// What both ends say.
fn run(program: &Program, kind: Kind) -> [String; 2] {
    let address = address(kind);
    let start = |role: &str| {
        let mut end = Command::new(&program.0);
        // Cargo's own names a folder first where an older library may lie.
        end.env("LD_LIBRARY_PATH", library());
        end.args([role, &kind.to_string(), &address]).stdout(Stdio::piped()).stderr(Stdio::piped());
        end.spawn().unwrap()
    };
    ["listens", "calls"].map(start).map(|end| {
        let output = end.wait_with_output().unwrap();
        assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    })
}

#[test]
fn a_c_program_sends_and_receives() {
    let program = compile("tensors/tests/c/link.c");
    for kind in KINDS {
        // A write and a read, and the word that tells of it, a round; metadata, of the other end.
        assert_eq!(run(&program, kind), ["300 100\n", "100 100\n"], "{kind}");
    }
}

#[test]
fn the_example_runs() {
    let program = compile("examples/tensor_job.c");
    for kind in KINDS {
        let said = run(&program, kind);
        // 0.8 to the power of 100.
        assert!(said[0].starts_with("parameter 0 after 100 steps: 2.037"), "{kind}: {said:?}");
    }
}
