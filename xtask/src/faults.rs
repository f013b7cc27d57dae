//! Faults of jobs, real and simulated, and whether ringscope names who is at fault.

use anyhow::Result;

use crate::process::{cargo, run, target_dir};

/// Builds what the suite drives, optimized, and runs it: `daemon/examples/faults`.
pub(crate) fn suite(arguments: &[String]) -> Result<()> {
    let mut build = cargo(["build", "--release", "-p", "ringscope-collector", "-p", "ringscope-engine"]);
    run(build.args(["--example", "fault_job", "-p", "ringscope", "--bin", "ringscope", "--lib"]))?;
    let ringscope = target_dir().join("release/ringscope");
    let mut suite = cargo(["run", "--release", "-p", "ringscope", "--example", "faults", "--"]);
    let arguments = if arguments.is_empty() { vec!["engine".to_owned()] } else { arguments.to_vec() };
    run(suite.args(arguments).arg("--ringscope").arg(ringscope))
}
