//! What is inside: all crates with versions and licences, as CycloneDX.

use std::fs;

use anyhow::{Context as _, Result};

use super::tools;
use crate::process::{root, run};

/// Writes the list for the `ringscope` binary.
pub(super) fn make() -> Result<()> {
    let mut command = tools::subcommand(tools::CYCLONEDX)?;
    command.args([
        "cyclonedx",
        "--manifest-path",
        "daemon/Cargo.toml",
        "--format",
        "json",
        "--spec-version",
        "1.5",
    ]);
    command.args(["--no-build-deps", "--override-filename", NAME]);
    run(command.env("SOURCE_DATE_EPOCH", super::source_date()?.to_string()))?;
    let name = format!("{NAME}.json");
    let made = root().join("daemon").join(&name);
    let to = super::folder().join(format!("ringscope-{}.cdx.json", env!("CARGO_PKG_VERSION")));
    fs::copy(&made, &to).with_context(|| format!("cannot copy {} to {}", made.display(), to.display()))?;
    // It leaves one beside each crate of ours.
    for folder in super::output(&mut crate::process::command("git", ["ls-files", "*Cargo.toml"]))?.lines() {
        let beside = root().join(folder).with_file_name(&name);
        if beside.exists() {
            fs::remove_file(&beside)?;
        }
    }
    Ok(())
}

const NAME: &str = "ringscope-sbom";
