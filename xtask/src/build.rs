//! The one-file binary, and the demo that runs from it.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{cargo, root, run, say, target_dir};

/// Builds `target/dist/ringscope` with both shared libraries inside.
pub(crate) fn dist() -> Result<()> {
    let path = binary()?;
    say(&format!("{} is the whole installation", path.display()));
    Ok(())
}

/// Builds the same and runs its demo in place of this process.
pub(crate) fn demo(arguments: &[String]) -> Result<()> {
    let ringscope = binary()?;
    let error = Command::new(&ringscope).arg("demo").args(arguments).current_dir(root()).exec();
    Err(error).with_context(|| format!("cannot execute {}", ringscope.display()))
}

/// The release binary with both shared libraries inside; they lie beside it too.
pub(crate) fn binary() -> Result<PathBuf> {
    run(&mut cargo(["build", "--release", "-p", "ringscope-collector", "-p", "ringscope-engine"]))?;
    let target = target_dir();
    let dist = target.join("dist");
    fs::create_dir_all(&dist).with_context(|| format!("cannot make {}", dist.display()))?;
    // A folder of its own: the binary must not embed a library that a later build is just replacing.
    for library in ["libringscope.so", "librsccl.so"] {
        fs::copy(target.join("release").join(library), dist.join(library))
            .with_context(|| format!("cannot copy {library}"))?;
    }
    let mut command = cargo(["build", "--release", "-p", "ringscope", "--bin", "ringscope"]);
    run(command.env("RINGSCOPE_EMBED_DIR", &dist))?;
    let path = dist.join("ringscope");
    // A running demo keeps the old file open: replace it, do not write into it.
    let fresh = dist.join("ringscope.new");
    fs::copy(target.join("release/ringscope"), &fresh).context("cannot copy ringscope")?;
    fs::rename(&fresh, &path).context("cannot replace ringscope")?;
    Ok(path)
}
