//! The library from Python through ctypes: a process per rank, nothing but Python's standard library.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::process::Command;

use common::library_folder;

#[test]
fn every_primitive_from_python() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/all_primitives.py");
    for n_ranks in ["1", "3"] {
        let output = Command::new("python3")
            .arg(&script)
            .arg(library_folder().join("librsccl.so"))
            .arg(n_ranks)
            .env("RSCCL_NICS", "lo=127.0.0.1")
            .output()
            .expect("python3 is missing: apt-get install python3");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{n_ranks} ranks: {said}");
    }
}
