//! What Prometheus, Alertmanager and Grafana are given: built from `dashboards/src`, and tested.

use anyhow::Result;

use crate::process::{npm, run};
use crate::tools;

/// Writes the built files into `dashboards/`.
pub(crate) fn build() -> Result<()> {
    install()?;
    run(&mut npm(FOLDER, ["run", "build"]))
}

/// Types, what the rules must and must not do, and that the committed files are what the sources build.
pub(crate) fn test() -> Result<()> {
    tools::ensure(&[tools::PROMETHEUS, tools::ALERTMANAGER])?;
    install()?;
    run(&mut npm(FOLDER, ["test"]))
}

fn install() -> Result<()> {
    tools::ensure(&[tools::NPM])?;
    run(&mut npm(FOLDER, ["ci", "--no-audit", "--no-fund"]))
}

const FOLDER: &str = "dashboards";
