//! A root of Debian 11 (glibc 2.31), and programs linked to its libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::case::{Limit, Place, Verdict};
use super::command::{self, Ended};
use super::stage::Stage;
use crate::process::{run, target_dir};
use crate::tools;

/// `/bin/true`, and a job of communicators, in the older root; the job is linked to the root's own C library.
pub(super) fn programs(stage: &Stage) -> Result<Verdict> {
    let root = root()?;
    let folder = stage.folder_in(&root.join("tmp"))?;
    let inside = Path::new("/").join(folder.0.strip_prefix(&root)?);
    let nccl = stage.stub_for(&root, &folder.join("libnccl.so.2"), "stub_nccl.c", true)?;
    stage
        .stub_for(&root, &folder.join("job"), "job.c", false)
        .with_context(|| format!("on {}", nccl.display()))?;
    let collector = stage.copy_collector(&folder.0)?;
    // Segments lie in memory alone.
    let memory = stage.folder(Place::Shm)?;
    let mut verdict = Verdict::default();
    for program in [vec!["/bin/true".into()], vec![inside.join("job"), "3".into(), "100".into()]] {
        let once = |settings: &[String]| -> Result<Ended> {
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", IN_ROOT, "sh"]).arg(&memory.0).arg(&root);
            command.arg("env").arg(format!("LD_LIBRARY_PATH={}", inside.display()));
            command::ended(command.args(settings).args(&program), &folder.0, 20.0)
        };
        let settings = collector(&inside, Path::new("/dev/shm/segments"));
        let mut one = Verdict { bare: once(&[])?, with: once(&settings)?, ..Verdict::default() };
        one.compare(1.5, NO_FIGURES);
        let name = program.first().map(|path| path.display().to_string()).unwrap_or_default();
        verdict.differences.extend(one.differences.into_iter().map(|words| format!("{name}: {words}")));
        (verdict.bare, verdict.with) = (one.bare, one.with);
    }
    if super::facts::segments(&memory.join("segments"))?.is_empty() {
        verdict.differences.push("the job left no segment".to_owned());
    }
    Ok(verdict)
}

/// The root, made if it is not there: some 300 MB from Debian's archive.
fn root() -> Result<PathBuf> {
    let cache = target_dir().join("harm-cache");
    let root = cache.join("bullseye");
    if root.join("etc/debian_version").exists() {
        return Ok(root);
    }
    tools::ensure(&[tools::DEBOOTSTRAP])?;
    let fresh = cache.join("bullseye.new");
    let _ = std::fs::remove_dir_all(&fresh);
    std::fs::create_dir_all(&cache)?;
    let mut make = Command::new("debootstrap");
    make.args(["--variant=minbase", "bullseye"]).arg(&fresh).arg(ARCHIVE);
    if let Err(error) = run(&mut make) {
        bail!("{error:#}; as root: debootstrap --variant=minbase bullseye {} {ARCHIVE}", root.display());
    }
    std::fs::rename(&fresh, &root)?;
    Ok(root)
}

/// A folder of memory, the root, and a command that runs in it.
const IN_ROOT: &str = r#"mount --bind "$1" "$2/dev/shm" && shift && exec chroot "$@""#;
const NO_FIGURES: &[(&str, Limit)] = &[];
/// Debian's own; security and old releases are there too.
const ARCHIVE: &str = "http://deb.debian.org/debian";
