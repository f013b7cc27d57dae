//! A C program compiled against rtensor.h, as both ends of a link.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Stdio};

mod common;

use common::{KINDS, address};

#[test]
fn a_c_program_sends_and_receives() {
    // Where Cargo puts librtensor.so that this test was built with.
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let program = folder.join(format!("rtensor-link-{}", std::process::id()));
    let status = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(engine.join("include"))
        .arg(engine.join("tensors/tests/c/link.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&folder)
        .arg("-lrtensor")
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .status()
        .expect("a C compiler is missing: apt-get install gcc");
    assert!(status.success());
    for kind in KINDS {
        let address = address(kind);
        let start = |role: &str| {
            let mut end = Command::new(&program);
            end.args([role, &kind.to_string(), &address]).stdout(Stdio::piped()).stderr(Stdio::piped());
            end.spawn().unwrap()
        };
        let ends = ["listens", "calls"].map(start);
        let said = ends.map(|end| {
            let output = end.wait_with_output().unwrap();
            assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        });
        // A write and a read, and the word that tells of it, a round; metadata, of the other end.
        assert_eq!(said, ["300 100\n", "100 100\n"], "{kind}");
    }
    std::fs::remove_file(program).unwrap();
}
