//! The .deb of any architecture, unpacked: what it says of itself, and whether the program in it has a job watched.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::packages::target::Target;
use crate::packages::{distribution, empty, folder, output, smoke};
use crate::process::{run, say};

/// Unpacks it and tries what is in it.
pub(super) fn deb(target: Target) -> Result<()> {
    let file = distribution::deb(target);
    let field = |name: &str| output(Command::new("dpkg-deb").arg("--field").arg(&file).arg(name));
    let architecture = field("Architecture")?;
    ensure!(architecture.trim() == target.debian(), "{} is for {architecture}", file.display());
    let needs = field("Depends")?;
    ensure!(needs.contains("libc6 (>= 2.17)"), "{} needs {needs}", file.display());
    let root = folder().join("roots").join(format!("deb-{}", target.arch()));
    empty(&root)?;
    run(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(&root))?;
    for path in super::INSTALLED {
        ensure!(root.join(path.trim_start_matches('/')).exists(), "{} has no {path}", file.display());
    }
    smoke::smoke(target, &root.join("usr/bin/ringscope"))?;
    say(&format!("{}: for {}, and what is in it works", file.display(), target.debian()));
    Ok(())
}
