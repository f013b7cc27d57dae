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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::process::root;

    /// What the description of daemon/Cargo.toml takes of the folder `packaging`, as paths from there, perhaps with a star.
    fn taken(kind: &str) -> Vec<String> {
        let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().unwrap();
        let daemon =
            metadata.packages.into_iter().find(|package| package.name.as_str() == "ringscope").unwrap();
        let description = &daemon.metadata[kind];
        let source = |asset: &Value| asset["source"].as_str().or(asset[0].as_str()).unwrap().to_owned();
        let mut all: Vec<String> = description["assets"].as_array().unwrap().iter().map(source).collect();
        for unit in description["systemd-units"].as_array().into_iter().flatten() {
            let (folder, name) =
                (unit["unit-scripts"].as_str().unwrap(), unit["unit-name"].as_str().unwrap());
            all.extend(["service", "timer"].map(|end| format!("{folder}/{name}.{end}")));
        }
        let of_packaging =
            all.iter().filter_map(|path| path.trim_start_matches("../").strip_prefix("packaging/"));
        of_packaging.map(str::to_owned).collect()
    }

    fn is_meant(pattern: &str, file: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == file,
            Some((start, end)) => {
                let rest = file.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
                rest.is_some_and(|rest| !rest.contains('/'))
            }
        }
    }

    #[test]
    fn both_packages_have_every_file_that_is_for_them() {
        for kind in ["deb", "generate-rpm"] {
            let taken = taken(kind);
            for folder in ["etc", "presets", "slurm", "systemd", "sysusers", "tmpfiles"] {
                for entry in fs::read_dir(root().join("packaging").join(folder)).unwrap() {
                    let file = Path::new(folder).join(entry.unwrap().file_name()).display().to_string();
                    assert!(
                        taken.iter().any(|pattern| is_meant(pattern, &file)),
                        "{kind} has no packaging/{file}"
                    );
                }
            }
        }
    }
}
