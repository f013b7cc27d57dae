//! The packages of distributions, from the descriptions in daemon/Cargo.toml.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::target::Target;
use super::tools;
use crate::process::{run, target_dir};

/// Makes the .deb and the .rpm of what is built.
pub(super) fn make(target: Target) -> Result<()> {
    let (deb, rpm) = (deb(target), rpm(target));
    let date = super::source_date()?.to_string();
    let mut command = tools::subcommand(tools::DEB)?;
    command.args([
        "--package",
        "ringscope",
        "--target",
        target.triple(),
        "--no-build",
        "--no-strip",
        "--output",
    ]);
    run(command.arg(&deb).env("SOURCE_DATE_EPOCH", &date))?;

    let mut command = tools::subcommand(tools::RPM)?;
    command.args(["--package", "daemon", "--target", target.triple(), "--arch", target.arch()]);
    command.args([
        "--auto-req",
        "disabled",
        "--payload-compress",
        "zstd",
        "--source-date",
        &date,
        "--target-dir",
    ]);
    run(command.arg(target_dir()).arg("--output").arg(&rpm))?;
    for file in [&deb, &rpm] {
        fs::metadata(file).with_context(|| format!("there is no {}", file.display()))?;
    }
    Ok(())
}

pub(super) fn deb(target: Target) -> PathBuf {
    super::folder().join(format!("ringscope_{}_{}.deb", env!("CARGO_PKG_VERSION"), target.debian()))
}

pub(super) fn rpm(target: Target) -> PathBuf {
    super::folder().join(format!("{}.rpm", super::stem(target)))
}
