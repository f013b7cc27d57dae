//! The page in a real browser against real daemons: pictures of all of it, and what it costs. What runs is built for
//! release, with the collector and the engine beside it for the demo.

use std::path::PathBuf;

use anyhow::Result;

use crate::build::COLLECTOR;
use crate::process::{cargo, command, root, run, target_dir};
use crate::{test, tools};

/// Every page of the demo, of one host, of a thousand hosts and of jobs that hang, as pictures below `out`. `docs`: those
/// of docs/ are made anew from them.
pub(crate) fn shoot(out: Option<PathBuf>, docs: bool, stages: &[String]) -> Result<()> {
    tools::ensure(&[tools::CC, tools::PNGQUANT])?;
    let out = out.unwrap_or_else(|| target_dir().join("screens"));
    let docs = docs.then(|| "--docs".to_owned());
    node("test/screens.mjs", [out.display().to_string()].iter().chain(&docs).chain(stages))
}

/// The overview's costs with a thousand hosts.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    node("test/perf-live.mjs", arguments.iter())
}

fn node<'a>(script: &str, arguments: impl Iterator<Item = &'a String>) -> Result<()> {
    tools::ensure(&[tools::CHROMIUM, tools::NPM])?;
    test::build_web()?;
    run(cargo(["build", "--release", "-p", "ringscope", "-p", "ringscope-engine"]).args(COLLECTOR))?;
    run(&mut cargo(["build", "--release", "-p", "ringscope", "--example", "simulate_cluster"]))?;
    let mut node = command("node", [script]);
    node.args(arguments).current_dir(root().join("web"));
    run(node.env("RINGSCOPE_BIN", target_dir().join("release")))
}
