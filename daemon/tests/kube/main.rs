//! ringscope on Kubernetes, as far as it can be seen without a cluster: the webhook against questions of API servers, the chart and the
//! templates against the schemas of several versions, and pods that run.

#![expect(clippy::print_stdout, reason = "a test that fails shows what its pods said")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod asked;
mod chart;
mod images;
mod kubelet;
mod left_alone;
mod podman;
mod pods;
mod programs;
mod served;
mod templates;
mod webhook;
