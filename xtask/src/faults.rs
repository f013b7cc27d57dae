//! Faults of jobs, real and simulated, and whether ringscope names who is at fault.

use anyhow::Result;

use crate::process::{cargo, command, root, run, target_dir};
use crate::tools;

/// Builds what the suite drives, optimized, and runs it: `daemon/examples/faults`.
pub(crate) fn suite(arguments: &[String]) -> Result<()> {
    tools::ensure(&[tools::CC])?;
    let release = target_dir().join("release");
    run(&mut cargo(["build", "--release", "-p", "ringscope-collector", "-p", "ringscope-engine"]))?;
    run(&mut cargo(["build", "--release", "-p", "ringscope", "--bin", "ringscope"]))?;
    let program = release.join("fault_job");
    build_job(&program)?;
    let mut suite = cargo(["run", "--release", "-p", "ringscope", "--example", "faults", "--"]);
    let default = ["engine".to_owned()];
    suite.args(if arguments.is_empty() { &default } else { arguments });
    suite.arg("--ringscope").arg(release.join("ringscope"));
    if arguments.first().is_none_or(|first| first == "engine") {
        suite.arg("--program").arg(program);
    }
    run(&mut suite)
}

/// The job that goes wrong: a program as a user would write it, linked with the engine.
fn build_job(program: &std::path::Path) -> Result<()> {
    let engine = root().join("engine");
    let sources = std::fs::read_dir(engine.join("examples/fault_job"))?;
    let sources: Vec<_> = sources.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let release = target_dir().join("release");
    let mut cc = command("cc", ["-O1", "-g", "-pthread"]);
    cc.arg("-I").arg(engine.join("include")).arg("-L").arg(&release);
    cc.arg(format!("-Wl,-rpath,{}", release.display())).arg("-Wl,--no-as-needed");
    cc.args(sources.iter().filter(|path| path.extension().is_some_and(|extension| extension == "c")));
    run(cc.arg("-lrsccl").arg("-o").arg(program))
}
