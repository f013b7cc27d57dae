//! What the packages have beside the program that is made and not written: man pages, completions, Debian's changelog.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use serde_json::Value;

use crate::process::{cargo, run};

/// Puts them where the descriptions of the packages look for them.
pub(super) fn make(folder: &Path) -> Result<()> {
    super::empty(folder)?;
    let mut manual = cargo(["run", "--quiet", "--locked", "-p", "ringscope", "--example", "manual", "--"]);
    run(manual.arg(folder))?;
    // cargo-deb packs only pages that nobody has built.
    for page in folder.join("man").read_dir()? {
        let page = page?.path();
        pack(&page.with_added_extension("gz"), &fs::read(&page)?)?;
        fs::remove_file(&page)?;
    }
    pack(&folder.join("changelog.Debian.gz"), changelog()?.as_bytes())
}

/// The one entry that Debian's tools want; what is new stands in the changelog of the project.
fn changelog() -> Result<String> {
    let date = format!("@{}", super::source_date()?);
    let date = super::output(Command::new("date").args(["-u", "-R", "-d", &date]).env("LC_ALL", "C"))?;
    let version = env!("CARGO_PKG_VERSION");
    let maintainer = maintainer()?;
    Ok(format!(
        "ringscope ({version}-1) stable; urgency=medium\n\n  * Release {version}: see changelog.gz.\n\n -- {maintainer}  {}\n",
        date.trim()
    ))
}

fn pack(to: &Path, bytes: &[u8]) -> Result<()> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    fs::write(to, gzip.finish()?).with_context(|| format!("cannot write {}", to.display()))
}

/// Who stands in the .deb: one place says it, `maintainer` of `[package.metadata.deb]` in daemon/Cargo.toml.
fn maintainer() -> Result<String> {
    let told = super::output(&mut cargo(["metadata", "--no-deps", "--format-version", "1", "--locked"]))?;
    let told: Value = serde_json::from_str(&told)?;
    let packages = told["packages"].as_array().into_iter().flatten();
    let deb =
        packages.filter(|package| package["name"] == "ringscope").map(|package| &package["metadata"]["deb"]);
    let maintainer = deb.filter_map(|deb| deb["maintainer"].as_str()).next();
    Ok(maintainer.context("no maintainer in [package.metadata.deb] of daemon/Cargo.toml")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maintainer_of_the_changelog_is_the_packages() {
        let maintainer = maintainer().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let described = fs::read_to_string(root.join("daemon/Cargo.toml")).unwrap();
        assert!(described.contains(&format!("maintainer = \"{maintainer}\"")), "{maintainer}");
        assert!(changelog().unwrap().contains(&format!(" -- {maintainer}  ")));
    }
}
