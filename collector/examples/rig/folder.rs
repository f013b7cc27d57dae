//! Where a benchmark of the collector runs: a folder in memory, with programs built from `collector/bench`, and the libraries
//! of this build.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Runs something in a folder of its own, which is deleted after it. In memory, where a job's segments lie too.
pub(crate) fn in_folder<T>(name: &str, run: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let folder = Path::new("/dev/shm").join(format!("ringscope-bench-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = run(&folder);
    std::fs::remove_dir_all(&folder)?;
    result
}

/// Compiles a source of `collector/bench`.
pub(crate) fn cc(folder: &Path, output: &str, source: &str, arguments: &[&str]) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench").join(source);
    let mut command = Command::new("cc");
    command
        .current_dir(folder)
        .args(["-O2", "-pthread", "-Wall", "-Wextra", "-o", output])
        .arg(source)
        .args(arguments);
    if command.status()?.success() { Ok(()) } else { Err(format!("cc could not build {output}").into()) }
}

/// Builds the library of a package in this benchmark's profile folder, which is to be `release`.
pub(crate) fn build(package: &str, library: &str) -> Result<PathBuf> {
    let build = ["build", "--quiet", "--release", "--lib", "--package", package];
    if !Command::new(env!("CARGO")).current_dir(env!("CARGO_MANIFEST_DIR")).args(build).status()?.success() {
        return Err(format!("cargo could not build {library}").into());
    }
    let here = std::env::current_exe()?;
    let profile = here.parent().and_then(Path::parent).ok_or("no target folder")?;
    if !profile.ends_with("release") {
        return Err("run it with --release".into());
    }
    Ok(profile.join(library).canonicalize()?)
}

/// The collector of this build.
pub(crate) fn collector() -> Result<PathBuf> {
    build("ringscope-collector", "libringscope.so")
}
