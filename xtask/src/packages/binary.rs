//! The one file that all packages hold, for machines as old as glibc 2.17.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::cross::Cross;
use super::target::Target;
use super::tools;
use crate::build::{COLLECTOR, LIBRARIES};
use crate::process::{cargo, root, run, target_dir};

/// Builds binary, libraries, man pages and completions of an architecture; where the binary is.
pub(super) fn build(target: Target) -> Result<PathBuf> {
    let cross = Cross::of(target);
    cross.ensure()?;
    let released = released(target);

    // These bring their own stand-ins of glibc 2.17, for zig would link an unwinder into them; see collector/glibc.
    let mut collector = cargo(["build", "--release", "--locked", "--target", target.triple()]);
    collector.args(COLLECTOR).env(target.variable("LINKER"), &cross.gcc);
    collector.env(format!("CC_{}", target.triple().replace('-', "_")), &cross.gcc);
    run(collector.env("RUSTFLAGS", paths()))?;

    shared_library(target, "ringscope-engine", &cross)?;

    let libraries = libraries(target);
    super::empty(&libraries)?;
    for library in LIBRARIES {
        put(&released.join(library), &libraries.join(library))?;
    }
    let mut ringscope = tools::zig(target)?;
    ringscope.args(["zigbuild", "--release", "--locked", "--target", &old(target), "-p", "ringscope"]);
    ringscope.args(["--bin", "ringscope"]).env("RINGSCOPE_EMBED_DIR", &libraries);
    run(ringscope.env("RUSTFLAGS", paths()))?;
    let binary = released.join("ringscope");
    for file in LIBRARIES.map(|library| libraries.join(library)).iter().chain([&binary]) {
        runs_on_old_systems(file)?;
        fits_pages(target, file)?;
    }
    super::manual::make(&released.join("packaging"))?;
    let alone = super::folder().join(super::stem(target));
    put(&binary, &alone)?;
    Ok(binary)
}

/// Builds a crate's shared library.
pub(super) fn shared_library(target: Target, package: &str, cross: &Cross) -> Result<()> {
    // A second unwinder inside would end a process whose C++ exception or pthread_exit passes the library.
    let unwinder = cross.library("libgcc_s.so.1")?;
    let mut library = tools::zig(target)?;
    library.args(["rustc", "--release", "--locked", "--target", &old(target), "-p", package, "--lib", "--"]);
    library.arg("-C").arg(format!("link-arg={}", unwinder.display()));
    run(library.env("RUSTFLAGS", paths()))
}

/// Builds a crate's program.
pub(super) fn program(target: Target, package: &str, name: &str) -> Result<()> {
    let mut program = tools::zig(target)?;
    program.args([
        "zigbuild",
        "--release",
        "--locked",
        "--target",
        &old(target),
        "-p",
        package,
        "--bin",
        name,
    ]);
    run(program.env("RUSTFLAGS", paths()))
}

/// Name of a target with the oldest glibc, as zig takes it.
fn old(target: Target) -> String {
    format!("{}.{}.{}", target.triple(), OLDEST.0, OLDEST.1)
}

/// Where cargo puts what is built for an architecture.
pub(super) fn released(target: Target) -> PathBuf {
    target_dir().join(target.triple()).join("release")
}

/// Where the libraries lie that are inside the binary too.
pub(super) fn libraries(target: Target) -> PathBuf {
    super::folder().join("build").join(target.arch())
}

pub(super) fn put(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Leaves the folders of this machine out of what panics tell.
fn paths() -> String {
    format!(
        "--remap-path-prefix={}=/crates --remap-path-prefix={}=/ringscope",
        crates().display(),
        root().display()
    )
}

#[expect(clippy::disallowed_methods, reason = "cargo's own setting")]
fn crates() -> PathBuf {
    let home =
        |name: &str, below: &str| std::env::var_os(name).map(|folder| PathBuf::from(folder).join(below));
    let cargo_home = home("CARGO_HOME", "").or_else(|| home("HOME", ".cargo")).unwrap_or_default();
    cargo_home.join("registry/src")
}

/// Asks no glibc newer than 2.17, and no library beside glibc's and the compiler's.
pub(super) fn runs_on_old_systems(file: &Path) -> Result<()> {
    let told = super::output(Command::new("readelf").args(["-W", "-V", "-d"]).arg(file))?;
    let versions = told.split("GLIBC_").skip(1).filter_map(version);
    if let Some(newest) = versions.max().filter(|newest| *newest > OLDEST) {
        bail!("{} needs glibc {}.{}, not {}.{}", file.display(), newest.0, newest.1, OLDEST.0, OLDEST.1);
    }
    let foreign = needed(&told).into_iter().find(|name| !GLIBC.iter().any(|known| name.starts_with(known)));
    match foreign {
        Some(name) => bail!("{} needs {name}, which not every system has", file.display()),
        None => Ok(()),
    }
}

/// Can be loaded whatever pages a kernel of that architecture has.
pub(super) fn fits_pages(target: Target, file: &Path) -> Result<()> {
    let told = super::output(Command::new("readelf").args(["-W", "-l"]).arg(file))?;
    let loaded = told.lines().filter(|line| line.trim_start().starts_with("LOAD"));
    let alignments: Option<Vec<u64>> = loaded
        .map(|line| u64::from_str_radix(line.split_whitespace().last()?.strip_prefix("0x")?, 16).ok())
        .collect();
    let least = alignments.unwrap_or_default().into_iter().min().unwrap_or_default();
    let largest = target.largest_page_bytes();
    ensure!(least >= largest, "{} is aligned to {least} bytes: pages may have {largest}", file.display());
    Ok(())
}

fn version(text: &str) -> Option<(u32, u32)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut numbers = text.get(..end)?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Libraries that `readelf -d` says are needed.
pub(super) fn needed(told: &str) -> Vec<String> {
    let lines = told.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').to_owned())).collect()
}

/// Of CentOS 7, and the first of aarch64.
const OLDEST: (u32, u32) = (2, 17);
/// Libraries of glibc, and the compiler's, which every system of glibc has.
const GLIBC: [&str; 8] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "libutil.so.1",
    "ld-linux",
    "libgcc_s.so.1",
];
