//! Tensors in the memory of a GPU, over the C API, with a driver that has no device: its memory traps whoever touches it, its
//! streams work later, and it counts what it gave.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};

use common::sum::Group;
use common::{compile, folder};

/// What nothing may be left of.
const CLEAN: &str = "LEFT 0 pinned, 0 events, 0 streams, 0 sins";

/// The worker's program, with the driver beside it.
fn gpu_program(name: &str) -> PathBuf {
    let folder = folder(name);
    let driver = folder.join("libcuda.so.1");
    compile("fake_cuda.c", &driver, &["-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1"]);
    let program = folder.join("sum_gpu");
    let here = folder.display();
    let (find, run) = (format!("-L{here}"), format!("-Wl,-rpath,{here}"));
    compile("sum_gpu.c", &program, &["-lrsccl", &find, "-l:libcuda.so.1", &run]);
    program
}

/// What two workers say who do this, with one server.
fn run(program: &Path, does: &str, environment: &[(&str, &str)]) -> Vec<String> {
    let group = Group::new(program, 2, 1);
    let _servers = group.servers(&[], environment);
    let workers = group.workers(&[does], environment);
    workers.into_iter().map(common::Rank::rest).collect()
}

fn expect_clean(said: &[String]) {
    for said in said {
        assert!(said.contains(CLEAN) && said.ends_with("DONE\n"), "{said}");
    }
}

#[test]
fn sums_are_of_what_the_stream_has_left_and_pinned_memory_is_used_again() {
    let program = gpu_program("gpu-sums");
    // Many parts, and one.
    for bytes in ["65536", "4096000"] {
        let said = run(&program, "sums", &[("RSUM_PARTITION_BYTES", bytes)]);
        expect_clean(&said);
        assert!(said.iter().all(|said| said.contains("PINNED 3\n")), "{said:?}");
    }
}

#[test]
fn rounds_of_a_tensor_go_in_the_order_of_their_calls_wherever_they_come_from() {
    expect_clean(&run(&gpu_program("gpu-order"), "order", &[]));
}

#[test]
fn either_buffer_may_be_this_machines() {
    expect_clean(&run(&gpu_program("gpu-places"), "places", &[]));
}

#[test]
fn an_error_of_the_gpu_is_named_and_the_tensor_may_be_submitted_again() {
    let said = run(&gpu_program("gpu-faults"), "faults", &[]);
    expect_clean(&said);
    let found = |name: &str, words: &[&str]| {
        let line = said[0].lines().find(|line| line.starts_with(&format!("FAULT {name} 2: "))).unwrap();
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    };
    found("copy-out", &["tensor 0", "nothing was contributed", "700 (CUDA_ERROR_ILLEGAL_ADDRESS)"]);
    found("copy-in", &["tensor 0", "back to the GPU", "700 (CUDA_ERROR_ILLEGAL_ADDRESS)"]);
    found("copy-out-call", &["cuMemcpyDtoHAsync failed with 1"]);
    found("copy-in-call", &["cuMemcpyHtoDAsync failed with 1"]);
    found("record-call", &["cuEventRecord failed with 400"]);
    found("pin", &["cuMemHostAlloc failed with 2 (CUDA_ERROR_OUT_OF_MEMORY)"]);
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let program = gpu_program("gpu-misuse");
    let said = Group::new(&program, 1, 0).worker(0, &["misuse"], &[("RSUM_STAGING_BYTES", "200000")]).rest();
    let found = |name: &str, code: i32, words: &str| {
        let start = format!("REFUSED {name} {code}: ");
        let line = said.lines().find(|line| line.starts_with(&start));
        assert!(line.is_some_and(|line| line.contains(words)), "{name}: {said}");
    };
    found("another-gpu", 4, "recv lies in the memory of GPU 1, and the stream is of GPU 0");
    found("capture", 5, "being captured into a graph");
    found("push_pull", 4, "send lies in the memory of GPU 0: call rsum_push_pull_on_stream");
    found("push", 4, "send lies in the memory of GPU 0");
    found("recv", 4, "recv lies in the memory of GPU 0");
    found("pull", 4, "recv lies in the memory of GPU 0");
    found("overlap", 4, "overlap");
    found("null", 4, "send is NULL");
    found("staging", 5, "a tensor of 240028 bytes on a GPU needs");
    assert!(said.contains("0 sins"), "{said}");
}

#[test]
fn a_loss_ends_what_is_on_its_way() {
    let said = run(&gpu_program("gpu-loss"), "loss", &[]);
    assert_eq!(said[0].matches("LOST 6: ").count(), 2, "{said:?}");
    assert!(said[0].contains("rank 1 (") && said[0].contains(CLEAN), "{said:?}");
}

/// Worker 0 goes on alone, though what it submitted before cannot leave the GPU.
fn gone_on_alone(name: &str, does: &str) -> String {
    let environment = [("RSUM_ON_LOSS", "continue"), ("NCCL_DEBUG", "WARN")];
    let said = run(&gpu_program(name), does, &environment).swap_remove(0);
    let lost = said.lines().find(|line| line.starts_with("LOST 6: ")).unwrap_or(&said);
    for words in ["tensor \"tensor 0\", on its way out of the GPU: nothing was contributed", "rank 1 ("] {
        assert!(lost.contains(words), "{said}");
    }
    said
}

#[test]
fn a_gpu_that_stands_still_keeps_nobody_from_going_on_after_a_loss() {
    expect_clean(&[gone_on_alone("gpu-stuck", "stuck")]);
}

#[test]
fn memory_that_a_gpu_may_still_write_is_kept_and_does_not_hold_up_the_end() {
    let said = gone_on_alone("gpu-stuck-for-ever", "stuck-for-ever");
    assert!(said.contains("a GPU has still to copy 1 contributions that nobody reads any more"), "{said}");
    // All of what the group had: the driver would wait for that GPU before it took any of it back.
    assert!(
        said.contains("LEFT 2 pinned, 2 events, 1 streams, 0 sins") && said.ends_with("DONE\n"),
        "{said}"
    );
}

#[test]
fn a_tensor_that_does_not_leave_the_gpu_is_named() {
    let program = gpu_program("gpu-late");
    let environment = [("RSUM_WARN_S", "1"), ("NCCL_DEBUG", "WARN")];
    let said = Group::new(&program, 1, 0).worker(0, &["late"], &environment).rest();
    let words = "tensor \"tensor 2\" has waited for 1 s to leave the GPU";
    assert!(said.contains(words) && said.contains("(RSUM_WARN_S)"), "{said}");
    expect_clean(&[said]);
}

#[test]
fn without_a_driver_only_the_call_with_a_stream_is_refused() {
    let program = folder("gpu-none").join("sum");
    compile("sum_gpu.c", &program, &["-DWITHOUT_DRIVER", "-lrsccl"]);
    let said = Group::new(&program, 1, 0).worker(0, &[], &[]).rest();
    assert!(said.contains("REFUSED 5: no CUDA driver (libcuda.so.1) is loaded"), "{said}");
    assert!(said.ends_with("DONE\n"), "{said}");
}
