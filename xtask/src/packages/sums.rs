//! SHA256SUMS, as `sha256sum --check` reads it.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

/// Writes the sums of this version's files, whatever architecture each is for; what is left of another version is not listed.
pub(super) fn make() -> Result<()> {
    let folder = super::folder();
    let entries = folder.read_dir()?.collect::<io::Result<Vec<_>>>()?;
    let paths = entries.into_iter().map(|entry| entry.path());
    let mut files: Vec<_> = paths.filter(|path| path.is_file() && is_of_this_version(path)).collect();
    files.sort();
    let mut text = String::new();
    for file in &files {
        let name = file.file_name().context("a file has a name")?.to_string_lossy();
        text += &format!("{}  {name}\n", of(&fs::read(file)?));
    }
    write(&folder.join(NAME), &text)
}

/// The sum of bytes, in hexadecimal.
pub(super) fn of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_of_this_version(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(env!("CARGO_PKG_VERSION")))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

const NAME: &str = "SHA256SUMS";
