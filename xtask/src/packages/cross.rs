//! Debian's C compilers for other machines, with their C libraries.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::target::Target;
use crate::tools;

/// The compiler for an architecture, this machine's too.
pub(super) struct Cross {
    pub(super) gcc: String,
    package: String,
}

impl Cross {
    pub(super) fn of(target: Target) -> Self {
        let gcc = format!("{}-linux-gnu-gcc", target.arch());
        let package = format!("gcc-{}-linux-gnu", target.arch().replace('_', "-"));
        Self { gcc, package }
    }

    /// Installs the compiler if it is missing.
    pub(super) fn ensure(&self) -> Result<()> {
        match super::output(Command::new(&self.gcc).arg("--version")) {
            Ok(_) => Ok(()),
            Err(_) => tools::install(&[&self.package]),
        }
    }

    /// Where its library of that name lies.
    pub(super) fn library(&self, name: &str) -> Result<PathBuf> {
        let told = super::output(Command::new(&self.gcc).arg(format!("-print-file-name={name}")))?;
        let path = PathBuf::from(told.trim());
        let found = path.is_absolute().then(|| path.canonicalize().ok()).flatten();
        found.with_context(|| format!("{} has no {name}: apt-get install {}", self.gcc, self.package))
    }
}
