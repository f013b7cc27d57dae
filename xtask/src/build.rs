//! The one-file binary, and the demo that runs from it.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{cargo, root, run, say, target_dir};

/// Builds `target/dist/ringscope` with the shared libraries inside.
pub(crate) fn dist() -> Result<()> {
    let path = binary()?;
    say(&format!("{} is the whole installation", path.display()));
    Ok(())
}

/// Builds the release and runs its demo in place of this process.
pub(crate) fn demo(arguments: &[String]) -> Result<()> {
    let ringscope = beside()?;
    let error = Command::new(&ringscope).arg("demo").args(arguments).current_dir(root()).exec();
    Err(error).with_context(|| format!("cannot execute {}", ringscope.display()))
}

/// The release binary with the shared libraries beside it, as every chore but [`binary`] builds it: it is compiled once for
/// all of them. In a folder of its own, so that a build does not replace what a demo runs.
pub(crate) fn beside() -> Result<PathBuf> {
    libraries()?;
    run(&mut cargo(["build", "--release", "-p", "ringscope", "--bin", "ringscope"]))?;
    let folder = target_dir().join("beside");
    for name in LIBRARIES.into_iter().chain(["ringscope"]) {
        put(name, &folder)?;
    }
    Ok(folder.join("ringscope"))
}

/// The release binary with the shared libraries inside; they lie beside it too.
pub(crate) fn binary() -> Result<PathBuf> {
    libraries()?;
    let dist = target_dir().join("dist");
    // A folder of its own: the binary must not embed a library that a later build is just replacing.
    for library in LIBRARIES {
        put(library, &dist)?;
    }
    let mut command = cargo(["build", "--release", "-p", "ringscope", "--bin", "ringscope"]);
    run(command.env("RINGSCOPE_EMBED_DIR", &dist))?;
    put("ringscope", &dist)?;
    Ok(dist.join("ringscope"))
}

/// What builds all that tests drive, not optimized. Always as a whole: what is built of some packages alone, or without an example, sees
/// other features of what they depend on, and is compiled anew.
pub(crate) fn debug() -> Command {
    cargo(["build", "--workspace", "--lib", "--bins", "--example", "simulate_cluster", "--locked"])
}

fn libraries() -> Result<()> {
    run(cargo(["build", "--release", "-p", "ringscope-engine"]).args(COLLECTOR))
}

/// Copies a file of the release into a folder. A running demo keeps the old file open: it is replaced, not written into.
fn put(name: &str, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (path, fresh) = (folder.join(name), folder.join(format!("{name}.new")));
    fs::copy(target_dir().join("release").join(name), &fresh)
        .with_context(|| format!("cannot copy {name}"))?;
    fs::rename(&fresh, &path).with_context(|| format!("cannot replace {}", path.display()))
}

/// What `cargo build` is told to build of the collector: with what opens it, and what it opens beside itself.
pub(crate) const COLLECTOR: [&str; 6] =
    ["-p", "ringscope-collector", "-p", "ringscope-preload", "-p", "ringscope-summation-watcher"];
pub(crate) const LIBRARIES: [&str; 4] =
    ["libringscope.so", "libringscope_preload.so", "libringscope_watcher.so", "librsccl.so"];
