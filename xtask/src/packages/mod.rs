//! `cargo xtask packages`: what people install, in target/packages. Nothing here needs root; `--check` does.

mod binary;
mod check;
mod cross;
mod distribution;
mod image;
mod manual;
mod sbom;
mod smoke;
mod sums;
mod target;
mod tools;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{command, root, say, target_dir};
use target::Target;

pub(crate) use wheel::{Args as WheelArgs, run_all as wheel};

/// Arguments of `cargo xtask packages`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only for this architecture
    #[arg(long, value_enum)]
    arch: Option<Target>,
    /// Install the packages that are there in fresh roots of Debian, under systemd, use them, and remove them; as root
    #[arg(long)]
    check: bool,
}

/// Makes all packages, or tries those that are there.
pub(crate) fn run(args: &Args) -> Result<()> {
    let targets = args.arch.map_or_else(|| Target::ALL.to_vec(), |target| vec![target]);
    if args.check {
        return check::all(&targets);
    }
    for target in targets {
        let program = binary::build(target)?;
        smoke::smoke(target, &program)?;
        distribution::make(target)?;
        image::make(target, &program)?;
    }
    sbom::make()?;
    sums::make()?;
    say(&format!("{} holds what people install; cargo xtask packages --check tries it", folder().display()));
    Ok(())
}

/// Where the packages go.
fn folder() -> PathBuf {
    target_dir().join("packages")
}

/// Name of a package's file without its ending.
fn stem(target: Target) -> String {
    format!("ringscope-{}-{}", env!("CARGO_PKG_VERSION"), target.arch())
}

/// Makes a folder with nothing in it.
fn empty(folder: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Seconds since 1970 of the commit, which all files in packages have as their time: the same commit gives the same bytes.
fn source_date() -> Result<u64> {
    let text = output(&mut command("git", ["log", "-1", "--format=%ct"]))?;
    text.trim().parse().with_context(|| format!("git gave no time of the commit, but {text:?}"))
}

/// Where this process looks for programs.
#[expect(clippy::disallowed_methods, reason = "the system's own setting")]
fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// What a command prints; fails if the command does.
fn output(command: &mut Command) -> Result<String> {
    let done = command.current_dir(root()).output().with_context(|| format!("cannot start {command:?}"))?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        anyhow::bail!("{command:?} ended with {}: {}", done.status, told.trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
